// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_table_build.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "agent/unwind/callee_saved.h"
#include "agent/unwind/cfi.h"
#include "agent/unwind/cloned_threads.h"
#include "agent/unwind/code_analysis_rows.h"
#include "agent/unwind/coroutine_bases.h"
#include "agent/unwind/unwind_go.h"
#include "agent/unwind/unwind_pack.h"
#include "agent/unwind/unwind_rows.h"
#include "agent/unwind/unwind_synthesis.h"
#include "bpf/unwind/process_layout.h"

static void unwind_rows_freep(struct unwind_rows **rows)
{
	unwind_rows_free(*rows);
}

static void unwind_table_freep(struct unwind_table **table)
{
	unwind_table_free(*table);
}

static int compare_marks(const void *left, const void *right)
{
	const struct unwind_mark *a = left, *b = right;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* A sorted copy without overlaps. */
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

/* The end of the code of all ranges. */
static uint64_t ranges_limit(const struct unwind_rows *rows)
{
	uint64_t limit = 0;

	for (uint32_t i = 0; i < rows->range_count; i++) {
		uint64_t end = rows->ranges[i].start + rows->ranges[i].size;

		limit = end > limit ? end : limit;
	}
	return limit;
}

/* Uses up MARK_ANALYZE marks; the others stay, in order. */
static int analyze_marked(const struct elf *elf, struct unwind_mark *marks, uint32_t *count,
			  struct unwind_rows *rows)
{
	uint32_t kept = 0;
	int rc = code_analysis_rows_analyze(elf, marks, *count, rows);

	for (uint32_t i = 0; i < *count; i++)
		if (!(marks[i].flags & MARK_ANALYZE))
			marks[kept++] = marks[i];
	*count = kept;
	return rc;
}

/* Rounds to whole units of a mapping: no mapping reaches beyond the table's last block. */
static int extend_over(const struct unwind_rows *rows, struct unwind_table *table,
		       struct error *err)
{
	uint64_t unit_mask = (1U << MAPPING_UNIT_BITS) - 1;

	table->first_address = rows->ranges[0].start & ~unit_mask;
	uint64_t bytes = ranges_limit(rows) - table->first_address;
	uint64_t blocks = ((bytes + unit_mask) & ~unit_mask) >> TABLE_BLOCK_BITS;
	if (blocks > UNWIND_TABLE_BLOCKS_MAX)
		return error_set(err, -E2BIG, "code spans %" PRIu64 " bytes", bytes);
	table->block_count = (uint32_t)blocks;
	return 0;
}

static int pack(struct unwind_rows *rows, const struct unwind_mark *marks, uint32_t mark_count,
		struct unwind_table *table, struct error *err)
{
	if (!rows->range_count)
		return 0;
	int rc = extend_over(rows, table, err);
	if (rc)
		return rc;
	rc = unwind_pack(rows, marks, mark_count, table);
	if (rc)
		return error_set(err, rc, "unwind table: %s",
				 rc == -E2BIG ? "too many rows" : "out of memory");
	return 0;
}

int unwind_table_build(const struct elf *elf, const struct unwind_mark *marks, uint32_t mark_count,
		       uint32_t rows_max, struct unwind_table **ret_table, struct error *err)
{
	_cleanup_(unwind_rows_freep) struct unwind_rows *rows = unwind_rows_new(rows_max);
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
	cloned_threads_mark(elf, rows);
	rc = coroutine_bases_end(elf, rows, err);
	if (!rc)
		rc = callee_saved_add(elf, rows, err);
	if (!rc)
		rc = unwind_synthesis_add(elf, rows, err);
	if (rc)
		return rc;
	unwind_rows_sort(rows);
	rc = analyze_marked(elf, sorted, &mark_count, rows);
	if (rc)
		return error_errno(err, rc, "analyze code");
	unwind_rows_sort(rows);
	rc = pack(rows, sorted, mark_count, table, err);
	if (rc)
		return rc;
	table->unsupported_count += rows->unsupported_count;
	table->rule_count = rows->rule_count;
	table->rules = take(rows->rules);
	*ret_table = take(table);
	return 0;
}
