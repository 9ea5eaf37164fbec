// SPDX-License-Identifier: Apache-2.0
// The BPF unwinder, compiled for user space over recorded registers, memory and tables. For the
// other processor define __TARGET_ARCH_arm64 first.
#pragma once

#include <stdbool.h>
#include <stdlib.h>

#include "tests/test.h"

// gcc has another word for "unroll", and needs none.
#pragma GCC diagnostic ignored "-Wunknown-pragmas"
static const bool unwind_by_tables = true;
// Tests of Python frames define RECORDED_PYTHON, and python_offsets_at().
#ifdef RECORDED_PYTHON
static const bool unwind_python = true;
#else
static const bool unwind_python = false;
#endif
#include "bpf/unwind/unwind.h"

enum { MEMORIES = 4, TABLES = 4, MEMORY_PAGES = 200, RULES = 64, KNOWN_SETS = 32 };

/* A run of bytes of the recorded process. */
struct recorded_memory {
	uint64_t address;
	const void *bytes;
	uint64_t size;
};

struct recorded_table {
	struct table_page *pages;
	uint32_t page_count;
};

static struct {
	struct recorded_memory memories[MEMORIES];
	struct recorded_table tables[TABLES];
	struct mapping_page pages[MEMORY_PAGES];
	uint32_t page_count;
	struct unwind_rule rules[RULES];
	bool caches_rules; // rules that were found before
	struct cached_rules known[KNOWN_SETS];
	uint32_t generation; // of the process
	struct raw_frame frames[STACK_DEPTH_MAX];
	uint32_t steps;
	struct pending_return pending[PENDING_RETURNS_MAX];
	uint32_t pending_count;
	uint32_t reads; // of memory
} recorded;

/* ---- what unwind.h wants ------------------------------------------------------------------- */

static long read_user(void *to, __u32 size, __u64 address)
{
	recorded.reads++;
	for EACH (memory, recorded.memories) {
		uint64_t offset = address - memory->address;

		if (offset < memory->size && size <= memory->size - offset) {
			memcpy(to, (const char *)memory->bytes + offset, size);
			return 0;
		}
	}
	return -14; // -EFAULT
}

static struct raw_frame *unwind_frame(struct unwind *unwind, __u32 at)
{
	(void)unwind;
	return at < STACK_DEPTH_MAX ? &recorded.frames[at] : NULL;
}

static const struct mapping_page *unwind_mapping_page(const struct unwind *unwind, __u32 page)
{
	(void)unwind;
	return page < recorded.page_count ? &recorded.pages[page] : NULL;
}

static void *unwind_table(__u32 table)
{
	return table < TABLES && recorded.tables[table].pages ? &recorded.tables[table] : NULL;
}

static const struct table_page *unwind_table_page(void *table, __u32 page)
{
	const struct recorded_table *pages = table;

	return page < pages->page_count ? &pages->pages[page] : NULL;
}

static const struct unwind_rule *unwind_rule_at(__u32 rule)
{
	return rule < RULES ? &recorded.rules[rule] : NULL;
}

/* Tests want each search done, but for cached rules. */
static struct cached_rules *unwind_cached_rules(__u64 address)
{
	return recorded.caches_rules ? &recorded.known[rule_cache_index(address) % KNOWN_SETS]
				     : NULL;
}

#ifndef RECORDED_PYTHON
static const struct python_offsets *python_offsets_at(__u32 runtime)
{
	(void)runtime;
	return NULL;
}
#endif

/* ---- tables -------------------------------------------------------------------------------- */

/* From an address, counted from the table's first block, on this rule holds. */
struct recorded_row {
	uint32_t address;
	uint32_t rule;
};

static void record_words(uint32_t table, const uint32_t *words, uint32_t count)
{
	struct recorded_table *to = &recorded.tables[table];

	free(to->pages);
	to->page_count = count / TABLE_PAGE_WORDS + 1;
	to->pages = calloc(to->page_count, sizeof(*to->pages));
	memcpy(to->pages, words, count * sizeof(*words));
}

/* Rows are sorted; the first begins at 0. Lays them out as table_layout.h describes. */
static inline void record_table(uint32_t table, uint32_t blocks, const struct recorded_row *rows,
				uint32_t count)
{
	uint32_t *words = calloc(blocks + 1 + count + blocks, sizeof(*words));
	uint32_t at = blocks + 1, row = 0, rule = 0;

	for (uint32_t block = 0; block < blocks; block++) {
		uint32_t begin = block * TABLE_BLOCK_BYTES;

		words[block] = at;
		if (row == count || rows[row].address != begin)
			words[at++] = rule; // goes on from the block before
		for (; row < count && rows[row].address < begin + TABLE_BLOCK_BYTES; row++) {
			rule = rows[row].rule;
			words[at++] = (rows[row].address - begin) << TABLE_RULE_BITS | rule;
		}
	}
	words[blocks] = at;
	record_words(table, words, at);
	free(words);
}

/* One mapping after the other, into one page. */
static inline void record_mapping(uint64_t start, uint64_t size, uint64_t bias, uint32_t code)
{
	struct mapping_page *page = &recorded.pages[0];
	uint32_t at = 0;

	recorded.page_count = 1;
	while (page->ranges[at].units)
		at++;
	page->starts[at] = start;
	page->ranges[at] =
		(struct mapping_code_range){ bias, (uint32_t)(size >> MAPPING_UNIT_BITS), code };
}

static inline void record_nothing(void)
{
	for EACH (table, recorded.tables)
		free(table->pages);
	memset(&recorded, 0, sizeof(recorded));
	for (uint32_t i = 0; i < MAPPING_PAGE_ENTRIES; i++)
		recorded.pages[0].starts[i] = MAPPING_START_UNUSED;
}

/* ---- the walk ------------------------------------------------------------------------------ */

/* As the sampler does it. */
static inline struct unwind unwind_from(uint64_t pc, const uint64_t registers[UNWIND_REGISTERS])
{
	struct unwind unwind = { .pc = pc, .exact_pc = 1 };

	memcpy(unwind.registers, registers, sizeof(unwind.registers));
	unwind.process.mapping_page_count = recorded.page_count;
	unwind.process.generation = recorded.generation;
	unwind.pending_count = recorded.pending_count;
	memcpy(unwind.pending, recorded.pending, sizeof(unwind.pending));
	unwind_begin(&unwind);
	recorded.steps = 0;
	while (recorded.steps++ < UNWIND_STEPS_MAX && !unwind_step(&unwind))
		;
	if (unwind.end == UNWIND_CONTINUES)
		unwind.end = STACK_END_DEPTH;
	return unwind;
}
