// SPDX-License-Identifier: Apache-2.0
// The table in which a program declares its settings; they are looked up by name and set from text, whatever the
// source.
#pragma once

#include <stdint.h>

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

/** Longest name of a setting. */
enum { CONFIG_NAME_BYTES = 64 };

/** The setting called @name, or NULL. */
const struct config_option *config_find(const struct config_program *program, const char *name);

/**
 * Say that @where (a file's line, "--flag") names a setting that there is not, with the nearest
 * one that there is. @name may begin with the dashes of a flag. Returns -EINVAL.
 */
int config_unknown(const struct config_program *program, const char *where, const char *name,
		   struct error *err);

/**
 * The setting that @name, which is none, is probably a slip of: one letter off, or two of eight or more. NULL: it may well be
 * a word of somebody else.
 */
const struct config_option *config_slip_of(const struct config_program *program, const char *name);

/**
 * Set one setting from @text; for CONFIG_LABELS, add one name=value. @where begins the error.
 * Returns 0; -EINVAL, -ERANGE or -ENOMEM with @err filled and the value as it was.
 */
int config_set(const struct config_option *option, const char *where, const char *text,
	       struct error *err);

/** As config_set(), but CONFIG_LABELS take several: name=value,name2=value2. */
int config_set_list(const struct config_option *option, const char *where, const char *text,
		    struct error *err);

/**
 * Set what the YAML file at @path says: a mapping of setting to scalar; labels are a mapping or a
 * list of name=value. Returns 0 or a negative errno with @err naming file and line.
 */
int config_read_file(const struct config_program *program, const char *path, struct error *err);
