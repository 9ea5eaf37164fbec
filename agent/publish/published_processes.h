// SPDX-License-Identifier: Apache-2.0
// The processes that are published to the kernel's unwinder: what was written of each, and how to
// write it so that the unwinder never sees a mix of old and new. Private to process_unwind.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/process/mapping.h"
#include "agent/publish/mapping_pages.h"
#include "agent/bpf/unwind_maps.h"
#include "base/hash_table.h"

enum {
	MAPPING_PAGE_KERNEL_BYTES = 4096, // an element of mapping_pages takes
};

struct published {
	struct process_key key; // pid 0: a hole
	struct python_process python;
	uint32_t tables_pending; // as in struct process_unwind
	// What is in the kernel.
	uint64_t pages_hash;
	uint32_t generation; // 0: nothing yet
	uint32_t page_count;
	// What it was made of, for process_unwind.c.
	uint64_t mappings_generation;
	uint32_t *files; // those it maps, sorted, each held
	uint32_t file_count;
	struct jit_code *jit;        // functions made at run time; NULL: none were looked at
	bool jit_again;              // there may be more of them soon
	uint64_t scanned_generation; // of the mappings in which they were looked for
	bool pending;                // a table of its files is being built
	struct mapping_list *list; // held while a file has no table, for whatever reason; else NULL
	// When.
	uint64_t used_ns;
	uint64_t published_ns;
	uint64_t took_ns;  // the publication
	uint64_t again_ns; // publish again then, though nothing changed; 0: no need
	uint64_t python_again_ns;
	uint64_t python_since_ns; // when it was looked for in vain first; 0: never
	uint64_t exited_ns;       // 0: it lives
	uint64_t missing;         // a stack ended here, in no mapping known then
	uint32_t missing_tries;
};

struct published_processes {
	const struct unwind_maps *maps;
	struct published *records; // slot_count of them, with holes
	uint32_t slot_count, capacity;
	uint32_t *holes;
	uint32_t hole_count;
	struct hash_table by_pid;
	uint32_t generation; // the last one given out
	uint32_t page_count; // of all
	struct mapping_page page;
};

/** Frees the memory; nothing is taken back, nor what the records hold released. */
void published_processes_deinit(struct published_processes *processes);

/** How many there are. */
uint32_t published_processes_count(const struct published_processes *processes);

/** NULL if there is none with this pid. */
struct published *published_processes_find(const struct published_processes *processes,
					   uint32_t pid);
/** Records may move. NULL when out of memory. */
struct published *published_processes_add(struct published_processes *processes,
					  const struct process_key *key);
/** Take back what was written, and forget it. What it holds has been released. */
void published_processes_remove(struct published_processes *processes, struct published *record);

/** Is it of this very process, and not of another that had or has the pid? */
bool published_is_of(const struct published *record, const struct process_key *key);

/** Are these its pages in the kernel already? */
bool published_has(const struct published *record, const struct mapping_pages *pages);

/**
 * Write the process with @pages, and its interpreter. Returns 0 or -errno, and what was there is still
 * there then.
 */
int published_processes_write(struct published_processes *processes, struct published *record,
			      const struct mapping_pages *pages);
