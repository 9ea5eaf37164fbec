// SPDX-License-Identifier: Apache-2.0
// What every implementation of store.h must do. A test program defines conformance_open() and
// lists CONFORMANCE_TESTS among its tests.
#pragma once

#include <pthread.h>

#include "tests/unit/collector/store/store_model.h"

/** Open the implementation's store at @options->path. */
static int conformance_open(const struct store_options *options, struct store **ret_store,
			    struct error *err);

/** A store in a directory of its own. */
struct scene {
	char path[64];
	struct store_options options;
	struct store *store;
};

static void scene_open(struct scene *scene)
{
	struct error err = { 0 };

	scene->options.path = scene->path;
	if (conformance_open(&scene->options, &scene->store, &err) < 0)
		fail_msg("open: %s", err.text);
}

static void scene_begin(struct scene *scene, struct store_options options)
{
	scene->options = options;
	directory_new(scene->path);
	scene_open(scene);
}

static void scene_reopen(struct scene *scene)
{
	store_close(scene->store);
	scene_open(scene);
}

static void scene_end(struct scene *scene)
{
	store_close(scene->store);
	directory_remove(scene->path);
}

static void scene_flush(struct scene *scene)
{
	struct error err = { 0 };

	if (store_flush(scene->store, &err) < 0)
		fail_msg("flush: %s", err.text);
}

// ---- rows -----------------------------------------------------------------------------------------

static const char *const model_selectors[] = {
	"{}",
	"{service=\"s1\"}",
	"{node=~\"n[13]\"}",
	"{service=\"s2\",node!=\"n0\"}",
	"{thread=~\"t(1|7|39)\"}",
	"{service!~\"s.*\"}",
};

/** Ranges whose ends cut minutes and partitions, and whole ones. */
static void expect_model_everywhere(struct model *model, struct store *store, uint64_t from_ns,
				    uint64_t length_ns, const char *what)
{
	for EACH (selector, model_selectors) {
		expect_model(model, store, *selector, all_time, what);
		for (int i = 0; i < 4; i++) {
			uint64_t from =
				from_ns +
				model_random(model, (uint32_t)(length_ns / NS_PER_MS)) * NS_PER_MS;
			struct time_range range = {
				from, from + 1 + model_random(model, 400) * NS_PER_SECOND
			};

			expect_model(model, store, *selector, range, what);
			range.to_ns += 10 * NS_PER_SECOND;
			expect_activity(model, store, *selector, range, TEST_SLOT_NS, i % 3, what);
			expect_activity(model, store, *selector, range, 5 * NS_PER_SECOND, i % 3,
					what);
		}
	}
}

TEST(returns_rows_as_appended)
{
	struct scene scene;
	struct model model = { .random = 1 };
	uint64_t from_ns = hour_ns(0) + 3400 * NS_PER_SECOND;

	scene_begin(&scene, (struct store_options){ 0 });
	for (uint64_t i = 1; i <= 30; i++) // over a partition's end
		append_profile(scene.store, i % 3, i,
			       model_batch(&model, 200, from_ns + i * 10 * NS_PER_SECOND,
					   20 * NS_PER_SECOND));
	expect_model_everywhere(&model, scene.store, from_ns, 400 * NS_PER_SECOND, "open");
	scene_reopen(&scene);
	expect_model_everywhere(&model, scene.store, from_ns, 400 * NS_PER_SECOND, "reopened");
	scene_flush(&scene);
	expect_model_everywhere(&model, scene.store, from_ns, 400 * NS_PER_SECOND, "closed");
	for (uint64_t i = 31; i <= 40; i++) // late rows beside what is closed
		append_profile(scene.store, i % 3, i,
			       model_batch(&model, 100, from_ns, 120 * NS_PER_SECOND));
	expect_model_everywhere(&model, scene.store, from_ns, 400 * NS_PER_SECOND, "late");
	scene_flush(&scene);
	scene_reopen(&scene);
	expect_model_everywhere(&model, scene.store, from_ns, 400 * NS_PER_SECOND, "all closed");
	model_deinit(&model);
	scene_end(&scene);
}

