// SPDX-License-Identifier: Apache-2.0
// The lines of a function with their values and their text, as /api/v1/lines answers.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

/** Does the answer have a function? */
bool source_table_has_lines(const json_t *root);

/** Print the answer, each file under a line about its text. Returns 0; -EBADMSG: it is no such answer. */
int source_table_print(const json_t *root, FILE *stream);
