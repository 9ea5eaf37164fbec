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
	EXPOSURE_STEPS = 256, // of the range: the resolution of when an instance came and went
	EXPOSURE_BYTES_MAX = 64 << 20,
};

struct exposure {
	uint32_t instances;               // that had samples
	double block_ns[TIME_BLOCKS_MAX]; // instances' time in each block, in nanoseconds
	double total_ns;
};

/**
 * The exposure of @selection, which @query made, in @blocks. An instance is there from its first sample in the query's range
 * to its last, in steps of 1/EXPOSURE_STEPS of the range: nothing else is stored of one that only waits. @per: a label, whose
 * values are the instances, or EXPOSURE_PER_AUTO or EXPOSURE_PER_NONE. Returns 0; -E2BIG: too many instances; -ENOMEM; the
 * store's errors.
 */
int exposure_of(const struct query *query, const struct store_selection *selection,
		const struct time_blocks *blocks, const char *per, struct exposure *ret_exposure,
		struct error *err);
