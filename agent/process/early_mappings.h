// SPDX-License-Identifier: Apache-2.0
// What was mapped before the process table heard of whom it belongs to: exec maps its program before
// it is told, and a new process may map something before fork is. Kept by pid until then. One thread.
#pragma once

#include <stdint.h>

#include "agent/process/mapping.h"

enum {
	EARLY_MAPPINGS_MAX = 1024, // at a time; the oldest goes first. Some ten are usual.
};

enum early_event {
	EARLY_EXEC = 1, // all that the new program has mapped
	EARLY_FORK = 2, // what the new process has mapped over what it has of its parent
};

struct early_mapping_list {
	uint32_t pid; // 0: taken
	enum early_event event;
	uint64_t begun_ns;
	struct mapping_list *list;
};

/** A zeroed struct is valid and empty. */
struct early_mappings {
	struct early_mapping_list lists[EARLY_MAPPINGS_MAX]; // a ring
	uint32_t first;
	uint32_t count;
};

/** Forget all. */
void early_mappings_clear(struct early_mappings *mappings);

/** An empty list for what @pid maps from now on; NULL when out of memory. */
struct mapping_list *early_mappings_begin(struct early_mappings *mappings, uint32_t pid,
					  enum early_event event, uint64_t now_ns);

/** The list that was begun last for @pid, NULL: the table has heard of all, or long ago. */
struct mapping_list *early_mappings_find(const struct early_mappings *mappings, uint32_t pid,
					 uint64_t now_ns);

/** The table hears of @event: the list that was begun for it first, the caller's now; or NULL. */
struct mapping_list *early_mappings_take(struct early_mappings *mappings, uint32_t pid,
					 enum early_event event, uint64_t now_ns);
