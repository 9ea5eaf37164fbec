// SPDX-License-Identifier: Apache-2.0
// The BPF programs on the running kernel: they load, report processes, and hash stacks as user
// space does. Needs root and BTF.

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "tests/test.h"

#include "agent/bpf/loader.h"
#include "agent/bpf/machine.h"
#include "agent/bpf/perf_events.h"
#include "base/clock.h"
#include "bpf/unwind/stack_hash.h"
#include "tests/unit/agent/event_texts.h"

static bool machine_is_fit(void)
{
	struct error err;

	return machine_check(&err) == 0;
}

static struct event_log *event_log; // NULL: not read

static struct loader *open_with(const struct loader_options *special)
{
	struct loader_options options = *special;
	struct loader *loader = NULL;
	struct error err = { 0 };

	options.slot_ns = 20 * NS_PER_MS;
	options.counts_max = 4096;
	options.events = event_log;
	if (loader_open(&options, &loader, &err))
		fail_msg("loader_open: %s", err.text);
	return loader;
}

static struct loader *open_loader(bool raw_tracepoints)
{
	return open_with(&(struct loader_options){ .raw_tracepoints = raw_tracepoints });
}

/* What a test looks for among the records, and what it found. */
struct seen {
	uint32_t pid; // of the process of interest
	struct process_record events[8];
	uint32_t event_count;
	uint32_t stacks, wrong_hashes, frames;
	uint32_t depth_max;            // of the callers of this process's stacks
	struct stack_hash last, again; // `again` is looked for
	uint32_t again_count;
};

static void see_process(void *context, const struct process_record *record)
{
	struct seen *seen = context;

	if (record->process.pid == seen->pid && seen->event_count < 8)
		seen->events[seen->event_count++] = *record;
}

static struct stack_hash hash_again(const struct stack_record *record)
{
	const struct stack_trace *trace = &record->trace;
	struct stack_hasher hasher;

	stack_hash_begin(&hasher, &trace->process);
	for (uint32_t i = 0; i < trace->frame_count; i++)
		stack_hash_add(&hasher, trace->frames[i].address, trace->frames[i].tag,
			       trace->frames[i].detail);
	return trace->process.pid ? stack_hash_finish_user(&hasher, &record->leaf,
							   trace->frame_count, trace->end)
				  : stack_hash_finish(&hasher, trace->frame_count, trace->end);
}

static void see_stack(void *context, const struct stack_record *record)
{
	struct seen *seen = context;
	struct stack_hash hash = hash_again(record);

	seen->stacks++;
	seen->frames += record->trace.frame_count;
	if (record->trace.process.pid == (uint32_t)getpid() &&
	    record->trace.frame_count > seen->depth_max)
		seen->depth_max = record->trace.frame_count;
	seen->last = record->trace.hash;
	if (memcmp(&hash, &record->trace.hash, sizeof(hash)) != 0)
		seen->wrong_hashes++;
	if (memcmp(&seen->again, &record->trace.hash, sizeof(hash)) == 0)
		seen->again_count++;
}

static void read_records(struct loader *loader, struct seen *seen)
{
	struct record_handlers handlers = {
		.stack = see_stack,
		.process = see_process,
		.context = seen,
	};
	struct error err = { 0 };

	if (loader_read_records(loader, &handlers, &err))
		fail_msg("loader_read_records: %s", err.text);
}

static void *do_nothing(void *argument)
{
	return argument;
}

/* A child with a second thread, which then executes another program. */
static uint32_t run_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, do_nothing, NULL) == 0)
			pthread_join(thread, NULL);
		execl("/bin/true", "true", (char *)NULL);
		_exit(1);
	}
	waitpid(pid, NULL, 0);
	return pid;
}

static void expect_the_life_of_a_child(bool raw_tracepoints)
{
	struct loader *loader = open_loader(raw_tracepoints);
	struct seen seen = { .pid = run_child() };

	// The kernel reports the exit of the process before its parent can know of it.
	read_records(loader, &seen);
	EXPECT_EQ(3, seen.event_count, "no event of its thread");
	EXPECT_EQ(PROCESS_FORK, seen.events[0].event, "first");
	EXPECT_EQ(getpid(), seen.events[0].parent_pid, "the parent");
	EXPECT_EQ(PROCESS_EXEC, seen.events[1].event, "second");
	EXPECT_STR("true", seen.events[1].name, "the new name");
	EXPECT_EQ(PROCESS_EXIT, seen.events[2].event, "third");
	EXPECT_EQ(seen.events[0].process.start_ns, seen.events[2].process.start_ns,
		  "exec keeps the start");
	EXPECT_EQ(seen.events[0].process.exec_id + 1, seen.events[2].process.exec_id,
		  "exec makes it another process");
	loader_close(loader);
}

