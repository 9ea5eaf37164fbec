// SPDX-License-Identifier: Apache-2.0
// A profile as a table of functions: the value spent in each (self) and in it and what it called
// (total, recursion counted once), over all processes or per process.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/hash_table.h"
#include "base/profile/profile.h"
#include "base/string_table.h"
#include "cli/time_parts.h"

enum function_order { ORDER_BY_SELF, ORDER_BY_TOTAL };

struct function_row {
	uint32_t name;    // in strings
	uint32_t process; // in strings: the process's name; "" when processes are merged
	enum frame_kind kind;
	uint32_t last_sample; // private: the last sample counted in total
	int64_t self;
	int64_t total;
	int64_t parts[TIME_PART_COUNT]; // of total, if the table has them
};

/** A zeroed struct is an empty table. One thread. */
struct function_table {
	struct string_table strings;
	struct function_row *rows;
	uint32_t row_count, row_capacity;
	uint32_t *shown; // rows that pass the filter, in order
	uint32_t shown_count;
	int64_t total;         // of all counted samples
	uint64_t sample_count; // of the profile, that were counted
	bool has_parts;        // time_parts.h
	struct hash_table index;
};

/** What of a profile goes into the table. */
struct function_choice {
	const char *type;
	bool by_process; // one row per process and function, not per function
};

/**
 * Build the table; nothing is shown before function_table_select().
 * Returns 0, -ENOMEM or -E2BIG.
 */
int function_table_build(const struct profile *profile, const struct function_choice *choice,
			 struct function_table *ret_table, struct error *err);
void function_table_deinit(struct function_table *table);

/**
 * Add one row (as a collector's answer gives them). Returns 0, -ENOMEM or -E2BIG.
 */
int function_table_add(struct function_table *table, const char *process, const char *name,
		       enum frame_kind kind, int64_t self, int64_t total);

/**
 * Show the rows whose function or process contains @filter (case does not matter; "": all), in
 * @order. Returns 0 or -ENOMEM.
 */
int function_table_select(struct function_table *table, const char *filter,
			  enum function_order order);

/** Print the first @rows_max of the shown rows (0: all) as text, under a line of headings. */
void function_table_print(const struct function_table *table, uint32_t rows_max, FILE *stream);

/** Share of the table's total in percent; 0 for an empty table. */
double function_table_percent(const struct function_table *table, int64_t value);
