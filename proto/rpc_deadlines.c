// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_deadlines.h"

#include <errno.h>

#include "base/clock.h"

enum {
	// Pings, settings, window updates, headers: an agent sends a handful.
	FRAMES_PER_SECOND_MAX = 4000,
	// For a client to read a refusal, and end its message by itself: a reset at once makes some forget the answer
	// (curl 7.88), and without any some wait for ever.
	REFUSED_MS_MAX = 500,
	SURPLUS_BYTES_MAX =
		64 << 10,  // of a refused message: what a client sends before it reads the answer
	HELD_MS_MAX = 100, // of a refusal, for the end of the message
	LEAVE_MS_MAX = 60 * 1000, // calls in flight when a connection is old
};

static bool is_late(uint64_t since_ns, uint64_t now_ns, uint32_t limit_ms)
{
	return since_ns && ns_between(since_ns, now_ns) > limit_ms * NS_PER_MS;
}

static void refuse_late(struct rpc_connection *connection, struct rpc_call *call,
			enum rpc_event event, enum rpc_status status, const char *words)
{
	rpc_connection_report(connection, event);
	error_set(&call->err, -ETIME, "%s", words);
	rpc_connection_answer(connection, call, status);
}

static void tick_queued(struct rpc_connection *connection, struct rpc_call *call, uint64_t now_ns)
{
	struct rpc_service *service = connection->service;
	bool is_overdue = is_late(call->since_ns, now_ns, service->limits.queue_ms);

	if (!is_overdue && !(call->deadline_ns && now_ns > call->deadline_ns))
		return;
	if (!rpc_queue_remove(&service->queue, call))
		return;
	service->call_count--;
	if (is_overdue)
		refuse_late(connection, call, RPC_EVENT_HANDLER_LATE, RPC_RESOURCE_EXHAUSTED,
			    "the collector is overloaded: no thread and memory were free for the "
			    "message in time");
	else
		refuse_late(connection, call, RPC_EVENT_HANDLER_LATE, RPC_DEADLINE_EXCEEDED,
			    "the deadline passed before the call was handled");
}

static void tick_call(struct rpc_connection *connection, struct rpc_call *call, uint64_t now_ns)
{
	const struct rpc_server_limits *limits = &connection->service->limits;
	bool is_flood = call->surplus_bytes > SURPLUS_BYTES_MAX;

	switch (atomic_load(&call->state)) {
	case RPC_CALL_RECEIVING:
		if (is_late(call->since_ns, now_ns, limits->message_ms))
			refuse_late(connection, call, RPC_EVENT_MESSAGE_LATE, RPC_DEADLINE_EXCEEDED,
				    "the message did not arrive in time");
		break;
	case RPC_CALL_QUEUED:
	case RPC_CALL_HANDLED:
		tick_queued(connection, call, now_ns);
		break;
	case RPC_CALL_ANSWERED:
		if (!call->is_submitted &&
		    (is_flood || is_late(call->since_ns, now_ns, HELD_MS_MAX)))
			rpc_connection_submit(connection, call);
		else if (!call->has_ended &&
			 (is_flood || is_late(call->since_ns, now_ns, REFUSED_MS_MAX)))
			rpc_connection_reset(connection, call);
		if (is_late(call->since_ns, now_ns, limits->answer_ms))
			rpc_connection_fail(connection, RPC_EVENT_ANSWER_LATE);
		break;
	}
}

static void tick_calls(struct rpc_connection *connection, uint64_t now_ns)
{
	for (struct rpc_call *call = connection->first; call;) {
		struct rpc_call *next = call->next_of_connection;

		tick_call(connection, call, now_ns);
		call = next;
	}
}

static void tick_frames(struct rpc_connection *connection, uint64_t now_ns)
{
	if (connection->frame_count > FRAMES_PER_SECOND_MAX)
		rpc_connection_fail(connection, RPC_EVENT_PEER_HOSTILE);
	if (ns_between(connection->second_ns, now_ns) < NS_PER_SECOND)
		return;
	connection->second_ns = now_ns;
	connection->frame_count = 0;
}

static void tick_ping(struct rpc_connection *connection, uint64_t now_ns)
{
	const struct rpc_server_limits *limits = &connection->service->limits;

	if (is_late(connection->ping_ns, now_ns, limits->ping_ms)) {
		rpc_connection_fail(connection, RPC_EVENT_PEER_DEAD);
	} else if (!connection->ping_ns && is_late(connection->read_ns, now_ns, limits->quiet_ms)) {
		connection->ping_ns = now_ns;
		nghttp2_submit_ping(connection->session, NGHTTP2_FLAG_NONE, NULL);
	}
}

void rpc_deadlines_check(struct rpc_connection *connection, uint64_t now_ns)
{
	const struct rpc_server_limits *limits = &connection->service->limits;

	if (!connection->is_established &&
	    is_late(connection->since_ns, now_ns, limits->handshake_ms))
		rpc_connection_fail(connection, RPC_EVENT_HANDSHAKE_LATE);
	if (is_late(connection->pending_ns, now_ns, limits->answer_ms))
		rpc_connection_fail(connection, RPC_EVENT_ANSWER_LATE);
	if (is_late(connection->leaving_ns, now_ns, LEAVE_MS_MAX))
		connection->is_failed = true;
	tick_frames(connection, now_ns);
	tick_calls(connection, now_ns);
	tick_ping(connection, now_ns);
	if (is_late(connection->since_ns, now_ns, connection->age_ms) ||
	    (!connection->call_count && is_late(connection->idle_ns, now_ns, limits->idle_ms)))
		rpc_connection_leave(connection);
	rpc_connection_write(connection);
}
