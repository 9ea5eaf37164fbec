// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/sender.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/utc_text.h"
#include "proto/export_message.h"
#include "proto/rpc.h"
#include "agent/boost/boost_mailbox.h"
#include "agent/ship/batch.h"
#include "agent/ship/spool.h"
#include "agent/ship/stack_set.h"

enum {
	ACKNOWLEDGED_MAX = 1 << 16,   // 2 MiB of ids and their table; a busy node has some 20,000
	MESSAGE_KEPT_BYTES = 1 << 20, // a larger buffer is freed after its batch
	CANCEL_AGAIN_MS = 20,         // a call may begin just after it is cancelled
	JITTER_PERCENT = 20,          // of each wait, so that a fleet does not come back at once
	// A batch that fails so often is dropped, so that it does not block the others for ever: some
	// minutes at the longest wait.
	UNEXPECTED_TRIES_MAX = 20,
	TOO_LARGE_TRIES_MAX = 8,
	DEFINITION_TRIES_MAX = 3,
	REFUSED_LOG_S = 60,               // between lines about refused samples
	ORDINARY_MESSAGE_BYTES = 4 << 20, // gRPC's default limit of a message
};

struct sender {
	struct rpc_client *client;
	struct boost_mailbox *boosts; // NULL: none
	struct id128 agent, boot;
	char *address;
	struct spool *spool;
	uint64_t spool_bytes, spool_folder_bytes;
	uint32_t call_ms, backoff_ms_min, backoff_ms_max;
	uint64_t sequence; // of the sampling thread
	pthread_t thread;

	// Of the sender's thread.
	struct stack_set acknowledged;
	struct buffer message;
	uint64_t random;
	uint64_t away_since_ns;     // monotonic; 0: the collector answers
	uint64_t refused_logged_ns; // monotonic; the last line about refused samples
	char failure
		[ERROR_TEXT_BYTES]; // of the last try; empty: it was delivered, or refused for good
	bool has_given_up;          // after it was to stop: the collector is unreachable

	pthread_mutex_t mutex; // over what follows
	pthread_cond_t changed;
	struct sender_stats stats; // the spool's aside
	bool stopping;
	bool stopped;
	uint64_t stop_ns; // monotonic: no call lasts longer; set with `stopping`
};

enum outcome {
	OUTCOME_DELIVERED,
	OUTCOME_REFUSED, // for good
	OUTCOME_DEFINE,  // the collector requests definitions
	OUTCOME_LATER,
};

struct delivery {
	struct batch *batch;
	uint32_t tries;            // that failed
	uint32_t unexpected_tries; // of these, with a status that may be this batch's fault
	uint32_t too_large_tries;
	uint32_t definition_tries;
	uint32_t wait_ms;
};

// ---- one try --------------------------------------------------------------------------------

// Changes when more is known of the stack's locations, so that names that came late are sent, too.
static struct id128 definition_id(const struct profile *profile, const struct stack *stack)
{
	struct {
		struct id128 stack;
		uint64_t detail;
	} definition = { .stack = stack->id };

	for (uint32_t i = 0; i < stack->location_count; i++) {
		uint32_t location = profile->stack_locations[stack->first_location + i];

		definition.detail += location_detail(profile, &profile->locations[location]);
	}
	return id128_of(&definition, sizeof(definition));
}

static bool wants_definition(void *context, const struct profile *profile,
			     const struct stack *stack)
{
	const struct sender *sender = context;

	return !stack_set_has(&sender->acknowledged, definition_id(profile, stack));
}

static void acknowledge(struct sender *sender, const struct profile *profile)
{
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct stack *stack = &profile->stacks[profile->samples[i].stack];

		if (stack->defined)
			stack_set_add(&sender->acknowledged, definition_id(profile, stack));
	}
}

static void log_refused(const struct export_refused *refused)
{
	char time[UTC_TEXT_BYTES];

	if (refused->late)
		log_error("sender: the collector dropped %llu samples: older than its retention "
			  "(it keeps those since %s); check this node's clock, or raise the "
			  "collector's --retention",
			  (unsigned long long)refused->late,
			  utc_text(refused->from_ns / NS_PER_SECOND, time));
	if (refused->future)
		log_error("sender: the collector dropped %llu samples: ahead of its clock (it "
			  "accepts those until %s); check the clocks of this node and of the "
			  "collector",
			  (unsigned long long)refused->future,
			  utc_text(refused->to_ns / NS_PER_SECOND, time));
	if (refused->series)
		log_error("sender: the collector dropped %llu samples: too many series; look for "
			  "labels of high cardinality",
			  (unsigned long long)refused->series);
	if (refused->other)
		log_warn("sender: the collector stored %llu samples under the label other, without "
			 "some of their labels: too many series; look for labels of high "
			 "cardinality, "
			 "such as thread names",
			 (unsigned long long)refused->other);
}

