// SPDX-License-Identifier: Apache-2.0
// What the agent did and what it cost, since the last time one asked.
#pragma once

#include <stdint.h>

#include "agent/profiler.h"
#include "agent/ship/sender.h"

/** Cumulative figures at one moment. */
struct stats {
	uint64_t time_ns;   // monotonic
	uint64_t cpu_ns;    // of this process
	uint64_t rss_bytes; // now
	struct profiler_stats profiler;
	struct sender_stats sender;
};

enum { STATS_TEXT_BYTES = 1900 }; // with a head a line of the log

void stats_read(struct stats *ret_stats, const struct profiler *profiler, struct sender *sender);

/** What happened between two moments, in a line for people. */
void stats_format(const struct stats *before, const struct stats *now, char text[STATS_TEXT_BYTES]);

/** What was lost between two moments; returns false, and no text, if nothing was. */
bool stats_format_losses(const struct stats *before, const struct stats *now,
			 char text[STATS_TEXT_BYTES]);
