// SPDX-License-Identifier: Apache-2.0
// A deadline for each stage of a connection and its calls: a client that is slow, dead or a flood costs only itself. Only
// proto/rpc_*.c include this.
#pragma once

#include <stdint.h>

#include "proto/rpc_connection.h"

/** Refuse the calls and end the connection that are late. Call it some times a second. */
void rpc_deadlines_check(struct rpc_connection *connection, uint64_t now_ns);
