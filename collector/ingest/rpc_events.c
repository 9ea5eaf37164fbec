// SPDX-License-Identifier: Apache-2.0
#include "collector/ingest/rpc_events.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"

#define LOG_NS (60 * NS_PER_SECOND) // between log lines of one kind

static const struct {
	enum metric_counter counter;
	const char *words; // NULL: counted only
} events[] = {
	[RPC_EVENT_CONNECTIONS_FULL] = { METRIC_INGEST_CONNECTIONS_FULL,
					 "refused a connection: all are open; raise the limit of "
					 "open files or --memory" },
	[RPC_EVENT_PEER_CONNECTIONS_FULL] = { METRIC_INGEST_PEER_CONNECTIONS_FULL,
					      "refused a connection: too many from this address; "
					      "agents retry" },
	[RPC_EVENT_NO_DESCRIPTOR] = { METRIC_INGEST_NO_DESCRIPTOR,
				      "cannot accept: no descriptor or memory is left; raise the "
				      "limit of open files; retrying" },
	[RPC_EVENT_LISTENER_RESTARTED] = { METRIC_INGEST_LISTENER_RESTARTED,
					   "opened the listener again: it was broken" },
	[RPC_EVENT_HANDSHAKE_LATE] = { METRIC_INGEST_HANDSHAKE_LATE,
				       "closed a connection: no HTTP/2 frame came in time" },
	[RPC_EVENT_HANDSHAKE_FAILED] = { METRIC_INGEST_HANDSHAKE_FAILED,
					 "closed a connection: the TLS handshake failed; see the "
					 "client's log, and whether it uses TLS" },
	[RPC_EVENT_REFUSED] = { METRIC_ACCESS_REFUSED,
				"refused a call: no credential, an unknown one, or one without "
				"the role ingest; see the agent's log" },
	[RPC_EVENT_MESSAGE_LATE] = { METRIC_INGEST_MESSAGE_LATE,
				     "refused a batch: its message did not arrive within 30 s; "
				     "agents retry; check the network" },
	[RPC_EVENT_HANDLER_LATE] = { METRIC_INGEST_QUEUE_LATE,
				     "refused a batch: no thread or memory was free in time; raise "
				     "--grpc-threads or --memory" },
	[RPC_EVENT_ANSWER_LATE] = { METRIC_INGEST_ANSWER_LATE,
				    "closed a connection: the answer was not read in time" },
	[RPC_EVENT_PEER_DEAD] = { METRIC_INGEST_PEER_DEAD, NULL },
	[RPC_EVENT_PEER_HOSTILE] = { METRIC_INGEST_PEER_HOSTILE,
				     "closed a connection: not HTTP/2, or a flood of frames" },
	[RPC_EVENT_PEER_CALLS_FULL] = { METRIC_INGEST_PEER_CALLS_FULL,
					"refused a batch: too many of this address are queued; "
					"agents retry" },
	[RPC_EVENT_MESSAGE_TOO_LARGE] = { METRIC_INGEST_TOO_LARGE,
					  "refused a batch: too large for the memory for messages; "
					  "raise --memory, or let agents export more often" },
	[RPC_EVENT_MESSAGE_DAMAGED] = { METRIC_INGEST_MALFORMED,
					"refused a batch: compressed data damaged, or inflated "
					"size above the limit" },
	[RPC_EVENT_BUDGET_SPENT] = { METRIC_INGEST_MEMORY_FULL,
				     "refused a batch: the memory for messages is in use; agents "
				     "retry; raise --memory" },
};
_Static_assert(ARRAY_SIZE(events) == RPC_EVENT_COUNT, "an event is missing");

void rpc_events_report(void *context, enum rpc_event event, const char *peer)
{
	struct rpc_events *log = context;
	uint64_t now_ns = clock_monotonic_ns();

	metrics_add(log->metrics, events[event].counter, 1);
	pthread_mutex_lock(&log->lock);
	bool due = !log->logged_ns[event] || ns_between(log->logged_ns[event], now_ns) > LOG_NS;
	if (due)
		log->logged_ns[event] = now_ns;
	pthread_mutex_unlock(&log->lock);
	if (due && events[event].words)
		log_warn("ingest: %s%s%s (logged at most once a minute; /metrics counts all)",
			 *peer ? peer : "", *peer ? ": " : "", events[event].words);
}
