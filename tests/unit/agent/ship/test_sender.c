// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/sender.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "agent/ship/identity.h"
#include "base/clock.h"
#include "base/log.h"
#include "tests/unit/agent/ship/collector_double.h"
#include "tests/unit/agent/ship/disk_double.h"
#include "base/contract/label_names.h"

// Nobody waits that long, however busy the machine is, but who waits in vain.
enum { LONG_MS = 600 * 1000, SAMPLES = 20 };

#define SLOT_NS (20 * NS_PER_MS)

static void sleep_ms(uint32_t ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * 1000000L }, NULL);
}

/* What a failed allocation lost never comes (tests/allocations). */
static uint32_t wait_ms(void)
{
	return getenv("ALLOCATION_SECONDS") ? 2000 : slower_ns(60000);
}

#define WAIT_FOR(condition)                                                          \
	do {                                                                         \
		uint64_t until_ns_ = clock_monotonic_ns() + wait_ms() * NS_PER_MS;   \
		while (!(condition) && clock_monotonic_ns() < until_ns_)             \
			sleep_ms(2);                                                 \
		if (!(condition))                                                    \
			fail_msg("waited %u ms in vain for " #condition, wait_ms()); \
	} while (0)

// Twenty samples of 1,000 on two stacks; the second is new in each export interval.
static struct profile *profile_of_interval(uint32_t number)
{
	struct profile *profile = profile_new(SLOT_NS);
	struct labels labels = { 0 };
	uint32_t series = 0, location, stacks[2];

	profile->from_ns = 1700000000 * NS_PER_SECOND + number * 5 * NS_PER_SECOND;
	profile->to_ns = profile->from_ns + 5 * NS_PER_SECOND;
	labels_set(&labels, LABEL_SERVICE, "llm");
	EXPECT_EQ(0, profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series), "series");
	labels_deinit(&labels);
	for (uint32_t i = 0; i < 2; i++) {
		struct location code = { .id = { i, i ? number + 1 : 0 },
					 .kind = FRAME_KIND_NATIVE };

		EXPECT_EQ(0, profile_add_location(profile, &code, NULL, 0, &location), "location");
		EXPECT_EQ(0,
			  profile_add_stack(profile, &location, 1, STACK_END_COMPLETE, &stacks[i]),
			  "stack");
	}
	for (uint32_t i = 0; i < SAMPLES; i++)
		profile_add_sample(profile, series, stacks[i % 2], profile->from_ns / SLOT_NS + i,
				   1000);
	return profile;
}

static struct sender *start_sender(int port, uint64_t boot, uint64_t spool_bytes,
				   const char *folder)
{
	char address[32];
	const struct sender_options options = {
		.address = address,
		.agent = { 1, 2 },
		.boot = { 3, boot },
		.spool_bytes = spool_bytes,
		.spool_folder = folder,
		.spool_folder_bytes = 64 << 20,
		.call_ms = LONG_MS,
		.backoff_ms_min = 10,
		.backoff_ms_max = 40,
	};
	struct sender *sender = NULL;
	struct error err = { 0 };

	snprintf(address, sizeof(address), "127.0.0.1:%d", port);
	EXPECT_EQ(0, sender_open(&options, &sender, &err), err.text);
	return sender;
}

static struct sender *sender_to(int port, uint64_t spool_bytes)
{
	return start_sender(port, 4, spool_bytes, NULL);
}

static struct sender_stats stats_of(struct sender *sender)
{
	struct sender_stats stats;

	sender_read_stats(sender, &stats);
	return stats;
}

static void expect_sequences(struct collector_double *c, uint64_t first, uint64_t last)
{
	pthread_mutex_lock(&c->mutex); // its threads have written
	pthread_mutex_unlock(&c->mutex);
	EXPECT_EQ(last - first + 1, c->stored, "batches stored");
	for (uint64_t i = first; i <= last; i++)
		EXPECT_EQ(i, c->sequences[i - first], "sequence, in order, each once");
}

