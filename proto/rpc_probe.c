// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_probe.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include <nghttp2/nghttp2.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/rpc_status.h"

enum { READ_BYTES = 4096, MESSAGE_BYTES = 5 }; // an empty message

struct probe_call {
	struct rpc_probe *probe;
	nghttp2_session *session;
	bool has_ended;
	int status;      // -1: none came
	char words[200]; // grpc-message
};

// "All addresses" are reached at this machine's own.
static void set_target(struct rpc_probe *probe)
{
	struct sockaddr_in *four = (struct sockaddr_in *)&probe->target;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&probe->target;

	if (probe->target.ss_family == AF_INET && four->sin_addr.s_addr == htonl(INADDR_ANY))
		four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (probe->target.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&six->sin6_addr))
		six->sin6_addr = in6addr_loopback;
}

// A port of our own, before anybody can be told.
static int bind_source(struct rpc_probe *probe)
{
	socklen_t size = probe->target_size;

	if (probe->target.ss_family == AF_UNIX)
		return 0;
	probe->source = probe->target;
	if (probe->source.ss_family == AF_INET)
		((struct sockaddr_in *)&probe->source)->sin_port = 0;
	else
		((struct sockaddr_in6 *)&probe->source)->sin6_port = 0;
	if (bind(probe->fd, (struct sockaddr *)&probe->source, size) ||
	    getsockname(probe->fd, (struct sockaddr *)&probe->source, &size))
		return -errno;
	return 0;
}

void rpc_probe_close(struct rpc_probe *probe)
{
	if (probe->fd >= 0)
		close(probe->fd);
	probe->fd = -1;
}

int rpc_probe_open(struct rpc_probe *probe, const struct sockaddr_storage *bound,
		   socklen_t bound_size, uint32_t deadline_ms, struct error *err)
{
	probe->target = *bound;
	probe->target_size = bound_size;
	probe->deadline_ms = deadline_ms;
	probe->deadline_ns = clock_monotonic_ns() + deadline_ms * NS_PER_MS;
	set_target(probe);
	probe->fd = socket(bound->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (probe->fd < 0)
		return error_errno(err, -errno, "no socket for a call to itself");
	int rc = bind_source(probe);
	if (rc)
		return error_errno(err, rc, "no port for a call to itself");
	return 0;
}

bool rpc_probe_matches(const struct rpc_probe *probe, int fd,
		       const struct sockaddr_storage *address)
{
	const struct sockaddr_in *four = (const struct sockaddr_in *)&probe->source;
	const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&probe->source;
	const struct sockaddr_in *from4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *from6 = (const struct sockaddr_in6 *)address;
	struct ucred peer = { 0 };
	socklen_t size = sizeof(peer);

	switch (address->ss_family) {
	case AF_INET:
		return probe->source.ss_family == AF_INET && four->sin_port == from4->sin_port &&
		       four->sin_addr.s_addr == from4->sin_addr.s_addr;
	case AF_INET6:
		return probe->source.ss_family == AF_INET6 && six->sin6_port == from6->sin6_port &&
		       !memcmp(&six->sin6_addr, &from6->sin6_addr, sizeof(six->sin6_addr));
	default:
		return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) &&
		       peer.pid == getpid();
	}
}

// Wait for @events. False: the deadline has passed.
static bool await(const struct rpc_probe *probe, short events)
{
	struct pollfd at = { .fd = probe->fd, .events = events };
	uint64_t left_ns = ns_between(clock_monotonic_ns(), probe->deadline_ns);

	return left_ns && poll(&at, 1, (int)(left_ns / NS_PER_MS) + 1) > 0;
}

static int connect_to(struct rpc_probe *probe, struct error *err)
{
	int failed = 0;
	socklen_t size = sizeof(failed);

	if (connect(probe->fd, (struct sockaddr *)&probe->target, probe->target_size) &&
	    errno != EINPROGRESS)
		return error_errno(err, -errno, "it cannot connect to itself");
	if (!await(probe, POLLOUT))
		return error_set(err, -ETIME, "it did not connect to itself within %u ms",
				 probe->deadline_ms);
	getsockopt(probe->fd, SOL_SOCKET, SO_ERROR, &failed, &size);
	return failed ? error_errno(err, -failed, "it cannot connect to itself") : 0;
}

