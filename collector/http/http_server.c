// SPDX-License-Identifier: Apache-2.0
// Two kinds of threads. libmicrohttpd's threads move bytes and answer quick requests. A slow
// request's connection is suspended and the request queued; a worker answers it and resumes the
// connection. So a long query never delays a health probe.
#include "collector/http/http_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <microhttpd.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/http/http_listen.h"
#include "collector/http/http_body.h"
#include "collector/http/http_message.h"
#include "collector/http/http_peers.h"
#include "collector/http/http_queue.h"
#include "collector/http/http_watch.h"
#include "collector/store/deadline.h"

enum {
	IO_THREADS = 2, // bytes only: gigabits per thread
	WORKERS_MAX = 64,
	CLOSE_POLL_US = 5000,
};

/** An exchange belongs to one thread at a time: the connection's, or a worker. */
enum exchange_state {
	EXCHANGE_READING, // the headers or a body are being received
	EXCHANGE_QUEUED,  // suspended: in the queue, or with a worker
	EXCHANGE_ANSWERED,
};

struct exchange {
	struct http_queued queued; // first: the queue's pointer is also the exchange's
	struct http_server *server;
	struct MHD_Connection *connection;
	struct http_watched *watched;
	struct http_request request;
	struct http_response response;
	struct deadline deadline; // of the request
	int socket;               // libmicrohttpd's
	enum exchange_state state;
	bool is_sent; // passed to libmicrohttpd
	struct http_body body;
	uint64_t start_ns;
	char address[INET6_ADDRSTRLEN]; // the client's
	char peer[ADDRESS_PEER_BYTES];  // who that is
};

struct http_server {
	struct http_server_options options;
	struct MHD_Daemon *daemon;
	pthread_t workers[WORKERS_MAX];
	uint32_t worker_count;
	_Atomic uint32_t exchange_count; // in flight
	struct http_watch *watch;
	struct http_peers peers;
	struct http_queue queue; // of slow requests
};

static void count_limit(struct http_server *server, enum http_limit limit)
{
	if (server->options.limited)
		server->options.limited(server->options.context, limit);
}

static void count_late(void *context)
{
	count_limit(context, HTTP_LIMIT_LATE);
}

/** The time to send or receive so many bytes starts. */
static void watch_transfer(struct exchange *exchange, uint64_t bytes)
{
	const struct http_server_options *options = &exchange->server->options;

	http_watch_set(exchange->server->watch, exchange->watched,
		       options->transfer_ms + bytes * 1000 / options->transfer_bytes_per_second);
}

// ---- responses ------------------------------------------------------------------------------

static enum MHD_Result send_answer(struct exchange *exchange)
{
	struct http_response *response = &exchange->response;

	if (response->status == 0)
		response->status = 200;
	if (response->status == 200 && response->etag && exchange->request.if_none_match &&
	    http_etag_matches(exchange->request.if_none_match, response->etag)) {
		response->status = 304;
		response->fixed_body = "";
		response->fixed_size = 0;
		response->is_gzip = false;
	}

	struct MHD_Response *answer = http_message_answer(response);
	if (!answer)
		return MHD_NO;
	watch_transfer(exchange, response->fixed_body ? response->fixed_size : response->body.size);
	enum MHD_Result queued =
		MHD_queue_response(exchange->connection, (unsigned int)response->status, answer);
	MHD_destroy_response(answer);
	exchange->is_sent = queued == MHD_YES;
	return queued;
}

static void finish_response(struct exchange *exchange)
{
	struct http_response *response = &exchange->response;

	if (response->body.rc == -EDQUOT) {
		http_respond_busy(response);
	} else if (response->body.rc) {
		int rc = response->body.rc;

		http_respond_error(response, rc == -ENOMEM ? 503 : 413,
				   rc == -ENOMEM ? "out_of_memory" : "too_large", "",
				   rc == -ENOMEM
					   ? "out of memory for the response"
					   : "the response is too large (limits: 64 MiB; half of "
					     "the memory for queries, a quarter of the "
					     "collector's --memory); choose a shorter range or "
					     "fewer series");
	}
	// It has a budget until it is refused for want of it.
	if (exchange->server->options.answers && !response->body.budget)
		count_limit(exchange->server, HTTP_LIMIT_ANSWERS);
	http_compress(&exchange->request, response);
	exchange->state = EXCHANGE_ANSWERED;
}

