// SPDX-License-Identifier: Apache-2.0
// Unwind tables and mapping pages of one process in user memory, laid out as the BPF unwinder reads
// them. Private to live_unwind.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/symbols/executable.h"
#include "agent/process/mapping.h"
#include "agent/publish/mapping_pages.h"
#include "agent/unwind/unwind_table.h"
#include "agent/unwind/unwind_table_cache.h"
#include "bpf/unwind/table_layout.h"

enum live_file_state {
	LIVE_FILE_UNBUILT,
	LIVE_FILE_WANTED, // a stack goes through it
	LIVE_FILE_BUILT,
	LIVE_FILE_NONE, // without usable unwind information
};

/** One executable of the process; its number is its table's. */
struct live_file {
	struct executable *executable; // held
	enum live_file_state state;
	struct unwind_table *table;
	struct table_page *pages; // of the table's words
	uint32_t page_count;
	struct unwind_extent extent;
};

/** One mapping: the range that the unwinder sees. */
struct live_range {
	struct mapping mapping; // of which only the addresses and the offset count
	uint32_t file;          // LIVE_NO_FILE, or number of the file
	bool is_jit;
};

struct live_tables {
	struct live_file *files;
	uint32_t file_count, file_capacity;
	struct live_range *ranges; // sorted by start
	uint32_t range_count;
	struct mapping_pages layout;
	struct mapping_page *pages; // written from it
	uint32_t page_count;
	struct unwind_table_cache *cache; // NULL: none; the caller's
	uint32_t built, failed;
	uint64_t build_ns;
};

#define LIVE_NO_FILE UINT32_MAX

/**
 * Large tables are kept in @cache (NULL: none), which outlives this.
 * Returns 0 or -ENOMEM.
 */
int live_tables_init(struct live_tables *tables, const struct mapping_list *mappings,
		     struct unwind_table_cache *cache);
void live_tables_deinit(struct live_tables *tables);

/** Request the table of the file at @address. Returns whether that is new. */
bool live_tables_want(struct live_tables *tables, uint64_t address);

/** Build requested tables and lay out the pages again. Returns how many tables are new. */
uint32_t live_tables_build(struct live_tables *tables);
