// SPDX-License-Identifier: Apache-2.0
// Which names an operator lets become labels: "team.name,k8s.*". And the label's name that each becomes.
#pragma once

#include <stdbool.h>

#include "base/error.h"

/** Is it a list of names and begins of names, separated by commas? NULL is. Returns 0, or -EINVAL and @err. */
int label_patterns_check(const char *patterns, struct error *err);

/** Does one of @patterns fit: "team.name" only itself, "team.*" all that begins with "team."? NULL: none does. */
bool label_patterns_match(const char *patterns, const char *name);

/** Make a label's name of @name, in place, in a buffer of @size: '_' for what it cannot have, and before a digit. */
void label_name_from(char *name, size_t size);
