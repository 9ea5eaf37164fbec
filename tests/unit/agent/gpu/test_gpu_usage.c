// SPDX-License-Identifier: Apache-2.0
// GPU telemetry from a double of NVML, in an export interval.
#include "agent/gpu/gpu_usage.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/contract/label_values.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/gpu/load_double.h"
#include "tests/gpu/nvml_double.h"
#include "tests/test.h"

#include "tests/unit/agent/process/process_tables.h"
#include "tests/unit/agent/event_texts.h"
#include "base/contract/label_names.h"
#include "tests/unit/agent/process/new_process_table.h"

#define SLOT_NS (20 * NS_PER_MS)

enum { STRANGE_PID = 0x7fffff99, WAIT_MS = 60000, POLL_MS = 50 };

static char library[PATH_MAX];
static struct nvml_double *double_;

struct fixture {
	struct executable_table *executables;
	struct export_interval_sources sources;
	struct export_interval interval;
	struct labels labels;
	struct gpu_usage *usage;
	struct event_log *events;
};

static int load_double(void **state __attribute__((unused)))
{
	if (double_path("libnvidia-ml.so.1", library))
		double_ = double_state(library, "nvml_double");
	return double_ ? 0 : -1;
}

static int set_up(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	struct labels none = { 0 };

	*double_ = (struct nvml_double){
		.gpu_count = 2,
		.busy = 75,
		.used_bytes = 3ULL << 30,
		.reasons = 0x20, // temperature
		.processes = { { (unsigned int)getpid(), 2ULL << 30, 50, 1000 },
			       { STRANGE_PID, 1ULL << 30, 0, 0 } },
	};
	fixture->events = event_log_new();
	fixture->executables = executable_table_new();
	fixture->sources = (struct export_interval_sources){
		.frames.processes = new_process_table(fixture->executables, &none),
		.frames.locations = location_table_new(fixture->executables, NULL),
		.stacks = stack_table_new(),
	};
	EXPECT_EQ(0,
		  export_interval_init(&fixture->interval, &fixture->sources, SLOT_NS,
				       clock_realtime_ns() - 10 * NS_PER_SECOND),
		  "interval");
	labels_set(&fixture->labels, LABEL_NODE, "n7");
	const struct process_key own = key_of(getpid(), 0);
	assert_non_null(process_table_get(fixture->sources.frames.processes, &own, "test"));
	*state = fixture;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *fixture = *state;

	gpu_usage_close(fixture->usage);
	export_interval_deinit(&fixture->interval);
	stack_table_free(fixture->sources.stacks);
	location_table_free(fixture->sources.frames.locations);
	process_table_free(fixture->sources.frames.processes);
	executable_table_free(fixture->executables);
	labels_deinit(&fixture->labels);
	event_log_free(fixture->events);
	free(fixture);
	return 0;
}

static void open_usage_with(struct fixture *fixture, const char *path, uint64_t reopen_ns)
{
	const struct gpu_usage_options options = {
		.reopen_ns = reopen_ns,
		.library = path,
		.slot_ns = SLOT_NS,
		.processes = fixture->sources.frames.processes,
		.labels = &fixture->labels,
		.events = fixture->events,
	};
	struct error err = { 0 };

	EXPECT_EQ(0, gpu_usage_open(&options, &fixture->usage, &err), err.text);
}

static void open_usage(struct fixture *fixture, const char *path)
{
	open_usage_with(fixture, path, 0);
}

static const struct series *series_with(const struct profile *profile, const char *type,
					const char *label, const char *value)
{
	for (uint32_t i = 0; i < profile->series_count; i++) {
		const char *has = labels_get(&profile->series[i].labels, label);

		if (has && !strcmp(has, value) &&
		    !strcmp(profile_string(profile, profile->series[i].type), type))
			return &profile->series[i];
	}
	return NULL;
}

static const struct sample *sample_of(const struct profile *profile, const struct series *series)
{
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		if (&profile->series[profile->samples[i].series] == series)
			return &profile->samples[i];
	}
	return NULL;
}

/** Add values to the export interval until it has such a series. */
static const struct series *wait_for_series(struct fixture *fixture, const char *type,
					    const char *label, const char *value)
{
	for (int waited = 0; waited < WAIT_MS; waited += POLL_MS) {
		EXPECT_EQ(0, gpu_usage_add(fixture->usage, &fixture->interval), "add");
		const struct series *series =
			series_with(fixture->interval.profile, type, label, value);
		if (series)
			return series;
		usleep(POLL_MS * 1000);
	}
	fail_msg("no %s of %s within %d ms", type, value, WAIT_MS);
	return NULL;
}

/** Of the last GPU. */
static void wait_for_figures(struct fixture *fixture)
{
	wait_for_series(fixture, PROFILE_TYPE_GPU_BUSY, "gpu", "1");
}

static const char *wait_for_event(struct fixture *fixture)
{
	for (int waited = 0; waited < WAIT_MS; waited += POLL_MS) {
		const char *event = next_event_text(fixture->events);

		if (event)
			return event;
		usleep(POLL_MS * 1000);
	}
	return "(none)";
}

