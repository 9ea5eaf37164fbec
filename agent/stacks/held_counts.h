// SPDX-License-Identifier: Apache-2.0
// Counts of processes whose pod is not described yet: kept back, so that their series has the pod's labels from the
// beginning, and so that nothing of a pod that is not to be profiled is shipped before that is known. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "bpf/sample.h"

enum {
	HELD_COUNTS_MAX =
		16384, // two intervals of a few busy processes; 2 MB. More are not kept back
};

struct held_counts;

/** NULL when out of memory. */
struct held_counts *held_counts_new(void);
/** NULL is allowed. */
void held_counts_free(struct held_counts *held);

/** Keep one back. False: the table is full, which is counted. */
bool held_counts_add(struct held_counts *held, const struct count_key *key,
		     const struct count *count);

/**
 * Give @fn all that were kept back; it may keep them back again. A failure of @fn ends it, and the rest is lost, as with
 * any count. Returns what @fn returned.
 */
int held_counts_release(struct held_counts *held,
			int (*fn)(void *context, const struct count_key *key,
				  const struct count *count),
			void *context);

/** Keep nothing back any more: the last interval. */
void held_counts_stop(struct held_counts *held);

/** How many were not kept back: table full. */
uint64_t held_counts_full(const struct held_counts *held);
