// SPDX-License-Identifier: Apache-2.0
// Wakers on the running kernel: each off-CPU interval is counted once, with its waker. Needs root and BTF.

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/bpf/loader.h"
#include "agent/bpf/machine.h"
#include "agent/sources/switches.h"
#include "agent/sources/wakers.h"
#include "base/clock.h"
#include "tests/unit/agent/event_texts.h"

enum { RECORDS_MAX = 256, TURNS = 20 };

/* Off-wake time of a thread by joined stack: records of pairs may come later than counts. */
struct seen {
	struct wake_record records[RECORDS_MAX];
	uint32_t record_count;
	struct {
		struct stack_hash joined;
		char thread_name[THREAD_NAME_BYTES];
		uint64_t ns, count;
	} waits[RECORDS_MAX];
	uint32_t wait_count;
};

struct fixture {
	struct loader *loader;
	struct switches *switches;
	struct wakers *wakers;
	struct kallsyms *kallsyms;
	struct event_log *events;
	struct seen seen;
};

static bool machine_is_fit(void)
{
	struct error err;

	return machine_check(&err) == 0;
}

static int set_up_at(enum loader_level level, void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	fixture->events = event_log_new();
	const struct loader_options options = {
		.slot_ns = 20 * NS_PER_MS,
		.counts_max = 65536,
		.pid = getpid(),
	};
	const struct switches_options switches_options = { .slot_ns = options.slot_ns,
							   .only_targets = true,
							   .events = fixture->events,
							   .level = level };
	struct error err = { 0 };

	*state = fixture;
	if (!machine_is_fit())
		return 0;
	if (kallsyms_open(NULL, &fixture->kallsyms, &err) ||
	    loader_open(&options, &fixture->loader, &err) ||
	    switches_open(fixture->loader, &switches_options, &fixture->switches, &err))
		fail_msg("%s", err.text);
	loader_set_clock_offset(fixture->loader, clock_realtime_ns() - clock_monotonic_ns());
	const struct wakers_options wakers_options = {
		.slot_ns = options.slot_ns,
		.switches = fixture->switches,
		.kallsyms = fixture->kallsyms,
		.only_targets = true,
		.events = fixture->events,
	};
	if (wakers_open(fixture->loader, &wakers_options, &fixture->wakers, &err))
		fail_msg("wakers_open: %s", err.text);
	fail_on_event(fixture->events); // a fallback is no failure of open()
	return 0;
}

static int set_up(void **state)
{
	return set_up_at(LOADER_LEVEL_FULL, state);
}

static int set_up_where_switches_stepped_down(void **state)
{
	return set_up_at(LOADER_LEVEL_FRAME_POINTER, state);
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	wakers_close(fixture->wakers);
	switches_close(fixture->switches);
	loader_close(fixture->loader);
	kallsyms_close(fixture->kallsyms);
	event_log_free(fixture->events);
	free(fixture);
	return 0;
}

// ---- what is seen ---------------------------------------------------------------------------

static void take_stack(void *context, const struct stack_record *record)
{
	(void)context;
	(void)record;
}

static void take_process(void *context, const struct process_record *record)
{
	(void)context;
	(void)record;
}

static void take_wake(void *context, const struct wake_record *record)
{
	struct seen *seen = context;

	assert_true(seen->record_count < RECORDS_MAX);
	seen->records[seen->record_count++] = *record;
}

static int take_count(void *context, const struct count_key *key, const struct count *count)
{
	struct seen *seen = context;

	if (key->kind != SAMPLE_KIND_OFF_WAKE)
		return 0;
	for (uint32_t i = 0; i < seen->wait_count; i++) {
		if (memcmp(&seen->waits[i].joined, &key->user, sizeof(key->user)) ||
		    memcmp(seen->waits[i].thread_name, key->thread_name, THREAD_NAME_BYTES))
			continue;
		seen->waits[i].ns += count->value;
		seen->waits[i].count += count->samples;
		return 0;
	}
	assert_true(seen->wait_count < RECORDS_MAX);
	seen->waits[seen->wait_count].joined = key->user;
	memcpy(seen->waits[seen->wait_count].thread_name, key->thread_name, THREAD_NAME_BYTES);
	seen->waits[seen->wait_count].ns = count->value;
	seen->waits[seen->wait_count++].count = count->samples;
	return 0;
}

static void drain(struct fixture *fixture)
{
	const struct record_handlers handlers = { .stack = take_stack,
						  .process = take_process,
						  .wake = take_wake,
						  .context = &fixture->seen };
	struct error err = { 0 };

	EXPECT_EQ(0, switches_sweep(fixture->switches), "sweep");
	if (loader_swap_counts(fixture->loader, &err) ||
	    loader_read_records(fixture->loader, &handlers, &err) ||
	    loader_drain_counts(fixture->loader, take_count, &fixture->seen, &err))
		fail_msg("drain: %s", err.text);
}

static const struct wake_record *record_of(const struct seen *seen, const struct stack_hash *joined)
{
	for (uint32_t i = 0; i < seen->record_count; i++)
		if (!memcmp(&seen->records[i].joined, joined, sizeof(*joined)))
			return &seen->records[i];
	fail_msg("a wait without a record");
	return NULL;
}

