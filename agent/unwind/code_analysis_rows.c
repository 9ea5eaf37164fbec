// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/code_analysis_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "agent/unwind/analysis/arm64_analysis.h"
#include "agent/unwind/analysis/code_analysis.h"
#include "agent/unwind/code_pointers.h"

// Does any of them begin in the code?
static bool enter_all(const struct function_starts *starts, uint64_t address, size_t size,
		      struct code_analysis *analysis)
{
	uint32_t at = 0, limit = starts->count;
	bool any = false;

	while (at < limit) {
		uint32_t middle = at + (limit - at) / 2;

		if (starts->starts[middle].address < address)
			at = middle + 1;
		else
			limit = middle;
	}
	for (; at < starts->count && starts->starts[at].address - address < size; at++) {
		const struct function_start *start = &starts->starts[at];

		any = true;
		if (!analysis)
			break;
		if (start->is_guess)
			code_analysis_point(analysis, start->address);
		else
			code_analysis_enter(analysis, start->address);
		if (start->never_returns)
			code_analysis_never_returns(analysis, start->address);
	}
	return any;
}

/* Covered ranges, in order. */
struct covered {
	struct unwind_range ranges[CODE_ANALYSIS_COVERED_MAX];
	uint32_t count;
	uint32_t at; // the first that ends after the present place
};

static int compare_ranges(const void *left, const void *right)
{
	const struct unwind_range *a = left, *b = right;

	return (a->start > b->start) - (a->start < b->start);
}

static void add_covered(struct covered *covered, const struct unwind_range *range)
{
	if (covered->count < CODE_ANALYSIS_COVERED_MAX)
		covered->ranges[covered->count++] = *range;
}

// Sorted ranges within [@code_start, @code_limit), and those from @first to @limit.
static void find_covered(const struct unwind_rows *rows, uint64_t code_start, uint64_t code_limit,
			 uint32_t first, uint32_t limit, struct covered *ret_covered)
{
	for (uint32_t i = unwind_rows_find(rows, code_start);
	     i < rows->sorted_count && rows->ranges[i].start < code_limit; i++)
		add_covered(ret_covered, &rows->ranges[i]);
	for (uint32_t i = first; i < limit; i++)
		add_covered(ret_covered, &rows->ranges[i]);
	qsort(ret_covered->ranges, ret_covered->count, sizeof(*ret_covered->ranges),
	      compare_ranges);
}

struct writer {
	struct unwind_rows *rows;
	struct covered covered;
	uint64_t address; // of the code
	uint64_t size;
	struct unwind_rule rule; // the present rule
	uint64_t since;          // where it begins
};

// The present rule ends at @limit: adds a range for each part that is not covered. Code without a rule gets none.
static void put(struct writer *writer, uint64_t limit)
{
	struct covered *covered = &writer->covered;
	uint64_t at = writer->since;

	while (at < limit) {
		uint64_t until = limit;

		while (covered->at < covered->count &&
		       covered->ranges[covered->at].start + covered->ranges[covered->at].size <=
			       writer->address + at)
			covered->at++;
		if (covered->at < covered->count) {
			const struct unwind_range *next = &covered->ranges[covered->at];

			if (next->start <= writer->address + at) {
				at = next->start + next->size - writer->address;
				continue;
			}
			if (next->start - writer->address < until)
				until = next->start - writer->address;
		}
		if (writer->rule.cfa != CFA_NO_TABLE) {
			unwind_rows_begin(writer->rows, writer->address + at, until - at);
			unwind_rows_add(writer->rows, 0, &writer->rule);
			unwind_rows_end(writer->rows);
		}
		at = until;
	}
}

static void take_rule(void *context, uint64_t offset, const struct unwind_rule *rule)
{
	struct writer *writer = context;

	put(writer, offset);
	writer->rule = *rule;
	writer->since = offset;
}

// Adds the starts of functions to @analysis, of both kinds.
static void write_rows(struct code_analysis *analysis, struct writer *writer)
{
	code_analysis_run(analysis);
	code_analysis_each(analysis, take_rule, writer);
	put(writer, writer->size);
	code_analysis_close(analysis);
}

/* Offsets of the functions that begin in the code. */
static int entries_in(const struct function_starts *starts, uint64_t address, size_t size,
		      uint32_t **ret_entries, uint32_t *ret_count)
{
	uint32_t *entries = malloc((starts->count + 1) * sizeof(*entries)), count = 0;

	if (!entries)
		return -ENOMEM;
	for (uint32_t i = 0; i < starts->count; i++)
		if (starts->starts[i].address - address < size)
			entries[count++] = (uint32_t)(starts->starts[i].address - address);
	*ret_entries = entries;
	*ret_count = count;
	return 0;
}

int code_analysis_rows_add_arm64(const struct function_starts *starts, uint64_t address,
				 const uint8_t *code, size_t size, uint32_t first_covered,
				 uint32_t covered_limit, struct unwind_rows *rows)
{
	struct writer writer = { .rows = rows, .address = address, .size = size };
	_cleanup_free_ uint32_t *entries = NULL;
	uint32_t count;
	int rc = entries_in(starts, address, size, &entries, &count);

	if (rc)
		return rc;
	find_covered(rows, address, address + size, first_covered, covered_limit, &writer.covered);
	rc = arm64_analysis_each(code, size, entries, count, take_rule, &writer);
	if (rc)
		return rc == -E2BIG ? 0 : rc;
	put(&writer, size);
	return 0;
}

