// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/rpc_answer.h"

enum {
	READ_BYTES = 16 << 10,
	READS_PER_TURN_MAX = 4, // then the others' turn
	// A stream may send so much before we have read it, a connection four times that: 100 Mbit/s
	// over 80 ms.
	STREAM_WINDOW_BYTES = 256 << 10,
	CONNECTION_WINDOW_BYTES = 1 << 20,
	HEADER_LIST_BYTES_MAX = 16 << 10,
};

void rpc_connection_report(const struct rpc_connection *connection, enum rpc_event event)
{
	const struct rpc_service *service = connection->service;

	if (service->report)
		service->report(service->report_context, event, connection->peer->name);
}

void rpc_connection_fail(struct rpc_connection *connection, enum rpc_event event)
{
	if (!connection->is_failed)
		rpc_connection_report(connection, event);
	connection->is_failed = true;
}

// ---- calls ----------------------------------------------------------------------------------

static void enter_state(struct rpc_call *call, enum rpc_call_state state)
{
	call->state = state;
	call->since_ns = clock_monotonic_ns();
}

static void uncount_bytes(struct rpc_call *call)
{
	call->peer->bytes -= call->peer_bytes;
	call->peer_bytes = 0;
}

void rpc_connection_submit(struct rpc_connection *connection, struct rpc_call *call)
{
	if (call->is_submitted)
		return;
	call->is_submitted = true;
	call->since_ns = clock_monotonic_ns();
	if (rpc_answer_submit(connection->session, call))
		connection->is_failed = true; // out of memory
}

// A refusal waits for the end of the message, for a moment: curl 7.88 hangs when its stream ends before it has sent
// its body.
void rpc_connection_answer(struct rpc_connection *connection, struct rpc_call *call,
			   enum rpc_status status)
{
	uncount_bytes(call);
	rpc_call_drop_message(call);
	rpc_queue_wake(&connection->service->queue);
	enter_state(call, RPC_CALL_ANSWERED);
	call->status = status;
	if (call->has_ended)
		rpc_connection_submit(connection, call);
}

static void refuse(struct rpc_connection *connection, struct rpc_call *call, enum rpc_status status)
{
	if (status == RPC_RESOURCE_EXHAUSTED)
		rpc_connection_report(connection, call->err.code == -EMSGSIZE
							  ? RPC_EVENT_MESSAGE_TOO_LARGE
							  : RPC_EVENT_BUDGET_SPENT);
	else if (status == RPC_INVALID_ARGUMENT)
		rpc_connection_report(connection, RPC_EVENT_MESSAGE_DAMAGED);
	rpc_connection_answer(connection, call, status);
}

void rpc_connection_release_call(struct rpc_service *service, struct rpc_call *call)
{
	struct rpc_peer *peer = call->peer;

	uncount_bytes(call);
	peer->call_count--;
	rpc_call_free(call);
	rpc_queue_wake(&service->queue);
	rpc_queue_release_peer(&service->queue, peer);
}

// The stream has ended, by whatever side.
static void end_call(struct rpc_connection *connection, struct rpc_call *call)
{
	struct rpc_service *service = connection->service;

	*call->at_of_connection = call->next_of_connection;
	if (call->next_of_connection)
		call->next_of_connection->at_of_connection = call->at_of_connection;
	if (!--connection->call_count)
		connection->idle_ns = clock_monotonic_ns();
	call->connection = NULL;
	switch (atomic_load(&call->state)) {
	case RPC_CALL_QUEUED:
	case RPC_CALL_HANDLED:
		if (!rpc_queue_remove(&service->queue, call))
			return; // a thread has it; the loop gets it back
		service->call_count--;
		break;
	case RPC_CALL_RECEIVING:
	case RPC_CALL_ANSWERED:
		break;
	}
	rpc_connection_release_call(service, call);
}

