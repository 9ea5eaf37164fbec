// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/mapping_pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/id128.h"

_Static_assert(MAPPING_UNIT_BITS <= TABLE_BLOCK_BITS, "a table's end is exact");

void mapping_pages_deinit(struct mapping_pages *pages)
{
	free(pages->ranges);
	*pages = (struct mapping_pages){ 0 };
}

void mapping_pages_clear(struct mapping_pages *pages)
{
	pages->count = pages->cut = 0;
	pages->coarse = false;
}

void mapping_pages_clear_coarse(struct mapping_pages *pages)
{
	mapping_pages_clear(pages);
	pages->coarse = true;
}

// ---- collecting -----------------------------------------------------------------------------

static uint32_t size_in_units(uint64_t size)
{
	uint64_t count = size >> MAPPING_UNIT_BITS;

	return count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
}

static bool continues(const struct mapping_range *last, uint64_t start, uint64_t bias,
		      uint32_t code, uint32_t unit_count)
{
	return last->code.code == code && last->code.bias == bias &&
	       last->start + ((uint64_t)last->code.units << MAPPING_UNIT_BITS) == start &&
	       unit_count <= UINT32_MAX - last->code.units;
}

static int append(struct mapping_pages *pages, const struct mapping_range *range)
{
	if (pages->count == MAPPING_RANGES_MAX) {
		pages->cut++;
		return 0;
	}
	int rc = array_reserve(&pages->ranges, sizeof(*pages->ranges), &pages->capacity,
			       pages->count, 1, MAPPING_RANGES_MAX);
	if (rc)
		return rc;
	pages->ranges[pages->count++] = *range;
	return 0;
}

static int add(struct mapping_pages *pages, uint64_t start, uint64_t limit, uint64_t bias,
	       uint32_t code)
{
	struct mapping_range *last = pages->count ? &pages->ranges[pages->count - 1] : NULL;
	struct mapping_range range = { start, { .bias = bias, .code = code } };

	// The unwinder's search wants bit 63 clear; vsyscall's page lies above, and nothing else.
	if (start >= limit || limit > MAPPING_START_UNUSED)
		return 0;
	range.code.units = size_in_units(limit - start);
	if (!range.code.units)
		return 0;
	if (last && pages->coarse && code == MAPPING_CODE_JIT && last->code.code == code) {
		last->code.units = size_in_units(limit - last->start);
		return 0;
	}
	if (last && continues(last, start, bias, code, range.code.units)) {
		last->code.units += range.code.units;
		return 0;
	}
	return append(pages, &range);
}

int mapping_pages_add(struct mapping_pages *pages, uint64_t start, uint64_t limit, uint32_t code)
{
	return add(pages, start, limit, 0, code);
}

int mapping_pages_add_rule(struct mapping_pages *pages, uint64_t start, uint64_t limit,
			   uint64_t rule)
{
	struct mapping_range range = { start, { .bias = rule, .code = MAPPING_CODE_RULE } };

	if (start >= limit || limit > MAPPING_START_UNUSED)
		return 0;
	range.code.units = size_in_units(limit - start + (1 << MAPPING_UNIT_BITS) - 1);
	return append(pages, &range);
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static const struct unwind_segment *find_segment(const struct unwind_extent *extent,
						 const struct mapping *mapping)
{
	uint64_t size = mapping->limit - mapping->start;

	// A mapping begins on a page, a segment need not: they match if they overlap.
	for (uint32_t i = 0; i < extent->segment_count; i++) {
		const struct unwind_segment *segment = &extent->segments[i];

		if (mapping->file_offset < segment->offset
			    ? segment->offset - mapping->file_offset < size
			    : mapping->file_offset - segment->offset < segment->size)
			return segment;
	}
	return NULL;
}

int mapping_pages_add_table(struct mapping_pages *pages, const struct mapping *mapping,
			    const struct unwind_extent *extent, uint32_t number)
{
	const struct unwind_segment *segment = find_segment(extent, mapping);
	uint64_t start = mapping->start, limit = mapping->limit;

	if (!segment)
		return mapping_pages_add(pages, start, limit, MAPPING_CODE_NONE);

	// In 64 bits that may wrap: hostile headers put a table anywhere. Only what of it lies within
	// the mapping counts, by its signed distance from there.
	uint64_t table = start - mapping->file_offset + segment->offset - segment->address +
			 extent->first_address;
	uint64_t length = limit - start, size = (uint64_t)extent->block_count << TABLE_BLOCK_BITS;
	uint64_t lead = 0, covered = 0;

	if ((int64_t)(table - start) >= 0) {
		lead = smaller(table - start, length);
		covered = smaller(size, length - lead);
	} else if (start - table < size) {
		covered = smaller(size - (start - table), length);
	}

	int rc = mapping_pages_add(pages, start, start + lead, MAPPING_CODE_NONE);
	if (!rc)
		rc = add(pages, start + lead, start + lead + covered, table,
			 number + MAPPING_CODE_TABLE);
	if (!rc)
		rc = mapping_pages_add(pages, start + lead + covered, limit, MAPPING_CODE_NONE);
	return rc;
}

// ---- writing --------------------------------------------------------------------------------

uint32_t mapping_pages_count(const struct mapping_pages *pages)
{
	uint32_t leaves = (pages->count + MAPPING_PAGE_ENTRIES - 1) >> MAPPING_PAGE_BITS;

	return leaves > 1 ? leaves + 1 : leaves;
}

static void write_root(const struct mapping_pages *pages, struct mapping_page *ret_page)
{
	for (uint32_t at = 0, leaf = 0; at < pages->count; at += MAPPING_PAGE_ENTRIES, leaf++)
		ret_page->starts[leaf] = pages->ranges[at].start;
}

static void write_leaf(const struct mapping_pages *pages, uint32_t leaf,
		       struct mapping_page *ret_page)
{
	uint32_t first = leaf << MAPPING_PAGE_BITS;

	for (uint32_t i = 0; i < MAPPING_PAGE_ENTRIES && first + i < pages->count; i++) {
		ret_page->starts[i] = pages->ranges[first + i].start;
		ret_page->ranges[i] = pages->ranges[first + i].code;
	}
}

void mapping_pages_write(const struct mapping_pages *pages, uint32_t page,
			 struct mapping_page *ret_page)
{
	bool has_root = mapping_pages_count(pages) > 1;

	memset(ret_page->ranges, 0, sizeof(ret_page->ranges));
	for (uint32_t i = 0; i < MAPPING_PAGE_ENTRIES; i++)
		ret_page->starts[i] = MAPPING_START_UNUSED;
	if (has_root && page == 0)
		write_root(pages, ret_page);
	else
		write_leaf(pages, page - has_root, ret_page);
}

uint64_t mapping_pages_hash(const struct mapping_pages *pages)
{
	return hash64_of(pages->ranges, pages->count * sizeof(*pages->ranges));
}