int code_analysis_rows_add(const struct function_starts *starts, uint64_t address,
			   const uint8_t *code, size_t size, uint32_t first_covered,
			   uint32_t covered_limit, struct unwind_rows *rows)
{
	struct writer writer = { .rows = rows, .address = address, .size = size };
	struct code_analysis *analysis = NULL;
	int rc;

	if (!enter_all(starts, address, size, NULL))
		return 0;
	rc = code_analysis_open(code, size, address, &analysis);
	if (rc)
		return rc == -E2BIG ? 0 : rc;
	enter_all(starts, address, size, analysis);
	find_covered(rows, address, address + size, first_covered, covered_limit, &writer.covered);
	for (uint32_t i = 0; i < writer.covered.count; i++)
		code_analysis_divide(analysis, writer.covered.ranges[i].start +
						       writer.covered.ranges[i].size);
	write_rows(analysis, &writer);
	return 0;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The uncovered code around @mark. Returns false if the mark's start is covered. */
static bool find_gap(const struct elf *elf, const struct unwind_rows *rows,
		     const struct unwind_mark *mark, uint64_t *ret_start, uint64_t *ret_limit)
{
	const Elf64_Phdr *load = elf_find_code(elf, mark->start);
	uint32_t index = unwind_rows_find(rows, mark->start);

	if (!load)
		return false;
	*ret_start = load->p_vaddr;
	if (mark->start - load->p_vaddr > CODE_ANALYSIS_AROUND_BYTES)
		*ret_start = mark->start - CODE_ANALYSIS_AROUND_BYTES;
	*ret_limit =
		earlier(load->p_vaddr + load->p_filesz, mark->limit + CODE_ANALYSIS_AROUND_BYTES);
	if (index < rows->sorted_count) {
		if (rows->ranges[index].start <= mark->start)
			return false;
		*ret_limit = earlier(*ret_limit, rows->ranges[index].start);
	}
	if (index > 0)
		*ret_start = later(*ret_start,
				   rows->ranges[index - 1].start + rows->ranges[index - 1].size);
	return true;
}

static int analyze(const struct elf *elf, const struct function_starts *starts, uint64_t start,
		   uint64_t limit, struct unwind_rows *rows)
{
	const Elf64_Phdr *load = elf_find_code(elf, start);
	_cleanup_free_ uint8_t *code = NULL;

	if (!load || limit <= start || limit - start > CODE_ANALYSIS_BYTES_MAX)
		return 0;
	code = malloc(limit - start);
	if (!code)
		return -ENOMEM;
	int rc = elf_read(elf, elf_file_offset(load, start), code, limit - start);
	if (rc)
		return rc == -ENOEXEC ? 0 : rc;
	return code_analysis_rows_add(starts, start, code, limit - start, 0, 0, rows);
}

static bool is_followed(const struct unwind_rows *rows, uint32_t first, uint64_t address)
{
	for (uint32_t i = first; i < rows->range_count; i++)
		if (address - rows->ranges[i].start < rows->ranges[i].size)
			return true;
	return false;
}

/* Functions in all gaps with marks: symbols of a large file are read once. */
static int read_starts(const struct elf *elf, const struct unwind_mark *marks, uint32_t count,
		       const struct unwind_rows *rows, struct function_starts *ret_starts)
{
	_cleanup_(elf_symbols_deinit) struct elf_symbols symbols = { 0 };
	_cleanup_free_ struct code_extent *extents = calloc(count, sizeof(*extents));
	uint32_t found = 0;

	if (!extents)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		if (marks[i].flags & MARK_ANALYZE &&
		    find_gap(elf, rows, &marks[i], &extents[found].start, &extents[found].limit) &&
		    extents[found].start < extents[found].limit)
			found++;
	found = code_extents_join(extents, found); // a gap may have many marks
	int rc = found ? elf_symbols_init(&symbols, elf) : -ENOENT;
	if (rc)
		return rc == -ENOMEM ? rc : 0;
	rc = function_starts_read(&symbols, extents, found, ret_starts);
	return rc ? rc : code_pointers_read(&symbols, extents, found, ret_starts);
}

/* A mark in the middle of code that was analyzed in vain has nothing new. Its ends are looked at again. */
static void add_tried(const struct unwind_mark *mark, uint64_t start, uint64_t limit,
		      struct code_extent *tried)
{
	uint64_t around = CODE_ANALYSIS_AROUND_BYTES / 2;

	*tried = (struct code_extent){
		.start = mark->start - start > around ? mark->start - around : start,
		.limit = limit - mark->start > around ? mark->start + around : limit,
	};
}

static bool is_tried(const struct code_extent *tried, uint32_t count, uint64_t address)
{
	for (uint32_t i = 0; i < count; i++)
		if (address - tried[i].start < tried[i].limit - tried[i].start)
			return true;
	return false;
}

int code_analysis_rows_analyze(const struct elf *elf, const struct unwind_mark *marks,
			       uint32_t count, struct unwind_rows *rows)
{
	_cleanup_(function_starts_deinit) struct function_starts starts = { 0 };
	_cleanup_free_ struct code_extent *tried = calloc(count + 1, sizeof(*tried));
	uint32_t first = rows->range_count, tried_count = 0;
	int rc = tried ? 0 : -ENOMEM;

	if (!count || elf->header.e_machine != EM_X86_64)
		return 0;
	if (!rc)
		rc = read_starts(elf, marks, count, rows, &starts);
	for (uint32_t i = 0; i < count && !rc; i++) {
		uint64_t start, limit;

		if (!(marks[i].flags & MARK_ANALYZE) || is_followed(rows, first, marks[i].start) ||
		    is_tried(tried, tried_count, marks[i].start) ||
		    !find_gap(elf, rows, &marks[i], &start, &limit))
			continue;
		add_tried(&marks[i], start, limit, &tried[tried_count++]);
		rc = analyze(elf, &starts, start, limit, rows);
	}
	return rc;
}