TEST(sends_batches_in_order)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	double_start(&c, 0);
	struct sender *sender = sender_to(c.port, 64 << 20);

	for (uint32_t i = 0; i < 10; i++)
		sender_push(sender, profile_of_interval(i));
	WAIT_FOR(stats_of(sender).batches_sent == 10);
	expect_sequences(&c, 1, 10);
	EXPECT_EQ(10 * SAMPLES, c.samples, "samples");
	EXPECT_EQ(10 * SAMPLES * 1000, c.value, "value");
	EXPECT_EQ(1, c.last.agent.high, "agent");
	EXPECT_EQ(4, c.last.boot.low, "boot");
	EXPECT_EQ(10 * SAMPLES, stats_of(sender).samples_sent, "stats");
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	double_stop(&c);
}

TEST(sends_definitions_until_acknowledged)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	double_start(&c, 0);
	struct sender *sender = sender_to(c.port, 64 << 20);

	for (uint32_t i = 0; i < 5; i++) {
		sender_push(sender, profile_of_interval(i));
		WAIT_FOR(stats_of(sender).batches_sent == i + 1);
	}
	EXPECT_EQ(6, c.defined, "the common stack once, a new one in each batch");
	EXPECT_EQ(5, c.calls, "calls");
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	double_stop(&c);
}

TEST(sends_a_definition_again_with_new_names)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	double_start(&c, 0);
	struct sender *sender = sender_to(c.port, 64 << 20);

	for (uint32_t i = 0; i < 4; i++) {
		struct profile *profile = profile_of_interval(7); // the same two stacks each time
		struct line line = { 0 };
		uint32_t location;

		profile_add_string(profile, "late", &line.name);
		if (i >= 2)
			profile_add_location(profile, &profile->locations[0], &line, 1, &location);
		sender_push(sender, profile);
		WAIT_FOR(stats_of(sender).batches_sent == i + 1);
	}
	EXPECT_EQ(3, c.defined, "two stacks, and one of them again with its name");
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	double_stop(&c);
}

TEST(resends_requested_definitions)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	double_start(&c, 0);
	struct sender *sender = sender_to(c.port, 64 << 20);

	sender_push(sender, profile_of_interval(0));
	WAIT_FOR(stats_of(sender).batches_sent == 1);
	pthread_mutex_lock(&c.mutex);
	c.known_count = 0;
	pthread_mutex_unlock(&c.mutex);
	sender_push(sender, profile_of_interval(1));
	WAIT_FOR(stats_of(sender).batches_sent == 2);
	expect_sequences(&c, 1, 2);
	EXPECT_EQ(3, c.calls, "the second batch came twice");
	EXPECT_EQ(1, stats_of(sender).resends, "resends");
	EXPECT_EQ(2 * SAMPLES * 1000, c.value, "value");
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	double_stop(&c);
}

TEST(drops_a_batch_refused_for_ever)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER, .ask_always = true };
	double_start(&c, 0);
	struct sender *sender = sender_to(c.port, 64 << 20);

	sender_push(sender, profile_of_interval(0));
	WAIT_FOR(stats_of(sender).batches_refused == 1);
	EXPECT_EQ(3, c.calls, "tries");
	c.ask_always = false;
	sender_push(sender, profile_of_interval(1));
	WAIT_FOR(stats_of(sender).batches_sent == 1);
	expect_sequences(&c, 2, 2);
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	double_stop(&c);
}

TEST(counts_samples_that_the_collector_refused)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER,
				      .refused = {
					      .late = 1, .future = 2, .series = 3, .other = 4 } };
	double_start(&c, 0);
	struct sender *sender = sender_to(c.port, 64 << 20);

	for (uint32_t i = 0; i < 2; i++)
		sender_push(sender, profile_of_interval(i));
	WAIT_FOR(stats_of(sender).batches_sent == 2);
	struct sender_stats stats = stats_of(sender);
	EXPECT_EQ(2, c.calls, "not sent again");
	EXPECT_EQ(6, stats.samples_out_of_range, "late or of the future");
	EXPECT_EQ(6, stats.samples_series, "without room");
	EXPECT_EQ(8, stats.samples_other, "without their labels");
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	double_stop(&c);
}

