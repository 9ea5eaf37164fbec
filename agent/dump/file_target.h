// SPDX-License-Identifier: Apache-2.0
// What file descriptors of another process refer to: a path, a pipe, both ends of a socket.
// Layouts are those of /proc/PID/fd, fdinfo and net (proc(5), the kernel's
// Documentation/networking/proc_net_tcp.rst).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/process/proc.h"

enum {
	FILE_TARGET_BYTES = 256,
	SOCKETS_MAX = 1 << 18, // of one network namespace; others have no addresses
	EPOLL_FILES_MAX = 64,  // read of one epoll descriptor
	NET_FILE_BYTES_MAX = 64 << 20,
};

/** Sockets of the process's network namespace are read when first needed. */
struct file_targets {
	const struct proc *proc; // the caller's
	struct socket_list *sockets;
};

void file_targets_init(struct file_targets *targets, const struct proc *proc);
void file_targets_deinit(struct file_targets *targets);

/**
 * "pipe 4711", "/var/log/x", "tcp 10.0.0.1:80 from 10.0.0.2:4711", "eventfd": valid UTF-8, fit to
 * show. Returns 0, or -ESRCH if there is no such descriptor (any more).
 */
int file_target_describe(struct file_targets *targets, int fd, char ret_text[FILE_TARGET_BYTES]);

/** The descriptors that an epoll descriptor watches, up to @size of them. Returns how many. */
uint32_t file_target_epoll(const struct file_targets *targets, int fd, int *ret_fds, uint32_t size);

/* ---- for tests ------------------------------------------------------------------------------ */

enum socket_kind { SOCKET_TCP, SOCKET_UDP, SOCKET_UNIX };

/** One line of /proc/net/tcp and its like. */
struct socket_entry {
	uint64_t inode;
	enum socket_kind kind;
	bool ipv6;
	uint8_t state; // TCP_ESTABLISHED ... of the kernel's tcp_states.h
	uint16_t local_port, remote_port;
	uint32_t local[4], remote[4]; // as the kernel has them in memory
	char path[108];               // of a unix socket that has one
};

/** Returns 0 or -EBADMSG. */
int socket_entry_parse(enum socket_kind kind, bool ipv6, const char *line,
		       struct socket_entry *ret_socket);
void socket_entry_describe(const struct socket_entry *socket, char ret_text[FILE_TARGET_BYTES]);
