// SPDX-License-Identifier: Apache-2.0
// Receives batches from agents: the handler of cairn.v1.Collector/Export.
#pragma once

#include <stdint.h>

#include "collector/metrics/metrics.h"
#include "collector/store/store.h"
#include "proto/rpc.h"

#define RECEIVER_METHOD "/cairn.v1.Collector/Export"

struct boost_table;
struct receiver;
struct seen_agents;
struct tenant_limits;

/** All is borrowed; @limits may be NULL: none. NULL when out of memory. */
struct receiver *receiver_new(struct store *store, struct metrics *metrics,
			      struct tenant_limits *limits);
void receiver_free(struct receiver *receiver);

/** An rpc_handler_fn; @context is the receiver. Thread-safe. */
enum rpc_status receiver_export(void *context, const struct rpc_request *request,
				struct buffer *response, struct error *err);

/** The boosts that its answers carry. Borrowed. */
struct boost_table *receiver_boosts(struct receiver *receiver);

/** The agents that sent batches. Borrowed. */
struct seen_agents *receiver_agents(struct receiver *receiver);