TEST(delivers_once_after_an_outage)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	double_start(&c, 0);
	struct sender *sender = sender_to(c.port, 64 << 20);

	sender_push(sender, profile_of_interval(0));
	WAIT_FOR(stats_of(sender).batches_sent == 1);
	double_stop(&c);
	for (uint32_t i = 1; i < 50; i++)
		sender_push(sender, profile_of_interval(i));
	WAIT_FOR(stats_of(sender).away);
	WAIT_FOR(stats_of(sender).retries > 1);
	assert_true(stats_of(sender).spool.count >= 48);
	double_start(&c, c.port);
	WAIT_FOR(stats_of(sender).batches_sent == 50);
	expect_sequences(&c, 1, 50);
	EXPECT_EQ(50 * SAMPLES * 1000, c.value, "value");
	EXPECT_EQ(51, c.defined, "packed batches leave out what is known, too");
	assert_true(stats_of(sender).retries > 1);
	EXPECT_EQ(false, stats_of(sender).away, "back");
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	double_stop(&c);
}

TEST(a_lost_acknowledgement_counts_once)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER, .store_then_fail = 2 };
	double_start(&c, 0);
	struct sender *sender = sender_to(c.port, 64 << 20);

	for (uint32_t i = 0; i < 3; i++)
		sender_push(sender, profile_of_interval(i));
	WAIT_FOR(stats_of(sender).batches_sent == 3);
	expect_sequences(&c, 1, 3);
	EXPECT_EQ(3 * SAMPLES * 1000, c.value, "value");
	EXPECT_EQ(1, stats_of(sender).duplicates, "the first came three times, twice failing");
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	double_stop(&c);
}

static const struct {
	const char *what;
	enum rpc_status status;
	uint32_t times;
	uint64_t sent, refused;
} failures[] = {
	{ "too much to do", RPC_RESOURCE_EXHAUSTED, 5, 3, 0 },
	{ "going away", RPC_UNAVAILABLE, 5, 3, 0 },
	{ "a bug that passes", RPC_INTERNAL, 5, 3, 0 },
	{ "not a collector, for a while", RPC_UNIMPLEMENTED, 5, 3, 0 },
	{ "a token that is replaced", RPC_UNAUTHENTICATED, 60, 3, 0 },
	{ "a role that is added", RPC_PERMISSION_DENIED, 60, 3, 0 },
	{ "one malformed batch", RPC_INVALID_ARGUMENT, 1, 2, 1 },
	{ "a bug that stays with a batch", RPC_UNKNOWN, 20, 2, 1 },
};

TEST(retries_or_drops_by_status)
{
	for EACH (row, failures) {
		struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER,
					      .fail_next = row->times,
					      .fail_status = row->status };
		double_start(&c, 0);
		struct sender *sender = sender_to(c.port, 64 << 20);

		for (uint32_t i = 0; i < 3; i++)
			sender_push(sender, profile_of_interval(i));
		WAIT_FOR(stats_of(sender).batches_sent == row->sent);
		EXPECT_EQ(row->refused, stats_of(sender).batches_refused, row->what);
		EXPECT_EQ(row->times + row->sent, c.calls, row->what);
		expect_sequences(&c, 1 + row->refused, 3);
		EXPECT_EQ(0, sender_close(sender, 1000, NULL), row->what);
		double_stop(&c);
	}
}

// Its message has more than 4 MiB: names are long.
static struct profile *large_profile(void)
{
	enum { STACKS = 2000, NAME_BYTES = 3000 };
	struct profile *profile = profile_of_interval(0);
	char name[NAME_BYTES];

	memset(name, 'n', sizeof(name));
	for (uint32_t i = 0; i < STACKS; i++) {
		struct location code = { .id = { 7, i }, .kind = FRAME_KIND_NATIVE };
		struct line line = { .number = 1 };
		uint32_t location, stack;

		snprintf(name, sizeof(name), "%u", i);
		name[strlen(name)] = 'n';
		name[sizeof(name) - 1] = '\0';
		assert_int_equal(0, profile_add_string(profile, name, &line.name));
		assert_int_equal(0, profile_add_location(profile, &code, &line, 1, &location));
		assert_int_equal(
			0, profile_add_stack(profile, &location, 1, STACK_END_COMPLETE, &stack));
		profile_add_sample(profile, 0, stack, profile->from_ns / SLOT_NS + SAMPLES, 1);
	}
	return profile;
}

