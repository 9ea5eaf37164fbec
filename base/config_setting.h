// SPDX-License-Identifier: Apache-2.0
// Within config: the table of settings, looked up by name and set from text, whatever the source.
#pragma once

#include "base/config.h"

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
