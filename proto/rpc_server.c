// SPDX-License-Identifier: Apache-2.0
// The server: a fixed number of calls, each a struct whose address is its tag in the completion
// queue, and a few threads that take events off the queue.
//
// States of a call: WAITING (requested from gRPC), RECEIVING (its message; then the thread handles
// it), ANSWERING (status and response), and WAITING again, or IDLE when the server closes.
#include "proto/rpc.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/rpc_library.h"

enum {
	THREADS_MAX = 64,
	CALLS_MAX = 1024,
	STREAMS_PER_CONNECTION_MAX = 32,  // an agent has one call at a time; a proxy joins a few
	PING_INTERVAL_MS_MIN = 10 * 1000, // a client that pings more often is disconnected
	// An agent calls at least once a minute; an idle client must not keep a descriptor.
	CONNECTION_IDLE_MS_MAX = 5 * 60 * 1000,
	HANDSHAKE_MS_MAX = 10 * 1000,
	QUOTA_BYTES_MIN = 64 << 20,
};

enum server_call_state {
	SERVER_CALL_IDLE,
	SERVER_CALL_WAITING,
	SERVER_CALL_RECEIVING,
	SERVER_CALL_ANSWERING,
};

struct server_call {
	enum server_call_state state;
	struct rpc_server *server;
	grpc_call *call;
	grpc_call_details details;
	grpc_metadata_array metadata;
	grpc_byte_buffer *request;
	grpc_byte_buffer *response;
	grpc_slice status_details;
	int cancelled; // written by gRPC when the call has ended
};

struct rpc_server {
	grpc_server *server;
	grpc_completion_queue *queue;
	size_t message_bytes_max;
	struct rpc_method *methods;
	uint32_t method_count;
	struct server_call *calls;
	uint32_t call_count;
	pthread_t *threads;
	uint32_t thread_count;

	pthread_mutex_t mutex; // guards the fields below
	pthread_cond_t changed;
	uint32_t busy_count; // calls that are not IDLE
	bool closing;        // no more calls are requested
	bool shut_down;      // gRPC has shut down
};

static grpc_arg int_arg(const char *key, int value)
{
	return (grpc_arg){ .type = GRPC_ARG_INTEGER, .key = (char *)key, .value.integer = value };
}

// Request the next call from gRPC, unless the server is closing.
static void call_wait(struct server_call *call)
{
	struct rpc_server *server = call->server;

	grpc_call_details_init(&call->details);
	grpc_metadata_array_init(&call->metadata);
	// Under the mutex: once `closing` is set, the queue may be shut down at any moment.
	pthread_mutex_lock(&server->mutex);
	if (call->state == SERVER_CALL_IDLE)
		server->busy_count++;
	call->state =
		SERVER_CALL_WAITING; // another thread may get the event before the request returns
	if (server->closing ||
	    grpc_server_request_call(server->server, &call->call, &call->details, &call->metadata,
				     server->queue, server->queue, call) != GRPC_CALL_OK) {
		call->state = SERVER_CALL_IDLE;
		server->busy_count--;
		pthread_cond_signal(&server->changed);
	}
	pthread_mutex_unlock(&server->mutex);
}

static void call_release(struct server_call *call)
{
	if (call->request)
		grpc_byte_buffer_destroy(take(call->request));
	if (call->response)
		grpc_byte_buffer_destroy(take(call->response));
	grpc_slice_unref(call->status_details);
	call->status_details = grpc_empty_slice();
	grpc_metadata_array_destroy(&call->metadata);
	grpc_call_details_destroy(&call->details);
	if (call->call)
		grpc_call_unref(take(call->call));
}

static void call_receive(struct server_call *call)
{
	const grpc_op op = { .op = GRPC_OP_RECV_MESSAGE,
			     .data.recv_message.recv_message = &call->request };

	call->state = SERVER_CALL_RECEIVING;
	grpc_call_error rc = grpc_call_start_batch(call->call, &op, 1, call, NULL);
	assert(rc == GRPC_CALL_OK);
	(void)rc;
}