TEST(reports_exec_fork_and_exit)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	expect_the_life_of_a_child(false);
}

TEST(raw_tracepoints_report_the_same)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	expect_the_life_of_a_child(true);
}

static volatile uint64_t burnt;

__attribute__((noinline)) static void burn(uint64_t cpu_ns)
{
	for (uint64_t end_ns = clock_process_cpu_ns() + cpu_ns; clock_process_cpu_ns() < end_ns;) {
		for (int i = 0; i < 100000; i++)
			burnt++;
	}
}

static int count_one(void *context, const struct count_key *key, const struct count *count)
{
	uint64_t *sum = context;

	if (key->process.pid == (uint32_t)getpid())
		*sum += count->value;
	return 0;
}

static uint64_t drain(struct loader *loader)
{
	struct error err = { 0 };
	uint64_t sum = 0;

	if (loader_swap_counts(loader, &err) || loader_drain_counts(loader, count_one, &sum, &err))
		fail_msg("drain: %s", err.text);
	return sum;
}

TEST(sends_each_stack_once_by_its_hash)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	// Nobody publishes tables here, but this program keeps frame pointers.
	struct loader *loader =
		open_with(&(struct loader_options){ .level = LOADER_LEVEL_FRAME_POINTER });
	struct period_listener listener = { loader_set_period, loader };
	struct perf_events *events = NULL;
	struct seen seen = { 0 };
	struct error err = { 0 };

	if (perf_events_open(499, 0, loader_sampler_fd(loader), &listener, &events, &err))
		fail_msg("perf_events_open: %s", err.text);
	burn(300 * NS_PER_MS);
	read_records(loader, &seen);
	assert_true(seen.stacks > 0 && seen.frames > 0);
	EXPECT_EQ(0, seen.wrong_hashes, "equal on both sides");

	// What was burnt before is not sent again, though it is counted.
	seen.again = seen.last;
	burn(100 * NS_PER_MS);
	read_records(loader, &seen);
	EXPECT_EQ(0, seen.again_count, "known");
	assert_true(drain(loader) > 200 * NS_PER_MS);
	perf_events_close(events);
	loader_close(loader);
}

static int add_samples(void *context, const struct count_key *key, const struct count *count)
{
	(void)key;
	*(uint64_t *)context += count->samples;
	return 0;
}

TEST(drains_each_sample_once_over_many_swaps)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	struct loader *loader = open_loader(false);
	struct period_listener listener = { loader_set_period, loader };
	struct perf_events *events = NULL;
	uint64_t counters[COUNTER_COUNT], sum = 0;
	struct error err = { 0 };

	if (perf_events_open(997, 0, loader_sampler_fd(loader), &listener, &events, &err))
		fail_msg("perf_events_open: %s", err.text);
	for (int i = 0; i < 2000; i++) {
		assert_int_equal(0, loader_swap_counts(loader, &err));
		assert_int_equal(0, loader_drain_counts(loader, add_samples, &sum, &err));
	}
	burn(50 * NS_PER_MS); // as many as are in both maps
	perf_events_close(events);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(0, loader_swap_counts(loader, &err));
		assert_int_equal(0, loader_drain_counts(loader, add_samples, &sum, &err));
	}
	loader_read_counters(loader, counters);
	EXPECT_EQ(counters[COUNTER_SAMPLES], sum, "samples");
	assert_true(sum > 0);
	loader_close(loader);
}

/* How often this process was seen in each of its stacks. */
enum { STACKS_SEEN_MAX = 64 };
struct stacks_seen {
	struct stack_hash hash[STACKS_SEEN_MAX];
	uint64_t samples[STACKS_SEEN_MAX];
	uint32_t count;
};

static int count_stack(void *context, const struct count_key *key, const struct count *count)
{
	struct stacks_seen *stacks = context;
	uint32_t at = 0;

	if (key->process.pid != (uint32_t)getpid() || (!key->user.high && !key->user.low))
		return 0;
	while (at < stacks->count && memcmp(&stacks->hash[at], &key->user, sizeof(key->user)) != 0)
		at++;
	if (at == STACKS_SEEN_MAX)
		return 0;
	if (at == stacks->count)
		stacks->hash[stacks->count++] = key->user;
	stacks->samples[at] += count->samples;
	return 0;
}

