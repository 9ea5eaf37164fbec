// SPDX-License-Identifier: Apache-2.0
// Room in the kernel for unwind tables and for what is published of processes: what goes when there is
// none. Private to process_unwind.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/publish/published_processes.h"
#include "agent/publish/unwind_tables.h"

/** What is to be done about a process; it may remove the record. */
typedef void (*unwind_evict_fn)(void *context, struct published *record);

/** Call @withdraw for the processes that were sampled least recently, a sixteenth, but never for @kept. */
void unwind_evict_processes(struct published_processes *published, const struct published *kept,
			    unwind_evict_fn withdraw, void *context);

/**
 * Give up tables, so that there is room for that of the file @wanting: what was of use in the last
 * @kept_ns goes last. @republish is called for each process that maps such a file, and no process
 * refers to the table when its number becomes free for another one. Returns whether one was given up.
 */
bool unwind_evict_tables(struct unwind_tables *tables, struct published_processes *published,
			 uint32_t wanting, uint64_t kept_ns, unwind_evict_fn republish,
			 void *context);
