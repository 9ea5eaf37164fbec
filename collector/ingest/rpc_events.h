// SPDX-License-Identifier: Apache-2.0
// Counts and logs what the gRPC server did to bound itself.
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "collector/metrics/metrics.h"
#include "proto/rpc.h"

enum { RPC_EVENT_COUNT = RPC_EVENT_BUDGET_SPENT + 1 };

struct rpc_events {
	struct metrics *metrics;
	pthread_mutex_t lock;
	uint64_t logged_ns[RPC_EVENT_COUNT]; // monotonic; 0: never
};

#define RPC_EVENTS_INIT                           \
	{                                         \
		.lock = PTHREAD_MUTEX_INITIALIZER \
	}

/** For struct rpc_server_options: count, and log each kind once a minute. @context is a struct rpc_events. */
void rpc_events_report(void *context, enum rpc_event event, const char *peer);