static void call_answer(struct server_call *call, enum rpc_status status,
			const struct buffer *response, const struct error *err)
{
	bool ok = status == RPC_OK;

	call->status_details = ok ? grpc_empty_slice() : grpc_slice_from_copied_string(err->text);
	if (ok)
		call->response = rpc_message_new(response->bytes, response->size);

	grpc_op ops[4] = {
		{ .op = GRPC_OP_SEND_INITIAL_METADATA },
		{ .op = GRPC_OP_RECV_CLOSE_ON_SERVER,
		  .data.recv_close_on_server.cancelled = &call->cancelled },
		{ .op = GRPC_OP_SEND_STATUS_FROM_SERVER,
		  .data.send_status_from_server = { .status = (grpc_status_code)status,
						    .status_details = &call->status_details } },
		{ .op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = call->response },
	};
	call->state = SERVER_CALL_ANSWERING;
	grpc_call_error rc = grpc_call_start_batch(call->call, ops, ok ? 4 : 3, call, NULL);
	assert(rc == GRPC_CALL_OK);
	(void)rc;
}

static const struct rpc_method *find_method(const struct rpc_server *server, grpc_slice name)
{
	for (uint32_t i = 0; i < server->method_count; i++)
		if (!grpc_slice_str_cmp(name, server->methods[i].name))
			return &server->methods[i];
	return NULL;
}

static enum rpc_status read_request(struct server_call *call, struct buffer *request,
				    struct error *err)
{
	size_t size_max = call->server->message_bytes_max;

	if (!call->request) {
		error_set(err, -EBADMSG, "the call carries no message");
		return RPC_INVALID_ARGUMENT;
	}

	int rc = rpc_message_read(call->request, size_max, request);
	grpc_byte_buffer_destroy(take(call->request));
	switch (rc) {
	case 0:
		return RPC_OK;
	case -EMSGSIZE:
		error_set(err, rc, "the message inflates to more than %zu bytes", size_max);
		return RPC_RESOURCE_EXHAUSTED;
	case -ENOMEM:
		error_set(err, rc, "out of memory for the message");
		return RPC_RESOURCE_EXHAUSTED;
	default:
		error_set(err, rc, "the message's compressed data are damaged");
		return RPC_INVALID_ARGUMENT;
	}
}

static enum rpc_status handle(struct server_call *call, struct buffer *response, struct error *err)
{
	const struct rpc_method *method = find_method(call->server, call->details.method);
	_cleanup_(buffer_deinit) struct buffer request = { 0 };

	if (!method) {
		error_set(err, -ENOSYS,
			  "no such method here; is this the collector's gRPC address?");
		return RPC_UNIMPLEMENTED;
	}
	enum rpc_status status = read_request(call, &request, err);
	if (status != RPC_OK)
		return status;
	if (gpr_time_cmp(gpr_now(call->details.deadline.clock_type), call->details.deadline) > 0) {
		error_set(err, -ETIME, "the deadline passed before the call was handled");
		return RPC_DEADLINE_EXCEEDED;
	}

	status = method->handle(method->context, request.bytes, request.size, response, err);
	if (status == RPC_OK && response->rc) {
		error_errno(err, response->rc, "the response could not be written");
		return RPC_INTERNAL;
	}
	return status;
}

// The message has arrived, or failed to: handle the call and answer.
static void call_handle(struct server_call *call)
{
	_cleanup_(buffer_deinit) struct buffer response = { 0 };
	struct error err = { 0 };

	enum rpc_status status = handle(call, &response, &err);
	call_answer(call, status, &response, &err);
}

static void call_step(struct server_call *call, bool success)
{
	switch (call->state) {
	case SERVER_CALL_WAITING:
		if (success) {
			call_receive(call);
			return;
		}
		break; // the server is shutting down
	case SERVER_CALL_RECEIVING:
		call_handle(call);
		return;
	case SERVER_CALL_ANSWERING:
		break;
	case SERVER_CALL_IDLE:
		assert(!"an event for an idle call");
	}
	call_release(call);
	call_wait(call);
}

static void *serve(void *argument)
{
	struct rpc_server *server = argument;

	for (;;) {
		grpc_event event = grpc_completion_queue_next(
			server->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);

		if (event.type == GRPC_QUEUE_SHUTDOWN)
			return NULL;
		if (event.tag != server) {
			call_step(event.tag, event.success);
			continue;
		}
		pthread_mutex_lock(&server->mutex);
		server->shut_down = true;
		pthread_cond_signal(&server->changed);
		pthread_mutex_unlock(&server->mutex);
	}
}

