// SPDX-License-Identifier: Apache-2.0
// Does what boosts demand: takes them from the collector's answers, sets the profiler, reports, and shows a stop beside the
// data that it leaves out. One thread; the mailbox is shared with the sender's.
#pragma once

#include <stdint.h>

#include "agent/boost/boost_mailbox.h"
#include "agent/boost/boosts.h"
#include "agent/profiler.h"
#include "agent/stacks/export_interval.h"
#include "base/event_log.h"
#include "base/labels.h"

struct boost_control {
	struct boost_mailbox mailbox;
	struct boosts boosts;
	struct boost_demand demand; // that the profiler meets
	struct event_log *events;
	uint64_t stop_changed_ns; // Unix time of a begin or end of a stop, not exported; 0: none
};

#define BOOST_CONTROL_INIT                    \
	{                                     \
		.mailbox = BOOST_MAILBOX_INIT \
	}

/** Some times a second, at @now_ns (monotonic). */
void boost_control_tick(struct boost_control *control, struct profiler *profiler, uint64_t now_ns);

/** Add series of a stop with @labels, the agent's own. Returns 0 or a negative errno. */
int boost_control_add_series(struct boost_control *control, const struct labels *labels,
			     struct export_interval *interval);