static void run_handler(struct exchange *exchange)
{
	struct http_server *server = exchange->server;

	http_watch_set(server->watch, exchange->watched, 0);
	exchange->response.body.size_max = HTTP_BODY_BYTES_MAX;
	exchange->response.body.budget = server->options.answers;
	exchange->request.body = exchange->body.memory.bytes;
	exchange->request.body_size = exchange->body.memory.size;
	server->options.handle(server->options.context, &exchange->request, &exchange->response);
	exchange->request.body = NULL;
	http_body_deinit(&exchange->body);
	finish_response(exchange);
}

static void refuse(struct exchange *exchange, const char *message)
{
	http_respond_error(&exchange->response, 503, "overloaded", "", message);
	exchange->response.retry_after_s = 1;
	exchange->response.endpoint = "refused";
	exchange->state = EXCHANGE_ANSWERED;
}

/** A client that went away while its request was queued needs no answer. */
static bool skip_abandoned(struct exchange *exchange)
{
	struct error err = { 0 };

	if (deadline_check(&exchange->deadline, &err) != -ECANCELED)
		return false;
	http_respond_failure(&exchange->response, &err, "");
	exchange->state = EXCHANGE_ANSWERED;
	return true;
}

// ---- workers --------------------------------------------------------------------------------

/** Whose turn it is: a credential's, or without logins a peer's. */
static const char *peer_of(const struct exchange *exchange)
{
	const char *key = exchange->request.identity.key;

	return strcmp(key, access_local().key) == 0 ? exchange->peer : key;
}

static void *work(void *context)
{
	struct http_server *server = context;
	struct http_queued *queued;
	bool closing;

	while ((queued = http_queue_pop(&server->queue, &closing))) {
		struct exchange *exchange = (struct exchange *)queued;

		if (closing)
			refuse(exchange, "the collector is shutting down");
		else if (!skip_abandoned(exchange))
			run_handler(exchange);
		MHD_resume_connection(exchange->connection);
	}
	return NULL;
}

/** Suspend before queueing: a worker may finish before this returns. */
static void start_slow(struct exchange *exchange)
{
	struct MHD_Connection *connection = exchange->connection;

	exchange->state = EXCHANGE_QUEUED;
	http_watch_set(exchange->server->watch, exchange->watched, 0);
	MHD_suspend_connection(connection);
	exchange->queued.peer = peer_of(exchange);
	if (http_queue_push(&exchange->server->queue, &exchange->queued))
		return;

	refuse(exchange, "too many queries are running; try again in a second");
	MHD_resume_connection(connection);
}

// ---- requests -------------------------------------------------------------------------------

static void read_request(struct exchange *exchange, const char *path)
{
	const struct http_server_options *options = &exchange->server->options;
	struct http_request *request = &exchange->request;

	http_message_read(exchange->connection, path, request);
	http_message_read_peer(exchange->connection, exchange->address, exchange->peer);
	request->deadline = &exchange->deadline;
	request->identity = (struct identity){ .key = "unknown" };
	request->credentials = http_message_credentials(exchange->connection, options->tls,
							options->proxy_header, exchange->address);
}

/** How many bytes of a body are received with the request. */
static size_t body_max(const struct exchange *exchange, const char *method)
{
	const struct http_server_options *options = &exchange->server->options;
	struct http_request request = exchange->request;

	if (!options->body_max || !http_message_method(method, &request.method))
		return 0;
	return options->body_max(options->context, &request);
}

/** Is it a request that the listener's guard admits? If not, respond. */
static bool is_admitted(struct exchange *exchange, const char *method)
{
	const struct http_guard *guard = exchange->server->options.guard;
	struct http_response *response = &exchange->response;
	const struct http_caller caller = {
		.changes = strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0,
		.host = http_message_header(exchange->connection, "Host"),
		.origin = http_message_header(exchange->connection, "Origin"),
		.fetch_site = http_message_header(exchange->connection, "Sec-Fetch-Site"),
		.fetch_mode = http_message_header(exchange->connection, "Sec-Fetch-Mode"),
		.fetch_destination = http_message_header(exchange->connection, "Sec-Fetch-Dest"),
		// Profilers push without it. A browser says who made it send a POST: Origin is checked.
		.client = body_max(exchange, method)
				  ? "push"
				  : http_message_header(exchange->connection, HTTP_CLIENT_HEADER),
		.authorization = http_message_header(exchange->connection, "Authorization"),
	};
	struct http_refusal refusal;

	if (!guard || http_guard_admits(guard, &caller, &refusal))
		return true;
	http_respond_error(response, refusal.status, refusal.code, "", refusal.message);
	response->endpoint = "refused";
	response->is_foreign = true;
	response->closes = true; // a body may follow
	return false;
}

