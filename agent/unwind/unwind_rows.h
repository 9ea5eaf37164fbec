// SPDX-License-Identifier: Apache-2.0
// Rows of an unwind table being built: ranges of code in the order that they are read, each with its rows, and the
// distinct rules.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind/table_layout.h"

enum {
	UNWIND_RANGES_MAX = 2 << 20, // Chromium has 700,000
	// Rules that always exist.
	RULE_NO_TABLE = 0,
	RULE_UNSUPPORTED = 1,
	RULE_END = 2,
};

/** A piece of code with rows of its own. */
struct unwind_range {
	uint64_t start; // virtual address
	uint32_t size;
	uint32_t first_row; // offset of its first row in `rows`
};

enum { RULE_SLOTS = 2 * UNWIND_RULES_MAX };

struct unwind_rows {
	struct unwind_range *ranges;
	uint8_t *rows; // encoded, see struct unwind_row_cursor
	struct unwind_rule *rules;
	uint32_t range_count, range_capacity;
	uint32_t sorted_count; // so many ranges from the first on are in order
	uint32_t rows_size, rows_capacity;
	uint32_t row_count;
	uint32_t row_count_max; // limits words, too (unwind_pack.h)
	uint32_t last_offset;   // of the last row of the present range
	uint32_t rule_count, rule_capacity;
	uint32_t unsupported_count; // rows with RULE_UNSUPPORTED
	int rc;                     // first failure: -ENOMEM, or -E2BIG past a limit
	uint16_t slots[RULE_SLOTS]; // hash table of rules: numbers, RULE_NO_TABLE where empty
};

/** NULL: out of memory. */
struct unwind_rows *unwind_rows_new(uint32_t row_count_max);
void unwind_rows_free(struct unwind_rows *rows);

/** Begin a range of at most 4 GiB; a longer one is truncated. Failures stay in `rc` and drop what follows. */
void unwind_rows_begin(struct unwind_rows *rows, uint64_t start, uint64_t size);

/** Add a row to the present range. Offsets ascend from 0. */
void unwind_rows_add(struct unwind_rows *rows, uint64_t offset, const struct unwind_rule *rule);

/** The same by a rule's number, of unwind_rows_rule(). */
void unwind_rows_add_number(struct unwind_rows *rows, uint64_t offset, uint32_t number);

/** Shorten the present range to @limit, less than 4 GiB from its start. */
void unwind_rows_limit(struct unwind_rows *rows, uint64_t limit);

/** End the present range. */
void unwind_rows_end(struct unwind_rows *rows);

/** Iterates over a range's rows. */
struct unwind_row_cursor {
	const uint8_t *at;
	uint32_t offset; // where `rule` begins, from the range's start
	uint32_t rule;
};

struct unwind_row_cursor unwind_rows_first(const struct unwind_rows *rows,
					   const struct unwind_range *range);

/** Go to the next row. Returns false after the last. */
bool unwind_rows_next(struct unwind_row_cursor *cursor);

/** Number of @rule; RULE_UNSUPPORTED when there are too many. */
uint32_t unwind_rows_rule(struct unwind_rows *rows, const struct unwind_rule *rule);

/** Give the whole range one rule. */
void unwind_rows_replace(struct unwind_rows *rows, uint32_t index, const struct unwind_rule *rule);

/** The range added last replaces the one at @index: the same code. */
void unwind_rows_move_last(struct unwind_rows *rows, uint32_t index);

/** Sort ranges by start; of those that start alike the first read comes first. */
void unwind_rows_sort(struct unwind_rows *rows);

/** Index of the first of the sorted ranges that ends after @address; it may start after it. */
uint32_t unwind_rows_find(const struct unwind_rows *rows, uint64_t address);
