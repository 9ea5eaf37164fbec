// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/export/collapsed.h"
#include "base/import/pprof_import.h"
#include "tests/unit/base/import/pprof_bytes.h"

#define FROM_NS 1700000000000000000ULL // 20 s before the end of its minute
#define SAMPLES "process_cpu:samples:count:cpu:nanoseconds"

/** Strings of the profile below, by number. */
static const char *const strings[] = { "",        "samples", "count",   "cpu",  "nanoseconds",
				       "main",    "work",    "a.go",    "/app", "b1d",
				       "request", "slow",    "span_id", "0f0f", "x.py" };

static void put_tables(struct buffer *bytes)
{
	PUT(bytes, 1, 1, 1, 2, 2); // sample types: samples/count, cpu/nanoseconds
	PUT(bytes, 1, 1, 3, 2, 4);
	PUT(bytes, 3, 1, 1, 2, 0x1000, 3, 0x9000, 4, 0x200, 5, 8, 6, 9); // /app, build id b1d
	PUT(bytes, 5, 1, 1, 2, 5, 4, 7);                                 // main, a.go
	PUT(bytes, 5, 1, 2, 2, 6, 4, 14);                                // work, x.py
	for (size_t i = 0; i < ARRAY_SIZE(strings); i++)
		put_text(bytes, 6, strings[i]);
	put_number(bytes, 9, FROM_NS);
	put_number(bytes, 10, 10000000000); // 10 s
	PUT(bytes, 11, 1, 3, 2, 4);
	put_number(bytes, 12, 10000000);
}

/** Location 1 is main, 2 work inlined into main, 900000000 has an address only. */
static void put_locations(struct buffer *bytes)
{
	static const uint8_t main_line[] = { 0x08, 1, 0x10, 12 },
			     work_line[] = { 0x08, 2, 0x10, 7 };
	_cleanup_(buffer_deinit) struct buffer location = { 0 };

	put_number(&location, 1, 1);
	put_bytes(&location, 4, main_line, sizeof(main_line));
	put_bytes(bytes, 4, location.bytes, location.size);
	buffer_clear(&location);
	put_number(&location, 1, 2);
	put_bytes(&location, 4, work_line, sizeof(work_line));
	put_bytes(&location, 4, main_line, sizeof(main_line));
	put_bytes(bytes, 4, location.bytes, location.size);
	PUT(bytes, 4, 1, 900000000, 2, 1, 3, 0x1234);
}

static void put_sample(struct buffer *bytes, const uint8_t *packed_locations, size_t size,
		       uint64_t samples, uint64_t ns)
{
	_cleanup_(buffer_deinit) struct buffer sample = { 0 };

	put_bytes(&sample, 1, packed_locations, size);
	put_number(&sample, 2, samples); // not packed
	put_number(&sample, 2, ns);
	put_bytes(bytes, 2, sample.bytes, sample.size);
}

static void put_profile(struct buffer *bytes)
{
	static const uint8_t deep[] = { 2, 1 };
	_cleanup_(buffer_deinit) struct buffer sample = { 0 };

	put_sample(bytes, deep, sizeof(deep), 3, 30000000);
	put_tables(bytes);
	put_locations(bytes);
	// Not packed locations, packed values, labels.
	put_number(&sample, 1, 900000000);
	put_number(&sample, 1, 1);
	put_bytes(&sample, 2, "\x07\x0b", 2);
	PUT(&sample, 3, 1, 10, 2, 11);
	PUT(&sample, 3, 1, 12, 2, 13); // span_id
	PUT(&sample, 3, 1, 5, 3, 99);  // a number
	put_bytes(bytes, 2, sample.bytes, sample.size);
}

struct fixture {
	struct importer importer;
	struct labels labels;
	struct import_source source;
	struct error err;
};

static void begin(struct fixture *f)
{
	*f = (struct fixture){ .source = { .labels = &f->labels } };
	labels_set(&f->labels, LABEL_PROCESS, "app");
	assert_int_equal(importer_init(&f->importer, FROM_NS + NS_PER_SECOND, 1000), 0);
}

