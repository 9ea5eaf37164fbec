// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/file_target.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/utf8.h"

enum { FDINFO_BYTES_MAX = 64 << 10, ADDRESS_BYTES = INET6_ADDRSTRLEN + 10 };

struct socket_list {
	struct socket_entry *sockets; // sorted by inode
	uint32_t count, capacity;
};

/* ---- one socket ---------------------------------------------------------------------------- */

/* "0100007F" or four of these: words of the address as they lie in the kernel's memory. */
static bool parse_address(const char **at, uint32_t words, uint32_t *ret_address,
			  uint16_t *ret_port)
{
	unsigned int word, port;
	int used;

	for (uint32_t i = 0; i < words; i++, *at += 8) {
		if (sscanf(*at, "%8x%n", &word, &used) != 1 || used != 8)
			return false;
		ret_address[i] = word;
	}
	if (sscanf(*at, ":%4x%n", &port, &used) != 1)
		return false;
	*at += used;
	*ret_port = (uint16_t)port;
	return true;
}

/* "0: LOCAL REMOTE STATE TX:RX TR:WHEN RETRANSMITS UID TIMEOUT INODE ..." */
static int parse_inet(const char *line, struct socket_entry *socket)
{
	uint32_t words = socket->ipv6 ? 4 : 1;
	const char *at = strchr(line, ':');
	unsigned int state;

	if (!at)
		return -EBADMSG;
	at += 1 + strspn(at + 1, " ");
	if (!parse_address(&at, words, socket->local, &socket->local_port))
		return -EBADMSG;
	at += strspn(at, " ");
	if (!parse_address(&at, words, socket->remote, &socket->remote_port))
		return -EBADMSG;
	if (sscanf(at, " %2x %*s %*s %*s %*u %*u %" SCNu64, &state, &socket->inode) != 2)
		return -EBADMSG;
	socket->state = (uint8_t)state;
	return 0;
}

/* "ADDRESS: REFERENCES PROTOCOL FLAGS TYPE STATE INODE PATH" */
static int parse_unix(const char *line, struct socket_entry *socket)
{
	const char *at = strchr(line, ':');
	int used = 0;

	if (!at || sscanf(at, ": %*s %*s %*s %*s %*s %" SCNu64 "%n", &socket->inode, &used) != 1)
		return -EBADMSG;
	at += used;
	at += strspn(at, " ");
	snprintf(socket->path, sizeof(socket->path), "%s", at);
	return 0;
}

int socket_entry_parse(enum socket_kind kind, bool ipv6, const char *line,
		       struct socket_entry *ret_socket)
{
	struct socket_entry socket = { .kind = kind, .ipv6 = ipv6 };
	int rc = kind == SOCKET_UNIX ? parse_unix(line, &socket) : parse_inet(line, &socket);

	if (!rc)
		*ret_socket = socket;
	return rc;
}

static const char *format_address(const struct socket_entry *socket, const uint32_t *address,
				  uint16_t port, char ret_text[ADDRESS_BYTES])
{
	char text[INET6_ADDRSTRLEN] = "?";
	bool mapped = socket->ipv6 && !address[0] && !address[1] && address[2] == htonl(0xffff);

	if (socket->ipv6 && !mapped)
		inet_ntop(AF_INET6, address, text, sizeof(text));
	else
		inet_ntop(AF_INET, mapped ? &address[3] : address, text, sizeof(text));
	snprintf(ret_text, ADDRESS_BYTES, socket->ipv6 && !mapped ? "[%s]:%u" : "%s:%u", text,
		 port);
	return ret_text;
}

static const char *tcp_state(uint8_t state)
{
	static const char *const names[] = {
		[TCP_SYN_SENT] = "connecting",     [TCP_SYN_RECV] = "being accepted",
		[TCP_FIN_WAIT1] = "closed here",   [TCP_FIN_WAIT2] = "closed here",
		[TCP_TIME_WAIT] = "closed",        [TCP_CLOSE] = "closed",
		[TCP_CLOSE_WAIT] = "closed there", [TCP_LAST_ACK] = "closed",
		[TCP_CLOSING] = "closed",
	};

	return state < ARRAY_SIZE(names) ? names[state] : NULL;
}

void socket_entry_describe(const struct socket_entry *socket, char ret_text[FILE_TARGET_BYTES])
{
	const char *protocol = socket->kind == SOCKET_TCP ? "tcp" : "udp";
	const char *state = socket->kind == SOCKET_TCP ? tcp_state(socket->state) : NULL;
	char local[ADDRESS_BYTES], remote[ADDRESS_BYTES];

	if (socket->kind == SOCKET_UNIX) {
		snprintf(ret_text, FILE_TARGET_BYTES, "unix socket%s%s", socket->path[0] ? " " : "",
			 socket->path);
		return;
	}
	format_address(socket, socket->local, socket->local_port, local);
	format_address(socket, socket->remote, socket->remote_port, remote);
	if (!socket->remote_port)
		snprintf(ret_text, FILE_TARGET_BYTES, "%s %s%s", protocol, local,
			 socket->state == TCP_LISTEN ? ", listening" : "");
	else
		snprintf(ret_text, FILE_TARGET_BYTES, "%s %s to %s%s%s", protocol, local, remote,
			 state ? ", " : "", state ? state : "");
}

/* ---- all sockets --------------------------------------------------------------------------- */

static int add_socket(struct socket_list *list, const struct socket_entry *socket)
{
	int rc = array_reserve(&list->sockets, sizeof(*socket), &list->capacity, list->count, 1,
			       SOCKETS_MAX);

	if (!rc)
		list->sockets[list->count++] = *socket;
	return rc;
}