static struct stack_hash most_seen(const struct stacks_seen *stacks)
{
	uint32_t most = 0;

	for (uint32_t i = 1; i < stacks->count; i++)
		if (stacks->samples[i] > stacks->samples[most])
			most = i;
	return stacks->hash[most];
}

TEST(sends_a_dropped_stack_again)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	struct loader *loader = open_loader(false);
	struct period_listener listener = { loader_set_period, loader };
	struct perf_events *events = NULL;
	struct stacks_seen stacks = { 0 };
	struct seen seen = { 0 };
	struct error err = { 0 };

	if (perf_events_open(997, 0, loader_sampler_fd(loader), &listener, &events, &err))
		fail_msg("perf_events_open: %s", err.text);
	// One place that calls burn(), hence one stack.
	for (int i = 0; i < 20 && !seen.again_count; i++) {
		burn(100 * NS_PER_MS);
		read_records(loader, &seen);
		if (i)
			continue;
		assert_int_equal(0, loader_swap_counts(loader, &err));
		assert_int_equal(0, loader_drain_counts(loader, count_stack, &stacks, &err));
		assert_true(stacks.count > 0);
		seen.again = most_seen(&stacks);
		loader_drop_stack(loader, &seen.again);
	}
	EXPECT_EQ(1, seen.again_count, "the stack that this thread is in most of the time");
	perf_events_close(events);
	loader_close(loader);
}

static const struct {
	const char *what;
	enum loader_level level;
	uint32_t depth_min; // without tables in the kernel only frame pointers lead anywhere
} levels[] = {
	{ "full", LOADER_LEVEL_FULL, 0 },
	{ "without Python", LOADER_LEVEL_NO_PYTHON, 0 },
	{ "by frame pointer", LOADER_LEVEL_FRAME_POINTER, 2 },
};

TEST(each_unwinder_level_loads_and_samples)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	event_log = event_log_new();

	for EACH (row, levels) {
		struct loader *loader = open_with(&(struct loader_options){ .level = row->level });
		struct period_listener listener = { loader_set_period, loader };
		struct perf_events *events = NULL;
		struct seen seen = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(row->level, loader_level(loader), row->what);
		fail_on_event(event_log); // nothing was refused, it was asked for
		if (perf_events_open(499, 0, loader_sampler_fd(loader), &listener, &events, &err))
			fail_msg("perf_events_open: %s", err.text);
		burn(100 * NS_PER_MS);
		read_records(loader, &seen);
		assert_true(seen.stacks > 0);
		assert_true(seen.depth_max >= row->depth_min);
		EXPECT_EQ(0, seen.wrong_hashes, row->what);
		assert_true(drain(loader) > 0);
		perf_events_close(events);
		loader_close(loader);
	}
	event_log_free(event_log);
	event_log = NULL;
}

/* ---- kernels that refuse ---- */

/* What a kernel refuses, and what was tried then: each attempt's level, with "r" if untyped. */
static struct {
	enum loader_level sampler_from; // the first level whose sampler is taken
	bool typed;                     // programs at typed tracepoints are refused
	char tried[64];
} refusing;

static void refuse(struct bpf_object *programs, const char *name)
{
	struct bpf_program *program = bpf_object__find_program_by_name(programs, name);

	assert_non_null(program);
	// Of this type it may call next to nothing.
	assert_int_equal(0, bpf_program__set_type(program, BPF_PROG_TYPE_SOCKET_FILTER));
}

static void refuse_some(const struct loader_attempt *attempt, struct bpf_object *programs)
{
	size_t used = strlen(refusing.tried);

	snprintf(refusing.tried + used, sizeof(refusing.tried) - used, " %d%s", (int)attempt->level,
		 attempt->raw_tracepoints ? "r" : "");
	if (attempt->level < refusing.sampler_from)
		refuse(programs, "sample_on_cpu");
	if (refusing.typed && !attempt->raw_tracepoints)
		refuse(programs, "process_exec");
}