// The headers are there: refuse what need not be received.
// Before the message: a stranger's is not received.
static void admit(struct rpc_connection *connection, struct rpc_call *call)
{
	const struct rpc_method *method = call->method;
	const struct rpc_visitor visitor = {
		.peer = connection->peer->name,
		.authorization = call->authorization,
		.tls_session = rpc_transport_tls_session(&connection->transport),
		.ret_pause_ms = &call->pause_ms,
	};

	if (!method->admit)
		return;
	enum rpc_status status =
		method->admit(method->admit_context, &visitor, &call->caller, &call->err);
	if (call->authorization)
		explicit_bzero(call->authorization, strlen(call->authorization));
	if (status == RPC_OK)
		return;
	if (call->pause_ms) {
		rpc_connection_answer(connection, call, status);
		return;
	}
	rpc_connection_report(connection, RPC_EVENT_REFUSED);
	refuse(connection, call, status);
}

static void check_headers(struct rpc_connection *connection, struct rpc_call *call)
{
	const struct rpc_service *service = connection->service;

	for (uint32_t i = 0; i < service->method_count; i++)
		if (!strcmp(call->method_name, service->methods[i].name))
			call->method = &service->methods[i];
	if (call->method && call->is_grpc) {
		admit(connection, call);
		return;
	}
	error_set(&call->err, -ENOSYS,
		  call->is_grpc ? "no such method here; is this the collector's gRPC address?"
				: "only gRPC is spoken here; the page is at the HTTP address");
	refuse(connection, call, RPC_UNIMPLEMENTED);
}

// The whole message is there: let a thread handle it.
static void queue_call(struct rpc_connection *connection, struct rpc_call *call)
{
	struct rpc_service *service = connection->service;
	enum rpc_status status = rpc_call_complete(call, service->message_bytes_max);

	if (status != RPC_OK) {
		refuse(connection, call, status);
		return;
	}
	call->since_ns = clock_monotonic_ns();
	service->call_count++;
	if (rpc_queue_push(&service->queue, call, service->limits.queued_per_peer_max))
		return;

	service->call_count--;
	rpc_connection_report(connection, RPC_EVENT_PEER_CALLS_FULL);
	error_set(&call->err, -EBUSY, "%u messages of %s wait already: the collector is overloaded",
		  service->limits.queued_per_peer_max, connection->peer->name);
	rpc_connection_answer(connection, call, RPC_RESOURCE_EXHAUSTED);
}

static void receive_bytes(struct rpc_connection *connection, struct rpc_call *call,
			  const uint8_t *bytes, size_t size)
{
	struct rpc_service *service = connection->service;
	enum rpc_status status = rpc_call_add_bytes(call, bytes, size, service->message_bytes_max);
	size_t more = call->message.capacity - call->peer_bytes;

	call->peer_bytes += more;
	call->peer->bytes += more;
	// Half of the memory is always there for other peers.
	if (status == RPC_OK && service->budget &&
	    call->peer->bytes > service->budget->bytes_max / 2) {
		error_set(&call->err, -EDQUOT,
			  "messages of %s take half of the memory for messages (%zu bytes)",
			  call->peer->name, service->budget->bytes_max);
		status = RPC_RESOURCE_EXHAUSTED;
	}
	if (status != RPC_OK)
		refuse(connection, call, status);
}

// ---- what nghttp2 reports -------------------------------------------------------------------

static struct rpc_call *call_of(nghttp2_session *session, int32_t stream)
{
	return nghttp2_session_get_stream_user_data(session, stream);
}

