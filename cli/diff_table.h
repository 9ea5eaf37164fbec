// SPDX-License-Identifier: Apache-2.0
// Prints a collector's comparison of two profiles as a table of functions, those that changed most first.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

/** What of the functions is printed. */
struct diff_choice {
	bool by_total;    // otherwise self values
	bool all;         // also changes that may be chance
	const char *only; // words of "new,gone,grown,shrunk" with commas between; NULL: all
	uint32_t rows_max;
	bool colour; // for a terminal
};

/** Is @only a list of such words? Returns 0; -EINVAL with @err naming the wrong one. */
int diff_only_check(const char *only, struct error *err);

/**
 * Print @root, an answer of /api/v1/diff with all of its functions: both sides, their functions, and how many are not
 * shown and why. *ret_significant: functions whose change is. Returns 0; -EBADMSG: it is no such answer.
 */
int diff_table_print(const json_t *root, const struct diff_choice *choice, FILE *stream,
		     uint32_t *ret_significant);