// Dense enough that an implementation with sums beside the rows uses them.
TEST(dense_rows_add_up)
{
	struct scene scene;
	struct model model = { .random = 2 };
	uint64_t from_ns = hour_ns(0) + 600 * NS_PER_SECOND;

	scene_begin(&scene, (struct store_options){ 0 });
	for (uint64_t i = 1; i <= 60; i++)
		append_profile(scene.store, 1, i,
			       model_batch(&model, 1000, from_ns + 60 * NS_PER_SECOND * (i % 2),
					   2 * NS_PER_SECOND));
	scene_flush(&scene);
	expect_model_everywhere(&model, scene.store, from_ns, 100 * NS_PER_SECOND, "dense");
	model_deinit(&model);
	scene_end(&scene);
}

TEST(a_truncated_stack_begins_with_its_reason)
{
	struct scene scene;
	struct profile *profile = test_profile();
	struct dump dump;

	scene_begin(&scene, (struct store_options){ 0 });
	profile_add_sample(profile, series_of_text(profile, "service=a", TEST_TYPE),
			   stack_of_text(profile, "run;leaf", STACK_END_NO_TABLE),
			   hour_ns(0) / TEST_SLOT_NS, 7);
	append_profile(scene.store, 1, 1, profile);
	dump_store(scene.store, "{}", all_time, SCAN_SUMS, &dump);
	EXPECT_EQ(1, dump.count, "stacks");
	EXPECT_STR(" no unwind table;run;leaf", dump.lines[0].text, "stack");
	dump_deinit(&dump);
	scene_end(&scene);
}

TEST(returns_extreme_values)
{
	static const int64_t values[] = { INT64_MIN, INT64_MAX, 0, -1, 1, INT64_MIN + 1 };
	struct scene scene;
	struct profile *profile = test_profile();
	char stack[64];

	scene_begin(&scene, (struct store_options){ 0 });
	for (uint32_t i = 0; i < ARRAY_SIZE(values); i++) {
		sprintf(stack, "main;%u", i);
		add_text(profile, "service=a", hour_ns(0), stack, values[i]);
	}
	append_profile(scene.store, 1, 1, profile);
	for (int flushed = 0; flushed < 2; flushed++) {
		struct dump dump;

		dump_store(scene.store, "{}", all_time, SCAN_SERIES_SUMS, &dump);
		EXPECT_EQ(ARRAY_SIZE(values), dump.count, "stacks");
		for (uint32_t i = 0; i < ARRAY_SIZE(values); i++)
			EXPECT_EQ(values[i], dump.lines[i].value, dump.lines[i].text);
		dump_deinit(&dump);
		scene_flush(&scene);
	}
	scene_end(&scene);
}

TEST(stores_slots_of_several_lengths)
{
	static const uint64_t lengths_ns[] = { NS_PER_MS, 7 * NS_PER_MS, NS_PER_SECOND,
					       60 * NS_PER_SECOND };
	struct scene scene;
	struct dump dump;
	uint64_t sequence = 0;

	scene_begin(&scene, (struct store_options){ 0 });
	for EACH (length, lengths_ns) {
		struct profile *profile = profile_new(*length);

		for (int i = 0; i < 400; i++)
			add_text(profile, "service=a",
				 hour_ns(-10) + 59 * NS_PER_SECOND + i * *length, "main;leaf", 1);
		append_profile(scene.store, 1, ++sequence, profile);
	}
	scene_flush(&scene);
	dump_store(scene.store, "{}", all_time, SCAN_SUMS, &dump);
	EXPECT_EQ(1, dump.count, "stacks");
	EXPECT_EQ(400 * ARRAY_SIZE(lengths_ns), dump.lines[0].value, "sum");
	dump_deinit(&dump);
	scene_end(&scene);
}

// ---- batches --------------------------------------------------------------------------------------

