// SPDX-License-Identifier: Apache-2.0
// The unwinder's maps in the kernel, as those see them who fill them: one call for each thing that
// happens to a table or a process. The only user of bpf() for them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "bpf/unwind/map_limits.h"
#include "bpf/unwind/process_layout.h"

/** Descriptors of the loader's; they stay its own. Any thread may use them. */
struct unwind_maps {
	int tables_fd;    // unwind_tables: number to the array of a table's pages
	int rules_fd;     // unwind_rules
	int processes_fd; // unwind_processes
	int pages_fd;     // mapping_pages
	int python_fd;    // python_runtimes, by number of the build
	bool unused;      // the unwinder that was loaded reads none of them
};

/**
 * Make an array of @page_count pages for a table and map it for writing; unmap it with
 * unwind_maps_unmap_table(). Returns its descriptor, the caller's, or -errno.
 */
int unwind_maps_create_table(uint32_t page_count, struct table_page **ret_pages);
void unwind_maps_unmap_table(struct table_page *pages, uint32_t page_count);

/** Kernel memory of such a table. */
uint64_t unwind_maps_table_bytes(uint32_t page_count);

/**
 * Put tables under their numbers. Takes a grace period, some 10 ms, or a few where the kernel waits for
 * each table (before 6.8). Returns 0 or -errno; some are in place then.
 */
int unwind_maps_install_tables(const struct unwind_maps *maps, const uint32_t *numbers,
			       const int *fds, uint32_t count);

/**
 * Take tables away: on return no program uses them any more. A number that has none is fine.
 * Takes a grace period for each. Returns 0 or -errno.
 */
int unwind_maps_remove_table(const struct unwind_maps *maps, uint32_t number);

/** All UNWIND_RULES_MAX rules, mapped for writing; NULL with errno set. Until unwind_maps_unmap_rules(). */
struct unwind_rule *unwind_maps_map_rules(const struct unwind_maps *maps);
void unwind_maps_unmap_rules(struct unwind_rule *rules);

/** Each returns 0 or -errno. Removing what is not there is fine. */
int unwind_maps_put_page(const struct unwind_maps *maps, const struct mapping_page_key *key,
			 const struct mapping_page *page);
int unwind_maps_remove_page(const struct unwind_maps *maps, const struct mapping_page_key *key);
int unwind_maps_put_process(const struct unwind_maps *maps, uint32_t pid,
			    const struct process_unwind *process);
int unwind_maps_remove_process(const struct unwind_maps *maps, uint32_t pid);
/** What a build of an interpreter looks like, under its number. */
int unwind_maps_put_runtime(const struct unwind_maps *maps, uint32_t runtime,
			    const struct python_offsets *offsets);
