// SPDX-License-Identifier: Apache-2.0
// Receives batches from agents: the handler of cairn.v1.Collector/Export.
#pragma once

#include <stdint.h>

#include "collector/metrics/metrics.h"
#include "collector/store/store.h"
#include "proto/rpc.h"

#define RECEIVER_METHOD "/cairn.v1.Collector/Export"

enum { RECEIVER_AGENTS_MAX = 4096 }; // entries for counting agents; the least recent is evicted

struct receiver;

/** @store and @metrics are borrowed. NULL when out of memory. */
struct receiver *receiver_new(struct store *store, struct metrics *metrics);
void receiver_free(struct receiver *receiver);

/** An rpc_handler_fn; @context is the receiver. Thread-safe. */
enum rpc_status receiver_export(void *context, const struct rpc_request *request,
				struct buffer *response, struct error *err);

/**
 * The number of agents that sent a batch at or after @since_ns (Unix time). A restarted agent counts
 * once. Thread-safe.
 */
uint32_t receiver_agents_since(struct receiver *receiver, uint64_t since_ns);
