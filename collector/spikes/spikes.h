// SPDX-License-Identifier: Apache-2.0
// Spikes: intervals in which a profile type of a service left its usual range, ranked, and what explains them.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "collector/query/query_select.h"
#include "collector/spikes/spike.h"

enum {
	SPIKES_SERVICES_MAX = 512,  // judged; more are left out, and counted
	SPIKES_SIGNALS_MAX = 1024,  // of a type: services times wait classes
	SPIKES_SLOTS_MAX = 1 << 18, // of a signal; more make the slots longer
	SPIKES_FOUND_MAX = 1000,    // kept before they are ranked
	SPIKES_LIMIT_MAX = 100,     // of an answer
	SPIKES_LIMIT_DEFAULT = 20,
	SPIKES_HISTORY_S = 30 * 60,     // before the range, at least as long as it up to an hour
	SPIKES_HISTORY_S_MAX = 60 * 60, //
};

#define SPIKES_VALUES_BYTES_MAX (64ULL << 20)        // of signals that are judged at a time
#define SPIKES_RISE_MIN         0.3                  // threads or cores: a service notices no less
#define SPIKES_SAMPLED_SCALE_NS (30 * 1000000000ULL) // some probe duty cycles
#define SPIKES_MIN_S_DEFAULT    0.2                  // of extra time

struct spikes {
	struct spike *items; // by falling score
	uint32_t count;
	uint32_t found;          // before the limit
	uint32_t usual_at_time;  // that yesterday or last week had at this time, too
	uint32_t not_judged;     // services that ran for too short a time
	uint32_t left_out;       // services or signals beyond a limit
	struct time_range range; // that was judged
	uint64_t history_ns;     // before it
	uint64_t slot_ns;
};

struct spikes_options {
	const char *type; // NULL: all that are judged
	double min_s;     // of extra time, or what it would cost
	uint32_t limit;
	bool unexplained; // without reading stacks
};

void spikes_deinit(struct spikes *spikes);
/**
 * Find the spikes of what @query selects. Its type and group_by are not used. Errors as query_flame_tree();
 * -EINVAL also for a type that is not judged.
 */
int query_spikes(const struct query *query, const struct spikes_options *options,
		 struct spikes *ret_spikes, struct error *err);
