// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/sender.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "agent/ship/batch.h"
#include "agent/ship/protocol.h"
#include "agent/ship/spool.h"

enum {
	CANCEL_AGAIN_MS = 20, // a call may begin just after it is cancelled
	JITTER_PERCENT = 20,  // of each wait, so that a fleet does not come back at once
	REFUSED_LOG_S = 60,   // between lines about refused batches
};

struct sender {
	const struct ship_protocol *protocol;
	void *connection; // the protocol's
	struct id128 agent, boot;
	char *address;
	struct spool *spool;
	uint64_t spool_bytes, spool_folder_bytes;
	uint32_t call_ms, backoff_ms_min, backoff_ms_max;
	uint64_t sequence; // of the sampling thread
	pthread_t thread;

	// Of the sender's thread.
	uint64_t random;
	uint64_t away_since_ns;     // monotonic; 0: the collector answers
	uint64_t refused_logged_ns; // monotonic; the last line about a refused batch
	char failure
		[ERROR_TEXT_BYTES]; // of the last try; empty: it was delivered, or refused for good
	bool has_stopped_retrying;  // while stopping: the collector is unreachable

	pthread_mutex_t mutex; // over what follows
	pthread_cond_t changed;
	struct sender_stats stats; // the spool's aside
	bool stopping;
	bool stopped;
	uint64_t stop_ns; // monotonic: no call lasts longer; set with `stopping`
};

// ---- one try --------------------------------------------------------------------------------

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

// ---- between tries --------------------------------------------------------------------------

static uint32_t with_jitter(struct sender *sender, uint32_t wait_ms)
{
	uint32_t span = wait_ms * 2 / 100 * JITTER_PERCENT;

	sender->random = sender->random * 6364136223846793005ULL + 1442695040888963407ULL;
	return wait_ms - span / 2 + (span ? (uint32_t)(sender->random >> 33) % span : 0);
}

static uint32_t next_wait_ms(const struct sender *sender, const struct delivery *delivery,
			     const struct ship_try *try)
{
	uint32_t wait_ms = delivery->wait_ms ? 2 * delivery->wait_ms : sender->backoff_ms_min;

	// An overloaded collector needs more time.
	if (try->status == RPC_RESOURCE_EXHAUSTED && !delivery->wait_ms)
		wait_ms = 4 * sender->backoff_ms_min;
	wait_ms = try->pause_ms > wait_ms ? try->pause_ms : wait_ms;
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
		log_warn("sender: export to %s %s failed: %s; spooling batches in %s until "
			 "it answers (limit %llu MiB, then the oldest are dropped)",
			 sender->protocol->server, sender->address, err->text, folder,
			 (unsigned long long)(sender->spool_folder_bytes >> 20));
	else
		log_warn("sender: export to %s %s failed: %s; spooling batches in memory "
			 "until it answers (limit %llu MiB, then the oldest are dropped)",
			 sender->protocol->server, sender->address, err->text,
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
	log_info("sender: %s answers again after %llu.%llu s: sending %u spooled batches, "
		 "%llu batches dropped since the agent started",
		 sender->protocol->server, (unsigned long long)(away_ms / 1000),
		 (unsigned long long)(away_ms % 1000 / 100), spool.count,
		 (unsigned long long)spool.dropped_batches);
}

// ---- one batch ------------------------------------------------------------------------------

static void count_delivered(struct sender *sender, const struct batch *batch,
			    const struct ship_try *try)
{
	struct sender_stats *stats = &sender->stats;

	note_answer(sender);
	pthread_mutex_lock(&sender->mutex);
	stats->batches_sent++;
	stats->samples_sent += batch->sample_count;
	stats->bytes_sent += try->bytes;
	stats->duplicates += try->is_duplicate;
	stats->samples_out_of_range += try->refused.late + try->refused.future;
	stats->samples_series += try->refused.series;
	stats->samples_other += try->refused.other;
	stats->profiles_rejected += try->rejected;
	pthread_mutex_unlock(&sender->mutex);
}

static void count_refused(struct sender *sender, const struct batch *batch, const struct error *err)
{
	uint64_t now_ns = clock_monotonic_ns();

	pthread_mutex_lock(&sender->mutex);
	sender->stats.batches_refused++;
	sender->stats.samples_refused += batch->sample_count;
	pthread_mutex_unlock(&sender->mutex);
	if (sender->refused_logged_ns &&
	    ns_between(sender->refused_logged_ns, now_ns) < REFUSED_LOG_S * NS_PER_SECOND)
		return;
	sender->refused_logged_ns = now_ns;
	log_error("sender: %s %s refused batch %llu: dropped its %llu samples: %s (logged at most "
		  "once a minute; %s counts all)",
		  sender->protocol->server, sender->address, (unsigned long long)batch->id.sequence,
		  (unsigned long long)batch->sample_count, err->text,
		  sender->protocol->refused_counter);
}

static void count_resend(struct sender *sender)
{
	pthread_mutex_lock(&sender->mutex);
	sender->stats.resends++;
	pthread_mutex_unlock(&sender->mutex);
}

// Try until the batch is delivered or refused: then it returns true. Once more, in full, when the sender is to stop.
static bool try_until_done(struct sender *sender, const struct batch *batch)
{
	struct delivery delivery = { .batch = batch };
	struct error err = { 0 };

	for (;;) {
		bool last = is_stopping(sender);
		struct ship_try try = { .deadline_ms = call_deadline_ms(sender) };

		switch (sender->protocol->try_once(sender->connection, &delivery, &try, &err)) {
		case SHIP_DELIVERED:
			sender->failure[0] = '\0';
			count_delivered(sender, batch, &try);
			return true;
		case SHIP_REFUSED:
			sender->failure[0] = '\0';
			count_refused(sender, batch, &err);
			return true;
		case SHIP_AGAIN:
			count_resend(sender);
			continue;
		case SHIP_LATER:
			memcpy(sender->failure, err.text, sizeof(sender->failure));
			break;
		}
		if (last)
			return false;
		note_away(sender, &err);
		delivery.wait_ms = next_wait_ms(sender, &delivery, &try);
		wait_or_stop(sender, with_jitter(sender, delivery.wait_ms));
	}
}

static bool deliver(struct sender *sender, const struct batch *batch)
{
	bool is_done = try_until_done(sender, batch);

	sender->protocol->end(sender->connection);
	return is_done;
}

// NULL when the sender is to stop and there is no batch, or no time for one.
static struct batch *next_batch(struct sender *sender)
{
	pthread_mutex_lock(&sender->mutex);
	// After one try in vain the others would fail, too, and the user waits.
	bool is_over = sender->stopping &&
		       (sender->has_stopped_retrying || clock_monotonic_ns() >= sender->stop_ns);
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
			sender->has_stopped_retrying = true;
		}
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
	sender->protocol->close(sender->connection);
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
	int rc = sender->protocol->open(options, &sender->connection, err);

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
	sender->protocol = options->protocol ? options->protocol : &cairn_protocol;
	sender->agent = options->agent;
	sender->boot = options->boot;
	sender->spool_bytes = options->spool_bytes;
	sender->spool_folder_bytes = options->spool_folder_bytes;
	sender->call_ms = options->call_ms;
	sender->backoff_ms_min = options->backoff_ms_min;
	sender->backoff_ms_max = options->backoff_ms_max;
	sender->random = options->boot.low;
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
	*ret_stats = (struct sender_stats){ 0 };
	if (!sender)
		return;
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
			sender->protocol->cancel(sender->connection);
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
