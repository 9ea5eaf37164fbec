// SPDX-License-Identifier: Apache-2.0
// A server's call to itself: a plain connection to its own address, whose source only this process can have.
// Only proto/rpc_*.c include this.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

struct rpc_probe {
	int fd;
	struct sockaddr_storage target;
	socklen_t target_size;
	struct sockaddr_storage source; // of a TCP connection
	uint64_t deadline_ns;           // monotonic
	uint32_t deadline_ms;
};

/** Make a socket that can call the server which listens on @bound. */
int rpc_probe_open(struct rpc_probe *probe, const struct sockaddr_storage *bound,
		   socklen_t bound_size, uint32_t deadline_ms, struct error *err);
void rpc_probe_close(struct rpc_probe *probe);
/** Is the accepted @fd, which comes from @address, this probe's? */
bool rpc_probe_matches(const struct rpc_probe *probe, int fd,
		       const struct sockaddr_storage *address);
/** Connect, call @method with an empty message, and await the status. -ETIME: no answer in time; -EIO: another status. */
int rpc_probe_call(struct rpc_probe *probe, const char *method, struct error *err);