/** The batch is stored, but not all of it, or not as it came. Sending it again would not help. */
static void note_refused(struct sender *sender, const struct export_refused *refused)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (!refused->late && !refused->future && !refused->series && !refused->other)
		return;
	pthread_mutex_lock(&sender->mutex);
	sender->stats.samples_out_of_range += refused->late + refused->future;
	sender->stats.samples_series += refused->series;
	sender->stats.samples_other += refused->other;
	pthread_mutex_unlock(&sender->mutex);
	if (sender->refused_logged_ns &&
	    ns_between(sender->refused_logged_ns, now_ns) < REFUSED_LOG_S * NS_PER_SECOND)
		return;
	sender->refused_logged_ns = now_ns;
	log_refused(refused);
}

static enum outcome read_response(struct sender *sender, struct delivery *delivery,
				  const struct buffer *bytes, struct error *err)
{
	_cleanup_(export_response_deinit) struct export_response response = { 0 };
	int rc = export_response_decode(bytes->bytes, bytes->size, &response, err);

	if (rc)
		return ++delivery->unexpected_tries < UNEXPECTED_TRIES_MAX ? OUTCOME_LATER
									   : OUTCOME_REFUSED;
	if (sender->boosts)
		boost_mailbox_put(sender->boosts, response.boosts, response.boost_count,
				  clock_monotonic_ns());
	if (response.unknown_stack_count) {
		// It may have lost all of them.
		stack_set_clear(&sender->acknowledged);
		error_set(err, -EBADMSG, "the collector requested %u stack definitions again",
			  response.unknown_stack_count);
		return ++delivery->definition_tries < DEFINITION_TRIES_MAX ? OUTCOME_DEFINE
									   : OUTCOME_REFUSED;
	}
	acknowledge(sender, delivery->batch->profile);
	note_refused(sender, &response.refused);
	pthread_mutex_lock(&sender->mutex);
	sender->stats.duplicates += response.duplicate;
	pthread_mutex_unlock(&sender->mutex);
	return OUTCOME_DELIVERED;
}

// Is it this batch that is above a limit, and not the collector that has too little of something for now? A full disk
// is emptied some day: the batch waits for it.
static bool is_too_large(const struct sender *sender, const struct error *err)
{
	switch (err->code) {
	case -EMSGSIZE:
		return true;
	case -EDQUOT:
	case -EBUSY:
	case -ENOSPC:
		return false;
	default: // a proxy's word, or an older collector's
		return sender->message.size > ORDINARY_MESSAGE_BYTES;
	}
}

static enum outcome read_failure(struct sender *sender, struct delivery *delivery,
				 enum rpc_status status, const struct error *err)
{
	switch (status) {
	case RPC_INVALID_ARGUMENT:
		return OUTCOME_REFUSED;
	case RPC_CANCELLED:
	case RPC_UNAVAILABLE:
	case RPC_DEADLINE_EXCEEDED:
	case RPC_FAILED_PRECONDITION: // a collector of an older contract: it may be updated
	case RPC_UNIMPLEMENTED:       // not a collector; somebody may put the right one there
	case RPC_UNAUTHENTICATED:     // the token or certificate may be about to be replaced
	case RPC_PERMISSION_DENIED:
		return OUTCOME_LATER;
	case RPC_RESOURCE_EXHAUSTED:
		if (is_too_large(sender, err) && ++delivery->too_large_tries >= TOO_LARGE_TRIES_MAX)
			return OUTCOME_REFUSED;
		return OUTCOME_LATER;
	default:
		return ++delivery->unexpected_tries < UNEXPECTED_TRIES_MAX ? OUTCOME_LATER
									   : OUTCOME_REFUSED;
	}
}

