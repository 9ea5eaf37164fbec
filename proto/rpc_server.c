// SPDX-License-Identifier: Apache-2.0
// The server: one thread, the loop, accepts connections and moves bytes; a few threads handle whole
// messages. A connection or a message that does not come on costs its descriptor and its bytes, never a
// thread. The loop owns connections and calls; a call is lent to a thread while its handler runs.
#include "proto/rpc.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/rpc_connection.h"
#include "proto/rpc_deadlines.h"
#include "proto/rpc_listener.h"
#include "proto/rpc_probe.h"

enum {
	THREADS_MAX = 64,
	EVENTS_PER_TURN = 64,
	ACCEPTS_PER_TURN_MAX = 64,
	TICK_MS = 200,         // between looks at the deadlines
	ACCEPT_PAUSE_MS = 200, // after an accept that failed for want of something
};

#define SELF_NAME "self" // the peer's name of a probe

enum {
	CONNECTIONS_MAX = 4096,
	CONNECTIONS_PER_PEER_MAX = 2048, // a proxy in front is one address
	STREAMS_PER_CONNECTION_MAX = 32, // an agent has one call at a time; a proxy joins a few
	QUEUED_PER_PEER_MAX = 1024,      // messages that wait for a thread
	HANDSHAKE_MS_MAX = 10 * 1000,    // from connecting to the first frame
	MESSAGE_MS_MAX = 30 * 1000,      // from a call's headers to the end of its message
	QUEUE_MS_MAX = 15 * 1000,        // from there to a thread
	ANSWER_MS_MAX = 15 * 1000,       // until the client has read the answer
	IDLE_MS_MAX = 5 * 60 * 1000,     // without a call: an agent calls at least once a minute
	QUIET_MS_MAX = 30 * 1000,        // without a byte of the client: then it is pinged
	PING_MS_MAX = 10 * 1000,         // until the ping is answered
	AGE_MS_MAX = 60 * 60 * 1000,     // of a connection: then agents spread over collectors anew
};

const struct rpc_server_limits rpc_server_limits_default = {
	.connections_max = CONNECTIONS_MAX,
	.connections_per_peer_max = CONNECTIONS_PER_PEER_MAX,
	.streams_per_connection_max = STREAMS_PER_CONNECTION_MAX,
	.queued_per_peer_max = QUEUED_PER_PEER_MAX,
	.handshake_ms = HANDSHAKE_MS_MAX,
	.message_ms = MESSAGE_MS_MAX,
	.queue_ms = QUEUE_MS_MAX,
	.answer_ms = ANSWER_MS_MAX,
	.idle_ms = IDLE_MS_MAX,
	.quiet_ms = QUIET_MS_MAX,
	.ping_ms = PING_MS_MAX,
	.age_ms = AGE_MS_MAX,
};

struct rpc_server {
	struct rpc_service service;
	struct rpc_method *methods;
	struct tls_server *tls; // NULL: none; a probe of ours goes without
	struct rpc_listener listener;
	struct sockaddr_storage bound; // its address
	socklen_t bound_size;
	int epoll_fd;
	int wake_fd; // a thread is done, or the server closes
	pthread_t loop;
	bool has_loop;
	pthread_t *threads;
	uint32_t thread_count;

	// Of the loop.
	struct rpc_connection *connections;
	_Atomic uint32_t connection_count;
	uint64_t accept_again_ns; // 0: the listener is polled
	uint64_t ticked_ns;
	bool is_leaving;

	pthread_mutex_t mutex; // guards the fields below
	struct rpc_call *done, **done_last;
	bool closing;
	uint64_t close_ns;       // connections that are still there end then
	struct rpc_probe *probe; // whose connection is awaited; NULL: none
};

static void report(const struct rpc_server *server, enum rpc_event event, const char *peer)
{
	if (server->service.report)
		server->service.report(server->service.report_context, event, peer);
}

static void wake(struct rpc_server *server)
{
	const uint64_t one = 1;

	if (write(server->wake_fd, &one, sizeof(one)) < 0)
		return; // it is full: the loop wakes
}

// ---- the threads that handle messages ---------------------------------------------------------

