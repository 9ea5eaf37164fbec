// SPDX-License-Identifier: Apache-2.0
// Evicts unwind tables and published processes when kernel memory is full. Private to process_unwind.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/publish/published_processes.h"
#include "agent/publish/unwind_tables.h"

/** Called for a process; may remove its record. */
typedef void (*unwind_evict_fn)(void *context, struct published *record);

/**
 * Call @withdraw for the least recently sampled processes, one in EVICTED_SHARE, but not for @kept. They are of the payer
 * who has most, if that is far more than @kept's has: else a container's many processes would evict all others.
 */
void unwind_evict_processes(struct published_processes *published, const struct published *kept,
			    unwind_evict_fn withdraw, void *context);

/**
 * Evict tables to make space for that of file @wanting; those used in the last @kept_ns go last. @republish is
 * called for each process that maps an evicted file: no process refers to a table when its number is freed. Returns
 * whether any was evicted.
 */
bool unwind_evict_tables(struct unwind_tables *tables, struct published_processes *published,
			 uint32_t wanting, uint64_t kept_ns, unwind_evict_fn republish,
			 void *context);
