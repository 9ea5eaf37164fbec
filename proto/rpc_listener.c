// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { HOST_BYTES = 256 };

static bool is_unix(const char *address)
{
	return !strncmp(address, "unix:", 5);
}

// Of a socket that nobody listens on any more: its process was killed.
static void remove_stale(const char *path)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct stat status;

	snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
	if (fd >= 0 && !stat(path, &status) && S_ISSOCK(status.st_mode) &&
	    connect(fd, (struct sockaddr *)&name, sizeof(name)) && errno == ECONNREFUSED)
		unlink(path);
}

static int listen_unix(const char *address, int *ret_fd, struct error *err)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(name.sun_path, sizeof(name.sun_path), "%s", address + 5);
	remove_stale(name.sun_path);
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof(name)) || listen(fd, SOMAXCONN))
		return error_errno(err, -errno,
				   "cannot listen on %s: check that the folder exists and may be "
				   "written, and that no other process listens there",
				   address);
	*ret_fd = take_fd(fd);
	return 0;
}

static int listen_at(const struct addrinfo *at)
{
	_cleanup_close_ int fd =
		socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, SOMAXCONN))
		return -errno;
	return take_fd(fd);
}

static int listen_tcp(const char *address, int *ret_fd, struct error *err)
{
	const char *colon = strrchr(address, ':');
	const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
					.ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	char host[HOST_BYTES];
	int fd = -EADDRNOTAVAIL;

	snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
	if (*host == '[') {
		memmove(host, host + 1, strlen(host));
		host[strcspn(host, "]")] = 0;
	}
	if (getaddrinfo(host, colon + 1, &hints, &found))
		return error_set(err, -EADDRNOTAVAIL,
				 "cannot listen on %s: the name \"%s\" is not known", address,
				 host);
	for (const struct addrinfo *at = found; at && fd < 0; at = at->ai_next)
		fd = listen_at(at);
	freeaddrinfo(found);
	if (fd == -EADDRINUSE)
		return error_set(err, fd,
				 "cannot listen on %s: another process has this port; stop it, or "
				 "choose another port",
				 address);
	if (fd < 0)
		return error_errno(err, fd, "cannot listen on %s", address);
	*ret_fd = fd;
	return 0;
}

static int open_socket(struct rpc_listener *listener, struct error *err)
{
	int rc = is_unix(listener->address) ? listen_unix(listener->address, &listener->fd, err)
					    : listen_tcp(listener->address, &listener->fd, err);

	listener->bound_size = sizeof(listener->bound);
	if (!rc)
		getsockname(listener->fd, (struct sockaddr *)&listener->bound,
			    &listener->bound_size);
	return rc;
}

static int bound_port(const struct sockaddr_storage *bound)
{
	switch (bound->ss_family) {
	case AF_INET:
		return ntohs(((const struct sockaddr_in *)bound)->sin_port);
	case AF_INET6:
		return ntohs(((const struct sockaddr_in6 *)bound)->sin6_port);
	default:
		return 0;
	}
}

static int keep_address(struct rpc_listener *listener, const char *address, int port)
{
	const char *colon = strrchr(address, ':');

	free(listener->address);
	listener->address = NULL;
	if (is_unix(address))
		listener->address = strdup(address);
	else if (asprintf(&listener->address, "%.*s:%d", (int)(colon - address), address, port) < 0)
		listener->address = NULL;
	return listener->address ? 0 : -ENOMEM;
}

void rpc_listener_close(struct rpc_listener *listener)
{
	if (listener->fd >= 0 && listener->address && is_unix(listener->address))
		unlink(listener->address + 5);
	if (listener->fd >= 0)
		close(listener->fd);
	if (listener->spare_fd >= 0)
		close(listener->spare_fd);
	free(listener->address);
	*listener = (struct rpc_listener){ .fd = -1, .spare_fd = -1 };
}

int rpc_listener_open(const char *address, struct rpc_listener *ret_listener, int *ret_port,
		      struct error *err)
{
	_cleanup_(rpc_listener_close) struct rpc_listener listener = { .fd = -1,
								       .spare_fd = -1,
								       .address = strdup(address) };

	if (!listener.address)
		return error_set(err, -ENOMEM, "rpc: out of memory for a listener");
	int rc = open_socket(&listener, err);
	if (rc)
		return rc;
	int port = bound_port(&listener.bound);
	if (keep_address(&listener, address, port))
		return error_set(err, -ENOMEM, "rpc: out of memory for a listener");
	listener.spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	*ret_port = port;
	*ret_listener = listener;
	listener = (struct rpc_listener){ .fd = -1, .spare_fd = -1 };
	return 0;
}

int rpc_listener_restart(struct rpc_listener *listener, struct error *err)
{
	if (listener->fd >= 0)
		close(listener->fd);
	listener->fd = -1;
	return open_socket(listener, err);
}

// No descriptor is left: accept with the spare one, and close.
static int refuse_one(struct rpc_listener *listener)
{
	if (listener->spare_fd < 0)
		return -EMFILE;

	close(listener->spare_fd);
	int fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	return -EMFILE;
}

int rpc_listener_accept(struct rpc_listener *listener, struct sockaddr_storage *ret_address)
{
	socklen_t size = sizeof(*ret_address);
	int one = 1;

	memset(ret_address, 0, sizeof(*ret_address));
	int fd = accept4(listener->fd, (struct sockaddr *)ret_address, &size,
			 SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0) {
		if (ret_address->ss_family != AF_UNIX)
			setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		return fd;
	}
	switch (errno) {
	case EAGAIN:
		return -EAGAIN;
	case EMFILE:
	case ENFILE:
		return refuse_one(listener);
	case EBADF:
	case EINVAL:
	case ENOTSOCK:
	case EOPNOTSUPP:
		return -EBADF;
	case ENOMEM:
	case ENOBUFS:
		return -ENOMEM;
	default: // of that connection: accept(2) lists the network's errors
		return -ECONNABORTED;
	}
}
