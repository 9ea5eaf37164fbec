// SPDX-License-Identifier: Apache-2.0
// A profile as a table of threads: what each used, and what it did with its time. Threads of a process with one name are
// one row.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/profile/profile.h"
#include "base/string_table.h"
#include "cli/function_table.h"
#include "cli/time_parts.h"

struct thread_row {
	uint32_t process, thread; // in strings
	int64_t total;
	int64_t parts[TIME_PART_COUNT]; // of total, if the table has them
};

/** A zeroed struct is an empty table. One thread. */
struct thread_table {
	struct string_table strings;
	struct thread_row *rows; // by falling total
	uint32_t row_count, row_capacity;
	uint32_t *shown; // rows that pass the filter, in order
	uint32_t shown_count;
	int64_t total; // of all counted samples
	bool has_parts;
	struct hash_table index; // while it is built
};

/** Read samples of @type; nothing is shown before thread_table_select(). Returns 0, -ENOMEM or -E2BIG. */
int thread_table_build(const struct profile *profile, const char *type,
		       struct thread_table *ret_table, struct error *err);
void thread_table_deinit(struct thread_table *table);

/** Show the rows whose process or thread contains @filter (case does not matter; "": all). Returns 0 or -ENOMEM. */
int thread_table_select(struct thread_table *table, const char *filter);

/** Print the first @rows_max of the shown rows (0: all) as text, under a line of headings. */
void thread_table_print(const struct thread_table *table, uint32_t rows_max, FILE *stream);

/** Share of the table's total in percent; 0 for an empty table. */
double thread_table_percent(const struct thread_table *table, int64_t value);
