// SPDX-License-Identifier: Apache-2.0
// Writes the unwinder's BPF maps: a call for each change of a table or a process. The only user of bpf() for them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "bpf/unwind/map_limits.h"
#include "bpf/unwind/process_layout.h"

/** Descriptors owned by the loader. For any thread. */
struct unwind_maps {
	int tables_fd;    // unwind_tables: number to array of pages
	int rules_fd;     // unwind_rules
	int processes_fd; // unwind_processes
	int pages_fd;     // mapping_pages
	int python_fd;    // python_runtimes, by number
	bool unused;      // the loaded unwinder reads none of them
};

/**
 * Create an array of @page_count pages for a table and map it for writing; unmap it with
 * unwind_maps_unmap_table(). Returns a descriptor, owned by the caller, or -errno.
 */
int unwind_maps_create_table(uint32_t page_count, struct table_page **ret_pages);
void unwind_maps_unmap_table(struct table_page *pages, uint32_t page_count);

/** Kernel memory of such a table. */
uint64_t unwind_maps_table_bytes(uint32_t page_count);

/**
 * Store tables under their numbers. Waits a grace period, some 10 ms, or several before 6.8. Returns 0, or
 * -errno with some of them stored.
 */
int unwind_maps_install_tables(const struct unwind_maps *maps, const uint32_t *numbers,
			       const int *fds, uint32_t count);

/**
 * Remove a table; 0 if there is none. On return no program uses it. Waits a grace period. Returns 0 or -errno.
 */
int unwind_maps_remove_table(const struct unwind_maps *maps, uint32_t number);

/** All UNWIND_RULES_MAX rules, mapped for writing; NULL and errno. Unmap with unwind_maps_unmap_rules(). */
struct unwind_rule *unwind_maps_map_rules(const struct unwind_maps *maps);
void unwind_maps_unmap_rules(struct unwind_rule *rules);

/** Return 0 or -errno. Removing what is not there succeeds. */
int unwind_maps_put_page(const struct unwind_maps *maps, const struct mapping_page_key *key,
			 const struct mapping_page *page);
int unwind_maps_remove_page(const struct unwind_maps *maps, const struct mapping_page_key *key);
int unwind_maps_put_process(const struct unwind_maps *maps, uint32_t pid,
			    const struct process_unwind *process);
int unwind_maps_remove_process(const struct unwind_maps *maps, uint32_t pid);
/** Field offsets of an interpreter build, by number. */
int unwind_maps_put_runtime(const struct unwind_maps *maps, uint32_t runtime,
			    const struct python_offsets *offsets);
