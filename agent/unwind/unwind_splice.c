// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_splice.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "agent/unwind/code_analysis_rows.h"
#include "agent/unwind/unwind_pack.h"
#include "agent/unwind/unwind_rows.h"

struct splice {
	const struct unwind_table *before;
	struct unwind_rows *rows; // of all spans
	// Whole blocks that are rewritten, sorted and disjoint, and their new content.
	struct code_extent *spans;
	struct unwind_table **pieces;
	uint32_t span_count;
};

static void splice_deinit(struct splice *splice)
{
	for (uint32_t i = 0; i < splice->span_count; i++)
		unwind_table_free(splice->pieces[i]);
	unwind_rows_free(splice->rows);
	free(splice->spans);
	free(splice->pieces);
}

static void unwind_table_freep(struct unwind_table **table)
{
	unwind_table_free(*table);
}

static uint64_t address_of(const struct unwind_table *table, uint32_t block)
{
	return table->first_address + ((uint64_t)block << TABLE_BLOCK_BITS);
}

static uint32_t block_of(const struct unwind_table *table, uint64_t address)
{
	return (uint32_t)((address - table->first_address) >> TABLE_BLOCK_BITS);
}

/* ---- spans --------------------------------------------------------------------------------- */

/* All code that can get rules when the function at @mark is analyzed. Returns false if some is outside. */
static bool find_span(const struct unwind_table *table, const struct unwind_mark *mark,
		      struct code_extent *ret_span)
{
	uint64_t size = (uint64_t)table->block_count << TABLE_BLOCK_BITS;
	uint64_t at = mark->start - table->first_address, length = mark->limit - mark->start;

	// Spans compare by address: a table that wraps around has none.
	if (table->first_address + size < table->first_address || at < CODE_ANALYSIS_AROUND_BYTES ||
	    at > size || length > size - at || size - at - length < CODE_ANALYSIS_AROUND_BYTES)
		return false;
	uint64_t end = at + length + CODE_ANALYSIS_AROUND_BYTES + TABLE_BLOCK_BYTES - 1;
	*ret_span = (struct code_extent){
		.start = address_of(
			table, (uint32_t)((at - CODE_ANALYSIS_AROUND_BYTES) >> TABLE_BLOCK_BITS)),
		.limit = address_of(table, (uint32_t)(end >> TABLE_BLOCK_BITS)),
	};
	return true;
}

static int find_spans(struct splice *splice, const struct unwind_mark *marks, uint32_t count)
{
	splice->spans = calloc(count + 1, sizeof(*splice->spans));
	splice->pieces = calloc(count + 1, sizeof(struct unwind_table *));
	if (!splice->spans || !splice->pieces)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		if (!find_span(splice->before, &marks[i], &splice->spans[i]))
			return -ERANGE;
	splice->span_count = code_extents_join(splice->spans, count);
	return 0;
}

/* ---- unpacking --------------------------------------------------------------------------------- */

/* Rows keep their rule numbers, so that those outside of the spans stay valid. */
static int copy_rules(struct splice *splice)
{
	const struct unwind_table *before = splice->before;

	for (uint32_t i = 0; i < before->rule_count; i++)
		if (unwind_rows_rule(splice->rows, &before->rules[i]) != i)
			return splice->rows->rc ? splice->rows->rc : -ERANGE;
	return 0;
}

struct unpacking {
	struct unwind_rows *rows;
	bool open;      // a range has begun
	uint64_t start; // its start
	uint32_t rule;  // its last rule
};

static void end_range(struct unpacking *unpacking, uint64_t limit)
{
	if (!unpacking->open)
		return;
	unwind_rows_limit(unpacking->rows, limit);
	unwind_rows_end(unpacking->rows);
	unpacking->open = false;
}

static void unpack_row(struct unpacking *unpacking, uint64_t address, uint32_t rule)
{
	if (rule == RULE_NO_TABLE) {
		end_range(unpacking, address);
		return;
	}
	if (!unpacking->open) {
		unwind_rows_begin(unpacking->rows, address, UINT32_MAX);
		unpacking->start = address;
	} else if (rule == unpacking->rule) {
		return; // a block's first row repeats the rule
	}
	unwind_rows_add_number(unpacking->rows, address - unpacking->start, rule);
	unpacking->open = true;
	unpacking->rule = rule;
}

/* Adds a range for each piece of code with rules. */
static void unpack_span(const struct unwind_table *table, const struct code_extent *span,
			struct unwind_rows *rows)
{
	struct unpacking unpacking = { .rows = rows };

	for (uint32_t block = block_of(table, span->start); block < block_of(table, span->limit);
	     block++)
		for (uint32_t i = table->words[block]; i < table->words[block + 1]; i++)
			unpack_row(&unpacking,
				   address_of(table, block) + (table->words[i] >> TABLE_RULE_BITS),
				   table->words[i] & TABLE_RULE_MASK);
	end_range(&unpacking, span->limit);
}