static void begin_put(struct exchange *exchange)
{
	const struct http_server_options *options = &exchange->server->options;
	struct http_request *request = &exchange->request;
	struct http_response *response = &exchange->response;

	if (http_body_begin_put(&exchange->body,
				http_message_header(exchange->connection, "Content-Length"),
				response)) {
		request->body_bytes = exchange->body.bytes_max;
		exchange->body.fd = options->begin_upload(options->context, request, response);
	}
	response->closes = exchange->body.fd < 0;
	watch_transfer(exchange, exchange->body.bytes_max);
}

static void begin_push(struct exchange *exchange, size_t bytes_max)
{
	struct http_response *response = &exchange->response;

	exchange->request.content_type = http_message_header(exchange->connection, "Content-Type");
	response->closes = !http_body_begin_push(
		&exchange->body, http_message_header(exchange->connection, "Content-Length"),
		http_message_header(exchange->connection, "Content-Encoding"), bytes_max,
		exchange->server->options.bodies, response);
	watch_transfer(exchange, exchange->body.bytes_max);
}

static bool admit(struct exchange *exchange)
{
	const struct http_server_options *options = &exchange->server->options;

	if (!options->admit)
		exchange->request.identity = access_local();
	return !options->admit ||
	       options->admit(options->context, &exchange->request, &exchange->response);
}

/** The headers have arrived: refuse requests that need no handler. */
static enum MHD_Result begin(struct exchange *exchange, const char *path, const char *method)
{
	struct http_response *response = &exchange->response;
	struct http_request *request = &exchange->request;

	read_request(exchange, path);
	if (!is_admitted(exchange, method))
		; // refused
	else if (!http_message_method(method, &request->method))
		http_respond_error(response, 405, "method_not_allowed", "",
				   "only GET, HEAD, PUT, POST and DELETE are allowed");
	else if (!admit(exchange))
		response->closes = http_message_has_body(exchange->connection);
	else if (request->method == HTTP_PUT && exchange->server->options.begin_upload) {
		begin_put(exchange);
		if (!response->closes)
			return MHD_YES;
	} else if (body_max(exchange, method) && !request->malformed) {
		begin_push(exchange, body_max(exchange, method));
		if (!response->closes)
			return MHD_YES;
	} else if (body_max(exchange, method) == 0 && http_message_has_body(exchange->connection))
		http_respond_error(response, request->method == HTTP_GET ? 413 : 405,
				   request->method == HTTP_GET ? "too_large" : "method_not_allowed",
				   "", "only an upload has a body");
	else if (request->malformed) {
		response->closes = http_message_has_body(exchange->connection);
		http_respond_error(response, 400, "invalid_argument", "",
				   "too many parameters, or a NUL byte in one");
	} else
		return MHD_YES;

	exchange->state = EXCHANGE_ANSWERED;
	return send_answer(exchange);
}

static struct http_watched *watched_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

/** Has the client closed its side? Bytes that it sent before stay in the socket. */
static bool client_is_gone(void *context)
{
	const struct exchange *exchange = context;
	struct pollfd poll_fd = { .fd = exchange->socket, .events = POLLRDHUP };

	return poll(&poll_fd, 1, 0) > 0 && poll_fd.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

static int socket_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info ? info->connect_fd : -1;
}

static struct exchange *exchange_new(struct http_server *server, struct MHD_Connection *connection)
{
	struct exchange *exchange = calloc(1, sizeof(*exchange));

	if (!exchange)
		return NULL;
	exchange->server = server;
	exchange->connection = connection;
	exchange->start_ns = clock_monotonic_ns();
	exchange->watched = watched_of(connection);
	exchange->socket = socket_of(connection);
	exchange->deadline = (struct deadline){
		.at_ns = exchange->start_ns + HTTP_ANSWER_MS_MAX * NS_PER_MS,
		.is_gone = client_is_gone,
		.context = exchange,
		.poll_ns = DEADLINE_POLL_NS,
	};
	atomic_fetch_add(&server->exchange_count, 1);
	return exchange;
}

