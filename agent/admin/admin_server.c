// SPDX-License-Identifier: Apache-2.0
#include "agent/admin/admin_server.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <microhttpd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/http/http_guard.h"
#include "base/loaded_library.h"

static struct {
	struct MHD_Daemon *(*start_daemon)(unsigned int flags, uint16_t port,
					   MHD_AcceptPolicyCallback accept, void *accept_context,
					   MHD_AccessHandlerCallback handle, void *context, ...);
	void (*stop_daemon)(struct MHD_Daemon *daemon);
	const char *(*lookup)(struct MHD_Connection *connection, enum MHD_ValueKind kind,
			      const char *key);
	struct MHD_Response *(*create_response)(size_t size, void *bytes,
						enum MHD_ResponseMemoryMode mode);
	enum MHD_Result (*add_header)(struct MHD_Response *response, const char *name,
				      const char *value);
	enum MHD_Result (*queue)(struct MHD_Connection *connection, unsigned int status,
				 struct MHD_Response *response);
	void (*destroy_response)(struct MHD_Response *response);
} library;

struct admin_server {
	struct MHD_Daemon *daemon;
	int wanted_fd; // an eventfd
	struct http_guard guard;
	pthread_mutex_t lock;
	pthread_cond_t reported;
	// under the lock
	bool is_closing;
	bool is_wanted;     // the main loop was asked
	uint64_t report_ns; // 0: there is none yet
	bool is_ready;
	char reason[ADMIN_REASON_BYTES]; // why it is not
	struct buffer metrics;
};

// ---- reports --------------------------------------------------------------------------------

static bool is_fresh(const struct admin_server *server)
{
	return server->report_ns &&
	       ns_between(server->report_ns, clock_monotonic_ns()) < ADMIN_REPORT_NS_MIN;
}

static void want_report(struct admin_server *server)
{
	const uint64_t one = 1;

	if (!server->is_wanted)
		server->is_wanted = write(server->wanted_fd, &one, sizeof(one)) == sizeof(one);
}

/* The lock is held. False: the main loop did not answer. */
static bool await_report(struct admin_server *server)
{
	uint64_t until_ns = clock_monotonic_ns() + ADMIN_WAIT_MS_MAX * NS_PER_MS;
	const struct timespec until = { (time_t)(until_ns / NS_PER_SECOND),
					(long)(until_ns % NS_PER_SECOND) };

	while (!is_fresh(server) && !server->is_closing) {
		want_report(server);
		if (pthread_cond_timedwait(&server->reported, &server->lock, &until))
			return is_fresh(server);
	}
	return !server->is_closing;
}

int admin_server_fd(const struct admin_server *server)
{
	return server->wanted_fd;
}

void admin_server_report(struct admin_server *server, const struct admin_report *report)
{
	uint64_t wanted;

	(void)!read(server->wanted_fd, &wanted, sizeof(wanted));
	pthread_mutex_lock(&server->lock);
	buffer_clear(&server->metrics);
	buffer_append(&server->metrics, report->metrics, report->metrics_size);
	server->report_ns = server->metrics.rc ? 0 : clock_monotonic_ns();
	server->is_ready = !report->not_ready;
	snprintf(server->reason, sizeof(server->reason), "%s",
		 report->not_ready ? report->not_ready : "");
	server->is_wanted = false;
	pthread_cond_broadcast(&server->reported);
	pthread_mutex_unlock(&server->lock);
}

// ---- requests -------------------------------------------------------------------------------

struct answer {
	unsigned int status;
	struct buffer body;
};

static void answer_health(struct admin_server *server, struct answer *answer)
{
	(void)server;
	buffer_append_string(&answer->body, "ok\n");
}

static void answer_ready(struct admin_server *server, struct answer *answer)
{
	answer->status = server->is_ready ? MHD_HTTP_OK : MHD_HTTP_SERVICE_UNAVAILABLE;
	buffer_printf(&answer->body, "%s\n", server->is_ready ? "ok" : server->reason);
}

static void answer_metrics(struct admin_server *server, struct answer *answer)
{
	buffer_append(&answer->body, server->metrics.bytes, server->metrics.size);
}

/* All need a report. The lock is held. */
static const struct {
	const char *path;
	void (*answer)(struct admin_server *server, struct answer *answer);
} routes[] = {
	{ "/healthz", answer_health },
	{ "/readyz", answer_ready },
	{ "/metrics", answer_metrics },
};

static void answer_path(struct admin_server *server, const char *path, struct answer *answer)
{
	size_t at = 0;

	while (at < ARRAY_SIZE(routes) && strcmp(routes[at].path, path) != 0)
		at++;
	if (at == ARRAY_SIZE(routes)) {
		answer->status = MHD_HTTP_NOT_FOUND;
		buffer_append_string(&answer->body, "no such path: this is cairn-agent, with "
						    "/metrics, /healthz and /readyz\n");
		return;
	}
	pthread_mutex_lock(&server->lock);
	if (await_report(server)) {
		routes[at].answer(server, answer);
	} else {
		answer->status = MHD_HTTP_SERVICE_UNAVAILABLE;
		buffer_printf(&answer->body, "the agent's main loop did not answer within %d ms\n",
			      ADMIN_WAIT_MS_MAX);
	}
	pthread_mutex_unlock(&server->lock);
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return library.lookup(connection, MHD_HEADER_KIND, name);
}

