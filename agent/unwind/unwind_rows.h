// SPDX-License-Identifier: Apache-2.0
// The rows of a file's unwind table while it is being built: ranges of code in the order that they
// were read, each with its rows, and the distinct rules that the rows name.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind/table_layout.h"

enum {
	UNWIND_RANGES_MAX = 2 << 20, // Chromium has 700,000
	// Rules that are always there, under these numbers.
	RULE_NO_TABLE = 0,
	RULE_UNSUPPORTED = 1,
	RULE_END = 2,
};

/** Code with rows of its own. */
struct unwind_range {
	uint64_t start; // virtual address
	uint32_t size;
	uint32_t first_row; // where in `rows` its rows begin
};

enum { RULE_SLOTS = 2 * UNWIND_RULES_MAX };

struct unwind_rows {
	struct unwind_range *ranges;
	uint8_t *rows; // see struct unwind_row_cursor
	struct unwind_rule *rules;
	uint32_t range_count, range_capacity;
	uint32_t sorted_count; // of the ranges: the first so many are in order
	uint32_t rows_size, rows_capacity;
	uint32_t row_count;
	uint32_t row_count_max; // of words, too (agent/unwind/unwind_pack.h)
	uint32_t last_offset;   // of the last row of the range that is being added
	uint32_t rule_count, rule_capacity;
	uint32_t unsupported_count; // rows with RULE_UNSUPPORTED
	int rc;                     // the first failure: -ENOMEM, or -E2BIG past a limit
	uint16_t slots[RULE_SLOTS]; // rules by their bytes: number, RULE_NO_TABLE where empty
};

/** At most @row_count_max rows. Returns NULL without memory. */
struct unwind_rows *unwind_rows_new(uint32_t row_count_max);
void unwind_rows_free(struct unwind_rows *rows);

/**
 * Begin a range of at most 4 GiB; a longer one is cut. Failures are kept in `rc`, and what follows
 * is dropped.
 */
void unwind_rows_begin(struct unwind_rows *rows, uint64_t start, uint64_t size);

/** Add a row to the range that was begun. Offsets ascend, the first is 0. */
void unwind_rows_add(struct unwind_rows *rows, uint64_t offset, const struct unwind_rule *rule);

/** The same with a rule's number, of unwind_rows_rule(). */
void unwind_rows_add_number(struct unwind_rows *rows, uint64_t offset, uint32_t number);

/** The range that was begun ends at @limit, less than 4 GiB from its start: it was begun too long. */
void unwind_rows_limit(struct unwind_rows *rows, uint64_t limit);

/** No more rows of this range. */
void unwind_rows_end(struct unwind_rows *rows);

/** A walk over a range's rows. */
struct unwind_row_cursor {
	const uint8_t *at;
	uint32_t offset; // from the range's start, where `rule` begins to hold
	uint32_t rule;
};

struct unwind_row_cursor unwind_rows_first(const struct unwind_rows *rows,
					   const struct unwind_range *range);

/** Go on to the next row. Returns false after the last. */
bool unwind_rows_next(struct unwind_row_cursor *cursor);

/** The number of @rule; RULE_UNSUPPORTED when there are too many. */
uint32_t unwind_rows_rule(struct unwind_rows *rows, const struct unwind_rule *rule);

/** Give all of a range's code one rule. */
void unwind_rows_replace(struct unwind_rows *rows, uint32_t index, const struct unwind_rule *rule);

/** The range that was added last is of the same code as that at @index, and takes its place. */
void unwind_rows_move_last(struct unwind_rows *rows, uint32_t index);

/** Sort the ranges by start; of those that start alike the first read comes first. */
void unwind_rows_sort(struct unwind_rows *rows);

/** Of the sorted ranges, the index of the first that ends after @address: it may begin after it. */
uint32_t unwind_rows_find(const struct unwind_rows *rows, uint64_t address);
