// SPDX-License-Identifier: Apache-2.0
// What the log says was lost.

#include <stdbool.h>
#include <string.h>

#include "tests/test.h"

#include "agent/stats.h"
#include "bpf/counters.h"

static struct stats before, now;

static const struct {
	const char *what;
	uint64_t *figure;
	const char *text;
} losses[] = {
	{ "samples", &now.profiler.bpf_counters[COUNTER_COUNTS_FULL],
	  "Counts dropped: counts map full: 7" },
	{ "snapshots", &now.profiler.bpf_counters[COUNTER_SNAPSHOTS_DROPPED],
	  "Stack snapshots dropped: ring buffer full: 7" },
	{ "snapshots not run", &now.profiler.snapshots_lost,
	  "Samples of new processes that could not be unwound: 7" },
	{ "stack traces", &now.profiler.bpf_counters[COUNTER_SENT_STACKS_FULL],
	  "Stack traces sent again on each sample: map of known stacks full: 7" },
	{ "threads", &now.profiler.bpf_counters[COUNTER_THREADS_DROPPED],
	  "Threads without off-CPU time: no memory for their state: 7" },
	{ "waits", &now.profiler.bpf_counters[COUNTER_OFF_CPU_BUSY],
	  "Off-CPU intervals dropped: thread locked by a sweep or a waker: 7" },
	{ "wake-ups", &now.profiler.bpf_counters[COUNTER_WAKES_BUSY],
	  "Wake-ups dropped: thread locked by a sweep or its own switch: 7" },
	{ "page faults", &now.profiler.bpf_counters[COUNTER_FAULTS_DROPPED],
	  "Page faults dropped: the last of a burst, or no memory: 7" },
	{ "calls of the GPU's driver", &now.profiler.bpf_counters[COUNTER_GPU_CALLS_BUSY],
	  "GPU driver calls dropped: two others were being counted on the same CPU: 7" },
	{ "memory of the GPU", &now.profiler.bpf_counters[COUNTER_GPU_MAPS_FULL],
	  "GPU allocations, functions or graphs dropped: map full: 7" },
	{ "names", &now.profiler.jit.cut,
	  "Processes with more functions made at run time than are named: 7" },
	{ "names that nobody looked for", &now.profiler.jit.refused,
	  "Looks for such functions' names left out because all take too much memory: 7" },
	{ "tables", &now.profiler.unwind.tables_refused,
	  "Unwind tables that had no room in the kernel: 7" },
};

TEST(what_was_lost_is_said)
{
	char text[STATS_TEXT_BYTES];

	for EACH (row, losses) {
		memset(&now, 0, sizeof(now));
		*row->figure = 7;
		assert_true(stats_format_losses(&before, &now, text));
		EXPECT_STR(row->text, text, row->what);
	}
}

TEST(what_was_lost_before_is_not_said_again)
{
	char text[STATS_TEXT_BYTES];

	memset(&now, 0, sizeof(now));
	now.profiler.bpf_counters[COUNTER_SAMPLES] = 1000;
	for EACH (row, losses)
		*row->figure = 7;
	assert_false(stats_format_losses(&now, &now, text));
	assert_string_equal("", text);
}

TEST(what_any_busy_machine_loses_is_not_said)
{
	char text[STATS_TEXT_BYTES];

	before = now = (struct stats){ 0 };
	now.profiler.bpf_counters[COUNTER_SWITCHES] = 1000;
	now.profiler.bpf_counters[COUNTER_OFF_CPU_BUSY] = 50;
	assert_false(stats_format_losses(&before, &now, text));
	now.profiler.bpf_counters[COUNTER_OFF_CPU_BUSY] = 51;
	assert_true(stats_format_losses(&before, &now, text));
}

RUN_TESTS(cmocka_unit_test(what_any_busy_machine_loses_is_not_said),
	  cmocka_unit_test(what_was_lost_is_said),
	  cmocka_unit_test(what_was_lost_before_is_not_said_again))
