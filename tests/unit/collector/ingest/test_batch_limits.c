// SPDX-License-Identifier: Apache-2.0
// What a tenant's limits change in a batch: labels and stacks, never values.
#include "collector/ingest/batch_limits.h"

#include "base/contract/label_names.h"
#include "tests/unit/collector/limits/limits_fixture.h"

static const char limited[] = "tenants:\n"
			      "  shop:\n"
			      "    series: 7\n"
			      "    labels: 4\n"
			      "    label-name-bytes: 16\n"
			      "    label-value-bytes: 16\n"
			      "    stack-depth: 16\n";

struct scene {
	struct limits_fixture file;
	struct tenant *tenant;
	struct profile *profile;
	struct store_batch_id batch;
	struct batch_limited changed;
};

static void begin(struct scene *scene, const char *tenant)
{
	*scene = (struct scene){ 0 };
	limits_open(&scene->file, limited);
	scene->tenant = tenant_limits_find(scene->file.limits, tenant);
	scene->profile = profile_new(20000000);
}

static void end(struct scene *scene)
{
	profile_free(scene->profile);
	limits_close(&scene->file);
}

static void apply(struct scene *scene)
{
	struct error err = { 0 };

	if (batch_limits_apply(scene->tenant, scene->profile, &scene->batch, &scene->changed, &err))
		fail_msg("%s", err.text);
}

/** @pairs: name, value, ... NULL. */
static void add_series(struct scene *scene, const char *const *pairs)
{
	struct labels labels = { 0 };
	uint32_t series;

	for (; *pairs; pairs += 2)
		assert_int_equal(0, labels_set(&labels, pairs[0], pairs[1]));
	assert_int_equal(0, profile_add_series(scene->profile, &labels, PROFILE_TYPE_CPU, &series));
	labels_deinit(&labels);
}

static const struct {
	const char *what;
	const char *labels[16];
	const char *left;               // "name=value,"
	uint32_t values, names, counts; // series that these limits changed
} rows[] = {
	{ "all fits", { "a", "1", "service", "llm" }, "a=1,service=llm,", 0, 0, 0 },
	{ "a value of 16 bytes", { "a", "0123456789abcdef" }, "a=0123456789abcdef,", 0, 0, 0 },
	{ "a longer value", { "a", "0123456789abcdefg" }, "a=0123456789abcdef,", 1, 0, 0 },
	{ "cut before a character",
	  { "a", "0123456789abcde\xc3\xa4" },
	  "a=0123456789abcde,",
	  1,
	  0,
	  0 },
	{ "a long name", { "a", "1", "a_name_of_17_bytes", "2" }, "a=1,", 0, 1, 0 },
	{ "its own labels stay",
	  { "node", "n", "pod", "p", "service", "s", "az", "z", "thread", "t" },
	  "node=n,pod=p,service=s,thread=t,",
	  0,
	  0,
	  1 },
	{ "too many of its own",
	  { "node", "n", "pod", "p", "process", "c", "service", "s", "thread", "t" },
	  "node=n,pod=p,process=c,service=s,",
	  0,
	  0,
	  1 },
	{ "all at once",
	  { "a_name_of_17_bytes", "1", "b", "0123456789abcdefg", "c", "1", "d", "1", "e", "1", "f",
	    "1" },
	  "b=0123456789abcdef,c=1,d=1,e=1,",
	  1,
	  1,
	  1 },
};

TEST(labels_are_cut_or_left_out)
{
	for EACH (row, rows) {
		char left[256] = "";
		struct scene scene;

		begin(&scene, "shop");
		add_series(&scene, row->labels);
		apply(&scene);
		const struct series *series = &scene.profile->series[0];
		for (uint32_t i = 0; i < series->labels.count; i++)
			sprintf(left + strlen(left), "%s=%s,", series->labels.pairs[i].name,
				series->labels.pairs[i].value);
		EXPECT_STR(row->left, left, row->what);
		EXPECT_EQ(row->values, scene.changed.count[LIMIT_LABEL_VALUE], row->what);
		EXPECT_EQ(row->names, scene.changed.count[LIMIT_LABEL_NAME], row->what);
		EXPECT_EQ(row->counts, scene.changed.count[LIMIT_LABELS], row->what);
		EXPECT_EQ(true,
			  id128_equal(series_id_of(&series->labels, PROFILE_TYPE_CPU), series->id),
			  row->what);
		end(&scene);
	}
}

static uint32_t add_stack(struct scene *scene, uint32_t frames)
{
	uint32_t locations[64], stack;

	for (uint32_t i = 0; i < frames; i++) {
		const struct location location = { .id = { 1, i + 1 }, .kind = FRAME_KIND_NATIVE };

		assert_int_equal(
			0, profile_add_location(scene->profile, &location, NULL, 0, &locations[i]));
	}
	assert_int_equal(0, profile_add_stack(scene->profile, locations, frames, STACK_END_COMPLETE,
					      &stack));
	return stack;
}