static const struct {
	const char *what;
	int code;
	bool is_large;
	uint32_t tries;
	uint64_t refused;
} limits[] = {
	{ "large, disk full", -ENOSPC, true, 30, 0 },
	{ "large, memory taken", -EDQUOT, true, 30, 0 },
	{ "large, too many calls", -EBUSY, true, 30, 0 },
	{ "large, over the tenant's rate", -EUSERS, true, 12, 0 },
	{ "large, above the limit", -EMSGSIZE, true, 8, 1 },
	{ "small, above the limit", -EMSGSIZE, false, 8, 1 },
	{ "large, no reason", -EIO, true, 8, 1 },
	{ "small, no reason", -EIO, false, 30, 0 },
};

TEST(drops_only_what_is_too_large)
{
	for EACH (row, limits) {
		struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER,
					      .fail_next = row->tries,
					      .fail_status = RPC_RESOURCE_EXHAUSTED,
					      .fail_code = row->code };
		double_start(&c, 0);
		struct sender *sender = sender_to(c.port, 64 << 20);

		sender_push(sender, row->is_large ? large_profile() : profile_of_interval(0));
		sender_push(sender, profile_of_interval(1));
		WAIT_FOR(stats_of(sender).batches_sent == 2 - row->refused);
		EXPECT_EQ(row->refused, stats_of(sender).batches_refused, row->what);
		EXPECT_EQ(0, sender_close(sender, 1000, NULL), row->what);
		double_stop(&c);
	}
}

TEST(waits_as_long_as_the_collector_asks)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER,
				      .fail_next = 1,
				      .fail_status = RPC_RESOURCE_EXHAUSTED,
				      .fail_code = -EUSERS,
				      .pause_ms = 3600 * 1000 };
	char address[32];
	double_start(&c, 0);
	const struct sender_options options = { .address = address,
						.agent = { 1, 2 },
						.boot = { 3, 4 },
						.spool_bytes = 64 << 20,
						.call_ms = LONG_MS,
						.backoff_ms_min = 1,
						.backoff_ms_max = LONG_MS };
	struct sender *sender = NULL;
	struct sender_rest rest;
	struct error err = { 0 };

	snprintf(address, sizeof(address), "127.0.0.1:%d", c.port);
	EXPECT_EQ(0, sender_open(&options, &sender, &err), err.text);
	sender_push(sender, profile_of_interval(0));
	WAIT_FOR(stats_of(sender).away);
	usleep(100 * 1000); // without the pause it tries again after 4 ms
	EXPECT_EQ(1, c.calls, "tries");
	EXPECT_EQ(0, sender_close(sender, 1000, &rest), "the end sends it");
	EXPECT_EQ(1, c.stored, "stored");
	double_stop(&c);
}

TEST(retries_after_a_malformed_answer)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER, .rubbish = 3 };
	double_start(&c, 0);
	struct sender *sender = sender_to(c.port, 64 << 20);

	sender_push(sender, profile_of_interval(0));
	WAIT_FOR(stats_of(sender).batches_sent == 1);
	EXPECT_EQ(3, stats_of(sender).retries, "retries");
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	double_stop(&c);
}

TEST(a_full_spool_drops_the_oldest)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	double_start(&c, 0);
	double_stop(&c);
	struct sender *sender = sender_to(c.port, 30000);
	struct sender_stats stats;

	sender_push(sender, profile_of_interval(0)); // under way when the spool overflows
	WAIT_FOR(stats_of(sender).away);
	for (uint32_t i = 1; i < 300; i++) {
		sender_push(sender, profile_of_interval(i));
		assert_true(stats_of(sender).spool.memory_bytes <= 30000);
	}
	stats = stats_of(sender);
	assert_in_range(stats.spool.count, 5, 250);
	EXPECT_EQ(299, stats.spool.count + stats.spool.dropped_batches,
		  "each waits or was dropped");
	EXPECT_EQ(stats.spool.dropped_batches * SAMPLES, stats.spool.dropped_samples, "samples");

	double_start(&c, c.port);
	WAIT_FOR(stats_of(sender).batches_sent == 1 + stats.spool.count);
	EXPECT_EQ(1, c.sequences[0], "the one under way");
	EXPECT_EQ(2 + stats.spool.dropped_batches, c.sequences[1],
		  "then the oldest kept: the gap shows the rest");
	EXPECT_EQ(300, c.sequences[c.stored - 1], "the newest");
	EXPECT_EQ(0, sender_close(sender, 1000, NULL), "lost");
	double_stop(&c);
}

