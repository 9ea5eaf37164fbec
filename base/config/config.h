// SPDX-License-Identifier: Apache-2.0
// Settings by file, environment and flags, the same names in all three: `interval: 5s` in the YAML
// file given by --config, CAIRN_INTERVAL=5s, --interval 5s. Flags win over the environment, the
// environment over the file, the file over the default. A program declares its settings once, in
// a table; --help comes from that table.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/config/config_setting.h"
#include "base/error.h"

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

/**
 * Warn on @stream of each CAIRN_ variable of @variables (as environ) that sets nothing, but is probably a slip of a setting.
 * Others are silent: other programs of cairn have settings of their own, and Kubernetes sets variables for its Services.
 * config_parse() does so on standard error.
 */
void config_warn_of_slips(const struct config_program *program, char *const *variables,
			  FILE *stream);

void config_print_help(const struct config_program *program, FILE *stream);
