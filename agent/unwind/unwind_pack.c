// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_pack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

enum {
	PADDING_BYTES_MAX = 16, // compilers align functions to this
	WORDS_AT_FIRST = 1024,
};

/* The words written so far, and the present row. */
struct packer {
	struct unwind_rows *rows;
	struct unwind_table *table;
	uint32_t word_capacity;
	const struct unwind_mark *marks; // sorted, disjoint
	uint32_t mark_count;
	uint32_t mark_at;     // the first that ends after `address`
	uint64_t address;     // all below is written
	uint32_t block;       // of the last word
	uint32_t last_rule;   // its rule
	uint32_t range_rule;  // the same without flags
	uint32_t flag_source; // cache of the last rule that got flags,
	uint8_t flags;        // which,
	uint32_t flag_rule;   // and the result
	int rc;
};

/* ---- words ----------------------------------------------------------------------------------- */

static void put_word(struct packer *packer, uint32_t word)
{
	struct unwind_table *table = packer->table;

	if (packer->rc)
		return;
	if (table->word_count >= packer->rows->row_count_max) {
		packer->rc = -E2BIG;
		return;
	}
	if (table->word_count == packer->word_capacity) {
		uint32_t capacity = packer->word_capacity + packer->word_capacity / 2;
		uint32_t *grown = realloc(table->words, (size_t)capacity * sizeof(*grown));

		if (!grown) {
			packer->rc = -ENOMEM;
			return;
		}
		table->words = grown;
		packer->word_capacity = capacity;
	}
	table->words[table->word_count++] = word;
}

_Static_assert(TABLE_BLOCK_ROWS_MAX >= TABLE_BLOCK_BYTES, "a block can have a row for each byte");

/* Adds a row at @offset of the present block. */
static void put_row(struct packer *packer, uint32_t offset, uint32_t rule)
{
	if (rule == packer->last_rule)
		return;
	packer->last_rule = rule;
	packer->table->row_count++;
	put_word(packer, offset << TABLE_RULE_BITS | rule);
}

/* Begins the next block: its first row repeats the present rule. */
static void begin_block(struct packer *packer, uint32_t rule)
{
	struct unwind_table *table = packer->table;

	packer->block++;
	table->words[packer->block] = table->word_count;
	table->row_count += rule != packer->last_rule;
	packer->last_rule = rule;
	put_word(packer, rule);
}

/* @rule holds from the last end to @limit. */
static void put_range(struct packer *packer, uint64_t limit, uint32_t rule)
{
	uint64_t first = packer->table->first_address;

	while (packer->address < limit && !packer->rc) {
		uint64_t offset = packer->address - first;
		uint64_t block_limit = first + (offset | (TABLE_BLOCK_BYTES - 1)) + 1;

		if (offset % TABLE_BLOCK_BYTES == 0)
			begin_block(packer, rule);
		else
			put_row(packer, offset % TABLE_BLOCK_BYTES, rule);
		packer->address = block_limit < limit ? block_limit : limit;
	}
}

/* ---- marks ----------------------------------------------------------------------------------- */

static uint32_t add_flags(struct packer *packer, uint32_t rule, uint8_t flags)
{
	if (packer->flag_source != rule || packer->flags != flags) {
		struct unwind_rule flagged = packer->rows->rules[rule];

		flagged.flags |= flags;
		packer->flag_source = rule;
		packer->flags = flags;
		packer->flag_rule = unwind_rows_rule(packer->rows, &flagged);
		if (packer->rows->rc)
			packer->rc = packer->rows->rc;
	}
	return packer->flag_rule;
}

/* As put_range(), with the flags of the marks in between. */
static void put_marked(struct packer *packer, uint64_t limit, uint32_t rule)
{
	if (packer->address < limit)
		packer->range_rule = rule;
	while (packer->address < limit && !packer->rc) {
		while (packer->mark_at < packer->mark_count &&
		       packer->marks[packer->mark_at].limit <= packer->address)
			packer->mark_at++;
		if (packer->mark_at == packer->mark_count) {
			put_range(packer, limit, rule);
			return;
		}

		const struct unwind_mark *mark = &packer->marks[packer->mark_at];
		bool is_inside = mark->start <= packer->address;
		uint64_t end = is_inside ? mark->limit : mark->start;
		put_range(packer, end < limit ? end : limit,
			  is_inside ? add_flags(packer, rule, mark->flags) : rule);
	}
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/* Alignment between two functions gets the first one's last rule: no pc is ever there. */
static bool is_padding(uint64_t start, uint64_t limit)
{
	return limit - start < PADDING_BYTES_MAX && limit % PADDING_BYTES_MAX == 0;
}

/* Of overlapping ranges the first keeps its code. */
static void put_rows_of(struct packer *packer, const struct unwind_range *range)
{
	struct unwind_row_cursor row = unwind_rows_first(packer->rows, range);
	uint32_t rule = row.rule;

	while (unwind_rows_next(&row)) {
		put_marked(packer, range->start + row.offset, rule);
		rule = row.rule;
	}
	put_marked(packer, range->start + range->size, rule);
}

/* The first range that starts at or above @address. */
static uint32_t find_range(const struct unwind_rows *rows, uint64_t address)
{
	uint32_t first = 0, limit = rows->range_count;

	while (first < limit) {
		uint32_t middle = first + (limit - first) / 2;

		if (rows->ranges[middle].start < address)
			first = middle + 1;
		else
			limit = middle;
	}
	return first;
}

static void put_ranges(struct packer *packer, uint64_t limit)
{
	const struct unwind_rows *rows = packer->rows;
	uint32_t i = find_range(rows, packer->address);

	for (; i < rows->range_count && rows->ranges[i].start < limit && !packer->rc; i++) {
		const struct unwind_range *range = &rows->ranges[i];
		uint32_t gap_rule = RULE_NO_TABLE;

		if (range->start > packer->address) {
			if (is_padding(packer->address, range->start))
				gap_rule = packer->range_rule;
			put_marked(packer, range->start, gap_rule);
		}
		put_rows_of(packer, range);
	}
}

/* ---- tables ---------------------------------------------------------------------------------- */

int unwind_pack(struct unwind_rows *rows, const struct unwind_mark *marks, uint32_t mark_count,
		struct unwind_table *table)
{
	uint64_t limit = table->first_address + ((uint64_t)table->block_count << TABLE_BLOCK_BITS);
	struct packer packer = {
		.rows = rows,
		.table = table,
		.word_capacity = table->block_count + 1 + rows->row_count + WORDS_AT_FIRST,
		.marks = marks,
		.mark_count = mark_count,
		.address = table->first_address,
		.block = UINT32_MAX, // before block 0
		.last_rule = UINT32_MAX,
		.range_rule = RULE_NO_TABLE,
		.flag_source = UINT32_MAX,
	};

	table->words = malloc(packer.word_capacity * sizeof(*table->words));
	if (!table->words)
		return -ENOMEM;
	table->word_count = table->block_count + 1;
	put_ranges(&packer, limit);
	put_marked(&packer, limit, RULE_NO_TABLE);
	if (packer.rc)
		return packer.rc;
	table->words[table->block_count] = table->word_count;
	// Free what is not needed.
	uint32_t *words = realloc(table->words, table->word_count * sizeof(*words));
	if (words)
		table->words = words;
	return 0;
}
