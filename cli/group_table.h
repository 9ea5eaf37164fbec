// SPDX-License-Identifier: Apache-2.0
// A profile type without stacks as a table: its values by label.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/** Is there a value in @root, an answer of /api/v1/top or /api/v1/series, grouped or not? */
bool group_table_has_values(const json_t *root);

/**
 * Print the first @rows_max groups of @root, an answer of /api/v1/top or /api/v1/series with group_by, and their sum;
 * @labels is the heading. Returns 0; -EBADMSG if it is no such answer.
 */
int group_table_print(const json_t *root, const char *labels, uint32_t rows_max, FILE *stream);
