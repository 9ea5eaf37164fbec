// SPDX-License-Identifier: Apache-2.0
#include "unwind_table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cfi.h"
#include "code_flow_rows.h"
#include "unwind_go.h"
#include "unwind_rows.h"
#include "unwind_synthesis.h"

enum {
	PADDING_BYTES_MAX = 16, // compilers align functions to this
	WORDS_AT_FIRST = 1024,
};

/* The words that have been written so far, and the row that is being written. */
struct packer {
	struct unwind_rows *rows;
	struct unwind_table *table;
	uint32_t word_capacity;
	const struct unwind_mark *marks; // sorted, apart from each other
	uint32_t mark_count;
	uint32_t mark_at;     // the first that ends after `address`
	uint64_t address;     // all below is written
	uint32_t block;       // the block that the last word is of
	uint32_t last_rule;   // its rule
	uint32_t range_rule;  // the same without flags
	uint32_t flag_source; // the rule that was given flags last,
	uint8_t flags;        // which,
	uint32_t flag_rule;   // and the rule that came of it
	int rc;
};

static void unwind_rows_freep(struct unwind_rows **rows)
{
	unwind_rows_free(*rows);
}

static void unwind_table_freep(struct unwind_table **table)
{
	unwind_table_free(*table);
}

/* ---- words ----------------------------------------------------------------------------------- */

