// SPDX-License-Identifier: Apache-2.0
// The boosts that are active on this agent, and what they demand together. Bounded by the agent's own
// settings, whatever a collector sends. Pure: it knows no clock. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/contract/boosts.h"

/*
 * Without an answer of the collector for so long all boosts end: with some export intervals, where they are long, and a try
 * that timed out between.
 */
#define BOOST_LEASE_NS        (30 * NS_PER_SECOND)
#define BOOST_LEASE_INTERVALS 3

struct boost_limits {
	uint32_t hz_max;      // 0: boosts are refused
	uint64_t interval_ns; // the export interval: answers come so often
};

/** What all boosts together demand of the profiler. Zeroed: nothing. */
struct boost_demand {
	uint32_t hz;       // 0: the agent's own rate
	uint32_t profiles; // enum boost_profile
	bool stop;
	char services[BOOST_SERVICES_BYTES]; // for BOOST_WAKERS
};

struct boost_entry {
	struct boost boost;
	uint64_t until_ns; // monotonic
};

/** To be read by others; written by the functions below. Zeroed, with its limits: no boost. */
struct boosts {
	struct boost_limits limits;
	struct boost_entry entries[BOOSTS_OF_AGENT_MAX]; // with those that are refused
	uint32_t count;
	uint64_t answered_ns;    // monotonic: the last answer
	uint64_t begun, refused; // since the start
};

/**
 * The collector's answer of @answered_ns (monotonic) has these boosts; others end. One that is known may end sooner
 * than at first, never later.
 */
void boosts_receive(struct boosts *boosts, const struct boost *received, uint32_t count,
		    uint64_t answered_ns);
/** End those that are over at @now_ns (monotonic). */
void boosts_expire(struct boosts *boosts, uint64_t now_ns);

/** What is demanded now. Equal demands are equal in all bytes. */
void boosts_demand(const struct boosts *boosts, struct boost_demand *ret_demand);

/** The report for the collector. @hz, @profiles, @stopped: what the profiler does now. */
void boosts_report(const struct boosts *boosts, uint32_t hz, uint32_t profiles, bool stopped,
		   struct boost_report *ret_report);