static void read_sockets(const struct proc *proc, const char *name, enum socket_kind kind,
			 bool ipv6, struct socket_list *list)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	struct socket_entry socket;

	if (proc_read(proc->files, name, NET_FILE_BYTES_MAX, &text))
		return;
	char *rest = (char *)buffer_string(&text), *line;
	while ((line = strsep(&rest, "\n")))
		if (socket_entry_parse(kind, ipv6, line, &socket) == 0 && add_socket(list, &socket))
			return;
}

static int by_inode(const void *a, const void *b)
{
	const struct socket_entry *left = a, *right = b;

	return (left->inode > right->inode) - (left->inode < right->inode);
}

static struct socket_list *read_all_sockets(const struct proc *proc)
{
	struct socket_list *list = calloc(1, sizeof(*list));

	if (!list)
		return NULL;
	read_sockets(proc, "net/tcp", SOCKET_TCP, false, list);
	read_sockets(proc, "net/tcp6", SOCKET_TCP, true, list);
	read_sockets(proc, "net/udp", SOCKET_UDP, false, list);
	read_sockets(proc, "net/udp6", SOCKET_UDP, true, list);
	read_sockets(proc, "net/unix", SOCKET_UNIX, false, list);
	if (list->count)
		qsort(list->sockets, list->count, sizeof(*list->sockets), by_inode);
	return list;
}

static const struct socket_entry *find_socket(struct file_targets *targets, uint64_t inode)
{
	const struct socket_entry wanted = { .inode = inode };

	if (!targets->sockets)
		targets->sockets = read_all_sockets(targets->proc);
	if (!targets->sockets || !targets->sockets->count)
		return NULL;
	return bsearch(&wanted, targets->sockets->sockets, targets->sockets->count,
		       sizeof(*targets->sockets->sockets), by_inode);
}

/* ---- descriptors --------------------------------------------------------------------------- */

static const char *read_fdinfo(const struct file_targets *targets, int fd, struct buffer *text)
{
	char name[32];

	snprintf(name, sizeof(name), "fdinfo/%d", fd);
	return proc_read(targets->proc->files, name, FDINFO_BYTES_MAX, text) ? ""
									     : buffer_string(text);
}

uint32_t file_target_epoll(const struct file_targets *targets, int fd, int *ret_fds, uint32_t size)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	const char *at = read_fdinfo(targets, fd, &text);
	uint32_t count = 0;

	while (count < size && (at = strstr(at, "tfd:"))) {
		at += strlen("tfd:");
		ret_fds[count++] = (int)strtol(at, NULL, 10);
	}
	return count;
}

static void describe_pidfd(const struct file_targets *targets, int fd, char *ret_text)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	const char *at = strstr(read_fdinfo(targets, fd, &text), "\nPid:");
	long pid = at ? strtol(at + 5, NULL, 10) : 0;

	if (pid > 0)
		snprintf(ret_text, FILE_TARGET_BYTES, "process %ld", pid);
	else
		snprintf(ret_text, FILE_TARGET_BYTES, "a process");
}

/* "anon_inode:[eventfd]" */
static void describe_anonymous(const struct file_targets *targets, int fd, const char *name,
			       char *ret_text)
{
	size_t length = strlen(name);

	if (length > 2 && name[0] == '[' && name[length - 1] == ']') {
		name++;
		length -= 2;
	}
	if (length == strlen("pidfd") && strncmp(name, "pidfd", length) == 0)
		describe_pidfd(targets, fd, ret_text);
	else if (length == strlen("eventpoll") && strncmp(name, "eventpoll", length) == 0)
		snprintf(ret_text, FILE_TARGET_BYTES, "epoll");
	else
		snprintf(ret_text, FILE_TARGET_BYTES, "%.*s", (int)length, name);
}

static void describe_link(struct file_targets *targets, int fd, const char *link, char *ret_text)
{
	const struct socket_entry *socket;
	uint64_t inode;

	if (sscanf(link, "socket:[%" SCNu64 "]", &inode) == 1) {
		socket = find_socket(targets, inode);
		if (socket)
			socket_entry_describe(socket, ret_text);
		else
			snprintf(ret_text, FILE_TARGET_BYTES, "socket %" PRIu64, inode);
	} else if (sscanf(link, "pipe:[%" SCNu64 "]", &inode) == 1) {
		snprintf(ret_text, FILE_TARGET_BYTES, "pipe %" PRIu64, inode);
	} else if (strncmp(link, "anon_inode:", 11) == 0) {
		describe_anonymous(targets, fd, link + 11, ret_text);
	} else if (strlen(link) < FILE_TARGET_BYTES) {
		snprintf(ret_text, FILE_TARGET_BYTES, "%s", link);
	} else { // the end of a path says more
		snprintf(ret_text, FILE_TARGET_BYTES, "...%s",
			 link + strlen(link) - (FILE_TARGET_BYTES - 4));
	}
}

int file_target_describe(struct file_targets *targets, int fd, char ret_text[FILE_TARGET_BYTES])
{
	char name[32], link[4096];

	snprintf(name, sizeof(name), "fd/%d", fd);
	int rc = proc_read_link(targets->proc->files, name, link, sizeof(link));
	if (rc)
		return rc;
	describe_link(targets, fd, link, ret_text);
	utf8_clean(ret_text);
	return 0;
}

void file_targets_init(struct file_targets *targets, const struct proc *proc)
{
	*targets = (struct file_targets){ .proc = proc };
}

void file_targets_deinit(struct file_targets *targets)
{
	if (targets->sockets)
		free(targets->sockets->sockets);
	free(targets->sockets);
	targets->sockets = NULL;
}