static void add_call(struct rpc_connection *connection, struct rpc_call *call)
{
	call->next_of_connection = connection->first;
	call->at_of_connection = &connection->first;
	if (connection->first)
		connection->first->at_of_connection = &call->next_of_connection;
	connection->first = call;
	connection->call_count++;
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct rpc_connection *connection = context;
	struct rpc_peer *peer = connection->peer;

	if (frame->hd.type != NGHTTP2_HEADERS || frame->headers.cat != NGHTTP2_HCAT_REQUEST)
		return 0;
	struct rpc_call *call =
		connection->is_leaving ? NULL : rpc_call_new(peer, connection->service->budget);
	if (!call) {
		if (!connection->is_leaving)
			rpc_connection_report(connection, RPC_EVENT_BUDGET_SPENT);
		return nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, frame->hd.stream_id,
						 NGHTTP2_REFUSED_STREAM);
	}
	call->connection = connection;
	call->stream = frame->hd.stream_id;
	add_call(connection, call);
	peer->call_count++;
	return nghttp2_session_set_stream_user_data(session, call->stream, call);
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
		     void *context)
{
	struct rpc_call *call = call_of(session, frame->hd.stream_id);

	(void)name_size, (void)flags, (void)context;
	// nghttp2 ends both with a NUL, and refuses one within.
	if (call && frame->headers.cat == NGHTTP2_HCAT_REQUEST)
		rpc_call_add_header(call, (const char *)name, (const char *)value, value_size);
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t stream, const uint8_t *bytes,
		   size_t size, void *context)
{
	struct rpc_call *call = call_of(session, stream);

	(void)flags;
	if (!call)
		return 0;
	if (call->state == RPC_CALL_RECEIVING) {
		receive_bytes(context, call, bytes, size);
		return 0;
	}
	// The rest of a message that was refused: rpc_deadlines_check() resets what has too much of it. A reset in this place
	// would overtake the answer.
	call->surplus_bytes += size;
	return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
	struct rpc_connection *connection = context;
	struct rpc_call *call = call_of(session, frame->hd.stream_id);

	connection->is_established = true;
	if (frame->hd.type != NGHTTP2_DATA || !frame->hd.length)
		connection->frame_count++;
	if (!call || (frame->hd.type != NGHTTP2_DATA && frame->hd.type != NGHTTP2_HEADERS))
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS && call->state == RPC_CALL_RECEIVING && !call->method)
		check_headers(connection, call);
	if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) {
		call->has_ended = true;
		if (call->state == RPC_CALL_RECEIVING)
			queue_call(connection, call);
		else if (call->state == RPC_CALL_ANSWERED)
			rpc_connection_submit(connection, call);
	}
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t code, void *context)
{
	struct rpc_call *call = call_of(session, stream);

	(void)code;
	if (call)
		end_call(context, call);
	return 0;
}

static int make_session(struct rpc_connection *connection)
{
	const struct rpc_server_limits *limits = &connection->service->limits;
	const nghttp2_settings_entry settings[] = {
		{ NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, limits->streams_per_connection_max },
		{ NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES },
		{ NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEADER_LIST_BYTES_MAX },
	};
	nghttp2_session_callbacks *callbacks;

	if (nghttp2_session_callbacks_new(&callbacks))
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
	nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	int rc = nghttp2_session_server_new(&connection->session, callbacks, connection);
	nghttp2_session_callbacks_del(callbacks);
	if (rc ||
	    nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, settings,
				    ARRAY_SIZE(settings)) ||
	    nghttp2_session_set_local_window_size(connection->session, NGHTTP2_FLAG_NONE, 0,
						  CONNECTION_WINDOW_BYTES))
		return -ENOMEM;
	return 0;
}

// ---- the connection ---------------------------------------------------------------------------

struct rpc_connection *rpc_connection_new(struct rpc_service *service, struct rpc_peer *peer,
					  struct tls_server *tls, int fd)
{
	struct rpc_connection *connection = calloc(1, sizeof(*connection));
	uint64_t now_ns = clock_monotonic_ns();

	if (!connection) {
		close(fd);
		return NULL;
	}
	connection->service = service;
	connection->peer = peer;
	int rc = rpc_transport_open(&connection->transport, tls, fd);
	connection->since_ns = connection->idle_ns = connection->read_ns = now_ns;
	connection->second_ns = now_ns;
	// Up to a tenth less: connections of one moment do not end in one.
	connection->age_ms = service->limits.age_ms -
			     (uint32_t)(now_ns / NS_PER_US % (service->limits.age_ms / 10 + 1));
	peer->connection_count++;
	if (rc || make_session(connection)) {
		rpc_connection_free(connection);
		return NULL;
	}
	return connection;
}

void rpc_connection_free(struct rpc_connection *connection)
{
	struct rpc_peer *peer = connection->peer;

	while (connection->first)
		end_call(connection, connection->first);
	nghttp2_session_del(connection->session);
	rpc_transport_close(&connection->transport);
	free(connection->pending);
	peer->connection_count--;
	rpc_queue_release_peer(&connection->service->queue, peer);
	free(connection);
}