// Shorter than usual once the sender is to stop.
static uint32_t call_deadline_ms(struct sender *sender)
{
	uint64_t now_ns = clock_monotonic_ns();
	uint32_t call_ms = sender->call_ms;

	pthread_mutex_lock(&sender->mutex);
	if (sender->stopping) {
		uint64_t left_ms = ns_between(now_ns, sender->stop_ns) / NS_PER_MS;

		call_ms = left_ms < call_ms ? (uint32_t)left_ms : call_ms;
	}
	pthread_mutex_unlock(&sender->mutex);
	return call_ms;
}

// As they are now, whatever the age of the batch.
static int add_boosts(struct sender *sender, struct error *err)
{
	struct boost_report report;

	if (!sender->boosts)
		return 0;
	boost_mailbox_read_report(sender->boosts, &report);
	return export_request_add_boosts(&report, &sender->message, err);
}

static enum outcome try_once(struct sender *sender, struct delivery *delivery,
			     enum rpc_status *ret_status, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer response = { 0 };
	struct batch *batch = delivery->batch;

	buffer_clear(&sender->message);
	int rc = export_request_encode(&batch->id, batch->profile, wants_definition, sender,
				       &sender->message, err);
	if (!rc)
		rc = add_boosts(sender, err);
	*ret_status = RPC_INTERNAL;
	if (rc)
		return OUTCOME_REFUSED;
	*ret_status = rpc_client_call(sender->client, SENDER_EXPORT_METHOD, &sender->message,
				      call_deadline_ms(sender), &response, err);
	return *ret_status == RPC_OK ? read_response(sender, delivery, &response, err)
				     : read_failure(sender, delivery, *ret_status, err);
}

// ---- between tries --------------------------------------------------------------------------

static uint32_t with_jitter(struct sender *sender, uint32_t wait_ms)
{
	uint32_t span = wait_ms * 2 / 100 * JITTER_PERCENT;

	sender->random = sender->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return wait_ms - span / 2 + (span ? (uint32_t)(sender->random >> 33) % span : 0);
}

static uint32_t next_wait_ms(const struct sender *sender, const struct delivery *delivery,
			     enum rpc_status status)
{
	uint32_t wait_ms = delivery->wait_ms ? 2 * delivery->wait_ms : sender->backoff_ms_min;

	// An overloaded collector needs more time.
	if (status == RPC_RESOURCE_EXHAUSTED && !delivery->wait_ms)
		wait_ms = 4 * sender->backoff_ms_min;
	return wait_ms < sender->backoff_ms_max ? wait_ms : sender->backoff_ms_max;
}

// Wait, unless the sender is to stop. Returns whether it is.
static bool wait_or_stop(struct sender *sender, uint32_t wait_ms)
{
	uint64_t until_ns = clock_monotonic_ns() + wait_ms * NS_PER_MS;
	const struct timespec until = { .tv_sec = until_ns / NS_PER_SECOND,
					.tv_nsec = until_ns % NS_PER_SECOND };
	int rc = 0;

	pthread_mutex_lock(&sender->mutex);
	while (!sender->stopping && !rc)
		rc = pthread_cond_clockwait(&sender->changed, &sender->mutex, CLOCK_MONOTONIC,
					    &until);
	bool stopping = sender->stopping;
	pthread_mutex_unlock(&sender->mutex);
	return stopping;
}

static bool is_stopping(struct sender *sender)
{
	pthread_mutex_lock(&sender->mutex);
	bool stopping = sender->stopping;
	pthread_mutex_unlock(&sender->mutex);
	return stopping;
}

static void log_away(struct sender *sender, const struct error *err)
{
	const char *folder = spool_folder_path(sender->spool);
	struct spool_stats spool;

	spool_read_stats(sender->spool, &spool);
	if (folder && spool.uses_folder)
		log_warn("sender: export to collector %s failed: %s; spooling batches in %s (limit "
			 "%llu MiB) until it answers",
			 sender->address, err->text, folder,
			 (unsigned long long)(sender->spool_folder_bytes >> 20));
	else
		log_warn("sender: export to collector %s failed: %s; spooling batches in memory "
			 "(limit %llu MiB) until it answers",
			 sender->address, err->text,
			 (unsigned long long)(sender->spool_bytes >> 20));
}

static void note_away(struct sender *sender, const struct error *err)
{
	pthread_mutex_lock(&sender->mutex);
	sender->stats.retries++;
	sender->stats.away = true;
	pthread_mutex_unlock(&sender->mutex);
	if (sender->away_since_ns)
		return;
	sender->away_since_ns = clock_monotonic_ns();
	log_away(sender, err);
}