static void handle(struct rpc_server *server, struct rpc_call *call)
{
	const struct rpc_method *method = call->method;

	if (call->deadline_ns && clock_monotonic_ns() > call->deadline_ns) {
		error_set(&call->err, -ETIME, "the deadline passed before the call was handled");
		call->status = RPC_DEADLINE_EXCEEDED;
		return;
	}
	call->status = rpc_call_inflate(call);
	if (call->status == RPC_INVALID_ARGUMENT)
		report(server, RPC_EVENT_MESSAGE_DAMAGED, call->peer->name);
	if (call->status != RPC_OK)
		return;

	const struct rpc_request request = { .bytes = call->message.bytes,
					     .size = call->message.size,
					     .peer = call->peer->name,
					     .caller = call->caller,
					     .ret_pause_ms = &call->pause_ms };
	call->status = method->handle(method->context, &request, &call->response, &call->err);
	if (call->status == RPC_OK && call->response.rc) {
		error_errno(&call->err, call->response.rc, "the response could not be written");
		call->status = call->response.rc == -EDQUOT ? RPC_RESOURCE_EXHAUSTED : RPC_INTERNAL;
	}
}

static void *work(void *argument)
{
	struct rpc_server *server = argument;
	struct rpc_call *call;

	pthread_setname_np(pthread_self(), "rpc-handler");
	while ((call = rpc_queue_pop(&server->service.queue))) {
		handle(server, call);
		call->next = NULL;
		pthread_mutex_lock(&server->mutex);
		*server->done_last = call;
		server->done_last = &call->next;
		pthread_mutex_unlock(&server->mutex);
		wake(server);
	}
	return NULL;
}

// ---- the loop: connections --------------------------------------------------------------------

static void poll_connection(struct rpc_server *server, struct rpc_connection *connection)
{
	bool awaits_write = rpc_connection_awaits_write(connection);
	struct epoll_event event = { .events = awaits_write ? EPOLLOUT : EPOLLIN,
				     .data.ptr = connection };

	if (awaits_write == connection->awaits_write)
		return;
	connection->awaits_write = awaits_write;
	if (epoll_ctl(server->epoll_fd, EPOLL_CTL_MOD, connection->transport.fd, &event))
		connection->is_failed = true;
}

static void end_connection(struct rpc_server *server, struct rpc_connection *connection)
{
	*connection->at = connection->next;
	if (connection->next)
		connection->next->at = connection->at;
	atomic_fetch_sub(&server->connection_count, 1);
	rpc_connection_free(connection);
}

// After each use of a connection.
static void settle(struct rpc_server *server, struct rpc_connection *connection)
{
	if (!rpc_connection_has_ended(connection))
		poll_connection(server, connection);
	if (rpc_connection_has_ended(connection))
		end_connection(server, connection);
}

static void add_connection(struct rpc_server *server, struct rpc_connection *connection)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };

	connection->next = server->connections;
	connection->at = &server->connections;
	if (connection->next)
		connection->next->at = &connection->next;
	server->connections = connection;
	atomic_fetch_add(&server->connection_count, 1);
	if (epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, connection->transport.fd, &event))
		connection->is_failed = true;
	else
		rpc_connection_write(connection);
	settle(server, connection);
}

static bool is_probe(struct rpc_server *server, int fd, const struct sockaddr_storage *address)
{
	pthread_mutex_lock(&server->mutex);
	bool matches = server->probe && rpc_probe_matches(server->probe, fd, address);
	pthread_mutex_unlock(&server->mutex);
	return matches;
}

static void take_connection(struct rpc_server *server, int fd,
			    const struct sockaddr_storage *address)
{
	const struct rpc_server_limits *limits = &server->service.limits;
	bool is_self = is_probe(server, fd, address);
	char name[ADDRESS_PEER_BYTES] = SELF_NAME;

	if (!is_self)
		address_peer_name((const struct sockaddr *)address, name);
	struct rpc_peer *peer = rpc_queue_find_peer(&server->service.queue, name);
	if (!peer) {
		close(fd);
		return;
	}
	bool is_full = server->connection_count >= limits->connections_max;
	if (is_full || (!is_self && peer->connection_count >= limits->connections_per_peer_max)) {
		report(server,
		       is_full ? RPC_EVENT_CONNECTIONS_FULL : RPC_EVENT_PEER_CONNECTIONS_FULL,
		       name);
		close(fd);
		rpc_queue_release_peer(&server->service.queue, peer);
		return;
	}

	struct rpc_connection *connection =
		rpc_connection_new(&server->service, peer, is_self ? NULL : server->tls, fd);
	if (connection)
		add_connection(server, connection);
}

// ---- the loop: the listener -------------------------------------------------------------------

static void poll_listener(struct rpc_server *server)
{
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &server->listener };

	server->accept_again_ns = 0;
	// It may be polled already.
	epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->listener.fd, &event);
}

static void pause_listener(struct rpc_server *server)
{
	epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->listener.fd, NULL);
	server->accept_again_ns = clock_monotonic_ns() + ACCEPT_PAUSE_MS * NS_PER_MS;
}

