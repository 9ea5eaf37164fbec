// SPDX-License-Identifier: Apache-2.0
// What a sender speaks to its server: cairn's own protocol, or OTLP. The sender has the thread, the spool, the pauses and the
// counters; a protocol makes requests of a batch and reads the answers.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/export_message.h"
#include "proto/rpc_status.h"
#include "agent/ship/batch.h"

struct sender_options;

enum ship_outcome {
	SHIP_DELIVERED,
	SHIP_REFUSED, // for good
	SHIP_AGAIN,   // at once, with something else: counted as a resend
	SHIP_LATER,
};

/** One batch on its way, over all tries. */
struct delivery {
	const struct batch *batch;
	// Of the protocol: tries that failed so.
	uint32_t unexpected_tries; // with a status that may be this batch's fault
	uint32_t too_large_tries;
	uint32_t definition_tries;
	uint32_t wait_ms; // the sender's last pause
};

/** What one try came to, beside its outcome. */
struct ship_try {
	uint32_t deadline_ms; // in
	enum rpc_status status;
	uint32_t pause_ms; // that the server asked for; 0: none
	uint64_t bytes;    // of acknowledged requests
	bool is_duplicate;
	struct export_refused refused; // of an acknowledged batch
	uint64_t rejected;             // profiles of an acknowledged batch (OTLP)
};

struct ship_protocol {
	const char *server;          // "collector": of log lines
	const char *refused_counter; // that counts all of which a log line names one batch
	/** Returns 0 or a negative errno and @err. */
	int (*open)(const struct sender_options *options, void **ret_context, struct error *err);
	void (*close)(void *context);
	/** @err is filled unless the batch was delivered. */
	enum ship_outcome (*try_once)(void *context, struct delivery *delivery,
				      struct ship_try *ret_try, struct error *err);
	/** The batch is delivered, refused, or left for later. NULL: nothing is to be done. */
	void (*end)(void *context);
	/** From another thread: end the call in flight. */
	void (*cancel)(void *context);
};

extern const struct ship_protocol cairn_protocol, otlp_protocol;

enum {
	// A batch that fails so often is dropped, so that it does not block the others for ever: some
	// minutes at the longest wait.
	UNEXPECTED_TRIES_MAX = 20,
	TOO_LARGE_TRIES_MAX = 8,
	DEFINITION_TRIES_MAX = 3,
	MESSAGE_KEPT_BYTES = 1 << 20, // a larger buffer is freed after its batch
};
