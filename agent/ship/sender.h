// SPDX-License-Identifier: Apache-2.0
// Sends profiles to a server from a thread of its own: one batch at a time, oldest first, until the server
// acknowledges it. While the server is unreachable, batches wait in a bounded spool, in memory or on disk.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/id128.h"
#include "base/profile/profile.h"
#include "agent/ship/spool.h"

struct boost_mailbox;
struct rpc_security;
struct sender;
struct ship_protocol;

/** Of proto/cairn/v1/collector.proto. */
#define SENDER_EXPORT_METHOD "/cairn.v1.Collector/Export"

struct sender_options {
	const struct ship_protocol *protocol; // NULL: cairn's own
	const char *address;                  // of the server, "host:port"
	const struct rpc_security
		*security;  // NULL: neither TLS nor a token; its paths are borrowed
	struct id128 agent; // identity_of_node()
	struct id128 boot;  // identity_of_start()
	uint64_t
		spool_bytes; // limit of the spool in memory; when full, the oldest batch is dropped
	const char *spool_folder; // that the next start finds; NULL: none. Borrowed while it opens
	uint64_t spool_folder_bytes; // limit of what is in it
	struct boost_mailbox
		*boosts;         // gets those of each answer; NULL: ignored. Outlives the sender
	uint32_t call_ms;        // deadline of one try
	uint32_t backoff_ms_min; // wait after the first failure, doubled after each one
	uint32_t backoff_ms_max;
};

/** The agent's own: 10 s for a try, waits of 1 s to 30 s. */
#define SENDER_DEFAULTS .call_ms = 10000, .backoff_ms_min = 1000, .backoff_ms_max = 30000

/** Since the sender was opened. */
struct sender_stats {
	uint64_t batches_sent; // acknowledged
	uint64_t samples_sent;
	uint64_t bytes_sent;      // of acknowledged batches, before compression
	uint64_t batches_refused; // by the collector, for good
	uint64_t samples_refused;
	uint64_t samples_out_of_range; // refused: outside of the collector's range of time
	uint64_t samples_series;       // dropped: too many series
	uint64_t samples_other; // stored in a series of the excess: a quota of series is reached
	uint64_t retries;       // tries that failed and were repeated
	uint64_t resends;       // batches sent again with definitions
	uint64_t profiles_rejected; // by an OTLP endpoint, of acknowledged batches
	uint64_t duplicates;        // acknowledged batches that the collector had stored already
	bool away;                  // the last try failed
	struct spool_stats spool;
};

/** Starts the thread; connects with the first batch. Returns 0 or a negative errno with @err. */
int sender_open(const struct sender_options *options, struct sender **ret_sender,
		struct error *err);

/** Takes the profile of an export interval, from the one thread that samples. Never waits for the network. */
void sender_push(struct sender *sender, struct profile *profile);

/** @sender may be NULL: none. */
void sender_read_stats(struct sender *sender, struct sender_stats *ret_stats);

/** What a sender that is closed has not delivered. */
struct sender_rest {
	struct spool_rest spool;
	char failure[ERROR_TEXT_BYTES]; // of the last try; empty: it was delivered
};

/**
 * Send the spool, for at most @flush_ms, with one more try if the collector is unreachable. What is left is written to the
 * spool's folder. Then stop and free. Returns the number of lost batches; @ret_rest may be NULL, as may @sender,
 * which has no rest.
 */
uint64_t sender_close(struct sender *sender, uint32_t flush_ms, struct sender_rest *ret_rest);