static int check_options(const struct rpc_server_options *options, struct error *err)
{
	if (options->threads < 1 || options->threads > THREADS_MAX)
		return error_set(err, -EINVAL, "rpc: threads must be 1 to %d", THREADS_MAX);
	if (options->calls_max < 1 || options->calls_max > CALLS_MAX)
		return error_set(err, -EINVAL, "rpc: calls in flight must be 1 to %d", CALLS_MAX);
	if (!options->message_bytes_max || options->message_bytes_max > BUFFER_SIZE_MAX)
		return error_set(err, -EINVAL, "rpc: the message limit must be 1 to %zu bytes",
				 BUFFER_SIZE_MAX);
	return rpc_address_check(options->address, 0, err);
}

static grpc_server *grpc_server_new(const struct rpc_server_options *options)
{
	size_t quota_bytes = 2 * options->message_bytes_max * options->calls_max;
	grpc_resource_quota *quota = grpc_resource_quota_create("cairn");
	grpc_arg args[] = {
		int_arg(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, (int)options->message_bytes_max),
		int_arg(GRPC_ARG_MAX_SEND_MESSAGE_LENGTH, (int)options->message_bytes_max),
		int_arg(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0), // rpc_message_read() does it
		int_arg(GRPC_ARG_ALLOW_REUSEPORT, 0),                  // a busy port is an error
		int_arg(GRPC_ARG_MAX_CONCURRENT_STREAMS, STREAMS_PER_CONNECTION_MAX),
		int_arg(GRPC_ARG_KEEPALIVE_TIME_MS, RPC_KEEPALIVE_MS),
		int_arg(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, RPC_KEEPALIVE_TIMEOUT_MS),
		int_arg(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
		int_arg(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS,
			PING_INTERVAL_MS_MIN),
		int_arg(GRPC_ARG_MAX_CONNECTION_IDLE_MS, CONNECTION_IDLE_MS_MAX),
		int_arg(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, HANDSHAKE_MS_MAX),
		int_arg(GRPC_ARG_ENABLE_CHANNELZ, 0),
		{ .type = GRPC_ARG_POINTER,
		  .key = (char *)GRPC_ARG_RESOURCE_QUOTA,
		  .value.pointer = { quota, grpc_resource_quota_arg_vtable() } },
	};
	const grpc_channel_args all = { .num_args = ARRAY_SIZE(args), .args = args };

	grpc_resource_quota_resize(quota,
				   quota_bytes < QUOTA_BYTES_MIN ? QUOTA_BYTES_MIN : quota_bytes);
	grpc_server *server = grpc_server_create(&all, NULL);
	grpc_resource_quota_unref(quota);
	return server;
}

// gRPC does not report why it cannot listen: try the same system calls.
static int explain_listen(const char *address, struct error *err)
{
	const char *colon = strrchr(address, ':');
	struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
				  .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	char host[256];
	int rc = 0;

	if (!strncmp(address, "unix:", 5))
		return error_set(
			err, -EACCES,
			"cannot listen on %s: check that the folder exists and may be written",
			address);
	snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
	if (*host == '[') {
		memmove(host, host + 1, strlen(host));
		host[strcspn(host, "]")] = 0;
	}
	if (getaddrinfo(host, colon + 1, &hints, &found))
		return error_set(err, -EADDRNOTAVAIL,
				 "cannot listen on %s: the name \"%s\" is not known", address,
				 host);

	_cleanup_close_ int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1;
	if (fd >= 0) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		rc = bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, 1) ? -errno : 0;
	}
	freeaddrinfo(found);
	if (rc == -EADDRINUSE)
		return error_set(err, rc,
				 "cannot listen on %s: another process has this port; stop it, or "
				 "choose another port",
				 address);
	return error_errno(err, rc ? rc : -EADDRNOTAVAIL, "cannot listen on %s", address);
}

static int listen_on(struct rpc_server *server, const char *address, int *ret_port,
		     struct error *err)
{
	grpc_server_credentials *credentials = grpc_insecure_server_credentials_create();
	int port = grpc_server_add_http2_port(server->server, address, credentials);

	grpc_server_credentials_release(credentials);
	if (!port)
		return explain_listen(address, err);
	*ret_port = strncmp(address, "unix:", 5) ? port : 0;
	return 0;
}

static int allocate(struct rpc_server *server, const struct rpc_server_options *options,
		    struct error *err)
{
	server->threads = calloc(options->threads, sizeof(*server->threads));
	server->calls = calloc(options->calls_max, sizeof(*server->calls));
	server->methods = calloc(options->method_count + 1, sizeof(*server->methods));
	if (!server->threads || !server->calls || !server->methods)
		return error_set(err, -ENOMEM, "rpc: out of memory for a server");