static void restart_listener(struct rpc_server *server)
{
	struct error err = { 0 };

	if (rpc_listener_restart(&server->listener, &err)) {
		log_error("rpc: %s; retrying", err.text);
		server->accept_again_ns = clock_monotonic_ns() + ACCEPT_PAUSE_MS * NS_PER_MS;
		return;
	}
	report(server, RPC_EVENT_LISTENER_RESTARTED, "");
	poll_listener(server);
}

static void accept_some(struct rpc_server *server)
{
	struct sockaddr_storage address;

	for (int i = 0; i < ACCEPTS_PER_TURN_MAX; i++) {
		int fd = rpc_listener_accept(&server->listener, &address);

		if (fd >= 0) {
			take_connection(server, fd, &address);
			continue;
		}
		if (fd == -ECONNABORTED)
			continue;
		if (fd == -EBADF) {
			restart_listener(server);
		} else if (fd != -EAGAIN) {
			report(server, RPC_EVENT_NO_DESCRIPTOR, "");
			pause_listener(server);
		}
		return;
	}
}

// A socket that was shut down is silent: ask it whether it listens.
static bool listener_is_broken(const struct rpc_server *server)
{
	int listens = 0;
	socklen_t size = sizeof(listens);

	return getsockopt(server->listener.fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) ||
	       !listens;
}

static void tick_listener(struct rpc_server *server, uint64_t now_ns)
{
	if (server->is_leaving)
		return;
	if (listener_is_broken(server))
		restart_listener(server);
	else if (server->accept_again_ns && now_ns >= server->accept_again_ns)
		poll_listener(server);
}

// ---- the loop ---------------------------------------------------------------------------------

static void answer_done(struct rpc_server *server)
{
	pthread_mutex_lock(&server->mutex);
	struct rpc_call *call = server->done;
	server->done = NULL;
	server->done_last = &server->done;
	pthread_mutex_unlock(&server->mutex);

	while (call) {
		struct rpc_call *next = call->next;
		struct rpc_connection *connection = call->connection;

		server->service.call_count--;
		if (connection) {
			rpc_connection_answer(connection, call, call->status);
			rpc_connection_write(connection);
			settle(server, connection);
		} else {
			rpc_connection_release_call(&server->service, call);
		}
		call = next;
	}
}

// Returns whether the server has ended: no call is left.
static bool leave(struct rpc_server *server, uint64_t now_ns)
{
	pthread_mutex_lock(&server->mutex);
	bool closing = server->closing;
	uint64_t close_ns = server->close_ns;
	pthread_mutex_unlock(&server->mutex);

	if (!closing)
		return false;
	if (!server->is_leaving) {
		server->is_leaving = true;
		rpc_listener_close(&server->listener);
		for (struct rpc_connection *at = server->connections, *next; at; at = next) {
			next = at->next;
			rpc_connection_leave(at);
			settle(server, at);
		}
	}
	if (now_ns >= close_ns)
		while (server->connections)
			end_connection(server, server->connections);
	return !server->connections && !server->service.call_count;
}

static void tick(struct rpc_server *server, uint64_t now_ns)
{
	if (ns_between(server->ticked_ns, now_ns) < TICK_MS * NS_PER_MS)
		return;
	server->ticked_ns = now_ns;
	tick_listener(server, now_ns);
	for (struct rpc_connection *at = server->connections, *next; at; at = next) {
		next = at->next;
		rpc_deadlines_check(at, now_ns);
		settle(server, at);
	}
}

static void take_event(struct rpc_server *server, const struct epoll_event *event)
{
	struct rpc_connection *connection = event->data.ptr;
	uint64_t count;

	if (event->data.ptr == &server->listener) {
		if (!server->is_leaving)
			accept_some(server);
	} else if (event->data.ptr == &server->wake_fd) {
		if (read(server->wake_fd, &count, sizeof(count)) < 0)
			return;
	} else {
		if (event->events & EPOLLOUT)
			rpc_connection_write(connection);
		if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
			rpc_connection_read(connection);
		settle(server, connection);
	}
}

static void *loop(void *argument)
{
	struct rpc_server *server = argument;
	struct epoll_event events[EVENTS_PER_TURN];

	pthread_setname_np(pthread_self(), "rpc-loop");
	for (;;) {
		int count = epoll_wait(server->epoll_fd, events, EVENTS_PER_TURN, TICK_MS);

		for (int i = 0; i < count; i++)
			take_event(server, &events[i]);
		answer_done(server);
		uint64_t now_ns = clock_monotonic_ns();
		tick(server, now_ns);
		if (leave(server, now_ns))
			return NULL;
	}
}