/** Called with the headers, with parts of the body, when all has arrived, and after a resume. */
static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **slot)
{
	struct http_server *server = context;
	struct exchange *exchange = *slot;

	(void)version;
	if (!exchange) {
		exchange = exchange_new(server, connection);
		*slot = exchange;
		return exchange ? begin(exchange, url, method) : MHD_NO;
	}
	if (*upload_size) {
		bool written = http_body_receive(&exchange->body, upload, *upload_size);

		*upload_size = 0;
		return written ? MHD_YES : MHD_NO;
	}
	switch (exchange->state) {
	case EXCHANGE_READING:
		if (!http_body_end(&exchange->body, &exchange->response)) {
			exchange->response.endpoint = "refused";
			exchange->state = EXCHANGE_ANSWERED;
			return send_answer(exchange);
		}
		if (server->options.is_slow(server->options.context, &exchange->request)) {
			start_slow(exchange);
			return MHD_YES;
		}
		run_handler(exchange);
		return send_answer(exchange);
	case EXCHANGE_QUEUED:
		return MHD_YES;
	case EXCHANGE_ANSWERED:
		return exchange->is_sent ? MHD_YES : send_answer(exchange);
	}
	return MHD_NO;
}

static void on_completed(void *context, struct MHD_Connection *connection, void **slot,
			 enum MHD_RequestTerminationCode code)
{
	struct http_server *server = context;
	struct exchange *exchange = *slot;

	(void)connection, (void)code;
	if (!exchange)
		return;
	if (exchange->request.upload)
		server->options.end_upload(server->options.context, &exchange->request);
	if (server->options.done) {
		const struct http_response *response = &exchange->response;

		server->options.done(server->options.context, &exchange->request, response,
				     clock_monotonic_ns() - exchange->start_ns,
				     response->fixed_body ? response->fixed_size
							  : response->body.size);
	}
	// The connection may stay for another request.
	http_watch_set(server->watch, exchange->watched, server->options.request_ms);
	http_response_deinit(&exchange->response);
	http_body_deinit(&exchange->body);
	free(exchange);
	*slot = NULL;
	atomic_fetch_sub(&server->exchange_count, 1);
}

static enum MHD_Result may_connect(void *context, const struct sockaddr *address, socklen_t size)
{
	struct http_server *server = context;

	(void)size;
	if (!address || http_peers_have_room(&server->peers, address))
		return MHD_YES;
	count_limit(server, HTTP_LIMIT_PEER);
	return MHD_NO;
}

static void on_connection(void *context, struct MHD_Connection *connection, void **slot,
			  enum MHD_ConnectionNotificationCode code)
{
	const union MHD_ConnectionInfo *info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	const struct sockaddr *address = http_message_address(connection);
	struct http_server *server = context;

	if (code == MHD_CONNECTION_NOTIFY_CLOSED) {
		if (address)
			http_peers_remove(&server->peers, address);
		http_watch_remove(server->watch, *slot);
		*slot = NULL;
		return;
	}
	if (address)
		http_peers_add(&server->peers, address);
	if (info) {
		*slot = http_watch_add(server->watch, info->connect_fd);
		http_watch_set(server->watch, *slot, server->options.request_ms);
	}
}

static void on_log(void *context, const char *format, va_list arguments)
{
	char text[256];

	(void)context;
	vsnprintf(text, sizeof(text), format, arguments);
	text[strcspn(text, "\n")] = '\0';
	log_debug("http: %s", text);
}

// ---- opening and closing --------------------------------------------------------------------