TEST(closing_sends_the_spool)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER, .delay_ms = 20 };
	double_start(&c, 0);
	struct sender *sender = sender_to(c.port, 64 << 20);

	for (uint32_t i = 0; i < 10; i++)
		sender_push(sender, profile_of_interval(i));
	EXPECT_EQ(0, sender_close(sender, LONG_MS, NULL), "lost");
	expect_sequences(&c, 1, 10);
	double_stop(&c);
}

TEST(closing_returns_the_lost_batches)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER };
	struct sender_rest rest = { 0 };
	double_start(&c, 0);
	double_stop(&c);
	struct sender *sender = sender_to(c.port, 64 << 20);

	for (uint32_t i = 0; i < 4; i++)
		sender_push(sender, profile_of_interval(i));
	WAIT_FOR(stats_of(sender).away);
	uint64_t before_ns = clock_monotonic_ns();
	EXPECT_EQ(4, sender_close(sender, LONG_MS, &rest), "lost");
	EXPECT_EQ(4 * SAMPLES, rest.spool.lost_samples, "their samples");
	EXPECT_EQ(0, strncmp(rest.failure, "UNAVAILABLE: ", 13), "why");
	assert_true(clock_monotonic_ns() - before_ns < LONG_MS / 2 * NS_PER_MS); // no vain wait

	// Back in the meantime: the one try more delivers all.
	sender = sender_to(c.port, 64 << 20);
	for (uint32_t i = 0; i < 4; i++)
		sender_push(sender, profile_of_interval(i));
	WAIT_FOR(stats_of(sender).away);
	double_start(&c, c.port);
	EXPECT_EQ(0, sender_close(sender, LONG_MS, &rest), "lost");
	EXPECT_STR("", rest.failure, "delivered");
	expect_sequences(&c, 1, 4);
	double_stop(&c);
}

TEST(closing_cancels_a_hanging_call)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER, .hangs = true };
	double_start(&c, 0);
	struct sender *sender = sender_to(c.port, 64 << 20);

	for (uint32_t i = 0; i < 3; i++)
		sender_push(sender, profile_of_interval(i));
	WAIT_FOR(c.calls == 1);
	uint64_t before_ns = clock_monotonic_ns();
	EXPECT_EQ(3, sender_close(sender, 100, NULL), "lost");
	uint64_t took_ms = (clock_monotonic_ns() - before_ns) / NS_PER_MS;
	assert_in_range(took_ms, 90, LONG_MS / 2);
	c.hangs = false;
	double_stop(&c);
}

TEST(the_next_start_sends_what_waited_once)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER,
				      .store_then_fail = UINT32_MAX };
	struct sender_rest rest = { 0 };

	disk_folder_make();
	double_start(&c, 0);
	struct sender *sender = start_sender(c.port, 4, 64 << 20, disk_folder);
	for (uint32_t i = 0; i < 4; i++)
		sender_push(sender, profile_of_interval(i));
	WAIT_FOR(c.calls >= 1); // the first is stored, but who knows
	double_stop(&c);
	EXPECT_EQ(0, sender_close(sender, 10, &rest), "lost");
	EXPECT_EQ(4, rest.spool.kept, "kept");

	c.store_then_fail = 0;
	c.known_count = 0; // as another collector: definitions travel again
	double_start(&c, c.port);
	sender = start_sender(c.port, 6, 64 << 20, disk_folder);
	WAIT_FOR(stats_of(sender).batches_sent == 4);
	sender_push(sender, profile_of_interval(4));
	WAIT_FOR(stats_of(sender).batches_sent == 5);
	EXPECT_EQ(5, c.stored, "each once");
	for (uint32_t i = 0; i < 5; i++) {
		EXPECT_EQ(i < 4 ? i + 1 : 1, c.sequences[i], "in order");
		EXPECT_EQ(i < 4 ? 4 : 6, c.boots[i], "under the id of the start that sampled it");
	}
	EXPECT_EQ(5 * SAMPLES * 1000, c.value, "value");
	EXPECT_EQ(1, stats_of(sender).duplicates, "the first came twice");
	EXPECT_EQ(0, sender_close(sender, 1000, &rest), "lost");
	EXPECT_EQ(0, rest.spool.kept, "kept");
	double_stop(&c);
	disk_folder_remove();
}