static void end(struct fixture *f)
{
	importer_deinit(&f->importer);
	labels_deinit(&f->labels);
}

static void expect_stacks(const struct fixture *f, const char *type, const char *expected)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	assert_int_equal(collapsed_encode(f->importer.profile, type, &text), 0);
	assert_string_equal(expected, buffer_string(&text));
}

TEST(reads_all_sample_types_exactly)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
	struct fixture f;

	begin(&f);
	put_profile(&bytes);
	assert_int_equal(pprof_import(&f.importer, &f.source, bytes.bytes, bytes.size, &f.err), 0);
	assert_int_equal(2, f.importer.samples);
	expect_stacks(&f, PROFILE_TYPE_CPU,
		      "app;main;app+0x434 11\napp;main;main (a.go:12);work (x.py:7) 30000000\n");
	expect_stacks(&f, SAMPLES,
		      "app;main;app+0x434 7\napp;main;main (a.go:12);work (x.py:7) 3\n");
	end(&f);
}

TEST(spreads_values_over_profiles_time)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
	struct fixture f;

	begin(&f);
	f.source.from_ns = FROM_NS + 35 * NS_PER_SECOND; // 5 s before the end of a minute
	f.source.to_ns = f.source.from_ns + 10 * NS_PER_SECOND;
	put_profile(&bytes);
	assert_int_equal(pprof_import(&f.importer, &f.source, bytes.bytes, bytes.size, &f.err), 0);
	const struct profile *profile = f.importer.profile;
	assert_int_equal(8, profile->sample_count); // two samples, two types, two minutes
	assert_int_equal(f.source.from_ns, profile->from_ns);
	assert_int_equal(f.source.to_ns, profile->to_ns);
	for (uint32_t i = 0; i < profile->sample_count; i++)
		assert_int_equal(249, profile->samples[i].more_slots);
	end(&f);
}

TEST(makes_labels_of_texts_only)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
	struct fixture f;

	begin(&f);
	put_profile(&bytes);
	assert_int_equal(pprof_import(&f.importer, &f.source, bytes.bytes, bytes.size, &f.err), 0);
	const struct profile *profile = f.importer.profile;
	assert_int_equal(4, profile->series_count);
	const struct labels *labels = &profile->series[profile->samples[3].series].labels;
	assert_int_equal(2, labels->count);
	EXPECT_STR("slow", labels_get(labels, "request"), "of a sample");
	EXPECT_STR("app", labels_get(labels, "process"), "of the profile");
	end(&f);
}

TEST(pushers_labels_win_over_samples)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
	struct fixture f;

	begin(&f);
	labels_set(&f.labels, "request", "mine");
	put_profile(&bytes);
	assert_int_equal(pprof_import(&f.importer, &f.source, bytes.bytes, bytes.size, &f.err), 0);
	assert_int_equal(2, f.importer.profile->series_count);
	EXPECT_STR("mine", labels_get(&f.importer.profile->series[0].labels, "request"), "pusher");
	end(&f);
}

TEST(stops_at_limit_of_rows)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
	struct fixture f;

	begin(&f);
	f.importer.rows_max = 3;
	put_profile(&bytes);
	assert_int_equal(pprof_import(&f.importer, &f.source, bytes.bytes, bytes.size, &f.err),
			 -E2BIG);
	end(&f);
}

enum fault {
	NO_TYPES,
	NO_STRINGS,
	BAD_LOCATION,
	BAD_FUNCTION,
	BAD_STRING,
	FEW_VALUES,
	LARGE_VALUE,
	LONG_TIME,
};