// ---- opening and closing ----------------------------------------------------------------------

static int check_options(const struct rpc_server_options *options, struct error *err)
{
	if (options->threads < 1 || options->threads > THREADS_MAX)
		return error_set(err, -EINVAL, "rpc: threads must be 1 to %d", THREADS_MAX);
	if (!options->message_bytes_max || options->message_bytes_max >= BUFFER_SIZE_MAX)
		return error_set(err, -EINVAL, "rpc: the message limit must be 1 to %zu bytes",
				 BUFFER_SIZE_MAX - 1);
	return rpc_address_check(options->address, 0, err);
}

static int init(struct rpc_server *server, const struct rpc_server_options *options)
{
	struct rpc_service *service = &server->service;
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = &server->wake_fd };

	service->limits = options->limits ? *options->limits : rpc_server_limits_default;
	service->message_bytes_max = options->message_bytes_max;
	service->method_count = options->method_count;
	server->tls = options->tls;
	service->budget = options->budget;
	service->report = options->report;
	service->report_context = options->report_context;
	server->threads = calloc(options->threads, sizeof(*server->threads));
	server->methods = calloc(options->method_count + 1, sizeof(*server->methods));
	if (!server->threads || !server->methods)
		return -ENOMEM;
	if (options->method_count)
		memcpy(server->methods, options->methods,
		       options->method_count * sizeof(*server->methods));
	service->methods = server->methods;
	server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	server->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->epoll_fd < 0 || server->wake_fd < 0 ||
	    epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, server->wake_fd, &event))
		return -errno;
	return 0;
}

static int start_threads(struct rpc_server *server, uint32_t count)
{
	int rc = 0;

	for (; !rc && server->thread_count < count; server->thread_count += !rc)
		rc = -pthread_create(&server->threads[server->thread_count], NULL, work, server);
	if (!rc)
		rc = -pthread_create(&server->loop, NULL, loop, server);
	server->has_loop = !rc;
	return rc;
}

void rpc_server_close(struct rpc_server *server, uint32_t grace_ms)
{
	if (!server)
		return;

	pthread_mutex_lock(&server->mutex);
	server->closing = true;
	server->close_ns = clock_monotonic_ns() + grace_ms * NS_PER_MS;
	pthread_mutex_unlock(&server->mutex);
	// The loop ends when each call has come back from its thread.
	if (server->has_loop) {
		wake(server);
		pthread_join(server->loop, NULL);
	}
	rpc_queue_close(&server->service.queue);
	for (uint32_t i = 0; i < server->thread_count; i++)
		pthread_join(server->threads[i], NULL);
	rpc_listener_close(&server->listener);
	if (server->epoll_fd >= 0)
		close(server->epoll_fd);
	if (server->wake_fd >= 0)
		close(server->wake_fd);
	rpc_queue_deinit(&server->service.queue);
	pthread_mutex_destroy(&server->mutex);
	free(server->threads);
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
	server->epoll_fd = server->wake_fd = -1;
	server->listener = (struct rpc_listener){ .fd = -1, .spare_fd = -1 };
	server->done_last = &server->done;
	pthread_mutex_init(&server->mutex, NULL);
	rpc_queue_init(&server->service.queue, options->budget);
	rc = init(server, options);
	if (rc)
		return error_errno(err, rc, "rpc: cannot start a server");
	rc = rpc_listener_open(options->address, &server->listener, &port, err);
	if (rc)
		return rc;
	server->bound = server->listener.bound;
	server->bound_size = server->listener.bound_size;
	poll_listener(server);
	rc = start_threads(server, options->threads);
	if (rc)
		return error_errno(err, rc, "rpc: cannot start a thread");

	*ret_port = port;
	*ret_server = take(server);
	return 0;
}

uint32_t rpc_server_connections(const struct rpc_server *server)
{
	return atomic_load(&server->connection_count);
}

int rpc_server_probe(struct rpc_server *server, const char *method, uint32_t deadline_ms,
		     struct error *err)
{
	_cleanup_(rpc_probe_close) struct rpc_probe probe = { .fd = -1 };

	int rc = rpc_probe_open(&probe, &server->bound, server->bound_size, deadline_ms, err);
	if (rc)
		return rc;
	pthread_mutex_lock(&server->mutex);
	server->probe = &probe;
	pthread_mutex_unlock(&server->mutex);
	rc = rpc_probe_call(&probe, method, err);
	pthread_mutex_lock(&server->mutex);
	server->probe = NULL;
	pthread_mutex_unlock(&server->mutex);
	return rc;
}