static int take_apart(struct splice *splice)
{
	splice->rows = unwind_rows_new(UNWIND_TABLE_ROWS_MAX);
	int rc = splice->rows ? copy_rules(splice) : -ENOMEM;

	for (uint32_t i = 0; i < splice->span_count && !rc; i++) {
		unpack_span(splice->before, &splice->spans[i], splice->rows);
		rc = splice->rows->rc;
	}
	return rc;
}

/* ---- packing ------------------------------------------------------------------------------------ */

static int pack_piece(struct splice *splice, uint32_t number)
{
	const struct code_extent *span = &splice->spans[number];
	struct unwind_table *piece = calloc(1, sizeof(*piece));

	if (!piece)
		return -ENOMEM;
	splice->pieces[number] = piece;
	piece->first_address = span->start;
	piece->block_count = (uint32_t)((span->limit - span->start) >> TABLE_BLOCK_BITS);
	return unwind_pack(splice->rows, NULL, 0, piece);
}

static int pack_pieces(struct splice *splice)
{
	int rc = 0;

	for (uint32_t i = 0; i < splice->span_count && !rc; i++)
		rc = pack_piece(splice, i);
	return rc;
}

static uint32_t word_count_between(const struct unwind_table *table, uint32_t first, uint32_t limit)
{
	return table->words[limit] - table->words[first];
}

static uint64_t word_count_of(const struct splice *splice)
{
	const struct unwind_table *before = splice->before;
	uint64_t count = before->word_count;

	for (uint32_t i = 0; i < splice->span_count; i++) {
		const struct code_extent *span = &splice->spans[i];
		const struct unwind_table *piece = splice->pieces[i];

		count -= word_count_between(before, block_of(before, span->start),
					    block_of(before, span->limit));
		count += word_count_between(piece, 0, piece->block_count);
	}
	return count;
}

/* Appends index and rows of blocks @first to @limit of @from to @to. */
static void append_blocks(const struct unwind_table *from, uint32_t first, uint32_t limit,
			  struct unwind_table *to)
{
	uint32_t begin = from->words[first], count = word_count_between(from, first, limit);

	for (uint32_t block = first; block < limit; block++)
		to->words[to->block_count++] = to->word_count + from->words[block] - begin;
	memcpy(to->words + to->word_count, from->words + begin, count * sizeof(*to->words));
	to->word_count += count;
}

static uint32_t count_rows(const struct unwind_table *table)
{
	uint32_t count = 0, rule = UINT32_MAX;

	for (uint32_t i = table->block_count + 1; i < table->word_count; i++) {
		count += (table->words[i] & TABLE_RULE_MASK) != rule;
		rule = table->words[i] & TABLE_RULE_MASK;
	}
	return count;
}

static int put_together(struct splice *splice, struct unwind_table *table)
{
	const struct unwind_table *before = splice->before;
	uint64_t word_count = word_count_of(splice);
	uint32_t at = 0;

	if (word_count > UNWIND_TABLE_ROWS_MAX)
		return -E2BIG;
	table->words = malloc(word_count * sizeof(*table->words));
	if (!table->words)
		return -ENOMEM;
	table->first_address = before->first_address;
	table->word_count = before->block_count + 1;
	for (uint32_t i = 0; i < splice->span_count; i++) {
		const struct unwind_table *piece = splice->pieces[i];

		append_blocks(before, at, block_of(before, splice->spans[i].start), table);
		append_blocks(piece, 0, piece->block_count, table);
		at = block_of(before, splice->spans[i].limit);
	}
	append_blocks(before, at, before->block_count, table);
	table->words[table->block_count] = table->word_count;
	table->row_count = count_rows(table);
	table->unsupported_count = before->unsupported_count;
	table->rule_count = splice->rows->rule_count;
	table->rules = take(splice->rows->rules);
	return 0;
}

static int analyze(const struct elf *elf, const struct unwind_mark *marks, uint32_t count,
		   struct unwind_rows *rows)
{
	int rc = code_analysis_rows_analyze(elf, marks, count, rows); // those of spans are sorted

	unwind_rows_sort(rows);
	return rc ? rc : rows->rc;
}

int unwind_table_splice(const struct elf *elf, const struct unwind_table *before,
			const struct unwind_mark *marks, uint32_t mark_count,
			struct unwind_table **ret_table, struct error *err)
{
	_cleanup_(unwind_table_freep) struct unwind_table *table = calloc(1, sizeof(*table));
	_cleanup_(splice_deinit) struct splice splice = { .before = before };
	int rc = table ? 0 : -ENOMEM;

	if (!before->block_count)
		rc = -ERANGE;
	if (!rc)
		rc = find_spans(&splice, marks, mark_count);
	if (!rc)
		rc = take_apart(&splice);
	if (!rc)
		rc = analyze(elf, marks, mark_count, splice.rows);
	if (!rc)
		rc = pack_pieces(&splice);
	if (!rc)
		rc = put_together(&splice, table);
	if (rc)
		return error_errno(err, rc, "splice unwind table");
	*ret_table = take(table);
	return 0;
}
