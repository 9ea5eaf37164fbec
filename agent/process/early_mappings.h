// SPDX-License-Identifier: Apache-2.0
// Mappings that come before their process: exec maps the program before its event comes, and a new process may
// map files before its fork event. They are kept by pid until then. One thread.
#pragma once

#include <stdint.h>

#include "agent/process/mapping.h"

enum {
	EARLY_MAPPINGS_MAX = 1024, // lists; past it the oldest is dropped. About ten are usual.
};

enum early_event {
	EARLY_EXEC = 1, // all mappings of the new program
	EARLY_FORK = 2, // mappings that a new process adds to its parent's
};

struct early_mapping_list {
	uint32_t pid; // 0: claimed
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

void early_mappings_clear(struct early_mappings *mappings);

/** An empty list for the next mappings of @pid; NULL when out of memory. */
struct mapping_list *early_mappings_begin(struct early_mappings *mappings, uint32_t pid,
					  enum early_event event, uint64_t now_ns);

/** The newest unclaimed list of @pid, or NULL. */
struct mapping_list *early_mappings_find(const struct early_mappings *mappings, uint32_t pid,
					 uint64_t now_ns);

/** @event of @pid has come: its oldest list, the caller's from now on; NULL: none. */
struct mapping_list *early_mappings_claim(struct early_mappings *mappings, uint32_t pid,
					  enum early_event event, uint64_t now_ns);
