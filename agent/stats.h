// SPDX-License-Identifier: Apache-2.0
// What the agent did, dropped and used: as lines of the log, and as series of PROFILE_TYPE_EVENTS.
#pragma once

#include <stdint.h>

#include "agent/boost/boosts.h"
#include "agent/containers/container_records.h"
#include "agent/containers/pod_watch.h"
#include "agent/counters.h"
#include "agent/profiler.h"
#include "agent/restrictions.h"
#include "agent/ship/sender.h"
#include "base/confined/confined_process.h"
#include "base/event_log.h"
#include "bpf/bpf_counters.h"
#include "base/contract/label_names.h"

/** Cumulative figures at one moment. */
struct stats {
	uint64_t time_ns;   // monotonic
	uint64_t cpu_ns;    // of this process
	uint64_t rss_bytes; // now
	struct profiler_stats profiler;
	struct sender_stats sender, otlp;
	bool has_sender, has_otlp;
	uint64_t calls_refused;
	uint64_t launcher_restarts;
	struct container_records_stats containers;
	struct pod_watch_stats pods;
	struct pod_table_stats pod_table;
	uint64_t boosts_begun, boosts_refused;
	uint32_t boosts; // active
};

/** What it reads, beside the profiler. */
struct stats_sources {
	struct sender *sender, *otlp; // NULL: none
	const struct restrictions *restrictions;
	struct confined_launcher *launcher;         // NULL: nothing runs confined
	const struct container_records *containers; // NULL: none
	struct pod_table *pods;                     // NULL: no pods, nor a watch
	const struct pod_watch *pod_watch;
	const struct boosts *boosts; // NULL: none
};

enum {
	STATS_TEXT_BYTES = 1900, // with a head a line of the log
	// All counters by one number: those of enum bpf_counter, then those of enum agent_counter.
	STATS_COUNTERS = COUNTER_COUNT + AGENT_COUNTER_COUNT,
	STATS_TOKEN_BYTES = 32,
};

void stats_read(struct stats *ret_stats, const struct profiler *profiler,
		const struct stats_sources *sources);

/** What happened between two moments. */
void stats_format(const struct stats *before, const struct stats *now, char text[STATS_TEXT_BYTES]);

/** Post an event for each counter of losses that rose between two moments. */
void stats_post_losses(const struct stats *before, const struct stats *now,
		       struct event_log *events);

/** The counter's token: the value of LABEL_COUNTER. Returns @token. */
const char *stats_counter_token(uint32_t counter, char token[STATS_TOKEN_BYTES]);
/** What one increment means, and what to do. */
const char *stats_counter_sentence(uint32_t counter);
uint64_t stats_counter_value(const struct stats *stats, uint32_t counter);

/**
 * Add each counter that rose between two moments to @interval, with @labels and LABEL_COUNTER. Returns 0 or
 * a negative errno.
 */
int stats_add_series(const struct stats *before, const struct stats *now,
		     const struct labels *labels, struct export_interval *interval);
