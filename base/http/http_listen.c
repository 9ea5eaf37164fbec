// SPDX-License-Identifier: Apache-2.0
#include "base/http/http_listen.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { LISTEN_BACKLOG = 128, HOST_BYTES = 256 };

#define UNIX_PREFIX "unix:"

static void addrinfo_freep(struct addrinfo **info)
{
	if (*info)
		freeaddrinfo(*info);
}

/** Split "host:port" at the last colon. */
static int split_address(const char *address, char host[HOST_BYTES], const char **ret_port)
{
	const char *colon = strrchr(address, ':');

	if (!colon || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1) ||
	    strlen(colon + 1) > 5)
		return -EINVAL;

	size_t size = (size_t)(colon - address);
	if (size >= 2 && address[0] == '[' && address[size - 1] == ']') {
		address++;
		size -= 2;
	} else if (memchr(address, ':', size)) {
		return -EINVAL; // an IPv6 address needs its brackets
	}
	if (size >= HOST_BYTES)
		return -EINVAL;

	memcpy(host, address, size);
	host[size] = '\0';
	*ret_port = colon + 1;
	return 0;
}

/** Open the folder of @path; *ret_name is the rest. A socket's address has 108 bytes, a path more. */
static int open_folder(const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *folder =
		slash ? strndup(path, slash == path ? 1 : (size_t)(slash - path)) : strdup(".");

	if (!folder)
		return -ENOMEM;
	*ret_name = slash ? slash + 1 : path;
	int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/** Is the socket left by a process that has ended? */
static bool is_stale(const struct sockaddr_un *address)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return connect(fd, (const struct sockaddr *)address, sizeof(*address)) &&
	       errno == ECONNREFUSED;
}

/** Only this user may connect: the mode is set before anybody can. */
static int listen_unix(const char *path, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *name = NULL;
	_cleanup_close_ int folder = open_folder(path, &name);
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (folder < 0 || fd < 0)
		return folder < 0 ? folder : -errno;
	if (!*name || snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/%s",
			       folder, name) >= (int)sizeof(address.sun_path))
		return -ENAMETOOLONG;
	if (is_stale(&address))
		unlinkat(folder, name, 0);
	if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) ||
	    fchmodat(folder, name, 0600, 0) || listen(fd, LISTEN_BACKLOG))
		return -errno;
	*ret_fd = take_fd(fd);
	return 0;
}

static int bound_port(int fd)
{
	struct sockaddr_storage name;
	socklen_t size = sizeof(name);

	if (getsockname(fd, (struct sockaddr *)&name, &size))
		return -errno;
	return ntohs(name.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&name)->sin6_port
						: ((struct sockaddr_in *)&name)->sin_port);
}

static int listen_on(const struct addrinfo *info, int *ret_fd)
{
	const int on = 1, off = 0;
	_cleanup_close_ int fd =
		socket(info->ai_family, info->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
		       info->ai_protocol);

	if (fd < 0)
		return -errno;
	// A restarted collector must not wait for connections in TIME_WAIT.
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (info->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(fd, info->ai_addr, info->ai_addrlen) || listen(fd, LISTEN_BACKLOG))
		return -errno;

	*ret_fd = take_fd(fd);
	return 0;
}

static bool is_unix(const char *address)
{
	return strncmp(address, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0;
}

static int describe(int rc, const char *address, const char *setting, struct error *err)
{
	switch (rc) {
	case -EADDRINUSE:
		return error_set(err, rc,
				 "%s is in use by another process; stop it, or choose another "
				 "address with --%s",
				 address, setting);
	case -EACCES:
		return error_set(
			err, rc,
			"%s: ports below 1024 need CAP_NET_BIND_SERVICE; choose another with "
			"--%s",
			address, setting);
	case -EADDRNOTAVAIL:
		return error_set(err, rc,
				 "%s is not an address of this machine; choose one with --%s",
				 address, setting);
	default:
		return error_errno(err, rc, "listen on %s (--%s)", address, setting);
	}
}

int http_listen_check(const char *address, const char *setting, struct error *err)
{
	char host[HOST_BYTES];
	const char *port;

	// getaddrinfo() accepts a number above 65535 and cuts it to another port.
	if (is_unix(address) ||
	    (split_address(address, host, &port) == 0 && strtoul(port, NULL, 10) <= UINT16_MAX))
		return 0;
	return error_set(err, -EINVAL,
			 "--%s: \"%.100s\" is not an address; write 127.0.0.1:7070, [::1]:7070, "
			 ":7070 (all addresses) or unix:PATH",
			 setting, address);
}

int http_listen(const char *address, const char *setting, int *ret_fd, int *ret_port,
		struct error *err)
{
	if (is_unix(address)) {
		int rc = listen_unix(address + strlen(UNIX_PREFIX), ret_fd);

		if (rc == 0)
			*ret_port = 0;
		return rc ? describe(rc, address, setting, err) : 0;
	}

	_cleanup_(addrinfo_freep) struct addrinfo *info = NULL;
	_cleanup_close_ int fd = -1;
	char host[HOST_BYTES];
	const char *port;

	int rc = http_listen_check(address, setting, err);
	if (rc)
		return rc;
	split_address(address, host, &port);
	const struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM };
	int failed = getaddrinfo(*host ? host : NULL, port, &hints, &info);
	if (failed)
		return error_set(err, -EINVAL, "--%s: %s: %s", setting, address,
				 gai_strerror(failed));

	rc = -EADDRNOTAVAIL;
	for (const struct addrinfo *at = info; at && rc; at = at->ai_next)
		rc = listen_on(at, &fd);
	if (rc)
		return describe(rc, address, setting, err);

	*ret_port = bound_port(fd);
	*ret_fd = take_fd(fd);
	return 0;
}
