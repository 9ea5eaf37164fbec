/* SPDX-License-Identifier: Apache-2.0 */
// A sound batch of one sample, for fuzzers.
#pragma once

#include <stdlib.h>

#include "agent/ship/batch.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"

static inline struct batch *batch_of_one(void)
{
	const struct batch_id id = { .agent = { 1, 2 }, .boot = { 3, 4 }, .sequence = 5 };
	struct profile *profile = profile_new(20 * NS_PER_MS);
	struct location location = { .id = { 1, 1 }, .kind = FRAME_KIND_NATIVE };
	struct labels labels = { 0 };
	uint32_t at = 0, series = 0, stack = 0;

	profile->from_ns = 1700000000 * NS_PER_SECOND;
	profile->to_ns = profile->from_ns + NS_PER_SECOND;
	if (profile_add_location(profile, &location, NULL, 0, &at) ||
	    labels_set(&labels, LABEL_SERVICE, "llm") ||
	    profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series) ||
	    profile_add_stack(profile, &at, 1, STACK_END_COMPLETE, &stack) ||
	    profile_add_sample(profile, series, stack, 85000000001, 10))
		abort();
	labels_deinit(&labels);
	return batch_new(&id, profile);
}
