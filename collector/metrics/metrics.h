// SPDX-License-Identifier: Apache-2.0
// The collector's counters and their Prometheus text. A counter is declared once, here, with its
// name and sentence.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "base/buffer.h"
#include "collector/store/store.h"

/** X(constant, name, sentence) */
#define METRIC_COUNTERS(X)                                                                         \
	X(METRIC_INGEST_BATCHES, "cairn_ingest_batches_total",                                     \
	  "Batches of agents acknowledged for the first time. cairn_store_batches_appended_total " \
	  "counts what the store wrote, pushes too.")                                              \
	X(METRIC_INGEST_ROWS, "cairn_ingest_rows_total",                                           \
	  "Samples in those batches, including the refused (cairn_store_rows_late_dropped_total "  \
	  "and its like).")                                                                        \
	X(METRIC_INGEST_BYTES, "cairn_ingest_bytes_total",                                         \
	  "Bytes of export requests, after decompression.")                                        \
	X(METRIC_INGEST_DUPLICATES, "cairn_ingest_duplicates_total",                               \
	  "Batches acknowledged again without storing them: an acknowledgement was lost.")         \
	X(METRIC_INGEST_UNKNOWN_STACKS, "cairn_ingest_unknown_stacks_total",                       \
	  "Stacks whose definition the collector requested from an agent.")                        \
	X(METRIC_INGEST_MALFORMED, "cairn_ingest_malformed_total",                                 \
	  "Export requests refused as malformed. The agent drops the batch and logs the field.")   \
	X(METRIC_INGEST_UNSUPPORTED, "cairn_ingest_unsupported_total",                             \
	  "Export requests of a newer contract version refused. Update the collector; agents "     \
	  "retry.")                                                                                \
	X(METRIC_INGEST_ERRORS, "cairn_ingest_errors_total",                                       \
	  "Batches that the store failed to write; agents retry. See the collector's log.")        \
	X(METRIC_PUSH_BATCHES, "cairn_push_batches_total",                                         \
	  "Pushes of other profilers stored: pprof, Pyroscope, OTLP, cairn push.")                 \
	X(METRIC_PUSH_SAMPLES, "cairn_push_samples_total",                                         \
	  "Samples in stored pushes, as their formats count them.")                                \
	X(METRIC_PUSH_BYTES, "cairn_push_bytes_total", "Bytes of pushes, before decompression.")   \
	X(METRIC_PUSH_DUPLICATES, "cairn_push_duplicates_total",                                   \
	  "Pushes acknowledged again without storing them: the same bytes from the same peer.")    \
	X(METRIC_PUSH_REFUSED, "cairn_push_refused_total",                                         \
	  "Pushes refused: malformed, too large, of a format that is not read, or outside of "     \
	  "the accepted range. See the client's answer.")                                          \
	X(METRIC_PUSH_ROWS_REFUSED, "cairn_push_rows_refused_total",                               \
	  "Rows of pushes refused: outside of the accepted range, or too many series. The "        \
	  "client's answer has their number.")                                                     \
	X(METRIC_PUSH_MEMORY_FULL, "cairn_push_memory_full_total",                                 \
	  "Pushes refused: the memory for messages is in use. Clients may push again; raise "      \
	  "--memory.")                                                                             \
	X(METRIC_PUSH_ERRORS, "cairn_push_errors_total",                                           \
	  "Pushes that the store failed to write. See the collector's log.")                       \
	X(METRIC_INGEST_CONNECTIONS_FULL, "cairn_ingest_connections_full_total",                   \
	  "Connections of agents refused: all are open. Raise the limit of open files or "         \
	  "--memory, or run more collectors.")                                                     \
	X(METRIC_INGEST_PEER_CONNECTIONS_FULL, "cairn_ingest_peer_connections_full_total",         \
	  "Connections refused: too many from one address. See the log for "                       \
	  "the address.")                                                                          \
	X(METRIC_INGEST_NO_DESCRIPTOR, "cairn_ingest_no_descriptor_total",                         \
	  "Times that no descriptor or memory was left for a connection; the collector goes on "   \
	  "accepting. Raise the limit of open files.")                                             \
	X(METRIC_INGEST_LISTENER_RESTARTED, "cairn_ingest_listener_restarted_total",               \
	  "Times that the gRPC listener was broken and opened again.")                             \
	X(METRIC_INGEST_HANDSHAKE_LATE, "cairn_ingest_handshake_late_total",                       \
	  "Connections closed: no HTTP/2 frame came in time.")                                     \
	X(METRIC_INGEST_HANDSHAKE_FAILED, "cairn_ingest_handshake_failed_total",                   \
	  "Connections closed: the TLS handshake failed. See the agent's log.")                    \
	X(METRIC_INGEST_MESSAGE_LATE, "cairn_ingest_message_late_total",                           \
	  "Batches refused: their message took more than 30 s to arrive. The agent retries; "      \
	  "check its network.")                                                                    \
	X(METRIC_INGEST_QUEUE_LATE, "cairn_ingest_queue_late_total",                               \
	  "Batches refused: no thread or memory was free in time. Agents retry; raise "            \
	  "--grpc-threads or --memory.")                                                           \
	X(METRIC_INGEST_ANSWER_LATE, "cairn_ingest_answer_late_total",                             \
	  "Connections closed: the client did not read its answer in time.")                       \
	X(METRIC_INGEST_PEER_DEAD, "cairn_ingest_peer_dead_total",                                 \
	  "Connections closed: the client did not answer a ping.")                                 \
	X(METRIC_INGEST_PEER_HOSTILE, "cairn_ingest_peer_hostile_total",                           \
	  "Connections closed: not HTTP/2, or a flood of frames. See the log for the address.")    \
	X(METRIC_INGEST_PEER_CALLS_FULL, "cairn_ingest_peer_calls_full_total",                     \
	  "Batches refused: too many of their address are queued. Agents retry.")                  \
	X(METRIC_INGEST_TOO_LARGE, "cairn_ingest_too_large_total",                                 \
	  "Batches refused: larger than the collector can handle. Raise --memory, or let agents "  \
	  "export more often.")                                                                    \
	X(METRIC_INGEST_MEMORY_FULL, "cairn_ingest_memory_full_total",                             \
	  "Batches refused: the memory for messages is in use. Agents retry; raise --memory.")     \
	X(METRIC_DEBUG_FILES_FAILED, "cairn_debug_files_failed_total",                             \
	  "Debug files whose confined reader died, was killed or did not start: their frames "     \
	  "stay without names. See the log for the file.")                                         \
	X(METRIC_LAUNCHER_RESTARTS, "cairn_launcher_restarts_total",                               \
	  "Times that the launcher of confined readers died and was started again. Check the "     \
	  "kernel's log "                                                                          \
	  "for the OOM killer.")                                                                   \
	X(METRIC_NOT_READY, "cairn_not_ready_total",                                               \
	  "Calls of the collector to itself that failed: it could not ingest. See the log.")       \
	X(METRIC_ACCESS_REFUSED, "cairn_access_refused_total",                                     \
	  "Requests refused: no credential, an unknown one, or one without the role. See the "     \
	  "audit log for queries and uploads, the log for agents.")                                \
	X(METRIC_AUDIT_ERRORS, "cairn_audit_errors_total",                                         \
	  "Lines of the audit log that could not be written. Check --audit's disk.")               \
	X(METRIC_QUERIES_REFUSED, "cairn_queries_refused_total",                                   \
	  "Queries answered with 503: too many were running. Raise --http-threads.")               \
	X(METRIC_HTTP_LATE, "cairn_http_late_total",                                               \
	  "Connections of HTTP clients closed: the request was not sent, or the answer not "       \
	  "read, in time.")                                                                        \
	X(METRIC_HTTP_PEER_FULL, "cairn_http_peer_full_total",                                     \
	  "HTTP connections refused: too many of one peer (an address, or an IPv6 /64).")          \
	X(METRIC_ANSWERS_FULL, "cairn_http_answers_full_total",                                    \
	  "Queries refused: the memory for queries and answers is in use or too small. Raise "     \
	  "--memory.")                                                                             \
	X(METRIC_QUERIES_ABANDONED, "cairn_queries_abandoned_total",                               \
	  "Queries, running or queued, whose client closed its connection. Nothing to do; many "   \
	  "mean that queries are slow.")                                                           \
	X(METRIC_REQUESTS_FOREIGN, "cairn_http_requests_foreign_total",                            \
	  "Requests refused: a browser sent them under a name that is not the collector's, or "    \
	  "for another site's page. If the name is right, add it to --http-host.")                 \
	X(METRIC_BOOSTS, "cairn_boosts_total",                                                     \
	  "Boosts that began: agents sample more, or not at all, for a while.")                    \
	X(METRIC_BOOST_SCANS_FAILED, "cairn_boost_scans_failed_total",                             \
	  "Failed scans for a boost's nodes: the boost keeps the nodes of the last scan. Use a "   \
	  "narrower selector.")                                                                    \
	X(METRIC_SPIKES, "cairn_spikes_total",                                                     \
	  "Spikes that scans of all services found, one for each service and time. `cairn "        \
	  "spikes` shows them.")                                                                   \
	X(METRIC_SPIKE_SCANS_FAILED, "cairn_spike_scans_failed_total",                             \
	  "Scans for spikes that failed or took too long: spikes of that time are not reported. "  \
	  "See the log; a longer --spike-scan costs less.")                                        \
	X(METRIC_SPIKE_ALERTS, "cairn_spike_alerts_total",                                         \
	  "Spikes that --spike-webhook has accepted.")                                             \
	X(METRIC_SPIKE_ALERTS_FAILED, "cairn_spike_alerts_failed_total",                           \
	  "Spikes dropped: --spike-webhook did not accept them in three tries. See the log.")      \
	X(METRIC_PROFILE_METRICS_FAILED, "cairn_profile_metrics_failed_total",                     \
	  "Metrics of --profile-metrics not computed for a minute: the query failed. See the "     \
	  "log; use a narrower query.")                                                            \
	X(METRIC_MAINTENANCE_ERRORS, "cairn_maintenance_errors_total",                             \
	  "Failed runs of the store's maintenance, which closes minutes, merges hours and drops "  \
	  "old ones every second. See the collector's log.")

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