TEST(outer_frames_of_deep_stacks_are_cut)
{
	struct scene scene;

	begin(&scene, "shop");
	uint32_t fits = add_stack(&scene, 16), deep = add_stack(&scene, 40), named;
	assert_int_equal(0, profile_add_stack_id(scene.profile, (struct id128){ 7, 7 }, &named));
	const struct id128 id = scene.profile->stacks[deep].id;
	apply(&scene);
	const struct stack *stacks = scene.profile->stacks;
	EXPECT_EQ(16, stacks[fits].location_count, "fits");
	EXPECT_EQ(STACK_END_COMPLETE, stacks[fits].end, "fits");
	EXPECT_EQ(16, stacks[deep].location_count, "cut");
	EXPECT_EQ(STACK_END_DEPTH, stacks[deep].end, "says so");
	EXPECT_EQ(1,
		  scene.profile
			  ->locations[scene.profile->stack_locations[stacks[deep].first_location]]
			  .id.low,
		  "the leaf stays");
	// The store has one table for all tenants: another's stack of this id is whole.
	struct id128 ids[] = { stacks[deep].id, stacks[named].id };
	EXPECT_EQ(false, id128_equal(id, ids[0]), "an id of its own");
	EXPECT_EQ(false, id128_equal((struct id128){ 7, 7 }, ids[1]), "where only it came, too");
	batch_limits_restore_ids(&scene.changed, ids, 2);
	EXPECT_EQ(true, id128_equal(id, ids[0]), "as the agent knows it");
	EXPECT_EQ(true, id128_equal((struct id128){ 7, 7 }, ids[1]), "as the agent knows it");
	EXPECT_EQ(1, scene.changed.count[LIMIT_STACK_DEPTH], "counted");
	end(&scene);
}

TEST(another_tenants_batch_stays_as_it_is)
{
	static const char *const pairs[] = { "a_name_of_17_bytes", "0123456789abcdefg", NULL };
	struct scene scene;
	char text[400] = "x";

	begin(&scene, "bank");
	add_series(&scene, pairs);
	uint32_t deep = add_stack(&scene, 40);
	const struct id128 whole = scene.profile->stacks[deep].id;
	apply(&scene);
	EXPECT_STR("0123456789abcdefg",
		   labels_get(&scene.profile->series[0].labels, "a_name_of_17_bytes"), "label");
	EXPECT_EQ(40, scene.profile->stacks[deep].location_count, "stack");
	EXPECT_EQ(true, id128_equal(whole, scene.profile->stacks[deep].id), "its id");
	EXPECT_EQ(0, scene.batch.tenant_series_max, "the store's own");
	batch_limits_note(scene.tenant, &scene.changed, text, sizeof(text));
	EXPECT_STR("", text, "nothing to say");
	end(&scene);
}

TEST(says_what_was_changed_and_counts_it)
{
	static const char *const pairs[] = { "a", "0123456789abcdefg", NULL };
	char text[400], small[40];
	struct scene scene;

	begin(&scene, "shop");
	add_series(&scene, pairs);
	add_stack(&scene, 40);
	apply(&scene);
	EXPECT_EQ(7, scene.batch.tenant_series_max, "for the store");
	scene.changed.count[LIMIT_SERIES] = 5;
	batch_limits_note(scene.tenant, &scene.changed, text, sizeof(text));
	assert_non_null(strstr(text, "tenant shop: series: 7 ("));
	assert_non_null(strstr(text, ":3): rows of new series stored under the label other: 5; "
				     "tenant shop: label-value-bytes: 16 ("));
	assert_non_null(strstr(text, ":6): series with values cut: 1; "
				     "tenant shop: stack-depth: 16 ("));
	assert_non_null(strstr(text, ":7): stacks cut: 1"));
	EXPECT_EQ(5, refusals_of(&scene.file, "shop", LIMIT_SERIES), "rows");
	EXPECT_EQ(1, refusals_of(&scene.file, "shop", LIMIT_STACK_DEPTH), "stacks");
	batch_limits_note(scene.tenant, &scene.changed, small, sizeof(small));
	EXPECT_EQ(sizeof(small) - 1, strlen(small), "cut, not beyond");
	end(&scene);
}

RUN_TESTS(cmocka_unit_test(labels_are_cut_or_left_out),
	  cmocka_unit_test(outer_frames_of_deep_stacks_are_cut),
	  cmocka_unit_test(another_tenants_batch_stays_as_it_is),
	  cmocka_unit_test(says_what_was_changed_and_counts_it))
