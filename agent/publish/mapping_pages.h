// SPDX-License-Identifier: Apache-2.0
// A process's executable mappings as BPF programs search them (bpf/unwind/process_layout.h): collected in order,
// then written page by page.
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

/** Zero-initialized it is empty. Clearing keeps the memory. */
struct mapping_pages {
	struct mapping_range *ranges;
	uint32_t count;
	uint32_t capacity;
	uint32_t cut; // ranges dropped: more than MAPPING_RANGES_MAX
	bool coarse;  // JIT code is one range up to the next file
};

void mapping_pages_deinit(struct mapping_pages *pages);
void mapping_pages_clear(struct mapping_pages *pages);
/** For processes with too many ranges: all between two pieces of JIT code counts as JIT code. */
void mapping_pages_clear_coarse(struct mapping_pages *pages);

/**
 * Add [@start, @limit), above all added before, with @code of enum mapping_code. Merges equal neighbours. Returns 0
 * or -ENOMEM.
 */
int mapping_pages_add(struct mapping_pages *pages, uint64_t start, uint64_t limit, uint32_t code);

/**
 * Add JIT code, [@start, @limit), with one rule, MAPPING_RULE(); 0: by frame pointer. Add what follows as well: it
 * marks the end of this.
 */
int mapping_pages_add_rule(struct mapping_pages *pages, uint64_t start, uint64_t limit,
			   uint64_t rule);

/**
 * Add a file's mapping whose table has @number in the kernel and covers @extent. Code outside of the table has no
 * unwind information. Returns 0 or -ENOMEM.
 */
int mapping_pages_add_table(struct mapping_pages *pages, const struct mapping *mapping,
			    const struct unwind_extent *extent, uint32_t number);

/** Pages needed: 0, 1, or a root and two or more. */
uint32_t mapping_pages_count(const struct mapping_pages *pages);
void mapping_pages_write(const struct mapping_pages *pages, uint32_t page,
			 struct mapping_page *ret_page);

/** Equal ranges have equal hashes: they need not be written again. */
uint64_t mapping_pages_hash(const struct mapping_pages *pages);