static bool is_admitted(struct admin_server *server, struct MHD_Connection *connection,
			const char *method, struct answer *answer)
{
	const struct http_caller caller = {
		.host = header(connection, "Host"),
		.origin = header(connection, "Origin"),
		.fetch_site = header(connection, "Sec-Fetch-Site"),
		.fetch_mode = header(connection, "Sec-Fetch-Mode"),
		.fetch_destination = header(connection, "Sec-Fetch-Dest"),
	};
	struct http_refusal refusal;

	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0) {
		answer->status = MHD_HTTP_METHOD_NOT_ALLOWED;
		buffer_append_string(&answer->body, "only GET and HEAD\n");
		return false;
	}
	if (http_guard_admits(&server->guard, &caller, &refusal))
		return true;
	answer->status = (unsigned int)refusal.status;
	buffer_printf(&answer->body, "%s\n", refusal.message);
	return false;
}

static enum MHD_Result send_answer(struct MHD_Connection *connection, struct answer *answer)
{
	enum MHD_Result result = MHD_NO;
	struct MHD_Response *response = NULL;

	if (!answer->body.rc)
		response = library.create_response(answer->body.size, answer->body.bytes,
						   MHD_RESPMEM_MUST_COPY);
	if (response) {
		library.add_header(response, "Content-Type",
				   "text/plain; version=0.0.4; charset=utf-8");
		if (answer->status == MHD_HTTP_METHOD_NOT_ALLOWED)
			library.add_header(response, "Allow", "GET, HEAD");
		result = library.queue(connection, answer->status, response);
		library.destroy_response(response);
	}
	buffer_deinit(&answer->body);
	return result;
}

static enum MHD_Result on_request(void *context, struct MHD_Connection *connection, const char *url,
				  const char *method, const char *version, const char *upload,
				  size_t *upload_size, void **request)
{
	struct answer answer = { .status = MHD_HTTP_OK };
	struct admin_server *server = context;

	(void)version, (void)upload, (void)upload_size, (void)request;
	if (is_admitted(server, connection, method, &answer))
		answer_path(server, url, &answer);
	return send_answer(connection, &answer);
}

// ---- life -----------------------------------------------------------------------------------

static int load_library(struct error *err)
{
	static const char *const names[] = { "libmicrohttpd.so.12" };
	static const struct library_function functions[] = {
		{ &library.start_daemon, "MHD_start_daemon" },
		{ &library.stop_daemon, "MHD_stop_daemon" },
		{ &library.lookup, "MHD_lookup_connection_value" },
		{ &library.create_response, "MHD_create_response_from_buffer" },
		{ &library.add_header, "MHD_add_response_header" },
		{ &library.queue, "MHD_queue_response" },
		{ &library.destroy_response, "MHD_destroy_response" },
	};

	return loaded_library_open("--admin", names, ARRAY_SIZE(names), functions,
				   ARRAY_SIZE(functions), err);
}

static int start(struct admin_server *server, const char *address, int fd, struct error *err)
{
	int rc = http_guard_init(&server->guard, address, NULL, err);

	if (rc)
		return rc;
	server->daemon = library.start_daemon(
		MHD_USE_POLL_INTERNAL_THREAD, 0, NULL, NULL, on_request, server,
		MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned int)ADMIN_CONNECTIONS_MAX, MHD_OPTION_PER_IP_CONNECTION_LIMIT,
		(unsigned int)ADMIN_CONNECTIONS_PER_IP_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
		(size_t)ADMIN_HEADER_BYTES_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
		(unsigned int)ADMIN_IDLE_S_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_END);
	return server->daemon ? 0 : error_set(err, -EIO, "--admin: libmicrohttpd does not start");
}

int admin_server_open(const char *address, int fd, struct admin_server **ret_server,
		      struct error *err)
{
	struct admin_server *server = calloc(1, sizeof(*server));
	pthread_condattr_t attributes;

	if (!server) {
		close(fd);
		return error_set(err, -ENOMEM, "out of memory");
	}
	pthread_mutex_init(&server->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&server->reported, &attributes);
	pthread_condattr_destroy(&attributes);
	server->wanted_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int rc = server->wanted_fd < 0 ? error_errno(err, -errno, "--admin") : load_library(err);
	if (!rc)
		rc = start(server, address, fd, err);
	if (rc) {
		close(fd);
		admin_server_close(server);
		return rc;
	}
	*ret_server = server;
	return 0;
}

void admin_server_close(struct admin_server *server)
{
	if (!server)
		return;
	pthread_mutex_lock(&server->lock);
	server->is_closing = true;
	pthread_cond_broadcast(&server->reported);
	pthread_mutex_unlock(&server->lock);
	if (server->daemon)
		library.stop_daemon(server->daemon); // closes its socket, ends its thread
	cleanup_closep(&server->wanted_fd);
	http_guard_deinit(&server->guard);
	buffer_deinit(&server->metrics);
	pthread_cond_destroy(&server->reported);
	pthread_mutex_destroy(&server->lock);
	free(server);
}
