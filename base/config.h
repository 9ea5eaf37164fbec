// SPDX-License-Identifier: Apache-2.0
// Settings by file, environment and flags, the same names in all three: `interval: 5s` in the YAML
// file given by --config, CAIRN_INTERVAL=5s, --interval 5s. Flags win over the environment, the
// environment over the file, the file over the default. A program declares its settings once, in
// a table; --help comes from that table.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/labels.h"

enum config_kind {
	CONFIG_STRING,   // char *, NULL or from malloc(); owned by the caller, also after a failure
	CONFIG_UINT,     // uint64_t; bounds checked
	CONFIG_BOOL,     // bool; a flag alone means true; "true"/"false" in file and environment
	CONFIG_DURATION, // uint64_t nanoseconds; "20ms", "5s", "2h", "7d"; bounds in nanoseconds
	CONFIG_SIZE,     // uint64_t bytes; "64MiB", "1GB"; bounds in bytes
	CONFIG_LABELS, // struct labels; --label k=v may be repeated; file: a mapping; environment: k=v,k2=v2
};

struct config_option {
	const char *name; // "grpc", "retention": lower case, words joined by '-'
	char letter;      // short flag, or 0
	enum config_kind kind;
	void *value;              // where the parsed value goes
	const char *default_text; // parsed first; NULL: leave *value as it is
	uint64_t min, max;        // for UINT, DURATION, SIZE; max 0: no upper bound
	const char *argument;     // "ADDR" in --help; NULL for BOOL
	const char *help; // one sentence, no full stop needed; the default is appended by --help
};

struct config_program {
	const char *name;    // "cairn-agent"
	const char *summary; // one sentence
	const char *usage;   // "cairn record -d N [-p PID | -- COMMAND...]"; NULL: name [OPTIONS]
	const char *notes;   // examples and such after the options, or NULL
	const struct config_option *options;
	uint32_t option_count;
};

enum config_outcome {
	CONFIG_RUN,  // go on
	CONFIG_EXIT, // --help or --version was printed on standard output: exit 0
};

/**
 * Parse in the order default, file (--config or CAIRN_CONFIG), environment, flags. --help and
 * --version are built in. Words after the flags (and all words after "--") are left:
 * *ret_first_word is argv's index of the first of them; argv is permuted as getopt_long does.
 * Labels of several sources are joined. An empty environment variable counts as absent.
 * Returns 0, or -EINVAL/-errno with @err naming the setting, where it came from (file and line,
 * variable, flag), what was wrong and what is accepted. Unknown settings are errors with the
 * nearest known name offered.
 */
int config_parse(const struct config_program *program, int argc, char **argv,
		 enum config_outcome *ret_outcome, int *ret_first_word, struct error *err);

void config_print_help(const struct config_program *program, FILE *stream);

/** "1h30m", "20ms", "7d" to nanoseconds. A bare number is refused (no unit). 0 or -EINVAL. */
int duration_parse(const char *text, uint64_t *ret_ns);
/** "64MiB", "1GB", "512" (bytes). 0, -EINVAL, -ERANGE. */
int size_parse(const char *text, uint64_t *ret_bytes);
/**
 * A moment as users type it: RFC 3339 ("2026-11-21T10:00:00Z", with offset or fraction), Unix
 * seconds, milliseconds or nanoseconds (told apart by magnitude), "now", "now-5m".
 * Returns 0; -EINVAL with @err showing the accepted forms.
 */
int time_parse(const char *text, uint64_t now_ns, uint64_t *ret_ns, struct error *err);
