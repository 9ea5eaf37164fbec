// SPDX-License-Identifier: Apache-2.0
// The published processes: what was written about each, and how to replace it so that BPF programs never see a mix
// of old and new. Private to process_unwind.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/process/mapping.h"
#include "agent/publish/mapping_pages.h"
#include "agent/bpf/unwind_maps.h"
#include "base/hash_table.h"

enum {
	MAPPING_PAGE_KERNEL_BYTES = 4096, // an element of mapping_pages
};

struct published {
	struct process_key key; // pid 0: free slot
	uint64_t payer;         // agent/guard/shares.h
	struct python_process python;
	uint32_t tables_pending; // as in struct process_unwind
	uint32_t unidentified;   // mappings whose file is not known yet
	uint32_t unready;        // mappings that get a table soon
	// In the kernel:
	uint64_t pages_hash;
	uint32_t generation; // 0: nothing yet
	uint32_t page_count;
	// Source of that, for process_unwind.c:
	uint64_t mappings_generation;
	uint32_t *files; // mapped files, sorted, each held
	uint32_t file_count;
	struct jit_code *jit;        // NULL: no JIT code seen
	bool jit_again;              // more functions may appear soon
	uint64_t scanned_generation; // of the mappings when they were last scanned
	bool pending;                // some file's table is being built
	struct mapping_list *list;   // held while some file has no table; else NULL
	// Times:
	uint64_t used_ns;
	uint64_t published_ns;
	uint64_t took_ns;  // duration of the publication
	uint64_t again_ns; // when to publish again although nothing changed; 0: never
	uint64_t python_again_ns;
	uint64_t python_since_ns; // first search that found none; 0: none failed
	uint64_t exited_ns;       // 0: running
	uint64_t missing;         // a stack ended here: no mapping known
	uint32_t missing_tries;
};

struct published_processes {
	const struct unwind_maps *maps;
	struct published *records; // slot_count, some of them free
	uint32_t slot_count, capacity;
	uint32_t *holes;
	uint32_t hole_count;
	struct hash_table by_pid;
	uint32_t generation; // the last one used
	uint32_t page_count; // of all processes
	struct mapping_page page;
};

/** Frees memory only: withdraws nothing and releases nothing that records hold. */
void published_processes_deinit(struct published_processes *processes);

uint32_t published_processes_count(const struct published_processes *processes);

/** NULL if there is none with this pid. */
struct published *published_processes_find(const struct published_processes *processes,
					   uint32_t pid);
/** Records may move. NULL: out of memory. */
struct published *published_processes_add(struct published_processes *processes,
					  const struct process_key *key);
/** Withdraw it from the kernel and free the record. Release what it holds first. */
void published_processes_remove(struct published_processes *processes, struct published *record);

/** Does it belong to this process, not to another one with the same pid? */
bool published_is_of(const struct published *record, const struct process_key *key);

/** Are these pages in the kernel already? */
bool published_has(const struct published *record, const struct mapping_pages *pages);

/** Write the process with @pages and its interpreter. Returns 0, or -errno and the old state stays. */
int published_processes_write(struct published_processes *processes, struct published *record,
			      const struct mapping_pages *pages);
