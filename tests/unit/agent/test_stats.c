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
	  "Samples dropped because the counts map was full: 7" },
	{ "snapshots", &now.profiler.bpf_counters[COUNTER_SNAPSHOTS_LOST],
	  "Samples of new processes counted with a cut stack because the ring buffer was full: 7" },
	{ "snapshots not run", &now.profiler.snapshots_lost,
	  "Samples of new processes that could not be unwound: 7" },
	{ "bodies", &now.profiler.bpf_counters[COUNTER_STACKS_FULL],
	  "Stack bodies not remembered as sent because the map of known stacks was full: 7" },
	{ "threads", &now.profiler.bpf_counters[COUNTER_THREADS_FULL],
	  "Threads of which no time was told because there was no memory to keep it: 7" },
	{ "waits", &now.profiler.bpf_counters[COUNTER_WAITS_BUSY],
	  "Waits left out because the agent was just counting them: 7" },
	{ "wake-ups", &now.profiler.bpf_counters[COUNTER_WAKES_BUSY],
	  "Wake-ups left out because the thread's wait was just being counted: 7" },
	{ "page faults", &now.profiler.bpf_counters[COUNTER_FAULTS_UNCHARGED],
	  "Page faults that no sample stands for: the last of a storm, or there was no memory: 7" },
	{ "calls of the GPU's driver", &now.profiler.bpf_counters[COUNTER_GPU_BUSY],
	  "Calls of GPU drivers left out because two others were being counted on their CPU: 7" },
	{ "memory of the GPU", &now.profiler.bpf_counters[COUNTER_GPU_FULL],
	  "Allocations, functions and graphs of GPUs not kept because a map was full: 7" },
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
	now.profiler.bpf_counters[COUNTER_WAITS_BUSY] = 50;
	assert_false(stats_format_losses(&before, &now, text));
	now.profiler.bpf_counters[COUNTER_WAITS_BUSY] = 51;
	assert_true(stats_format_losses(&before, &now, text));
}

RUN_TESTS(cmocka_unit_test(what_any_busy_machine_loses_is_not_said),
	  cmocka_unit_test(what_was_lost_is_said),
	  cmocka_unit_test(what_was_lost_before_is_not_said_again))