TEST(a_batch_counts_once)
{
	struct scene scene;
	struct dump dump;
	struct store_stats stats;
	struct store_batch_id batch = batch_of(1, 5);
	struct store_append_result result;

	scene_begin(&scene, (struct store_options){ 0 });
	append_text(scene.store, 1, 5, "service=a", hour_ns(0), "main;leaf", 10);
	for (int i = 0; i < 4; i++) {
		struct profile *profile = test_profile();

		batch.sequence = i == 2 ? 4 : 5; // an older one counts as stored as well
		add_text(profile, "service=a", hour_ns(0), "main;leaf", 10);
		assert_int_equal(0, store_append(scene.store, &batch, profile, &result, NULL));
		assert_true(result.duplicate);
		profile_free(profile);
		if (i == 0)
			scene_flush(&scene);
		if (i == 1)
			scene_reopen(&scene);
	}
	append_text(scene.store, 2, 5, "service=a", hour_ns(0), "main;leaf", 100); // another agent
	dump_store(scene.store, "{}", all_time, SCAN_SUMS, &dump);
	EXPECT_EQ(110, dump.lines[0].value, "sum");
	dump_deinit(&dump);
	store_read_stats(scene.store, &stats);
	EXPECT_EQ(2, stats.batches_duplicate, "since the store was opened");
	EXPECT_EQ(2, stats.agents, "agents");
	scene_end(&scene);
}

TEST(a_batch_with_unknown_stacks_stores_nothing)
{
	struct scene scene;
	struct profile *profile = test_profile();
	struct store_batch_id batch = batch_of(1, 1);
	struct store_append_result result;
	struct dump dump;

	scene_begin(&scene, (struct store_options){ 0 });
	add_text(profile, "service=a", hour_ns(0), "main;defined", 1);
	add_known(profile, "service=a", hour_ns(0), "main;unknown", 2);
	add_known(profile, "service=a", hour_ns(1), "main;unknown", 2);
	assert_int_equal(0, store_append(scene.store, &batch, profile, &result, NULL));
	EXPECT_EQ(1, result.unknown_stack_count, "named once, though needed in two partitions");
	assert_true(id128_equal(profile->stacks[1].id, result.unknown_stacks[0]));
	free(result.unknown_stacks);
	profile_free(profile);
	dump_store(scene.store, "{}", all_time, SCAN_ROWS, &dump);
	EXPECT_EQ(0, dump.count, "rows");
	dump_deinit(&dump);

	append_text(scene.store, 1, 1, "service=a", hour_ns(0), "main;unknown", 3);
	dump_store(scene.store, "{}", all_time, SCAN_ROWS, &dump);
	EXPECT_EQ(1, dump.count, "the same batch, with its definition");
	dump_deinit(&dump);
	scene_end(&scene);
}

TEST(knows_stacks_of_the_partition_before)
{
	struct scene scene;
	struct dump dump;

	scene_begin(&scene, (struct store_options){ 0 });
	append_text(scene.store, 1, 1, "service=a", hour_ns(0), "main;run;leaf", 1);
	for (uint64_t i = 2; i <= 4; i++) {
		struct profile *profile = test_profile();

		if (i == 3)
			scene_reopen(&scene);
		add_known(profile, "service=a", hour_ns(i == 4 ? 2 : 1), "main;run;leaf", 1);
		append_profile(scene.store, 1, i, profile);
		scene_flush(&scene);
	}
	dump_store(scene.store, "{}", all_time, SCAN_SUMS, &dump);
	EXPECT_EQ(1, dump.count, "stacks");
	EXPECT_STR(" main;run;leaf", dump.lines[0].text, "stack");
	EXPECT_EQ(4, dump.lines[0].value, "sum");
	dump_deinit(&dump);
	scene_end(&scene);
}