static const struct {
	const char *what;
	enum loader_level sampler_from;
	bool typed;
	const char *tried;
	enum loader_level level;
	const char *event; // its beginning; NULL: none
} refusals[] = {
	{ "nothing", LOADER_LEVEL_FULL, false, " 0", LOADER_LEVEL_FULL, NULL },
	{ "Python's part", LOADER_LEVEL_NO_PYTHON, false, " 0 1", LOADER_LEVEL_NO_PYTHON,
	  "unwinder: degraded: no Python frames: the kernel refused the full unwinder (" },
	{ "tables", LOADER_LEVEL_FRAME_POINTER, false, " 0 1 2", LOADER_LEVEL_FRAME_POINTER,
	  "unwinder: degraded: frame pointers only, no Python frames: the kernel refused the full "
	  "unwinder (" },
	{ "typed tracepoints", LOADER_LEVEL_FULL, true, " 0 0r", LOADER_LEVEL_FULL, NULL },
	{ "both", LOADER_LEVEL_NO_PYTHON, true, " 0 0r 1r", LOADER_LEVEL_NO_PYTHON,
	  "unwinder: degraded: no Python frames" },
};

TEST(falls_back_where_the_kernel_refuses)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	event_log = event_log_new();

	for EACH (row, refusals) {
		refusing.sampler_from = row->sampler_from;
		refusing.typed = row->typed;
		refusing.tried[0] = '\0';
		struct loader *loader = open_with(&(struct loader_options){ .spoil = refuse_some });
		const char *event = next_event_text(event_log);

		EXPECT_STR(row->tried, refusing.tried, row->what);
		EXPECT_EQ(row->level, loader_level(loader), row->what);
		EXPECT_EQ(row->event != NULL, event != NULL, row->what);
		if (event && (strncmp(event, row->event, strlen(row->event)) ||
			      !strstr(event, "sample_on_cpu")))
			fail_msg("%s: \"%s\"", row->what, event);
		loader_close(loader);
	}
	event_log_free(event_log);
	event_log = NULL;
}

TEST(reports_why_the_kernel_refused_everything)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	struct loader_options options = { .counts_max = 4096, .spoil = refuse_some };
	struct loader *loader;
	struct error err;

	refusing.sampler_from = LOADER_LEVEL_FRAME_POINTER + 1;
	refusing.typed = false;
	refusing.tried[0] = '\0';
	assert_true(loader_open(&options, &loader, &err) < 0);
	assert_string_equal(" 0 1 2 2r", refusing.tried);
	assert_non_null(strstr(err.text, "load the sampling programs: refused by the kernel"));
	assert_non_null(strstr(err.text, "sample_on_cpu"));
}

enum { CHILDREN_MAX = 5000, PAGE_OF_RECORDS = 4096 / 56 };

/* Makes two records for each that it is called with. */
static void fork_again(void *context, const struct process_record *record)
{
	uint32_t *calls = context;

	(void)record;
	if (++*calls > CHILDREN_MAX)
		return;
	pid_t pid = fork();
	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
}

static void ignore_stack(void *context, const struct stack_record *record)
{
	(void)context;
	(void)record;
}

TEST(stops_reading_while_records_keep_arriving)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");

	struct loader *loader = open_with(&(struct loader_options){ .ring_bytes = 4096 });
	uint32_t calls = 0;
	struct record_handlers handlers = {
		.stack = ignore_stack,
		.process = fork_again,
		.context = &calls,
	};
	struct error err = { 0 };

	run_child();
	assert_int_equal(0, loader_read_records(loader, &handlers, &err));
	assert_true(calls > 1 && calls <= PAGE_OF_RECORDS + 1);

	calls = CHILDREN_MAX + 1;
	assert_int_equal(0, loader_read_records(loader, &handlers, &err));
	assert_true(calls > CHILDREN_MAX + 1); // the rest
	loader_close(loader);
}

RUN_TESTS(cmocka_unit_test(reports_exec_fork_and_exit),
	  cmocka_unit_test(raw_tracepoints_report_the_same),
	  cmocka_unit_test(sends_each_stack_once_by_its_hash),
	  cmocka_unit_test(drains_each_sample_once_over_many_swaps),
	  cmocka_unit_test(sends_a_dropped_stack_again),
	  cmocka_unit_test(each_unwinder_level_loads_and_samples),
	  cmocka_unit_test(falls_back_where_the_kernel_refuses),
	  cmocka_unit_test(reports_why_the_kernel_refused_everything),
	  cmocka_unit_test(stops_reading_while_records_keep_arriving))