/* Off-CPU intervals of the named thread that @waker of this kind (NULL: any name) ended. */
static uint64_t time_by(const struct seen *seen, const char *thread_name, uint32_t waker_kind,
			const char *waker, uint64_t *ret_count)
{
	uint64_t ns = 0, count = 0;

	for (uint32_t i = 0; i < seen->wait_count; i++) {
		const struct wake_record *record = record_of(seen, &seen->waits[i].joined);

		if (strncmp(seen->waits[i].thread_name, thread_name, THREAD_NAME_BYTES) ||
		    record->waker_kind != waker_kind ||
		    (waker && strncmp(record->waker_name, waker, THREAD_NAME_BYTES)))
			continue;
		ns += seen->waits[i].ns;
		count += seen->waits[i].count;
	}
	if (ret_count)
		*ret_count = count;
	return ns;
}

// ---- threads that wake each other -----------------------------------------------------------

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ ms / 1000, ms % 1000 * NS_PER_MS }, NULL);
}

static int pipe_ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static atomic_int waiting;
static int state_of_waiting;

static void *reads(void *nothing)
{
	char byte;

	prctl(PR_SET_NAME, "reads");
	while (read(pipe_ends[0], &byte, 1) == 1)
		;
	return nothing;
}

static void *writes(void *nothing)
{
	prctl(PR_SET_NAME, "writes");
	for (int i = 0; i < TURNS; i++) {
		sleep_ms(10);
		assert_int_equal(1, write(pipe_ends[1], "", 1));
	}
	sleep_ms(10);
	close(pipe_ends[1]);
	return nothing;
}

TEST(a_pipes_writer_wakes_its_reader)
{
	struct fixture *fixture = *state;
	pthread_t reader, writer;
	uint64_t count, ns;

	if (!machine_is_fit())
		SKIP("needs root and BTF");
	assert_int_equal(0, pipe(pipe_ends));
	pthread_create(&reader, NULL, reads, NULL);
	pthread_create(&writer, NULL, writes, NULL);
	pthread_join(writer, NULL);
	pthread_join(reader, NULL);
	close(pipe_ends[0]);
	drain(fixture);

	ns = time_by(&fixture->seen, "reads", WAKER_THREAD, "writes", &count);
	// On a busy machine a thread may be woken before it sleeps.
	assert_in_range(count, TURNS - 5, TURNS + 1);
	assert_true(ns >= (TURNS - 5) * 10 * NS_PER_MS);
	EXPECT_EQ(0, time_by(&fixture->seen, "reads", WAKER_INTERRUPT, NULL, NULL), "by none");
	ns = time_by(&fixture->seen, "writes", WAKER_INTERRUPT, NULL, &count);
	assert_in_range(count, TURNS - 5, TURNS + 1);
	assert_true(ns >= (TURNS - 5) * 10 * NS_PER_MS);
	EXPECT_EQ(0, time_by(&fixture->seen, "writes", WAKER_THREAD, NULL, NULL),
		  "nobody wakes who sleeps");
}

/* Waits for a change with a timeout of 3 ms, again and again. */
static void *asks_again(void *nothing)
{
	prctl(PR_SET_NAME, "polls");
	pthread_mutex_lock(&mutex);
	waiting = 1;
	while (!state_of_waiting) {
		struct timespec until;

		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 3 * NS_PER_MS;
		until.tv_sec += until.tv_nsec / NS_PER_SECOND;
		until.tv_nsec %= NS_PER_SECOND;
		pthread_cond_timedwait(&changed, &mutex, &until);
	}
	pthread_mutex_unlock(&mutex);
	return nothing;
}

static uint64_t by_signaller(struct fixture *fixture, uint64_t *ret_by_timer)
{
	pthread_t thread;

	state_of_waiting = waiting = 0;
	fixture->seen.wait_count = 0; // a record comes once
	pthread_create(&thread, NULL, asks_again, NULL);
	while (!waiting)
		sleep_ms(1);
	prctl(PR_SET_NAME, "signals");
	sleep_ms(150);
	pthread_mutex_lock(&mutex);
	state_of_waiting = 1;
	pthread_mutex_unlock(&mutex);
	pthread_cond_signal(&changed);
	pthread_join(thread, NULL);
	drain(fixture);
	*ret_by_timer = time_by(&fixture->seen, "polls", WAKER_INTERRUPT, NULL, NULL);
	return time_by(&fixture->seen, "polls", WAKER_THREAD, "signals", NULL);
}

TEST(timer_wake_ups_belong_to_the_last_waker)
{
	struct fixture *fixture = *state;

	if (!machine_is_fit())
		SKIP("needs root and BTF");
	// The signal may come just when the thread does not wait: then nobody wakes it. What a busy
	// machine made of a wait until then is the timer's.
	for (int i = 0; i < 40; i++) {
		uint64_t by_timer, by_thread = by_signaller(fixture, &by_timer);

		// Each wait is seen, one way or the other, and only once.
		assert_true(by_thread + by_timer <= 10 * NS_PER_SECOND);
		if (by_thread > 20 * NS_PER_MS)
			return; // each of its waits was of 3
	}
	fail_msg("in 40 times never");
}

/* What the kernel refused of the programs of switches is not tried again. */
TEST(starts_at_the_level_of_switches)
{
	struct fixture *fixture = *state;

	if (!machine_is_fit())
		SKIP("needs root and BTF");
	EXPECT_EQ(LOADER_LEVEL_FRAME_POINTER, wakers_level(fixture->wakers), "level");
	a_pipes_writer_wakes_its_reader(state);
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

RUN_TESTS(cmocka_unit_test_setup_teardown(starts_at_the_level_of_switches,
					  set_up_where_switches_stepped_down, tear_down),
	  WITH_FIXTURE(a_pipes_writer_wakes_its_reader),
	  WITH_FIXTURE(timer_wake_ups_belong_to_the_last_waker))