static void note_answer(struct sender *sender)
{
	if (!sender->away_since_ns)
		return;
	uint64_t away_ms = (clock_monotonic_ns() - sender->away_since_ns) / NS_PER_MS;
	struct spool_stats spool;

	sender->away_since_ns = 0;
	pthread_mutex_lock(&sender->mutex);
	sender->stats.away = false;
	pthread_mutex_unlock(&sender->mutex);
	spool_read_stats(sender->spool, &spool);
	log_info("sender: collector answers again after %llu.%llu s: sending %u spooled batches, "
		 "%llu batches dropped since the agent started",
		 (unsigned long long)(away_ms / 1000), (unsigned long long)(away_ms % 1000 / 100),
		 spool.count, (unsigned long long)spool.dropped_batches);
}

// ---- one batch ------------------------------------------------------------------------------

static void count_delivered(struct sender *sender, const struct batch *batch)
{
	note_answer(sender);
	pthread_mutex_lock(&sender->mutex);
	sender->stats.batches_sent++;
	sender->stats.samples_sent += batch->sample_count;
	sender->stats.bytes_sent += sender->message.size;
	pthread_mutex_unlock(&sender->mutex);
}

static void count_refused(struct sender *sender, const struct batch *batch, const struct error *err)
{
	pthread_mutex_lock(&sender->mutex);
	sender->stats.batches_refused++;
	sender->stats.samples_refused += batch->sample_count;
	pthread_mutex_unlock(&sender->mutex);
	log_error("sender: dropped batch %llu (%llu samples): %s",
		  (unsigned long long)batch->id.sequence, (unsigned long long)batch->sample_count,
		  err->text);
}

static void count_resend(struct sender *sender)
{
	pthread_mutex_lock(&sender->mutex);
	sender->stats.resends++;
	pthread_mutex_unlock(&sender->mutex);
}

// Try until the batch is delivered or refused: then it returns true. Once more, in full, when the sender is to stop.
static bool deliver(struct sender *sender, struct batch *batch)
{
	struct delivery delivery = { .batch = batch };
	struct error err = { 0 };

	for (;;) {
		bool last = is_stopping(sender);
		enum rpc_status status;

		switch (try_once(sender, &delivery, &status, &err)) {
		case OUTCOME_DELIVERED:
			sender->failure[0] = '\0';
			count_delivered(sender, batch);
			return true;
		case OUTCOME_REFUSED:
			sender->failure[0] = '\0';
			count_refused(sender, batch, &err);
			return true;
		case OUTCOME_DEFINE:
			count_resend(sender);
			continue;
		case OUTCOME_LATER:
			memcpy(sender->failure, err.text, sizeof(sender->failure));
			break;
		}
		if (last)
			return false;
		note_away(sender, &err);
		delivery.wait_ms = next_wait_ms(sender, &delivery, status);
		wait_or_stop(sender, with_jitter(sender, delivery.wait_ms));
	}
}

// NULL when the sender is to stop and there is no batch, or no time for one.
static struct batch *next_batch(struct sender *sender)
{
	pthread_mutex_lock(&sender->mutex);
	// After one try in vain the others would fail, too, and the user waits.
	bool is_over = sender->stopping &&
		       (sender->has_given_up || clock_monotonic_ns() >= sender->stop_ns);
	pthread_mutex_unlock(&sender->mutex);
	return is_over ? NULL : spool_next(sender->spool);
}

static void *ship(void *argument)
{
	struct sender *sender = argument;
	struct batch *batch;

	pthread_setname_np(pthread_self(), "sender");
	while ((batch = next_batch(sender))) {
		if (deliver(sender, batch)) {
			spool_finish(sender->spool, batch);
		} else {
			spool_return(sender->spool, batch);
			sender->has_given_up = true;
		}
		if (sender->message.capacity > MESSAGE_KEPT_BYTES)
			buffer_deinit(&sender->message);
	}
	pthread_mutex_lock(&sender->mutex);
	sender->stopped = true;
	pthread_cond_broadcast(&sender->changed);
	pthread_mutex_unlock(&sender->mutex);
	return NULL;
}

// ---- from the sampling thread -----------------------------------------------------------------

static void sender_free(struct sender *sender)
{
	rpc_client_close(sender->client);
	stack_set_deinit(&sender->acknowledged);
	buffer_deinit(&sender->message);
	pthread_cond_destroy(&sender->changed);
	pthread_mutex_destroy(&sender->mutex);
	free(sender->address);
	free(sender);
}