/* The collector takes connections and never answers: the first call lasts for seconds. */
TEST(batches_behind_a_hanging_call_are_written)
{
	struct collector_double c = { .mutex = PTHREAD_MUTEX_INITIALIZER, .hangs = true };
	struct sender_rest rest = { 0 };

	disk_folder_make();
	double_start(&c, 0);
	struct sender *sender = start_sender(c.port, 4, 64 << 20, disk_folder);
	sender_push(sender, profile_of_interval(0));
	WAIT_FOR(c.calls == 1);
	sender_push(sender, profile_of_interval(1));
	WAIT_FOR(stats_of(sender).spool.written == 2); // also the one that is being sent
	EXPECT_EQ(0, sender_close(sender, 100, &rest), "lost");
	EXPECT_EQ(2, rest.spool.kept, "kept");
	c.hangs = false;
	double_stop(&c);
	disk_folder_remove();
}

TEST(closing_an_idle_sender_is_immediate)
{
	uint64_t before_ns = clock_monotonic_ns();
	EXPECT_EQ(0, sender_close(sender_to(1, 64 << 20), LONG_MS, NULL), "lost");
	assert_true(clock_monotonic_ns() - before_ns < LONG_MS / 2 * NS_PER_MS);
	EXPECT_EQ(0, sender_close(NULL, LONG_MS, NULL), "none");
}

TEST(refuses_a_wrong_address)
{
	const struct sender_options options = { .address = "nowhere", SENDER_DEFAULTS };
	struct sender *sender = NULL;
	struct error err = { 0 };

	EXPECT_EQ(-EINVAL, sender_open(&options, &sender, &err), "rc");
	assert_non_null(strstr(err.text, "HOST:PORT"));
	assert_null(sender);
}

TEST(node_id_stays_start_id_changes)
{
	struct id128 a, b, pod_a, pod_b, other, boot_a, boot_b;

	EXPECT_EQ(0, identity_of_node(NULL, &a, NULL) | identity_of_node("", &b, NULL), "node");
	EXPECT_EQ(0,
		  identity_of_node("node-1", &pod_a, NULL) |
			  identity_of_node("node-1", &pod_b, NULL) |
			  identity_of_node("node-2", &other, NULL),
		  "node of a cluster");
	assert_true(id128_equal(pod_a, pod_b));
	assert_false(id128_equal(pod_a, other));
	assert_false(id128_equal(pod_a, a));
	EXPECT_EQ(0, identity_of_start(&boot_a, NULL) | identity_of_start(&boot_b, NULL), "start");
	assert_true(id128_equal(a, b));
	assert_false(id128_equal(boot_a, boot_b));
	assert_false(id128_is_zero(a));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends_batches_in_order),
		cmocka_unit_test(sends_definitions_until_acknowledged),
		cmocka_unit_test(sends_a_definition_again_with_new_names),
		cmocka_unit_test(resends_requested_definitions),
		cmocka_unit_test(drops_a_batch_refused_for_ever),
		cmocka_unit_test(counts_samples_that_the_collector_refused),
		cmocka_unit_test(delivers_once_after_an_outage),
		cmocka_unit_test(a_lost_acknowledgement_counts_once),
		cmocka_unit_test(retries_or_drops_by_status),
		cmocka_unit_test(drops_only_what_is_too_large),
		cmocka_unit_test(waits_as_long_as_the_collector_asks),
		cmocka_unit_test(retries_after_a_malformed_answer),
		cmocka_unit_test(a_full_spool_drops_the_oldest),
		cmocka_unit_test(closing_sends_the_spool),
		cmocka_unit_test(closing_returns_the_lost_batches),
		cmocka_unit_test(closing_cancels_a_hanging_call),
		cmocka_unit_test(the_next_start_sends_what_waited_once),
		cmocka_unit_test(batches_behind_a_hanging_call_are_written),
		cmocka_unit_test(closing_an_idle_sender_is_immediate),
		cmocka_unit_test(refuses_a_wrong_address),
		cmocka_unit_test(node_id_stays_start_id_changes),
	};

	log_set_level(LOG_LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
