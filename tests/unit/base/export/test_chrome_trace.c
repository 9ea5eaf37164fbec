// SPDX-License-Identifier: Apache-2.0
// Slices as "begin-end depth name" by lane, read back from the events.
#include "tests/unit/base/export/export_fixture.h"

#include <errno.h>

#include <jansson.h>

#include "base/export/chrome_trace.h"

enum { DEPTH_MAX = 8, TEXT_BYTES = 2048, SLOT = 1000 };

struct open_slice {
	const char *name;
	double ts;
};

/** Append the slices of thread @tid, in the order of their ends. */
static void read_thread(const json_t *events, json_int_t tid, char *text)
{
	struct open_slice open[DEPTH_MAX];
	const json_t *event;
	size_t i, depth = 0;
	double last = 0;

	json_array_foreach(events, i, event)
	{
		const char *kind = json_string_value(json_object_get(event, "ph"));
		double ts = json_number_value(json_object_get(event, "ts"));

		if (json_integer_value(json_object_get(event, "tid")) != tid || *kind == 'M')
			continue;
		assert_true(ts >= last);
		last = ts;
		if (*kind == 'B') {
			assert_true(depth < DEPTH_MAX);
			open[depth++] = (struct open_slice){
				json_string_value(json_object_get(event, "name")), ts
			};
			continue;
		}
		assert_true(*kind == 'E' && depth > 0);
		depth--;
		sprintf(text + strlen(text), "%g-%g %zu %s;", open[depth].ts / 1000, ts / 1000,
			depth, open[depth].name);
	}
	assert_int_equal(0, depth);
}

/** "thread: slices|..." of all threads. */
static void read_trace(const struct buffer *trace, char text[TEXT_BYTES])
{
	json_t *root = json_loadb((const char *)trace->bytes, trace->size, 0, NULL);
	const json_t *events = json_object_get(root, "traceEvents"), *event;
	size_t i;

	*text = '\0';
	assert_non_null(root);
	json_array_foreach(events, i, event)
	{
		const json_t *name = json_object_get(event, "name");

		if (!name || strcmp(json_string_value(name), "thread_name") != 0)
			continue;
		sprintf(text + strlen(text), "%s%s: ", *text ? "|" : "",
			json_string_value(json_object_get(json_object_get(event, "args"), "name")));
		read_thread(events, json_integer_value(json_object_get(event, "tid")), text);
	}
	json_decref(root);
}

static void expect_slices(const struct profile *profile, const char *expected)
{
	_cleanup_(buffer_deinit) struct buffer trace = { 0 };
	char text[TEXT_BYTES];

	assert_int_equal(0, chrome_trace_encode(profile, PROFILE_TYPE_CPU, &trace));
	read_trace(&trace, text);
	EXPECT_STR(expected, text, "slices, in milliseconds");
}

static void cpu(struct profile *profile, const char *thread, const uint32_t *stack, uint32_t count,
		uint64_t slot, uint64_t ms)
{
	sample(profile, "app", thread, PROFILE_TYPE_CPU, stack, count, slot,
	       (int64_t)(ms * NS_PER_MS));
}

TEST(outer_frames_go_on_over_samples)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	uint32_t f = frame(profile, FRAME_KIND_NATIVE, "f", "", 0);
	uint32_t g = frame(profile, FRAME_KIND_NATIVE, "g", "", 0);
	uint32_t main = frame(profile, FRAME_KIND_NATIVE, "main", "", 0);

	cpu(profile, "app", (uint32_t[]){ g, main }, 2, SLOT + 1, 5);
	cpu(profile, "app", (uint32_t[]){ f, main }, 2, SLOT, 20);
	cpu(profile, "app", &main, 1, SLOT + 3, 10);
	expect_slices(profile, "app: 0-20 1 f;20-25 1 g;0-25 0 main;60-70 0 main;");
}

TEST(uneven_ticks_stay_on_one_lane)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	uint32_t f = frame(profile, FRAME_KIND_NATIVE, "f", "", 0);

	cpu(profile, "app", &f, 1, SLOT, 30);
	cpu(profile, "app", &f, 1, SLOT + 1, 10);
	cpu(profile, "app", &f, 1, SLOT + 2, 30);
	cpu(profile, "app", &f, 1, SLOT + 3, 10);
	expect_slices(profile, "app: 0-80 0 f;");
}

