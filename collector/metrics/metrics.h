// SPDX-License-Identifier: Apache-2.0
// What the collector counts about itself, and the Prometheus text of it. A counter is declared
// once, here, with its name and sentence.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/buffer.h"
#include "collector/store/store.h"

/** X(constant, name, sentence) */
#define METRIC_COUNTERS(X)                                                      \
	X(METRIC_INGEST_BATCHES, "cairn_ingest_batches_total",                  \
	  "Batches that agents sent and that were stored.")                     \
	X(METRIC_INGEST_ROWS, "cairn_ingest_rows_total",                        \
	  "Samples in the batches that were stored.")                           \
	X(METRIC_INGEST_BYTES, "cairn_ingest_bytes_total",                      \
	  "Bytes of all export requests, as received after decompression.")     \
	X(METRIC_INGEST_DUPLICATES, "cairn_ingest_duplicates_total",            \
	  "Batches that had been stored before and were acknowledged again.")   \
	X(METRIC_INGEST_UNKNOWN_STACKS, "cairn_ingest_unknown_stacks_total",    \
	  "Stacks whose definitions were asked for again.")                     \
	X(METRIC_INGEST_MALFORMED, "cairn_ingest_malformed_total",              \
	  "Export requests that could not be decoded.")                         \
	X(METRIC_INGEST_ERRORS, "cairn_ingest_errors_total",                    \
	  "Batches that the store failed to keep; the agents send them again.") \
	X(METRIC_QUERIES_REFUSED, "cairn_queries_refused_total",                \
	  "Queries that were answered 503 because too many were running.")      \
	X(METRIC_MAINTENANCE_ERRORS, "cairn_maintenance_errors_total",          \
	  "Rounds of the store's maintenance that failed.")

enum metric_counter {
#define X(constant, name, sentence) constant,
	METRIC_COUNTERS(X)
#undef X
		METRIC_COUNT,
};

enum {
	METRIC_ENDPOINTS_MAX = 32,
	METRIC_STATUS_CLASSES = 6, // by the first digit
};

/** Responses of one endpoint. */
struct metric_endpoint {
	_Atomic(const char *) name; // a string constant; NULL: free
	_Atomic uint64_t responses[METRIC_STATUS_CLASSES];
	_Atomic uint64_t duration_ns;
	_Atomic uint64_t bytes;
};

/** Any thread. A zeroed struct is ready. */
struct metrics {
	_Atomic uint64_t counters[METRIC_COUNT];
	struct metric_endpoint endpoints[METRIC_ENDPOINTS_MAX];
};

static inline void metrics_add(struct metrics *metrics, enum metric_counter counter, uint64_t count)
{
	atomic_fetch_add_explicit(&metrics->counters[counter], count, memory_order_relaxed);
}

/** Count a response of @endpoint (a string constant). */
void metrics_add_response(struct metrics *metrics, const char *endpoint, int status,
			  uint64_t duration_ns, uint64_t bytes);

/** Everything as Prometheus text; @stats: the store's, NULL to leave them out. */
void metrics_encode(struct metrics *metrics, const struct store_stats *stats, uint32_t agents,
		    struct buffer *buffer);