void rpc_connection_read(struct rpc_connection *connection)
{
	uint8_t bytes[READ_BYTES];

	for (int turn = 0; !connection->is_failed; turn++) {
		// What lies decrypted in the transport wakes nobody.
		if (turn >= READS_PER_TURN_MAX && !rpc_transport_pending(&connection->transport))
			break;

		ssize_t size = rpc_transport_read(&connection->transport, bytes, sizeof(bytes));

		if (size == -EAGAIN)
			break;
		if (size <= 0) {
			if (size == -EPROTO)
				rpc_connection_report(connection, RPC_EVENT_HANDSHAKE_FAILED);
			connection->is_failed = true;
			break;
		}
		connection->read_ns = clock_monotonic_ns();
		connection->ping_ns = 0;
		ssize_t used = nghttp2_session_mem_recv(connection->session, bytes, (size_t)size);
		if (used < 0) {
			log_debug("rpc: %s: %s", connection->peer->name,
				  nghttp2_strerror((int)used));
			rpc_connection_fail(connection, RPC_EVENT_PEER_HOSTILE);
		}
	}
	rpc_connection_write(connection);
}

// False: the socket is full, or has failed.
static bool write_pending(struct rpc_connection *connection)
{
	while (connection->pending_sent < connection->pending_size) {
		ssize_t count = rpc_transport_write(
			&connection->transport, connection->pending + connection->pending_sent,
			connection->pending_size - connection->pending_sent);

		if (count == -EAGAIN)
			return false;
		if (count < 0) {
			connection->is_failed = true;
			return false;
		}
		connection->pending_sent += (size_t)count;
	}
	connection->pending_size = connection->pending_sent = 0;
	connection->pending_ns = 0;
	return true;
}

static bool keep_pending(struct rpc_connection *connection, const uint8_t *bytes, size_t size)
{
	if (size > RPC_PENDING_BYTES_MAX)
		return false;
	if (!connection->pending)
		connection->pending = malloc(RPC_PENDING_BYTES_MAX);
	if (!connection->pending)
		return false;
	memcpy(connection->pending, bytes, size);
	connection->pending_size = size;
	connection->pending_sent = 0;
	return true;
}

void rpc_connection_write(struct rpc_connection *connection)
{
	while (!connection->is_failed && write_pending(connection)) {
		const uint8_t *bytes;
		ssize_t size = nghttp2_session_mem_send(connection->session, &bytes);

		if (size == 0)
			break;
		if (size < 0 || !keep_pending(connection, bytes, (size_t)size)) {
			rpc_connection_fail(connection, RPC_EVENT_PEER_HOSTILE);
			break;
		}
	}
	if (connection->pending_size && !connection->pending_ns)
		connection->pending_ns = clock_monotonic_ns();
	if (!connection->pending_size) { // an idle connection holds no buffer
		free(connection->pending);
		connection->pending = NULL;
	}
}

void rpc_connection_leave(struct rpc_connection *connection)
{
	if (connection->is_leaving)
		return;
	connection->is_leaving = true;
	connection->leaving_ns = clock_monotonic_ns();
	nghttp2_submit_goaway(connection->session, NGHTTP2_FLAG_NONE,
			      nghttp2_session_get_last_proc_stream_id(connection->session),
			      NGHTTP2_NO_ERROR, NULL, 0);
	rpc_connection_write(connection);
}

bool rpc_connection_awaits_write(const struct rpc_connection *connection)
{
	// A client that does not read its answers is not read from.
	return connection->transport.is_established
		       ? connection->pending_size > 0
		       : rpc_transport_awaits_write(&connection->transport);
}

void rpc_connection_reset(struct rpc_connection *connection, struct rpc_call *call)
{
	nghttp2_submit_rst_stream(connection->session, NGHTTP2_FLAG_NONE, call->stream,
				  NGHTTP2_NO_ERROR);
}

bool rpc_connection_has_ended(const struct rpc_connection *connection)
{
	if (connection->is_failed)
		return true;
	if (connection->pending_size)
		return false;
	return (connection->is_leaving && !connection->call_count) ||
	       (!nghttp2_session_want_read(connection->session) &&
		!nghttp2_session_want_write(connection->session));
}
