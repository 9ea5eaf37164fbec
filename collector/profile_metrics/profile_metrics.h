// SPDX-License-Identifier: Apache-2.0
// Asks once a minute what chosen functions have of each service, and says it in Prometheus's text. On a thread of its own, so
// that a scrape costs nothing.
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "base/byte_budget.h"
#include "base/error.h"
#include "collector/metrics/metrics.h"
#include "collector/profile_metrics/profile_metric_file.h"
#include "collector/store/store.h"

enum {
	PROFILE_METRIC_INTERVAL_S = 60,  // each whole minute once
	PROFILE_METRIC_DELAY_S = 30,     // after it: batches come late
	PROFILE_METRIC_STALE_S = 5 * 60, // then it is left out
	PROFILE_METRIC_DEADLINE_S = 20,  // of a query
	PROFILE_METRIC_SERVICES_MAX = 500,
	PROFILE_METRICS_SHARE = 10, // what took a second is followed by a pause of ten
};

struct symbolizer;
struct profile_metrics;

struct profile_metrics_options {
	const char *path; // of the file
	struct store *store;
	struct metrics *metrics;
	struct symbolizer *symbolizer; // NULL: none
	struct byte_budget *budget;    // of queries; NULL: no limit
};

/** Read the file and begin. Returns 0; -EINVAL with the line in @err; -ENOMEM; -errno. */
int profile_metrics_open(const struct profile_metrics_options *options,
			 struct profile_metrics **ret_metrics, struct error *err);
/** End, within the time of one query. NULL is allowed. */
void profile_metrics_close(struct profile_metrics *metrics);

/** Append the text as of @now_ns (Unix time). NULL is allowed: nothing is configured. Any thread. */
void profile_metrics_encode(struct profile_metrics *metrics, uint64_t now_ns,
			    struct buffer *buffer);

/** For tests: open without a thread. */
int profile_metrics_new(const struct profile_metrics_options *options,
			struct profile_metrics **ret_metrics, struct error *err);
/** For tests: ask for the last whole minute as of @now_ns. Returns how many metrics were not computed. */
uint32_t profile_metrics_look(struct profile_metrics *metrics, uint64_t now_ns);