TEST(gpu_and_process_gauges_have_labels)
{
	struct fixture *fixture = *state;

	open_usage(fixture, library);
	wait_for_figures(fixture);
	wait_for_series(fixture, PROFILE_TYPE_GPU_THROTTLED, LABEL_REASON, REASON_THERMAL);
	wait_for_series(fixture, PROFILE_TYPE_GPU_PROCESS_MEMORY, LABEL_SERVICE, "gpu");
	wait_for_series(fixture, PROFILE_TYPE_GPU_PROCESS_BUSY, LABEL_PROCESS, "test_gpu_usage");
	_cleanup_(profile_freep) struct profile *profile =
		export_interval_finish(&fixture->interval, clock_realtime_ns());

	const struct series *busy = series_with(profile, PROFILE_TYPE_GPU_BUSY, "gpu", "0");
	assert_non_null(busy);
	EXPECT_EQ(75, sample_of(profile, busy)->value, "busy");
	EXPECT_STR("gpu", labels_get(&busy->labels, LABEL_SERVICE), "of the machine");
	EXPECT_STR("n7", labels_get(&busy->labels, LABEL_NODE), "node");
	EXPECT_STR("Double of a GPU 0", labels_get(&busy->labels, "gpu_model"), "model");

	const struct series *memory = series_with(profile, PROFILE_TYPE_GPU_PROCESS_MEMORY,
						  LABEL_PROCESS, "test_gpu_usage");
	assert_non_null(memory);
	EXPECT_EQ(2LL << 30, sample_of(profile, memory)->value, "memory of the service");
	assert_non_null(
		series_with(profile, PROFILE_TYPE_GPU_PROCESS_MEMORY, LABEL_SERVICE, "gpu"));
	assert_non_null(series_with(profile, PROFILE_TYPE_GPU_PROCESS_BUSY, LABEL_PROCESS,
				    "test_gpu_usage"));

	const struct series *throttled =
		series_with(profile, PROFILE_TYPE_GPU_THROTTLED, LABEL_REASON, REASON_THERMAL);
	assert_non_null(throttled);
	EXPECT_EQ(0, sample_of(profile, throttled)->value % (NS_PER_SECOND / 100), "of a second");
}

TEST(mig_instance_gauges_have_labels)
{
	struct fixture *fixture = *state;

	double_->is_mig = true;
	double_->instances[1] = (struct nvml_double_instance){ true, 3, 2, 4ULL << 30, 90 };
	double_->processes[0].instance = 3;
	open_usage(fixture, library);
	wait_for_series(fixture, PROFILE_TYPE_GPU_MEMORY_USED, "gpu_instance", "3");
	wait_for_series(fixture, PROFILE_TYPE_GPU_PROCESS_MEMORY, LABEL_PROCESS, "test_gpu_usage");
	const struct series *series =
		wait_for_series(fixture, PROFILE_TYPE_GPU_BUSY, "gpu_instance", "3");
	EXPECT_STR("0", labels_get(&series->labels, "gpu"), "of the first GPU");
	EXPECT_STR("MIG-00000000-0000-0000-0000-000000000002",
		   labels_get(&series->labels, "gpu_uuid"), "name");
	EXPECT_STR("Double of a GPU MIG 1g.2", labels_get(&series->labels, "gpu_model"), "model");
	EXPECT_EQ(90, sample_of(fixture->interval.profile, series)->value, "busy");

	series = series_with(fixture->interval.profile, PROFILE_TYPE_GPU_MEMORY_USED,
			     "gpu_instance", "3");
	assert_non_null(series);
	EXPECT_EQ(4LL << 30, sample_of(fixture->interval.profile, series)->value, "memory");
	assert_null(series_with(fixture->interval.profile, PROFILE_TYPE_GPU_MEMORY_USED, "gpu_uuid",
				"GPU-00000000-0000-0000-0000-000000000000"));
	series = series_with(fixture->interval.profile, PROFILE_TYPE_GPU_PROCESS_MEMORY,
			     LABEL_PROCESS, "test_gpu_usage");
	assert_non_null(series);
	EXPECT_STR("3", labels_get(&series->labels, "gpu_instance"), "where it runs");
	EXPECT_STR("MIG-00000000-0000-0000-0000-000000000002",
		   labels_get(&series->labels, "gpu_uuid"), "name");
}

TEST(logs_a_lost_gpu_once)
{
	struct fixture *fixture = *state;

	open_usage(fixture, library);
	wait_for_figures(fixture);
	double_->is_lost = true;
	assert_non_null(strstr(wait_for_event(fixture), "does not answer"));
	double_->is_lost = false;
	const char *event = wait_for_event(fixture);
	if (strstr(event, "GPU 1") && strstr(event, "does not answer")) // the other one's
		event = wait_for_event(fixture);
	assert_non_null(strstr(event, "answers again"));
	sleep(1);
	next_event_text(fixture->events); // the other event may have been posted by now
	fail_on_event(fixture->events);
}

TEST(reopens_a_reset_gpu)
{
	struct fixture *fixture = *state;

	open_usage_with(fixture, library, NS_PER_MS);
	wait_for_figures(fixture);
	double_->resets++;
	assert_non_null(strstr(wait_for_event(fixture), "does not answer"));
	const char *event = wait_for_event(fixture);
	if (strstr(event, "does not answer")) // the other one's
		event = wait_for_event(fixture);
	assert_non_null(strstr(event, "answers again"));
	assert_true(double_->shutdowns > 0);
}

TEST(logs_nothing_without_gpus)
{
	struct fixture *fixture = *state;

	open_usage(fixture, "/nowhere/libnvidia-ml.so.1");
	usleep(100 * 1000);
	fail_on_event(fixture->events);
	EXPECT_EQ(0, gpu_usage_add(fixture->usage, &fixture->interval), "nothing to add");
	EXPECT_EQ(0, fixture->interval.profile->sample_count, "samples");
}

#define WITH_FIXTURE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FIXTURE(gpu_and_process_gauges_have_labels),
		WITH_FIXTURE(mig_instance_gauges_have_labels),
		WITH_FIXTURE(logs_a_lost_gpu_once),
		WITH_FIXTURE(reopens_a_reset_gpu),
		WITH_FIXTURE(logs_nothing_without_gpus),
	};

	return cmocka_run_group_tests(tests, load_double, NULL);
}
