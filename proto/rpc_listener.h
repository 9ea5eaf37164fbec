// SPDX-License-Identifier: Apache-2.0
// The socket that agents connect to. It outlives a shortage of descriptors or memory: such an accept is
// tried again, and a listener that is broken for good is opened again.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

struct rpc_listener {
	char *address; // as given; the port that was bound if any would do
	int fd;
	// Closed for a moment when no descriptor is left: the connection is accepted and closed,
	// rather than left to wait without an answer.
	int spare_fd;
	struct sockaddr_storage bound;
	socklen_t bound_size;
};

/** Listen on @address. *ret_port: the bound port (0 for a unix socket). @err has the remedy. */
int rpc_listener_open(const char *address, struct rpc_listener *ret_listener, int *ret_port,
		      struct error *err);
/** A zeroed struct with descriptors of -1 is allowed. */
void rpc_listener_close(struct rpc_listener *listener);
/** Close the socket and listen on the same port again. */
int rpc_listener_restart(struct rpc_listener *listener, struct error *err);

/**
 * Accept a connection. Returns a descriptor that does not block, and its address. -EAGAIN: none waits;
 * -ECONNABORTED: one was refused, accept again; -EMFILE and others that pass: try again later;
 * -EBADF: the socket is broken, restart it.
 */
int rpc_listener_accept(struct rpc_listener *listener, struct sockaddr_storage *ret_address);
