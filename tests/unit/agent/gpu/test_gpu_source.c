// SPDX-License-Identifier: Apache-2.0
// The source of GPU calls: memory in use is not recorded while calls that allocate are too frequent to probe all of them. This
// process calls a copy of the double. Needs root, BTF and uprobes.
#include "agent/gpu/gpu_source.h"

#include "agent/overhead/budget.h"
#include "tests/unit/agent/gpu/gpu_setting.h"

#include "tests/unit/agent/process/process_tables.h"
#include "tests/unit/agent/event_texts.h"
#include "base/contract/label_names.h"

#define SLOT_NS      (20 * NS_PER_MS)
#define INTERVAL_NS  (70 * NS_PER_SECOND) // a minute begins in it: samples end there
#define BUSY_TICK_NS (11 * NS_PER_SECOND) // more than the interval of measurements
#define IDLE_TICK_NS (500 * NS_PER_MS)    // for some minutes, with on phases

enum {
	CALLS_OF_TICK = 100000, // some 80 ms of probes: more than half a percent of 11 s
	TICKS_MAX = 1000,
};

struct fixture {
	struct loader *loader;
	struct draining draining;
	struct labels labels;
	struct gpu_source *source;
	struct event_log *events;
	uint64_t now_ns;
};

static bool open_fixture(struct fixture *fixture)
{
	const struct loader_options loader_options = { .slot_ns = SLOT_NS,
						       .counts_max = 65536,
						       .pid = getpid() };
	struct error err = { 0 };
	char path[PATH_MAX];

	*fixture = (struct fixture){ .now_ns = clock_monotonic_ns() };
	if (machine_check(&err) || probe_link_choose(&err) != PROBE_WAY_MULTI)
		return false;
	assert_int_equal(0, loader_open(&loader_options, &fixture->loader, &err));
	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	load_driver(path);
	fixture->events = event_log_new();
	begin_draining(&fixture->draining);
	labels_set(&fixture->labels, LABEL_NODE, "n7");

	struct process_table *processes = fixture->draining.sources.frames.processes;
	const struct process_key own = key_of(getpid(), 0);
	struct process *process = process_table_get(processes, &own, "test");
	assert_non_null(process);
	assert_non_null(process_mappings(processes, process));
	const struct gpu_source_options options = {
		.loader = fixture->loader,
		.processes = processes,
		.slot_ns = SLOT_NS,
		.only_targets = true,
		.labels = &fixture->labels,
		.events = fixture->events,
	};
	assert_int_equal(0, gpu_source_open(&options, &fixture->source, &err));
	return true;
}

static void close_fixture(struct fixture *fixture)
{
	gpu_source_close(fixture->source);
	end_draining(&fixture->draining);
	event_log_free(fixture->events);
	labels_deinit(&fixture->labels);
	loader_close(fixture->loader);
}

static void call_often(void)
{
	for (int i = 0; i < CALLS_OF_TICK; i++) {
		CUdeviceptr address;

		assert_int_equal(0, cuda.alloc(&address, MIB));
		assert_int_equal(0, cuda.free(address));
	}
}

static void tick_until(struct fixture *fixture, bool calls, const char *event)
{
	for (int i = 0; i < TICKS_MAX; i++) {
		if (calls)
			call_often();
		fixture->now_ns += calls ? BUSY_TICK_NS : IDLE_TICK_NS;
		gpu_source_tick(fixture->source, fixture->now_ns);
		probe_link_settle();
		if (any_event_has(fixture->events, event))
			return;
	}
	fail_msg("no event has \"%s\"", event);
}

// An export interval of the last seconds.
static void drain_interval(struct fixture *fixture)
{
	struct draining *draining = &fixture->draining;

	export_interval_deinit(&draining->interval);
	assert_int_equal(0, export_interval_init(&draining->interval, &draining->sources, SLOT_NS,
						 clock_realtime_ns() - INTERVAL_NS));
	assert_int_equal(0, gpu_source_after_drain(fixture->source, &draining->interval));
}

// The interval's value of @type for GPU memory at @step, and its slots.
static int64_t value_of(const struct fixture *fixture, const char *type, const char *step,
			uint32_t *ret_slots)
{
	const struct profile *profile = fixture->draining.interval.profile;
	int64_t value = 0;

	*ret_slots = 0;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];
		const struct series *series = &profile->series[sample->series];

		if (strcmp(profile_string(profile, series->type), type) != 0 ||
		    strcmp(labels_get(&series->labels, LABEL_STEP), step) != 0)
			continue;
		EXPECT_STR("gpu_memory", labels_get(&series->labels, LABEL_KNOB), "knob");
		EXPECT_STR("cairn-agent", labels_get(&series->labels, LABEL_SERVICE), "service");
		EXPECT_STR("n7", labels_get(&series->labels, LABEL_NODE), "node");
		value += sample->value;
		*ret_slots += sample->more_slots + 1;
	}
	return value;
}

TEST(exports_unknown_memory_while_it_lasts)
{
	struct fixture fixture;
	uint32_t slots;

	if (!open_fixture(&fixture))
		SKIP("needs root, BTF and uprobe_multi links");
	gpu_source_tick(fixture.source, fixture.now_ns); // finds and probes the driver
	drain_interval(&fixture);
	EXPECT_EQ(0, value_of(&fixture, PROFILE_TYPE_SHEDDING, STEP_OFF, &slots),
		  "all calls are seen");

	tick_until(&fixture, true, "in use not recorded");
	for (int interval = 0; interval < 2; interval++) {
		drain_interval(&fixture);
		EXPECT_EQ(!interval,
			  value_of(&fixture, PROFILE_TYPE_SHEDDING_CHANGES, STEP_OFF, &slots),
			  "the change is exported once");
		int64_t ns = value_of(&fixture, PROFILE_TYPE_SHEDDING, STEP_OFF, &slots);
		assert_true(ns >= (int64_t)(INTERVAL_NS - SLOT_NS)); // the whole interval
		EXPECT_EQ(ns, slots * SLOT_NS, "over the whole interval");
	}

	tick_until(&fixture, false, "in use recorded again");
	drain_interval(&fixture);
	EXPECT_EQ(1, value_of(&fixture, PROFILE_TYPE_SHEDDING_CHANGES, STEP_ON, &slots),
		  "known again");
	EXPECT_EQ(0, value_of(&fixture, PROFILE_TYPE_SHEDDING, STEP_OFF, &slots), "no longer");
	close_fixture(&fixture);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exports_unknown_memory_while_it_lasts),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