static ssize_t read_message(nghttp2_session *session, int32_t stream, uint8_t *bytes, size_t size,
			    uint32_t *flags, nghttp2_data_source *source, void *context)
{
	(void)session, (void)stream, (void)source, (void)context;
	size = size < MESSAGE_BYTES ? size : MESSAGE_BYTES;
	memset(bytes, 0, size);
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	return (ssize_t)size;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
		     size_t name_size, const uint8_t *value, size_t value_size, uint8_t flags,
		     void *context)
{
	struct probe_call *call = context;

	(void)session, (void)frame, (void)name_size, (void)value_size, (void)flags;
	if (!strcmp((const char *)name, "grpc-status"))
		call->status = atoi((const char *)value);
	if (!strcmp((const char *)name, "grpc-message"))
		snprintf(call->words, sizeof(call->words), "%s", (const char *)value);
	return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t stream, uint32_t code, void *context)
{
	struct probe_call *call = context;

	(void)session, (void)stream, (void)code;
	call->has_ended = true;
	return 0;
}

#define HEADER(text, content)                                                           \
	{                                                                               \
		(uint8_t *)(text), (uint8_t *)(content), strlen(text), strlen(content), \
			NGHTTP2_NV_FLAG_NONE                                            \
	}

static int submit(struct probe_call *call, const char *method)
{
	const nghttp2_nv headers[] = {
		HEADER(":method", "POST"),
		HEADER(":scheme", "http"),
		HEADER(":path", method),
		HEADER(":authority", "localhost"),
		HEADER("content-type", "application/grpc"),
		HEADER("te", "trailers"),
	};
	const nghttp2_data_provider provider = { .read_callback = read_message };

	return nghttp2_submit_settings(call->session, NGHTTP2_FLAG_NONE, NULL, 0) ||
	       nghttp2_submit_request(call->session, NULL, headers, ARRAY_SIZE(headers), &provider,
				      NULL) < 0;
}

// The request is smaller than any socket's buffer.
static int send_all(struct probe_call *call)
{
	const uint8_t *bytes;
	ssize_t size;

	while ((size = nghttp2_session_mem_send(call->session, &bytes)) > 0)
		if (send(call->probe->fd, bytes, (size_t)size, MSG_NOSIGNAL) != size)
			return -EIO;
	return size ? -EIO : 0;
}

static int await_answer(struct probe_call *call, struct error *err)
{
	uint8_t bytes[READ_BYTES];

	while (!call->has_ended) {
		if (!await(call->probe, POLLIN))
			return error_set(err, -ETIME,
					 "its call to itself was not answered within %u ms",
					 call->probe->deadline_ms);
		ssize_t size = recv(call->probe->fd, bytes, sizeof(bytes), 0);
		if (size <= 0)
			return error_set(err, -EIO, "its connection to itself was closed");
		if (nghttp2_session_mem_recv(call->session, bytes, (size_t)size) < 0 ||
		    send_all(call))
			return error_set(err, -EIO, "its connection to itself broke");
	}
	if (call->status != RPC_OK)
		return error_set(err, -EIO, "%s",
				 *call->words ? call->words : "its call to itself failed");
	return 0;
}

int rpc_probe_call(struct rpc_probe *probe, const char *method, struct error *err)
{
	struct probe_call call = { .probe = probe, .status = -1 };
	nghttp2_session_callbacks *callbacks;

	int rc = connect_to(probe, err);
	if (rc)
		return rc;
	if (nghttp2_session_callbacks_new(&callbacks))
		return error_set(err, -ENOMEM, "out of memory for a call to itself");
	nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
	nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
	rc = nghttp2_session_client_new(&call.session, callbacks, &call);
	nghttp2_session_callbacks_del(callbacks);
	if (rc)
		return error_set(err, -ENOMEM, "out of memory for a call to itself");
	rc = submit(&call, method) || send_all(&call)
		     ? error_set(err, -EIO, "its call to itself could not be sent")
		     : await_answer(&call, err);
	nghttp2_session_del(call.session);
	return rc;
}