static void put_fault(struct buffer *bytes, enum fault fault)
{
	static const uint8_t one[] = { 1 }, none[] = { 77 };

	if (fault != NO_TYPES && fault != NO_STRINGS)
		put_tables(bytes);
	else if (fault == NO_TYPES)
		put_text(bytes, 6, "");
	else
		PUT(bytes, 1, 1, 1, 2, 2);
	if (fault == BAD_FUNCTION)
		put_bytes(bytes, 4, "\x08\x01\x22\x02\x08\x63", 6);
	else if (fault == BAD_STRING)
		put_bytes(bytes, 5, "\x08\x05\x10\x7f", 4),
			put_bytes(bytes, 4, "\x08\x01\x22\x02\x08\x05", 6);
	else
		put_locations(bytes);
	if (fault == LONG_TIME)
		put_number(bytes, 10, 2 * IMPORT_NS_MAX);
	if (fault == FEW_VALUES)
		PUT(bytes, 2, 1, 1, 2, 5);
	else
		put_sample(bytes, fault == BAD_LOCATION ? none : one, 1, 1,
			   fault == LARGE_VALUE ? (uint64_t)IMPORT_VALUE_MAX + 1 : 1);
}

TEST(refuses_malformed_profiles)
{
	static const struct {
		enum fault fault;
		int rc;
		const char *what;
	} rows[] = {
		{ NO_TYPES, -EBADMSG, "no sample_type" },
		{ NO_STRINGS, -EBADMSG, "no string_table" },
		{ BAD_LOCATION, -EBADMSG, "location_id: 77" },
		{ BAD_FUNCTION, -EBADMSG, "function_id: 99" },
		{ BAD_STRING, -EBADMSG, "string" },
		{ FEW_VALUES, -EBADMSG, "1 for 2 sample types" },
		{ LARGE_VALUE, -EINVAL, "2^53" },
		{ LONG_TIME, -EINVAL, "at most 60 minutes" },
	};

	for EACH (row, rows) {
		_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
		struct fixture f;

		begin(&f);
		put_fault(&bytes, row->fault);
		EXPECT_EQ(row->rc,
			  pprof_import(&f.importer, &f.source, bytes.bytes, bytes.size, &f.err),
			  row->what);
		if (!strstr(f.err.text, row->what))
			fail_msg("%s: \"%s\"", row->what, f.err.text);
		end(&f);
	}
}

TEST(refuses_every_cut)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };

	put_profile(&bytes);
	for (size_t size = 0; size < bytes.size; size++) {
		struct fixture f;

		begin(&f);
		// Where a field ends the rest is a profile with fewer samples.
		int rc = pprof_import(&f.importer, &f.source, bytes.bytes, size, &f.err);
		assert_true(rc == 0 || rc == -EBADMSG);
		end(&f);
	}
}

TEST(types_of_levels_are_gauges)
{
	static const struct {
		const char *name, *sample, *unit, *period, *expected;
	} rows[] = {
		{ NULL, "inuse_space", "bytes", "space", "memory:inuse_space:bytes:gauge:second" },
		{ NULL, "alloc_space", "bytes", "space", "memory:alloc_space:bytes:space:bytes" },
		{ "process_cpu", "cpu", "nanoseconds", "cpu", PROFILE_TYPE_CPU },
		{ "block", "delay", "nanoseconds", "contentions",
		  "block:delay:nanoseconds:contentions:nanoseconds" },
		{ NULL, "a:b c", "", "", "a_b_c:a_b_c:count:a:b:count" },
	};

	for EACH (row, rows) {
		const struct import_source source = { .name = row->name };
		struct import_type type;
		const char *unit =
			strcmp(row->period, "cpu") == 0 || strcmp(row->period, "contentions") == 0
				? "nanoseconds"
				: "bytes";

		import_type_make(&source, row->sample, row->unit, row->period,
				 *row->period ? unit : "", &type);
		if (row != &rows[4])
			EXPECT_STR(row->expected, type.text, row->sample);
		struct profile_type parsed;
		EXPECT_EQ(0, profile_type_parse(type.text, &parsed, NULL), type.text);
	}
}

RUN_TESTS(cmocka_unit_test(reads_all_sample_types_exactly),
	  cmocka_unit_test(spreads_values_over_profiles_time),
	  cmocka_unit_test(makes_labels_of_texts_only),
	  cmocka_unit_test(pushers_labels_win_over_samples),
	  cmocka_unit_test(stops_at_limit_of_rows), cmocka_unit_test(refuses_malformed_profiles),
	  cmocka_unit_test(refuses_every_cut), cmocka_unit_test(types_of_levels_are_gauges))