TEST(threads_of_one_name_get_lanes)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	uint32_t f = frame(profile, FRAME_KIND_NATIVE, "f", "", 0);
	uint32_t g = frame(profile, FRAME_KIND_NATIVE, "g", "", 0);

	cpu(profile, "pool", &f, 1, SLOT, 100);
	cpu(profile, "pool", &g, 1, SLOT + 1, 100);
	cpu(profile, "main", &g, 1, SLOT + 2, 1);
	expect_slices(profile, "pool: 0-100 0 f;|pool 2: 20-120 0 g;|main: 40-41 0 g;");
}

TEST(stacks_lie_below_thread_states)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	_cleanup_(buffer_deinit) struct buffer trace = { 0 };
	uint32_t f = frame(profile, FRAME_KIND_NATIVE, "f", "", 0);
	char text[TEXT_BYTES];

	sample(profile, "app", "app", PROFILE_TYPE_WALL, &f, 1, SLOT, 20 * NS_PER_MS);
	sample(profile, "app", "app", PROFILE_TYPE_WALL, &f, 1, SLOT + 1, 20 * NS_PER_MS);
	assert_int_equal(1, profile->series_count);
	assert_int_equal(0, labels_set(&profile->series[0].labels, "state", "blocked"));
	assert_int_equal(0, labels_set(&profile->series[0].labels, "wait", "gil"));
	assert_int_equal(0, chrome_trace_encode(profile, PROFILE_TYPE_WALL, &trace));
	read_trace(&trace, text);
	EXPECT_STR("app: 0-40 1 f;0-40 0 blocked: GIL;", text, "slices");
}

/* One thread's waits of which only some are sampled overlap: a slot has too much, another too little. */
TEST(a_row_has_a_lane_per_thread)
{
	static const struct {
		const char *what;
		uint64_t ms; // of each of the two long samples
		const char *slices;
	} rows[] = {
		{ "one thread", 150, "app: 0-150 1 f;150-300 1 g;300-320 1 f;0-320 0 running;" },
		{ "two threads", 300,
		  "app: 0-320 1 f;0-320 0 running;|app 2: 20-320 1 g;20-320 0 "
		  "running;" },
	};

	for EACH (row, rows) {
		_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
		_cleanup_(buffer_deinit) struct buffer trace = { 0 };
		uint32_t f = frame(profile, FRAME_KIND_NATIVE, "f", "", 0);
		uint32_t g = frame(profile, FRAME_KIND_NATIVE, "g", "", 0);
		int64_t value = (int64_t)(row->ms * NS_PER_MS);
		char text[TEXT_BYTES];

		sample(profile, "app", "app", PROFILE_TYPE_WALL, &f, 1, SLOT, value);
		sample(profile, "app", "app", PROFILE_TYPE_WALL, &g, 1, SLOT + 1, value);
		sample(profile, "app", "app", PROFILE_TYPE_WALL, &f, 1, SLOT + 15, 20 * NS_PER_MS);
		assert_int_equal(0, labels_set(&profile->series[0].labels, "state", "running"));
		assert_int_equal(0, chrome_trace_encode(profile, PROFILE_TYPE_WALL, &trace));
		read_trace(&trace, text);
		EXPECT_STR(row->slices, text, row->what);
	}
}

TEST(refuses_what_has_no_time)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	_cleanup_(buffer_deinit) struct buffer trace = { 0 };
	uint32_t f = frame(profile, FRAME_KIND_NATIVE, "f", "", 0);

	EXPECT_EQ(-EINVAL, chrome_trace_encode(profile, PROFILE_TYPE_PAGE_FAULT, &trace), "bytes");
	EXPECT_EQ(0, chrome_trace_encode(profile, PROFILE_TYPE_CPU, &trace), "no samples");
	merged(profile, &f, 1, 5);
	EXPECT_EQ(-ENODATA, chrome_trace_encode(profile, PROFILE_TYPE_CPU, &trace), "merged");
}

RUN_TESTS(cmocka_unit_test(outer_frames_go_on_over_samples),
	  cmocka_unit_test(uneven_ticks_stay_on_one_lane),
	  cmocka_unit_test(threads_of_one_name_get_lanes),
	  cmocka_unit_test(stacks_lie_below_thread_states),
	  cmocka_unit_test(a_row_has_a_lane_per_thread), cmocka_unit_test(refuses_what_has_no_time))