	server->message_bytes_max = options->message_bytes_max;
	server->call_count = options->calls_max;
	server->method_count = options->method_count;
	if (options->method_count)
		memcpy(server->methods, options->methods,
		       options->method_count * sizeof(*server->methods));
	for (uint32_t i = 0; i < server->call_count; i++) {
		server->calls[i].server = server;
		server->calls[i].status_details = grpc_empty_slice();
	}
	return 0;
}

static int start_threads(struct rpc_server *server, uint32_t count, struct error *err)
{
	for (; server->thread_count < count; server->thread_count++) {
		int rc =
			pthread_create(&server->threads[server->thread_count], NULL, serve, server);

		if (rc)
			return error_errno(err, -rc, "rpc: cannot start a thread");
	}
	return 0;
}

// Wait until all calls are idle and gRPC has shut down. @until_ns: monotonic, 0: for ever.
static bool wait_for_end(struct rpc_server *server, uint64_t until_ns)
{
	const struct timespec until = { .tv_sec = until_ns / NS_PER_SECOND,
					.tv_nsec = until_ns % NS_PER_SECOND };
	int rc = 0;

	pthread_mutex_lock(&server->mutex);
	while ((server->busy_count || !server->shut_down) && !rc) {
		if (until_ns)
			rc = pthread_cond_clockwait(&server->changed, &server->mutex,
						    CLOCK_MONOTONIC, &until);
		else
			pthread_cond_wait(&server->changed, &server->mutex);
	}
	bool ended = !server->busy_count && server->shut_down;
	pthread_mutex_unlock(&server->mutex);
	return ended;
}

static void stop(struct rpc_server *server, uint32_t grace_ms)
{
	uint64_t until_ns = clock_monotonic_ns() + grace_ms * NS_PER_MS;

	pthread_mutex_lock(&server->mutex);
	server->closing = true;
	pthread_mutex_unlock(&server->mutex);
	grpc_server_shutdown_and_notify(server->server, server->queue, server);
	// A server that failed to open may have no thread: its events are drained below.
	if (server->thread_count && !wait_for_end(server, until_ns)) {
		grpc_server_cancel_all_calls(server->server);
		wait_for_end(server, 0);
	}
	grpc_completion_queue_shutdown(server->queue);
	for (uint32_t i = 0; i < server->thread_count; i++)
		pthread_join(server->threads[i], NULL);
	if (!server->thread_count)
		while (grpc_completion_queue_next(server->queue, gpr_inf_future(GPR_CLOCK_REALTIME),
						  NULL)
			       .type != GRPC_QUEUE_SHUTDOWN)
			;
	grpc_server_destroy(server->server);
	grpc_completion_queue_destroy(server->queue);
}

void rpc_server_close(struct rpc_server *server, uint32_t grace_ms)
{
	if (!server)
		return;
	stop(server, grace_ms);
	rpc_library_close();
	pthread_cond_destroy(&server->changed);
	pthread_mutex_destroy(&server->mutex);
	free(server->threads);
	free(server->calls);
	free(server->methods);
	free(server);
}

static void server_closep(struct rpc_server **server)
{
	rpc_server_close(*server, 0);
}

int rpc_server_open(const struct rpc_server_options *options, struct rpc_server **ret_server,
		    int *ret_port, struct error *err)
{
	int port = 0;
	int rc = check_options(options, err);
	if (rc)
		return rc;

	_cleanup_(server_closep) struct rpc_server *server = calloc(1, sizeof(*server));
	if (!server)
		return error_set(err, -ENOMEM, "rpc: out of memory for a server");
	pthread_mutex_init(&server->mutex, NULL);
	pthread_cond_init(&server->changed, NULL);
	rpc_library_open();
	server->server = grpc_server_new(options);
	server->queue = grpc_completion_queue_create_for_next(NULL);
	grpc_server_register_completion_queue(server->server, server->queue, NULL);

	rc = allocate(server, options, err);
	if (!rc)
		rc = listen_on(server, options->address, &port, err);
	if (rc)
		return rc;
	grpc_server_start(server->server);
	for (uint32_t i = 0; i < server->call_count; i++)
		call_wait(&server->calls[i]);
	rc = start_threads(server, options->threads, err);
	if (rc)
		return rc;

	*ret_port = port;
	*ret_server = take(server);
	return 0;
}