// Exact totals are measured without stacks.
TEST(an_empty_stack_is_the_root)
{
	struct scene scene;
	struct dump dump;

	scene_begin(&scene, (struct store_options){ 0 });
	for (uint64_t i = 1; i <= 3; i++) {
		struct profile *profile = test_profile(), *other = test_profile();
		uint32_t series = series_of_text(profile, "state=running", PROFILE_TYPE_WALL);
		uint32_t stack;

		assert_int_equal(0, profile_add_stack(other, NULL, 0, STACK_END_COMPLETE, &stack));
		if (i == 1)
			assert_int_equal(
				0, profile_add_stack(profile, NULL, 0, STACK_END_COMPLETE, &stack));
		else // known, in the same hour and in the next
			assert_int_equal(
				0, profile_add_stack_id(profile, other->stacks[0].id, &stack));
		profile_free(other);
		profile_add_interval(profile, series, stack, hour_ns(i == 3 ? 1 : 0) / TEST_SLOT_NS,
				     249, 1000);
		append_profile(scene.store, 1, i, profile);
		scene_flush(&scene);
		scene_reopen(&scene);
	}
	dump_store(scene.store, "{}", all_time, SCAN_SERIES_SUMS, &dump);
	EXPECT_EQ(1, dump.count, "one stack");
	EXPECT_STR("state=running ", dump.lines[0].text, "without frames");
	EXPECT_EQ(3000, dump.lines[0].value, "sum");
	dump_deinit(&dump);
	scene_end(&scene);
}

TEST(names_may_arrive_after_their_locations)
{
	struct scene scene;
	struct profile *profile = test_profile();
	uint32_t location = location_of_name(profile, "late", false), stack;
	struct dump dump;

	scene_begin(&scene, (struct store_options){ 0 });
	profile_add_stack(profile, &location, 1, STACK_END_COMPLETE, &stack);
	profile_add_sample(profile, series_of_text(profile, "service=a", TEST_TYPE), stack,
			   hour_ns(0) / TEST_SLOT_NS, 1);
	append_profile(scene.store, 1, 1, profile);
	dump_store(scene.store, "{}", all_time, SCAN_SUMS, &dump);
	EXPECT_STR(" ?", dump.lines[0].text, "before");
	dump_deinit(&dump);

	append_text(scene.store, 1, 2, "service=a", hour_ns(0), "late", 1);
	for (int reopened = 0; reopened < 2; reopened++) {
		dump_store(scene.store, "{}", all_time, SCAN_SUMS, &dump);
		EXPECT_EQ(1, dump.count, "one location");
		EXPECT_STR(" late", dump.lines[0].text, "after");
		dump_deinit(&dump);
		scene_reopen(&scene);
	}
	scene_end(&scene);
}

TEST(drops_and_counts_late_and_future_rows)
{
	struct scene scene;
	struct profile *profile = test_profile();
	struct store_stats stats;
	struct dump dump;
	uint64_t now_ns = clock_realtime_ns();

	scene_begin(&scene, (struct store_options){ .retention_ns = 2 * 3600 * NS_PER_SECOND });
	add_text(profile, "service=a", now_ns - 3 * 3600 * NS_PER_SECOND, "main;old", 1);
	add_text(profile, "service=a", now_ns, "main;now", 1);
	add_text(profile, "service=a", now_ns + 2 * 3600 * NS_PER_SECOND, "main;future", 1);
	add_text(profile, "service=a", UINT64_MAX - TEST_SLOT_NS, "main;far", 1);
	append_profile(scene.store, 1, 1, profile);
	dump_store(scene.store, "{}", all_time, SCAN_SUMS, &dump);
	EXPECT_EQ(1, dump.count, "stacks");
	EXPECT_STR(" main;now", dump.lines[0].text, "stack");
	dump_deinit(&dump);
	store_read_stats(scene.store, &stats);
	EXPECT_EQ(1, stats.rows_late_dropped, "late");
	EXPECT_EQ(2, stats.rows_future_dropped, "future");

	profile = test_profile(); // nothing is left: the agent goes on
	add_text(profile, "service=a", 0, "main;old", 1);
	append_profile(scene.store, 1, 2, profile);
	scene_end(&scene);
}

TEST(a_refused_batch_is_no_duplicate)
{
	struct scene scene;
	struct store_stats stats;
	struct dump dump;
	const uint64_t hour = 3600 * NS_PER_SECOND, time_ns = clock_realtime_ns() - 3 * hour;

	scene_begin(&scene, (struct store_options){ .retention_ns = 2 * hour });
	for (int i = 0; i < 2; i++)
		append_text(scene.store, 1, 1, "service=a", time_ns, "main;old", 1);
	store_read_stats(scene.store, &stats);
	EXPECT_EQ(2, stats.rows_late_dropped, "late");
	EXPECT_EQ(0, stats.batches_appended, "stored");
	scene.options.retention_ns = 6 * hour;
	scene_reopen(&scene);
	append_text(scene.store, 1, 1, "service=a", time_ns, "main;old", 1);
	dump_store(scene.store, "{}", all_time, SCAN_SUMS, &dump);
	EXPECT_EQ(1, dump.count, "the same batch, after --retention was raised");
	dump_deinit(&dump);
	scene_end(&scene);
}