static void put_word(struct packer *packer, uint32_t word)
{
	struct unwind_table *table = packer->table;

	if (packer->rc)
		return;
	if (table->word_count == UNWIND_TABLE_ROWS_MAX) {
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

/* A row at @offset in the current block. */
static void put_row(struct packer *packer, uint32_t offset, uint32_t rule)
{
	if (rule == packer->last_rule)
		return;
	packer->last_rule = rule;
	packer->table->row_count++;
	put_word(packer, offset << TABLE_RULE_BITS | rule);
}

/* Begin the next block: the rule in force is repeated. */
static void begin_block(struct packer *packer, uint32_t rule)
{
	struct unwind_table *table = packer->table;

	packer->block++;
	table->words[packer->block] = table->word_count;
	table->row_count += rule != packer->last_rule;
	packer->last_rule = rule;
	put_word(packer, rule);
}

/* @rule holds from where the last left off to @limit. */
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

/* As put_range(), with the flags of the marks that lie in between. */
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

static int compare_marks(const void *left, const void *right)
{
	const struct unwind_mark *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* A sorted copy in which no mark reaches into the next. */
static int copy_marks(const struct unwind_mark *marks, uint32_t count,
		      struct unwind_mark **ret_marks)
{
	struct unwind_mark *copy;

	if (count > UNWIND_MARKS_MAX)
		return -E2BIG;
	copy = malloc((count + 1) * sizeof(*copy));
	if (!copy)
		return -ENOMEM;
	if (count)
		memcpy(copy, marks, count * sizeof(*copy));
	qsort(copy, count, sizeof(*copy), compare_marks);
	for (uint32_t i = 0; i + 1 < count; i++) {
		if (copy[i].limit > copy[i + 1].start)
			copy[i].limit = copy[i + 1].start;
	}
	*ret_marks = copy;
	return 0;
}

/* ---- ranges ---------------------------------------------------------------------------------- */

/*
 * Is what lies between two functions only there to align the second? Then the first's last rule may
 * as well reach over it: nobody is ever there.
 */
static bool is_padding(uint64_t start, uint64_t limit)
{
	return limit - start < PADDING_BYTES_MAX && limit % PADDING_BYTES_MAX == 0;
}

/* Of ranges that overlap, the first keeps its code. */
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

static void put_ranges(struct packer *packer)
{
	const struct unwind_rows *rows = packer->rows;

	for (uint32_t i = 0; i < rows->range_count && !packer->rc; i++) {
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

/* Where the code ends that any range is about. */
static uint64_t ranges_limit(const struct unwind_rows *rows)
{
	uint64_t limit = 0;

	for (uint32_t i = 0; i < rows->range_count; i++) {
		uint64_t end = rows->ranges[i].start + rows->ranges[i].size;

		limit = end > limit ? end : limit;
	}
	return limit;
}

/* Room for the index, which is filled as its blocks are reached. */
static int begin_table(struct packer *packer, struct error *err)
{
	const struct unwind_rows *rows = packer->rows;
	struct unwind_table *table = packer->table;
	uint64_t unit_mask = (1U << MAPPING_UNIT_BITS) - 1;

	// Whole units of a mapping, so that no mapping reaches beyond the table's last block.
	table->first_address = rows->ranges[0].start & ~unit_mask;
	uint64_t bytes = ranges_limit(rows) - table->first_address;
	uint64_t blocks = ((bytes + unit_mask) & ~unit_mask) >> TABLE_BLOCK_BITS;
	if (blocks > UNWIND_TABLE_BLOCKS_MAX)
		return error_set(err, -E2BIG, "code lies over %" PRIu64 " bytes", bytes);

	packer->word_capacity = (uint32_t)blocks + 1 + rows->row_count + WORDS_AT_FIRST;
	table->words = malloc(packer->word_capacity * sizeof(*table->words));
	if (!table->words)
		return error_set(err, -ENOMEM, "out of memory");
	table->block_count = (uint32_t)blocks;
	table->word_count = table->block_count + 1;
	packer->address = table->first_address;
	packer->block = UINT32_MAX; // so that the first is 0
	packer->last_rule = UINT32_MAX;
	packer->flag_source = UINT32_MAX;
	packer->range_rule = RULE_NO_TABLE;
	return 0;
}

/* Give back what was too much, and hand the rules over. */
static void end_table(struct packer *packer)
{
	struct unwind_table *table = packer->table;
	uint32_t *words;

	put_marked(packer,
		   table->first_address + ((uint64_t)table->block_count << TABLE_BLOCK_BITS),
		   RULE_NO_TABLE);
	table->words[table->block_count] = table->word_count;
	words = realloc(table->words, table->word_count * sizeof(*words));
	if (words)
		table->words = words;
}

static int pack(struct packer *packer, struct error *err)
{
	int rc;

	if (!packer->rows->range_count)
		return 0;
	rc = begin_table(packer, err);
	if (rc)
		return rc;
	put_ranges(packer);
	end_table(packer);
	if (packer->rc)
		return error_set(err, packer->rc, "unwind table: %s",
				 packer->rc == -E2BIG ? "more rows than are kept"
						      : "out of memory");
	return 0;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* Marks that ask for rules are done with then; the others stay, in order. */
static int follow_marked(const struct elf *elf, struct unwind_mark *marks, uint32_t *count,
			 struct unwind_rows *rows)
{
	uint32_t kept = 0;
	int rc = code_flow_rows_follow(elf, marks, *count, rows);

	for (uint32_t i = 0; i < *count; i++)
		if (!(marks[i].flags & MARK_FOLLOW))
			marks[kept++] = marks[i];
	*count = kept;
	return rc;
}

int unwind_table_build(const struct elf *elf, const struct unwind_mark *marks, uint32_t mark_count,
		       struct unwind_table **ret_table, struct error *err)
{
	_cleanup_(unwind_rows_freep) struct unwind_rows *rows = unwind_rows_new();
	_cleanup_(unwind_table_freep) struct unwind_table *table = calloc(1, sizeof(*table));
	_cleanup_free_ struct unwind_mark *sorted = NULL;

	if (!rows || !table)
		return error_set(err, -ENOMEM, "out of memory");
	int rc = copy_marks(marks, mark_count, &sorted);
	if (rc)
		return error_set(err, rc, "%u marks", mark_count);
	rc = unwind_go_add(elf, rows, err);
	if (!rc)
		rc = cfi_read(elf, rows, err);
	if (rc)
		return rc;
	unwind_rows_sort(rows);
	rc = unwind_synthesis_add(elf, rows, err);
	if (rc)
		return rc;
	unwind_rows_sort(rows);
	rc = follow_marked(elf, sorted, &mark_count, rows);
	if (rc)
		return error_errno(err, rc, "code that is to be followed");
	unwind_rows_sort(rows);

	struct packer packer = {
		.rows = rows, .table = table, .marks = sorted, .mark_count = mark_count
	};
	rc = pack(&packer, err);
	if (rc)
		return rc;
	table->unsupported_count += rows->unsupported_count;
	table->rule_count = rows->rule_count;
	table->rules = take(rows->rules);
	*ret_table = take(table);
	return 0;
}

void unwind_table_free(struct unwind_table *table)
{
	if (!table)
		return;
	free(table->words);
	free(table->rules);
	free(table);
}

const struct unwind_rule *unwind_table_find(const struct unwind_table *table, uint64_t address)
{
	uint64_t offset = address - table->first_address;

	if (address < table->first_address || offset >> TABLE_BLOCK_BITS >= table->block_count)
		return NULL;

	uint32_t block = (uint32_t)(offset >> TABLE_BLOCK_BITS);
	uint32_t key = (uint32_t)(offset % TABLE_BLOCK_BYTES) << TABLE_RULE_BITS | TABLE_RULE_MASK;
	uint32_t first = table->words[block], limit = table->words[block + 1];

	// The last row that is not above the key. A block's first row is at its beginning.
	while (limit - first > 1) {
		uint32_t middle = first + (limit - first) / 2;

		if (table->words[middle] <= key)
			first = middle;
		else
			limit = middle;
	}
	return &table->rules[table->words[first] & TABLE_RULE_MASK];
}
