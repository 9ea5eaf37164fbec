// SPDX-License-Identifier: Apache-2.0
// Can the collector ingest? A thread calls the gRPC server as an agent does, through its listener, its loop
// and a thread that handles messages, once a second. Reading the last outcome costs nothing.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "collector/metrics/metrics.h"
#include "proto/rpc.h"

#define HEALTH_METHOD "/grpc.health.v1.Health/Check"

enum {
	READINESS_PROBE_MS_MAX = 3000, // a call to itself takes less than one
	READINESS_TEXT_BYTES = ERROR_TEXT_BYTES,
};

struct readiness;

/** Call @server at once, and then once a second. Both are borrowed. NULL: no memory or no thread. */
struct readiness *readiness_open(struct rpc_server *server, struct metrics *metrics);
/** End the thread, before the server is closed: the last outcome stays. Both: NULL is allowed. */
void readiness_stop(struct readiness *readiness);
void readiness_free(struct readiness *readiness);

/** Was the last call answered? If not, @ret_text says why. Thread-safe. */
bool readiness_read(struct readiness *readiness, char ret_text[READINESS_TEXT_BYTES]);

/** An rpc_handler_fn: grpc.health.v1.Health/Check, for probes of others, too. @context is not used. */
enum rpc_status readiness_health(void *context, const struct rpc_request *request,
				 struct buffer *response, struct error *err);