TEST(refuses_absurd_batches_by_field)
{
	static const struct {
		const char *what;
		uint64_t slot_ns, sequence;
		int hours;
		const char *text;
	} cases[] = {
		{ "good", TEST_SLOT_NS, 1, 2, NULL },
		{ "sequence 0", TEST_SLOT_NS, 0, 1, "sequence" },
		{ "slot 0", 0, 2, 1, "slot_ns" },
		{ "slot of two minutes", 120 * NS_PER_SECOND, 2, 1, "slot_ns" },
		{ "a day in one batch", TEST_SLOT_NS, 2, 24, "samples" },
	};
	struct scene scene;

	scene_begin(&scene, (struct store_options){ 0 });
	for EACH (c, cases) {
		struct profile *profile = test_profile();
		struct store_batch_id batch = batch_of(1, c->sequence);
		struct store_append_result result;
		struct error err = { 0 };

		for (int i = 0; i < c->hours; i++)
			add_text(profile, "service=a", hour_ns(-i), "main", 1);
		profile->slot_ns = c->slot_ns;
		EXPECT_EQ(c->text ? -EINVAL : 0,
			  store_append(scene.store, &batch, profile, &result, &err), c->what);
		if (c->text && !strstr(err.text, c->text))
			fail_msg("%s: \"%s\" does not name %s", c->what, err.text, c->text);
		profile_free(profile);
	}
	scene_end(&scene);
}

// ---- series ---------------------------------------------------------------------------------------

static void expect_names(const struct name_list *list, const char *expected, const char *what)
{
	char text[1024] = "";

	for (uint32_t i = 0; i < list->count; i++)
		sprintf(text + strlen(text), "%s%s", i ? " " : "", list->names[i]);
	EXPECT_STR(expected, text, what);
}

static void expect_label_names(struct store *store, const char *selector_text,
			       struct time_range range, const char *expected)
{
	struct selector selector = selector_of(selector_text);
	struct name_list list;

	assert_int_equal(0, store_label_names(store, &selector, range, &list, NULL));
	expect_names(&list, expected, selector_text);
	name_list_deinit(&list);
	selector_deinit(&selector);
}

static void expect_label_values(struct store *store, const char *name, const char *selector_text,
				struct time_range range, const char *expected)
{
	struct selector selector = selector_of(selector_text);
	struct name_list list;

	assert_int_equal(0, store_label_values(store, name, &selector, range, &list, NULL));
	expect_names(&list, expected, selector_text);
	name_list_deinit(&list);
	selector_deinit(&selector);
}

static void append_labelled(struct store *store, uint64_t sequence)
{
	struct profile *profile = test_profile();

	add_text(profile, "service=llm,node=n1,pod=llm-0", hour_ns(0), "main", 1);
	add_text(profile, "service=llm,node=n2,pod=llm-1", hour_ns(0), "main", 1);
	add_text(profile, "service=web,node=n1", hour_ns(0), "main", 1);
	profile_add_sample(
		profile, series_of_text(profile, "service=llm,node=n1", "off:cpu:ns:x:y"),
		stack_of_text(profile, "main", STACK_END_COMPLETE), hour_ns(0) / TEST_SLOT_NS, 1);
	add_text(profile, "service=late,node=n3", hour_ns(1) + 1800 * NS_PER_SECOND, "main", 1);
	append_profile(store, 1, sequence, profile);
}

