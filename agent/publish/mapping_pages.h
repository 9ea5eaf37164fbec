// SPDX-License-Identifier: Apache-2.0
// A process's executable mappings as the kernel's unwinder searches them (bpf/unwind/process_layout.h): ranges
// with what to do there, collected in order, and then written page by page.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/process/mapping.h"
#include "agent/unwind/unwind_table.h"
#include "bpf/unwind/process_layout.h"

enum {
	MAPPING_RANGES_MAX = MAPPING_PAGE_ENTRIES * MAPPING_PAGE_ENTRIES, // below one root
};

struct mapping_range {
	uint64_t start;
	struct mapping_code_range code;
};

/** Zeroed it is empty. Collecting again keeps the memory. */
struct mapping_pages {
	struct mapping_range *ranges;
	uint32_t count;
	uint32_t capacity;
	uint32_t cut; // ranges left out, of those past MAPPING_RANGES_MAX
	bool coarse;  // code made at run time is one range up to the next file's
};

void mapping_pages_deinit(struct mapping_pages *pages);
void mapping_pages_clear(struct mapping_pages *pages);
/** For processes that have too many ranges else: what lies between code made at run time is code too. */
void mapping_pages_clear_coarse(struct mapping_pages *pages);

/**
 * Add [@start, @limit), which is above all added before, with @code of enum mapping_code. Neighbours
 * of equal code become one. Returns 0 or -ENOMEM.
 */
int mapping_pages_add(struct mapping_pages *pages, uint64_t start, uint64_t limit, uint32_t code);

/**
 * Add code that was made at run time, [@start, @limit), with the one rule that holds in it
 * (MAPPING_RULE()); 0: by frame pointer. What comes next must be added too: it says where this ends.
 */
int mapping_pages_add_rule(struct mapping_pages *pages, uint64_t start, uint64_t limit,
			   uint64_t rule);

/**
 * Add a mapping of a file whose table is in the kernel under @number and covers @extent. What the
 * table does not cover has no unwind information. Returns 0 or -ENOMEM.
 */
int mapping_pages_add_table(struct mapping_pages *pages, const struct mapping *mapping,
			    const struct unwind_extent *extent, uint32_t number);

/** Pages that the ranges fill: 0 for none, 1, or a root and two or more. */
uint32_t mapping_pages_count(const struct mapping_pages *pages);
void mapping_pages_write(const struct mapping_pages *pages, uint32_t page,
			 struct mapping_page *ret_page);

/** Of all ranges: who has written equal ones before need not write them again. */
uint64_t mapping_pages_hash(const struct mapping_pages *pages);
