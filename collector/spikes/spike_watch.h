// SPDX-License-Identifier: Apache-2.0
// Scans for spikes of all services from time to time, counts them, and posts them to a webhook. On a thread of its own: it
// delays neither agents nor queries, and takes a twentieth of a CPU at most.
#pragma once

#include <stdint.h>

#include "base/byte_budget.h"
#include "base/error.h"
#include "collector/metrics/metrics.h"
#include "collector/store/store.h"

enum {
	SPIKE_WATCH_OVERLAP_S = 60,        // scanned again: batches may come late
	SPIKE_WATCH_RANGE_S_MAX = 15 * 60, // scanned at once, after a pause
	SPIKE_WATCH_DEADLINE_S = 30,       // of a scan
	SPIKE_WATCH_SHARE = 20,            // a scan that took a second is followed by a pause of 20
	SPIKE_WATCH_KNOWN_MAX = 1000,      // spikes that were reported and may go on
	SPIKE_WATCH_REPORTED_MAX = 20,     // of a scan
	SPIKE_WATCH_TRIES = 3,             // to post
	SPIKE_WATCH_RETRY_S = 5,           // between them
};

struct symbolizer;
struct spike_watch;

struct spike_watch_options {
	struct store *store;
	struct metrics *metrics;
	struct symbolizer *symbolizer; // NULL: none
	struct byte_budget *budget;    // of queries; NULL: no limit
	uint64_t interval_ns;          // between scans
	const char *webhook;           // URL; NULL: none
	const char *page_url;          // of the page, for links; NULL: none
	uint64_t retry_ns;             // between tries to post; 0: SPIKE_WATCH_RETRY_S
};

/** Begin. The options' strings are copied. Returns 0; -ENOMEM; what http_fetcher_open() returns, with a webhook. */
int spike_watch_open(const struct spike_watch_options *options, struct spike_watch **ret_watch,
		     struct error *err);
/** End, within the time of one scan. NULL is allowed. */
void spike_watch_close(struct spike_watch *watch);

/** For tests: as above, without a thread. */
int spike_watch_new(const struct spike_watch_options *options, struct spike_watch **ret_watch,
		    struct error *err);
/** For tests: scan once, as if it were @now_ns. *ret_new: spikes that were not known. */
int spike_watch_scan(struct spike_watch *watch, uint64_t now_ns, uint32_t *ret_new,
		     struct error *err);