static int start_daemon(struct http_server *server, int fd, struct error *err)
{
	bool is_tls = server->options.tls;
	// Not epoll: libmicrohttpd 0.9.75 takes a short read for an edge that is to come, and misses
	// a client that closed behind what it sent.
	const unsigned int flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME |
				   MHD_USE_ERROR_LOG | (is_tls ? MHD_USE_TLS : 0);
	const struct MHD_OptionItem tls_options[] = {
		{ MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, tls_server_certificate_callback() },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)TLS_PRIORITIES },
		{ MHD_OPTION_END, 0, NULL },
	};
	const struct MHD_OptionItem no_options[] = { { MHD_OPTION_END, 0, NULL } };

	if (is_tls && MHD_is_feature_supported(MHD_FEATURE_HTTPS_CERT_CALLBACK2) != MHD_YES)
		return error_set(err, -ENOSYS,
				 "http: this libmicrohttpd has no TLS with certificates that are "
				 "read again; install one that was built with GnuTLS");

	server->daemon = MHD_start_daemon(
		flags, 0, may_connect, server, on_request, server, MHD_OPTION_EXTERNAL_LOGGER,
		on_log, NULL, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_THREAD_POOL_SIZE,
		(unsigned int)IO_THREADS, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)server->options.connections_max, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)HTTP_HEADER_BYTES_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned int)HTTP_IDLE_S_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1,
		MHD_OPTION_NOTIFY_COMPLETED, on_completed, server, MHD_OPTION_NOTIFY_CONNECTION,
		on_connection, server, MHD_OPTION_ARRAY, is_tls ? tls_options : no_options,
		MHD_OPTION_END);
	return server->daemon ? 0 : error_set(err, -EIO, "http: cannot start libmicrohttpd");
}

static int start_workers(struct http_server *server, struct error *err)
{
	while (server->worker_count < server->options.threads) {
		int rc = pthread_create(&server->workers[server->worker_count], NULL, work, server);

		if (rc)
			return error_errno(err, -rc, "http: start a thread");
		server->worker_count++;
	}
	return 0;
}

static void stop_workers(struct http_server *server)
{
	http_queue_close(&server->queue);
	for (uint32_t i = 0; i < server->worker_count; i++)
		pthread_join(server->workers[i], NULL);
}

static void set_defaults(struct http_server_options *options)
{
	if (!options->connections_max)
		options->connections_max = HTTP_CONNECTIONS_MAX;
	if (!options->request_ms)
		options->request_ms = HTTP_REQUEST_MS_MAX;
	if (!options->transfer_ms)
		options->transfer_ms = HTTP_TRANSFER_MS_MAX;
	if (!options->transfer_bytes_per_second)
		options->transfer_bytes_per_second = HTTP_TRANSFER_BYTES_PER_SECOND;
}

int http_server_open(const struct http_server_options *options, struct http_server **ret_server,
		     int *ret_port, struct error *err)
{
	_cleanup_close_ int fd = -1;
	int port;

	if (options->threads == 0 || options->threads > WORKERS_MAX)
		return error_set(err, -EINVAL, "http-threads: 1 to %d", WORKERS_MAX);
	int rc = http_listen(options->address, options->setting ? options->setting : "http", &fd,
			     &port, err);
	if (rc)
		return rc;

	struct http_server *server = calloc(1, sizeof(*server));
	if (!server)
		return error_set(err, -ENOMEM, "http: out of memory");
	server->options = *options;
	set_defaults(&server->options);
	http_queue_init(&server->queue, server->options.threads * HTTP_QUEUED_PER_THREAD_MAX,
			server->options.threads * HTTP_QUEUED_OF_PEER_MAX);
	server->watch = http_watch_open(count_late, server);
	rc = http_peers_init(&server->peers, server->options.connections_max,
			     HTTP_CONNECTIONS_PER_PEER_MAX);
	rc = server->watch && !rc ? start_workers(server, err)
				  : error_set(err, -ENOMEM, "http: out of memory");
	if (!rc)
		rc = start_daemon(server, fd, err);
	if (rc) {
		http_server_close(server, 0);
		return rc;
	}

	take_fd(fd); // the daemon owns it
	*ret_port = port;
	*ret_server = server;
	return 0;
}

void http_server_close(struct http_server *server, uint32_t grace_ms)
{
	if (!server)
		return;

	_cleanup_close_ int fd = server->daemon ? MHD_quiesce_daemon(server->daemon) : -1;
	// Workers first: the daemon cannot be stopped while a connection is suspended.
	stop_workers(server);
	uint64_t limit_ns = clock_monotonic_ns() + grace_ms * NS_PER_MS;
	while (atomic_load(&server->exchange_count) && clock_monotonic_ns() < limit_ns)
		usleep(CLOSE_POLL_US);
	if (server->daemon)
		MHD_stop_daemon(server->daemon);
	http_watch_close(server->watch);
	http_peers_deinit(&server->peers);
	http_queue_deinit(&server->queue);
	free(server);
}
