// SPDX-License-Identifier: Apache-2.0
// How much there was to be sampled: the time that each instance (a pod, or a node) was there. A rate per instance and
// second compares three pods with thirty, and ten seconds with an hour.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "collector/compare/time_blocks.h"
#include "collector/query/query_select.h"

/** For @per of exposure_of(): a pod, and for what is in none its node. */
#define EXPOSURE_PER_AUTO "auto"
/** All selected series are one instance. */
#define EXPOSURE_PER_NONE "none"

enum {
	PRESENCE_STEPS = 256, // of the time: the resolution of when an instance came and went
	PRESENCE_BYTES_MAX = 64 << 20, // of a value for each step and instance
	PRESENCE_LOOKS_MAX = 4,        // at the part of the time that has samples, ever closer
};

/** When each instance was there. A zeroed struct is nobody. */
struct presence {
	struct time_range *instances; // those that had samples
	uint32_t count;
	struct time_range hull; // from the first one's begin to the last one's end
};

void presence_deinit(struct presence *presence);
/**
 * When the instances of @selection, which @query made, were there: from an instance's first sample in the query's range to
 * its last, in steps of 1/PRESENCE_STEPS of the time that has any. Nothing else is stored of one that only waits. @per: a
 * label, whose values are the instances, or EXPOSURE_PER_AUTO or EXPOSURE_PER_NONE. Returns 0; -E2BIG: too many instances;
 * -ENOMEM; the store's errors.
 */
int presence_of(const struct query *query, const struct store_selection *selection, const char *per,
		struct presence *ret_presence, struct error *err);

struct exposure {
	double block_ns[TIME_BLOCKS_MAX]; // instances' time in each block, in nanoseconds
	double total_ns;
};

/** The time of the instances in @blocks. */
void exposure_of(const struct presence *presence, const struct time_blocks *blocks,
		 struct exposure *ret_exposure);