static int start(struct sender *sender, const struct sender_options *options, struct error *err)
{
	const struct spool_options spool = {
		.memory_bytes_max = options->spool_bytes,
		.count_max = SPOOL_BATCHES_MAX,
		.folder = options->spool_folder,
		.folder_bytes_max = options->spool_folder_bytes,
		.memory_ms = SPOOL_MEMORY_MS,
		.retry_ms = SPOOL_RETRY_S * 1000,
	};
	int rc = rpc_client_open(options->address, EXPORT_MESSAGE_BYTES_MAX, options->security,
				 &sender->client, err);

	if (!rc)
		rc = spool_open(&spool, &sender->spool, err);
	if (rc)
		return rc;
	rc = -pthread_create(&sender->thread, NULL, ship, sender);
	return rc ? error_errno(err, rc, "sender: cannot start a thread") : 0;
}

int sender_open(const struct sender_options *options, struct sender **ret_sender, struct error *err)
{
	struct sender *sender = calloc(1, sizeof(*sender));

	if (!sender)
		return error_set(err, -ENOMEM, "sender: out of memory");
	sender->address = strdup(options->address);
	sender->boosts = options->boosts;
	sender->agent = options->agent;
	sender->boot = options->boot;
	sender->spool_bytes = options->spool_bytes;
	sender->spool_folder_bytes = options->spool_folder_bytes;
	sender->call_ms = options->call_ms;
	sender->backoff_ms_min = options->backoff_ms_min;
	sender->backoff_ms_max = options->backoff_ms_max;
	sender->random = options->boot.low;
	sender->acknowledged.count_max = ACKNOWLEDGED_MAX;
	pthread_mutex_init(&sender->mutex, NULL);
	pthread_cond_init(&sender->changed, NULL);

	int rc = sender->address ? start(sender, options, err)
				 : error_set(err, -ENOMEM, "sender: out of memory");
	if (rc) {
		spool_close(sender->spool, NULL);
		sender_free(sender);
		return rc;
	}
	*ret_sender = sender;
	return 0;
}

void sender_push(struct sender *sender, struct profile *profile)
{
	const struct batch_id id = { .agent = sender->agent,
				     .boot = sender->boot,
				     .sequence = ++sender->sequence };
	uint64_t sample_count = profile->sample_count;

	spool_add(sender->spool, batch_new(&id, profile), sample_count);
}

void sender_read_stats(struct sender *sender, struct sender_stats *ret_stats)
{
	pthread_mutex_lock(&sender->mutex);
	*ret_stats = sender->stats;
	pthread_mutex_unlock(&sender->mutex);
	spool_read_stats(sender->spool, &ret_stats->spool);
}

// Past the time for flushing, the thread's call is cancelled.
static void wait_for_thread(struct sender *sender)
{
	pthread_mutex_lock(&sender->mutex);
	while (!sender->stopped) {
		uint64_t now_ns = clock_monotonic_ns();
		bool late = now_ns >= sender->stop_ns;
		uint64_t until_ns = late ? now_ns + CANCEL_AGAIN_MS * NS_PER_MS : sender->stop_ns;
		const struct timespec until = { .tv_sec = until_ns / NS_PER_SECOND,
						.tv_nsec = until_ns % NS_PER_SECOND };

		if (late)
			rpc_client_cancel(sender->client);
		pthread_cond_clockwait(&sender->changed, &sender->mutex, CLOCK_MONOTONIC, &until);
	}
	pthread_mutex_unlock(&sender->mutex);
}

uint64_t sender_close(struct sender *sender, uint32_t flush_ms, struct sender_rest *ret_rest)
{
	struct sender_rest rest = { 0 };

	if (!sender)
		return 0;
	pthread_mutex_lock(&sender->mutex);
	sender->stopping = true;
	sender->stop_ns = clock_monotonic_ns() + flush_ms * NS_PER_MS;
	pthread_cond_broadcast(&sender->changed);
	pthread_mutex_unlock(&sender->mutex);
	spool_end(sender->spool);
	wait_for_thread(sender);
	pthread_join(sender->thread, NULL);
	uint64_t lost = spool_close(sender->spool, &rest.spool);
	memcpy(rest.failure, sender->failure, sizeof(rest.failure));
	if (ret_rest)
		*ret_rest = rest;
	sender_free(sender);
	return lost;
}
