// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/import/importer.h"

#define MINUTE_NS (60 * NS_PER_SECOND)
#define BEGIN_NS  (1000000 * MINUTE_NS)

TEST(parts_add_up_to_value)
{
	static const struct {
		uint64_t from_ns, to_ns;
		int64_t value;
		uint32_t parts;
	} rows[] = {
		{ BEGIN_NS, BEGIN_NS, 7, 1 },
		{ BEGIN_NS, BEGIN_NS + 10 * NS_PER_SECOND, 1, 1 },
		{ BEGIN_NS - 7 * NS_PER_SECOND, BEGIN_NS + 3 * NS_PER_SECOND, 1, 2 },
		{ BEGIN_NS - 7 * NS_PER_SECOND, BEGIN_NS + 3 * NS_PER_SECOND, -999999999, 2 },
		{ BEGIN_NS + 1, BEGIN_NS + IMPORT_NS_MAX + 1, IMPORT_VALUE_MAX, 61 },
		{ BEGIN_NS + MINUTE_NS - 1, BEGIN_NS + MINUTE_NS, 5, 1 },
	};

	for EACH (row, rows) {
		_cleanup_(labels_deinit) struct labels labels = { 0 };
		struct importer importer;
		struct import_time time;
		uint32_t series, stack;
		int64_t sum = 0;

		assert_int_equal(importer_init(&importer, 0, 1000), 0);
		profile_add_series(importer.profile, &labels, PROFILE_TYPE_CPU, &series);
		assert_int_equal(import_stack(&importer, NULL, 0, &stack), 0);
		assert_int_equal(import_time_set(&time, row->from_ns, row->to_ns, NULL), 0);
		assert_int_equal(row->parts, time.part_count);
		assert_int_equal(import_row(&importer, series, stack, &time, row->value, NULL), 0);
		for (uint32_t i = 0; i < importer.profile->sample_count; i++) {
			const struct sample *sample = &importer.profile->samples[i];
			uint64_t last = sample->slot + sample->more_slots;

			sum += sample->value;
			assert_int_equal(sample->slot * IMPORT_SLOT_NS / MINUTE_NS,
					 last * IMPORT_SLOT_NS / MINUTE_NS);
		}
		assert_int_equal(row->value, sum);
		importer_deinit(&importer);
	}
}

TEST(refuses_absurd_times)
{
	struct import_time time;

	assert_int_equal(import_time_set(&time, UINT64_MAX, 0, NULL), -EINVAL);
	assert_int_equal(import_time_set(&time, 0, UINT64_MAX, NULL), -EINVAL);
	assert_int_equal(import_time_set(&time, BEGIN_NS, BEGIN_NS + IMPORT_NS_MAX + 1, NULL),
			 -EINVAL);
	assert_int_equal(import_time_set(&time, BEGIN_NS, BEGIN_NS + IMPORT_NS_MAX, NULL), 0);
}

TEST(levels_hold_for_each_second)
{
	struct import_time time;
	int64_t value;

	import_time_set(&time, BEGIN_NS, BEGIN_NS + 15 * NS_PER_SECOND, NULL);
	assert_int_equal(import_gauge_value(&time, 1000, &value), 0);
	assert_int_equal(15000, value);
	import_time_set(&time, BEGIN_NS, BEGIN_NS, NULL);
	assert_int_equal(import_gauge_value(&time, 1000, &value), 0);
	assert_int_equal(1000, value);
	import_time_set(&time, BEGIN_NS, BEGIN_NS + IMPORT_NS_MAX, NULL);
	assert_int_equal(import_gauge_value(&time, IMPORT_VALUE_MAX, &value), -ERANGE);
}

