// SPDX-License-Identifier: Apache-2.0
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

#include "agent/stacks/location_table.h"
#include "agent/stats.h"
#include "agent/symbols/executable.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "tests/unit/agent/event_texts.h"

static struct stats before, now;
static struct event_log *events;

static int set_up(void **state)
{
	(void)state;
	before = (struct stats){ .time_ns = 10 * NS_PER_SECOND, .cpu_ns = NS_PER_SECOND };
	now = (struct stats){ .time_ns = 70 * NS_PER_SECOND,
			      .cpu_ns = NS_PER_SECOND + 600 * NS_PER_MS };
	events = event_log_new();
	return events ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	event_log_free(events);
	return 0;
}

static const struct {
	uint64_t *figure;
	const char *text;
} losses[] = {
	{ &now.profiler.bpf_counters[COUNTER_RING_FULL],
	  "agent: records dropped: ring buffer full (ring_full: 7 in the last 60 s); give the "
	  "agent more CPU "
	  "or use a lower --frequency" },
	{ &now.profiler.bpf_counters[COUNTER_OFF_CPU_BUSY],
	  "agent: off-CPU intervals dropped: the agent's sweep or a waker held the thread's lock "
	  "(off_cpu_busy: 7 in the last 60 s); nothing to do below 5 % of switches; above, "
	  "report it to cairn's developers" },
	{ &now.profiler.bpf_counters[COUNTER_GPU_CALLS_BUSY],
	  "agent: GPU driver calls not recorded: two others were active on the CPU "
	  "(gpu_calls_busy: 7 in the last 60 s); missed allocations and frees end GPU memory in "
	  "use of their process; else nothing to do below 5 % of gpu_calls" },
	{ &now.profiler.snapshots.lost, "agent: stack snapshots not unwound: the kernel did not "
					"run the unwinder (snapshots_failed: 7 in the last "
					"60 s); their samples count with a truncated stack" },
	{ &now.profiler.jit.refused, "agent: JIT symbol lists not read: memory for JIT symbols "
				     "full (jit_reads_dropped: 7 in the last 60 s); "
				     "profile fewer processes with --pid" },
	{ &now.sender.spool.dropped_samples,
	  "agent: samples dropped: spool full (spool_full: 7 in the last 60 s); check the "
	  "collector, or raise --spool (memory) or --spool-disk" },
	{ &now.sender.spool.damaged,
	  "agent: batches in --spool-dir dropped: damaged, cut short, unreadable, or ended three "
	  "starts of the agent (spool_damaged: 7 in the last 60 s); check its disk" },
};

TEST(a_loss_is_logged_with_cause_and_advice)
{
	for EACH (row, losses) {
		*row->figure = 7;
		stats_post_losses(&before, &now, events);
		const char *text = next_event_text(events);
		EXPECT_STR(row->text, text ? text : "", row->text);
		fail_on_event(events);
		*row->figure = 0;
	}
}

TEST(old_losses_are_not_logged_again)
{
	for EACH (row, losses)
		*row->figure = 7;
	now.profiler.bpf_counters[COUNTER_SAMPLES] = 1000;
	stats_post_losses(&now, &now, events);
	fail_on_event(events);
}

TEST(ordinary_losses_are_not_logged)
{
	now.profiler.bpf_counters[COUNTER_SWITCHES] = 1000;
	now.profiler.bpf_counters[COUNTER_OFF_CPU_BUSY] = 50;
	stats_post_losses(&before, &now, events);
	fail_on_event(events);
	now.profiler.bpf_counters[COUNTER_OFF_CPU_BUSY] = 51;
	stats_post_losses(&before, &now, events);
	assert_true(any_event_has(events, "51 in the last 60 s"));
}

// Most functions are read once; those that fail, in each interval.
TEST(few_nameless_python_functions_are_ordinary)
{
	now.profiler.python.used = 5000;
	now.profiler.python.reads = 120;
	now.profiler.python.failures = 116;
	stats_post_losses(&before, &now, events);
	fail_on_event(events);
	now.profiler.python.failures = 251;
	stats_post_losses(&before, &now, events);
	assert_true(any_event_has(events, "python_functions_failed: 251 in the last 60 s"));
}

// On a quiet machine most faults come in short bursts, when programs start.
TEST(ends_of_page_fault_bursts_are_no_loss)
{
	now.profiler.bpf_counters[COUNTER_FAULTS_SAMPLED] = 100;
	now.profiler.bpf_counters[COUNTER_FAULTS_UNREPRESENTED] = 1000;
	stats_post_losses(&before, &now, events);
	fail_on_event(events);
}