TEST(selectors_select_series)
{
	static const struct {
		const char *selector;
		uint32_t series;
	} cases[] = {
		{ "{}", 5 },
		{ "{service=\"llm\"}", 3 },
		{ "{service=~\"l.*\"}", 4 },
		{ "{service=~\"l\"}", 0 }, // anchored
		{ "{service!=\"llm\"}", 2 },
		{ "{pod=\"\"}", 3 }, // absent equals empty
		{ "{pod!=\"\"}", 2 },
		{ "{pod=~\".*\"}", 5 },
		{ "{pod!~\"llm-0|\"}", 1 },
		{ "{nosuch=\"x\"}", 0 },
		{ "{nosuch!=\"x\"}", 5 },
		{ "{service=\"llm\",node=\"n1\",pod=\"llm-0\"}", 1 },
	};
	struct scene scene;

	scene_begin(&scene, (struct store_options){ 0 });
	append_labelled(scene.store, 1);
	for (int reopened = 0; reopened < 2; reopened++) {
		for EACH (c, cases) {
			struct selector selector = selector_of(c->selector);
			struct store_selection *selection;

			assert_int_equal(0, store_select(scene.store, &selector, NULL, all_time,
							 &selection, NULL));
			EXPECT_EQ(c->series, selection->series_count, c->selector);
			for (uint32_t i = 0; i < selection->series_count; i++) {
				EXPECT_EQ(i, selection->series[i].number, c->selector);
				assert_true(
					selector_matches(&selector, &selection->series[i].labels));
			}
			store_selection_free(selection);
			selector_deinit(&selector);
		}
		scene_flush(&scene);
		scene_reopen(&scene);
	}
	scene_end(&scene);
}

TEST(selects_series_by_type)
{
	struct scene scene;
	struct selector selector = selector_of("{service=\"llm\"}");
	struct store_selection *selection;

	scene_begin(&scene, (struct store_options){ 0 });
	append_labelled(scene.store, 1);
	assert_int_equal(0, store_select(scene.store, &selector, "off:cpu:ns:x:y", all_time,
					 &selection, NULL));
	EXPECT_EQ(1, selection->series_count, "off-CPU");
	EXPECT_STR("off:cpu:ns:x:y", selection->series[0].type, "type");
	store_selection_free(selection);
	assert_int_equal(
		0, store_select(scene.store, &selector, "no:such", all_time, &selection, NULL));
	EXPECT_EQ(0, selection->series_count, "no such type");
	store_selection_free(selection);
	selector_deinit(&selector);
	scene_end(&scene);
}

TEST(lists_names_and_values_of_matching_series)
{
	struct scene scene;
	struct time_range first = { hour_ns(0), hour_ns(1) }, second = { hour_ns(1), hour_ns(2) };
	struct time_range before = { hour_ns(1), hour_ns(1) + 60 * NS_PER_SECOND };

	scene_begin(&scene, (struct store_options){ 0 });
	append_labelled(scene.store, 1);
	for (int i = 0; i < 3; i++) {
		struct store *store = scene.store;

		expect_label_names(store, "{}", all_time, "node pod service");
		expect_label_names(store, "{service=\"web\"}", all_time, "node service");
		expect_label_names(store, "{service=\"nosuch\"}", all_time, "");
		expect_label_values(store, "service", "{}", all_time, "late llm web");
		expect_label_values(store, "service", "{}", first, "llm web");
		expect_label_values(store, "service", "{}", second, "late");
		expect_label_values(store, "service", "{}", before, "");
		expect_label_values(store, "node", "{service=\"llm\"}", all_time, "n1 n2");
		expect_label_values(store, "nosuch", "{}", all_time, "");
		expect_label_values(store, "__type__", "{node=\"n1\"}", all_time,
				    "off:cpu:ns:x:y " TEST_TYPE);
		expect_label_values(store, "__type__", "{}", second, TEST_TYPE);
		scene_flush(&scene);
		if (i == 1)
			scene_reopen(&scene);
	}
	scene_end(&scene);
}