TEST(reads_what_names_say)
{
	static const struct {
		const char *text, *name, *file;
		uint32_t number;
		enum frame_kind kind;
	} rows[] = {
		{ "main", "main", "", 0, FRAME_KIND_UNKNOWN },
		{ "schedule_[k]", "schedule", "", 0, FRAME_KIND_KERNEL },
		{ "_[k]", "_[k]", "", 0, FRAME_KIND_UNKNOWN },
		{ "run (app/x.py:12)", "run", "app/x.py", 12, FRAME_KIND_PYTHON },
		{ "f (int) (b.py:3)", "f (int)", "b.py", 3, FRAME_KIND_PYTHON },
		{ "f (x.go:12)", "f (x.go:12)", "", 0, FRAME_KIND_UNKNOWN },
		{ "f (x.py:)", "f (x.py:)", "", 0, FRAME_KIND_UNKNOWN },
		{ "(x.py:1)", "(x.py:1)", "", 0, FRAME_KIND_UNKNOWN },
		{ "f (x.py:99999999999)", "f (x.py:99999999999)", "", 0, FRAME_KIND_UNKNOWN },
	};
	struct importer importer;

	assert_int_equal(importer_init(&importer, 0, 0), 0);
	for EACH (row, rows) {
		uint32_t at;

		assert_int_equal(import_named_frame(&importer, row->text, strlen(row->text), &at),
				 0);
		const struct location *location = &importer.profile->locations[at];
		const struct line *line = &importer.profile->lines[location->first_line];
		EXPECT_STR(row->name, profile_string(importer.profile, line->name), row->text);
		EXPECT_STR(row->file, profile_string(importer.profile, line->file), row->text);
		EXPECT_EQ(row->number, line->number, row->text);
		EXPECT_EQ(row->kind, location->kind, row->text);
	}
	importer_deinit(&importer);
}

TEST(names_do_not_poison_unnamed_frames)
{
	struct location frame = { .kind = FRAME_KIND_NATIVE, .offset = 0x1234 };
	struct importer importer;
	struct line line = { 0 };
	uint32_t plain, named;

	assert_int_equal(importer_init(&importer, 0, 0), 0);
	import_string(&importer, "b1d", 3, &frame.build_id);
	import_string(&importer, "evil", 4, &line.name);
	assert_int_equal(import_frame(&importer, &frame, NULL, 0, &plain), 0);
	assert_int_equal(import_frame(&importer, &frame, &line, 1, &named), 0);
	assert_int_not_equal(plain, named);
	assert_int_equal(0, importer.profile->locations[plain].line_count);
	struct id128 id = location_id_of_offset(FRAME_KIND_NATIVE, "b1d", 0x1234);
	assert_true(id128_equal(id, importer.profile->locations[plain].id));
	importer_deinit(&importer);
}

TEST(cuts_deep_stacks_at_root)
{
	struct importer importer;
	uint32_t locations[STACK_FRAMES_MAX + 1] = { 0 }, stack;

	assert_int_equal(importer_init(&importer, 0, 0), 0);
	import_named_frame(&importer, "leaf", 4, &locations[0]);
	for (size_t i = 1; i <= STACK_FRAMES_MAX; i++)
		import_named_frame(&importer, "root", 4, &locations[i]);
	assert_int_equal(import_stack(&importer, locations, STACK_FRAMES_MAX + 1, &stack), 0);
	assert_int_equal(1, importer.cut_stacks);
	assert_int_equal(STACK_END_DEPTH, importer.profile->stacks[stack].end);
	assert_int_equal(STACK_FRAMES_MAX, importer.profile->stacks[stack].location_count);
	importer_deinit(&importer);
}

TEST(collectors_labels_cannot_be_set)
{
	static const struct {
		const char *name, *label;
	} rows[] = { { "env", "env" },
		     { "k8s.pod", "k8s_pod" },
		     { "service_name", "service" },
		     { "service.name", "service" },
		     { "tenant", NULL },
		     { "other", NULL },
		     { "__session_id__", NULL },
		     { "", NULL },
		     { "1st", "_1st" } };

	for EACH (row, rows) {
		_cleanup_(labels_deinit) struct labels labels = { 0 };

		EXPECT_EQ(row->label != NULL,
			  import_label(&labels, row->name, strlen(row->name), "v", 1), row->name);
		if (row->label)
			EXPECT_STR("v", labels_get(&labels, row->label), row->name);
	}
}

RUN_TESTS(cmocka_unit_test(parts_add_up_to_value), cmocka_unit_test(refuses_absurd_times),
	  cmocka_unit_test(levels_hold_for_each_second), cmocka_unit_test(reads_what_names_say),
	  cmocka_unit_test(names_do_not_poison_unnamed_frames),
	  cmocka_unit_test(cuts_deep_stacks_at_root),
	  cmocka_unit_test(collectors_labels_cannot_be_set))
