// SPDX-License-Identifier: Apache-2.0
// The collector's counters and their Prometheus text. A counter is declared once, here, with its
// name and sentence.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/buffer.h"
#include "collector/store/store.h"

/** X(constant, name, sentence) */
#define METRIC_COUNTERS(X)                                                                       \
	X(METRIC_INGEST_BATCHES, "cairn_ingest_batches_total", "Batches of agents stored.")      \
	X(METRIC_INGEST_ROWS, "cairn_ingest_rows_total", "Samples in stored batches.")           \
	X(METRIC_INGEST_BYTES, "cairn_ingest_bytes_total",                                       \
	  "Bytes of export requests, after decompression.")                                      \
	X(METRIC_INGEST_DUPLICATES, "cairn_ingest_duplicates_total",                             \
	  "Batches acknowledged again without storing them: an acknowledgement was lost.")       \
	X(METRIC_INGEST_UNKNOWN_STACKS, "cairn_ingest_unknown_stacks_total",                     \
	  "Stacks whose definition the collector requested from an agent.")                      \
	X(METRIC_INGEST_MALFORMED, "cairn_ingest_malformed_total",                               \
	  "Export requests refused as malformed. The agent drops the batch and logs the field.") \
	X(METRIC_INGEST_UNSUPPORTED, "cairn_ingest_unsupported_total",                           \
	  "Export requests of a newer contract version refused. Update the collector; agents "   \
	  "retry.")                                                                              \
	X(METRIC_INGEST_ERRORS, "cairn_ingest_errors_total",                                     \
	  "Batches that the store failed to write; agents retry. See the collector's log.")      \
	X(METRIC_QUERIES_REFUSED, "cairn_queries_refused_total",                                 \
	  "Queries answered with 503: too many were running. Raise --http-threads.")             \
	X(METRIC_MAINTENANCE_ERRORS, "cairn_maintenance_errors_total",                           \
	  "Runs of the store's maintenance that failed. See the collector's log.")

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

/** Safe for any thread. A zeroed struct is ready. */
struct metrics {
	_Atomic uint64_t counters[METRIC_COUNT];
	struct metric_endpoint endpoints[METRIC_ENDPOINTS_MAX];
};

static inline void metrics_add(struct metrics *metrics, enum metric_counter counter, uint64_t count)
{
	atomic_fetch_add_explicit(&metrics->counters[counter], count, memory_order_relaxed);
}

/** Count a response. @endpoint is a string constant. */
void metrics_add_response(struct metrics *metrics, const char *endpoint, int status,
			  uint64_t duration_ns, uint64_t bytes);

/** Append all metrics as Prometheus text. @stats: the store's, or NULL. */
void metrics_encode(struct metrics *metrics, const struct store_stats *stats, uint32_t agents,
		    struct buffer *buffer);