TEST(the_report_shows_differences)
{
	char text[STATS_TEXT_BYTES];

	before.profiler.bpf_counters[COUNTER_SAMPLES] = 1000;
	now.profiler.bpf_counters[COUNTER_SAMPLES] = 12880;
	now.profiler.bpf_run_count = 10;
	now.profiler.bpf_run_ns = 25000;
	stats_format(&before, &now, text);
	assert_non_null(strstr(
		text, "last 60 s: 11880 samples, 2500 ns of BPF each, agent 1.00 % of a core"));
	assert_null(strstr(text, "budget"));
	now.profiler.budget_known = true;
	now.profiler.budget = (struct budget_stats){
		.budget = 0.02, .overhead = 0.0132, .level = 2, .frequency_hz = 25
	};
	stats_format(&before, &now, text);
	assert_non_null(strstr(
		text, "overhead 1.32 % of a core, budget 2.00 %, 2 shedding steps active (CPU "
		      "sampling at 25Hz, off-CPU stacks of 0 processes off), 0 shedding changes"));
}

TEST(each_counter_has_a_token_of_its_own)
{
	char token[STATS_TOKEN_BYTES], other[STATS_TOKEN_BYTES];

	for (uint32_t i = 0; i < STATS_COUNTERS; i++) {
		stats_counter_token(i, token);
		EXPECT_EQ(strlen(token), strspn(token, "abcdefghijklmnopqrstuvwxyz_"), token);
		assert_true(strlen(token) > 3 && strlen(token) < STATS_TOKEN_BYTES - 1);
		for (uint32_t j = 0; j < i; j++) {
			if (!strcmp(token, stats_counter_token(j, other)))
				fail_msg("%s twice", token);
		}
	}
	EXPECT_STR("ring_full", stats_counter_token(COUNTER_RING_FULL, token), "of the kernel");
	EXPECT_STR("spool_full",
		   stats_counter_token(COUNTER_COUNT + AGENT_COUNTER_SPOOL_FULL, token),
		   "of the agent");
}

TEST(counters_that_rose_are_exported)
{
	struct executable_table *executables = executable_table_new();
	const struct export_interval_sources sources = {
		.frames.locations = location_table_new(executables, NULL),
	};
	struct export_interval interval;
	struct labels labels = { 0 };

	labels_set(&labels, LABEL_SERVICE, SERVICE_AGENT);
	assert_int_equal(0, export_interval_init(&interval, &sources, 20 * NS_PER_MS,
						 clock_realtime_ns() - NS_PER_SECOND));
	before.profiler.bpf_counters[COUNTER_SAMPLES] = 100;
	now.profiler.bpf_counters[COUNTER_SAMPLES] = 350;
	now.sender.spool.dropped_samples = 7;
	assert_int_equal(0, stats_add_series(&before, &now, &labels, &interval));
	const struct profile *profile = interval.profile;
	EXPECT_EQ(2, profile->series_count, "series");
	const struct series *first = &profile->series[0];
	EXPECT_STR(PROFILE_TYPE_EVENTS, profile_string(profile, first->type), "type");
	EXPECT_STR("samples", labels_get(&first->labels, LABEL_COUNTER), "of the kernel");
	EXPECT_STR("spool_full", labels_get(&profile->series[1].labels, LABEL_COUNTER), "own");
	EXPECT_STR(SERVICE_AGENT, labels_get(&first->labels, LABEL_SERVICE), "service");
	int64_t sums[2] = { 0 };
	for (uint32_t i = 0; i < profile->sample_count; i++)
		sums[profile->samples[i].series] += profile->samples[i].value;
	EXPECT_EQ(250, sums[0], "samples");
	EXPECT_EQ(7, sums[1], "dropped");
	export_interval_deinit(&interval);
	location_table_free(sources.frames.locations);
	executable_table_free(executables);
	labels_deinit(&labels);
}

#define WITH_EVENTS(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

RUN_TESTS(WITH_EVENTS(a_loss_is_logged_with_cause_and_advice),
	  WITH_EVENTS(old_losses_are_not_logged_again), WITH_EVENTS(ordinary_losses_are_not_logged),
	  WITH_EVENTS(few_nameless_python_functions_are_ordinary),
	  WITH_EVENTS(ends_of_page_fault_bursts_are_no_loss),
	  WITH_EVENTS(the_report_shows_differences),
	  WITH_EVENTS(each_counter_has_a_token_of_its_own),
	  WITH_EVENTS(counters_that_rose_are_exported))
