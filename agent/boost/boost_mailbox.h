// SPDX-License-Identifier: Apache-2.0
// Between the sender's thread, which gets boosts with each answer of the collector, and the main loop, which
// acts on them. Only the latest of each counts. Thread-safe.
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/contract/boosts.h"

struct boost_mailbox {
	pthread_mutex_t mutex; // over what follows
	struct boost boosts[BOOSTS_OF_AGENT_MAX];
	uint32_t count;
	uint64_t received_ns; // monotonic
	bool has_answer;      // that was not taken
	struct boost_report report;
};

#define BOOST_MAILBOX_INIT                         \
	{                                          \
		.mutex = PTHREAD_MUTEX_INITIALIZER \
	}

/** An answer came at @now_ns (monotonic) with all boosts that apply. */
void boost_mailbox_put(struct boost_mailbox *mailbox, const struct boost *boosts, uint32_t count,
		       uint64_t now_ns);
/** The latest answer, once. False: there is no new one. */
bool boost_mailbox_take(struct boost_mailbox *mailbox, struct boost ret_boosts[BOOSTS_OF_AGENT_MAX],
			uint32_t *ret_count, uint64_t *ret_received_ns);

void boost_mailbox_set_report(struct boost_mailbox *mailbox, const struct boost_report *report);
void boost_mailbox_read_report(struct boost_mailbox *mailbox, struct boost_report *ret_report);