TEST(an_empty_store_answers_queries)
{
	struct scene scene;
	struct dump dump;
	struct store_stats stats;

	scene_begin(&scene, (struct store_options){ 0 });
	scene_flush(&scene);
	dump_store(scene.store, "{}", all_time, SCAN_ROWS, &dump);
	EXPECT_EQ(0, dump.count, "rows");
	dump_deinit(&dump);
	expect_label_names(scene.store, "{}", all_time, "");
	store_read_stats(scene.store, &stats);
	EXPECT_EQ(0, stats.series, "series");
	EXPECT_EQ(0, stats.oldest_ns, "oldest");
	scene_end(&scene);
}

// ---- at the same time -------------------------------------------------------------------------------

enum { WRITERS = 4, WRITER_BATCHES = 60, WRITER_SAMPLES = 40 };

struct writer {
	struct store *store;
	uint64_t agent;
};

static void *write_batches(void *argument)
{
	const struct writer *writer = argument;
	char labels[64], stack[64];

	sprintf(labels, "service=a,node=n%llu", (unsigned long long)writer->agent);
	for (uint64_t i = 1; i <= WRITER_BATCHES; i++) {
		struct profile *profile = test_profile();

		for (uint64_t j = 0; j < WRITER_SAMPLES; j++) {
			sprintf(stack, "main;f%llu;g%llu", (unsigned long long)(i % 7),
				(unsigned long long)(i * j));
			add_text(profile, labels, hour_ns(0) + i * NS_PER_SECOND, stack, 1);
		}
		append_profile(writer->store, writer->agent, i, profile);
	}
	return NULL;
}

/** A scan while others append sees whole batches only. */
static int64_t sum_now(struct store *store)
{
	struct dump dump;
	int64_t sum = 0;

	dump_store(store, "{}", all_time, SCAN_SERIES_SUMS, &dump);
	for (uint32_t i = 0; i < dump.count; i++)
		sum += dump.lines[i].value;
	EXPECT_EQ(0, sum % WRITER_SAMPLES, "a part of a batch");
	dump_deinit(&dump);
	return sum;
}

TEST(appends_queries_and_maintenance_run_concurrently)
{
	struct scene scene;
	pthread_t threads[WRITERS];
	struct writer writers[WRITERS];
	int64_t before = 0, now = 0, all = (int64_t)WRITERS * WRITER_BATCHES * WRITER_SAMPLES;

	scene_begin(&scene, (struct store_options){ 0 });
	for (int i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){ scene.store, (uint64_t)i + 1 };
		assert_int_equal(0, pthread_create(&threads[i], NULL, write_batches, &writers[i]));
	}
	for (int i = 0; now < all; i++, before = now) {
		now = sum_now(scene.store);
		if (now < before)
			fail_msg("rows vanished: %lld after %lld", (long long)now,
				 (long long)before);
		if (i % 3 == 2)
			scene_flush(&scene);
	}
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	EXPECT_EQ(all, now, "sum");
	scene_reopen(&scene);
	EXPECT_EQ(all, sum_now(scene.store), "reopened");
	scene_end(&scene);
}

#define CONFORMANCE_TESTS                                                                \
	cmocka_unit_test(returns_rows_as_appended), cmocka_unit_test(dense_rows_add_up), \
		cmocka_unit_test(a_truncated_stack_begins_with_its_reason),              \
		cmocka_unit_test(returns_extreme_values),                                \
		cmocka_unit_test(stores_slots_of_several_lengths),                       \
		cmocka_unit_test(a_batch_counts_once),                                   \
		cmocka_unit_test(a_batch_with_unknown_stacks_stores_nothing),            \
		cmocka_unit_test(knows_stacks_of_the_partition_before),                  \
		cmocka_unit_test(an_empty_stack_is_the_root),                            \
		cmocka_unit_test(names_may_arrive_after_their_locations),                \
		cmocka_unit_test(drops_and_counts_late_and_future_rows),                 \
		cmocka_unit_test(a_refused_batch_is_no_duplicate),                       \
		cmocka_unit_test(refuses_absurd_batches_by_field),                       \
		cmocka_unit_test(selectors_select_series),                               \
		cmocka_unit_test(selects_series_by_type),                                \
		cmocka_unit_test(lists_names_and_values_of_matching_series),             \
		cmocka_unit_test(an_empty_store_answers_queries),                        \
		cmocka_unit_test(appends_queries_and_maintenance_run_concurrently)
