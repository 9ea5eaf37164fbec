// SPDX-License-Identifier: Apache-2.0
#include "proto/export.h"

#include <errno.h>
#include <stdlib.h>

#include <zlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "pprof/profile.pb-c.h"
#include "proto/pprof.h"
#include "tests/test.h"
#include "base/contract/label_names.h"

typedef Perftools__Profiles__Profile Pprof;
typedef Perftools__Profiles__Location PprofLocation;

#define OFF_CPU "off_cpu:time:nanoseconds:off_cpu:nanoseconds"

static uint32_t add_location(struct profile *profile, enum frame_kind kind, const char *module,
			     uint64_t offset, const char *name, const char *inlined)
{
	struct location location = { .id = location_id_of_offset(kind, module, offset),
				     .kind = kind,
				     .offset = offset };
	struct line lines[2] = { 0 };
	uint32_t at = 0, count = 0;

	profile_add_string(profile, module, &location.module);
	profile_add_string(profile, "0123abcd", &location.build_id);
	if (inlined)
		profile_add_string(profile, inlined, &lines[count++].name);
	if (name) {
		profile_add_string(profile, name, &lines[count].name);
		profile_add_string(profile, "src/main.c", &lines[count].file);
		lines[count++].number = 12;
	}
	EXPECT_EQ(0, profile_add_location(profile, &location, lines, count, &at), module);
	return at;
}

static uint32_t add_series(struct profile *profile, const char *process, const char *type)
{
	struct labels labels = { 0 };
	uint32_t at = 0;

	labels_set(&labels, LABEL_PROCESS, process);
	labels_set(&labels, LABEL_SERVICE, "llm");
	EXPECT_EQ(0, profile_add_series(profile, &labels, type, &at), process);
	labels_deinit(&labels);
	return at;
}

// leaf (with a function inlined into it) < main; [kernel] < unresolved, cut.
static struct profile *profile_of_two_stacks(void)
{
	struct profile *profile = profile_new(20 * NS_PER_MS);
	uint32_t leaf =
		add_location(profile, FRAME_KIND_NATIVE, "/usr/bin/llm", 0x1234, "leaf", "inlined");
	uint32_t root =
		add_location(profile, FRAME_KIND_NATIVE, "/usr/bin/llm", 0x10, "main", NULL);
	uint32_t kernel =
		add_location(profile, FRAME_KIND_KERNEL, "[kernel]", 5, "do_syscall_64", NULL);
	uint32_t unresolved =
		add_location(profile, FRAME_KIND_NATIVE, "/lib/libc.so.6", 0xabc, NULL, NULL);
	uint32_t whole = 0, cut = 0;

	profile->from_ns = 1700000000 * NS_PER_SECOND;
	profile->to_ns = profile->from_ns + 5 * NS_PER_SECOND;
	profile_add_stack(profile, (uint32_t[]){ kernel, unresolved }, 2,
			  STACK_END_NO_FRAME_POINTER, &cut);
	profile_add_stack(profile, (uint32_t[]){ leaf, root }, 2, STACK_END_COMPLETE, &whole);
	uint32_t llm = add_series(profile, "llm-server", PROFILE_TYPE_CPU);
	uint32_t worker = add_series(profile, "worker", PROFILE_TYPE_CPU);
	uint32_t other = add_series(profile, "worker", OFF_CPU);
	profile_add_sample(profile, llm, whole, 1, 100);
	profile_add_sample(profile, llm, whole, 9, 20);
	profile_add_sample(profile, llm, cut, 2, 3);
	profile_add_sample(profile, worker, whole, 1, 4000);
	profile_add_sample(profile, other, whole, 1, 50000);
	return profile;
}

static struct buffer inflated(const struct buffer *file)
{
	struct buffer plain = { 0 };
	z_stream stream = { .next_in = file->bytes, .avail_in = file->size };
	size_t room = 1 << 20;

	EXPECT_EQ(0x1f, file->bytes[0], "gzip's first byte");
	stream.next_out = buffer_extend(&plain, room);
	stream.avail_out = room;
	EXPECT_EQ(Z_OK, inflateInit2(&stream, 15 + 16), "inflateInit2");
	EXPECT_EQ(Z_STREAM_END, inflate(&stream, Z_FINISH), "inflate");
	plain.size = stream.total_out;
	inflateEnd(&stream);
	return plain;
}

static Pprof *pprof_of(const struct profile *profile, const char *type)
{
	_cleanup_(buffer_deinit) struct buffer file = { 0 };
	struct error err = { 0 };

	EXPECT_EQ(0, export_profile(profile, type, EXPORT_PPROF, "", &file, &err), err.text);
	_cleanup_(buffer_deinit) struct buffer plain = inflated(&file);
	Pprof *pprof = perftools__profiles__profile__unpack(NULL, plain.size, plain.bytes);
	assert_non_null(pprof);
	return pprof;
}

static const char *string_of(const Pprof *pprof, int64_t number)
{
	assert_in_range(number, 0, pprof->n_string_table - 1);
	return pprof->string_table[number];
}

static const PprofLocation *location_of(const Pprof *pprof, uint64_t id)
{
	for (size_t i = 0; i < pprof->n_location; i++)
		if (pprof->location[i]->id == id)
			return pprof->location[i];
	fail_msg("no location %llu", (unsigned long long)id);
	return NULL;
}

static const char *function_name(const Pprof *pprof, uint64_t id)
{
	for (size_t i = 0; i < pprof->n_function; i++)
		if (pprof->function[i]->id == id)
			return string_of(pprof, pprof->function[i]->name);
	fail_msg("no function %llu", (unsigned long long)id);
	return NULL;
}

// "process: leaf < caller < root" with inlined calls as frames.
static void path_of(const Pprof *pprof, const Perftools__Profiles__Sample *sample, char *text,
		    size_t size)
{
	text[0] = 0;
	for (size_t i = 0; i < sample->n_label; i++)
		if (!strcmp(string_of(pprof, sample->label[i]->key), LABEL_PROCESS))
			snprintf(text, size, "%s:", string_of(pprof, sample->label[i]->str));
	for (size_t i = 0; i < sample->n_location_id; i++) {
		const PprofLocation *location = location_of(pprof, sample->location_id[i]);

		for (size_t j = 0; j < location->n_line; j++) {
			size_t used = strlen(text);

			snprintf(text + used, size - used, " %s",
				 function_name(pprof, location->line[j]->function_id));
		}
	}
}

static int64_t value_of(const Pprof *pprof, const char *path)
{
	int64_t value = -1;

	for (size_t i = 0; i < pprof->n_sample; i++) {
		char text[400];

		path_of(pprof, pprof->sample[i], text, sizeof(text));
		if (strcmp(text, path))
			continue;
		EXPECT_EQ(1, pprof->sample[i]->n_value, "values");
		EXPECT_EQ(-1, value, "each path once");
		value = pprof->sample[i]->value[0];
	}
	return value;
}

TEST(pprof_sums_each_stack_over_time)
{
	struct profile *profile = profile_of_two_stacks();
	Pprof *pprof = pprof_of(profile, PROFILE_TYPE_CPU);

	EXPECT_EQ(3, pprof->n_sample, "samples");
	EXPECT_EQ(120, value_of(pprof, "llm-server: inlined leaf main"), "summed over slots");
	EXPECT_EQ(4000, value_of(pprof, "worker: inlined leaf main"), "per process");
	EXPECT_EQ(
		3,
		value_of(pprof,
			 "llm-server: do_syscall_64 libc.so.6+0xabc [truncated: no frame pointer]"),
		"unresolved and cut");
	perftools__profiles__profile__free_unpacked(pprof, NULL);
	profile_free(profile);
}

TEST(pprof_has_type_period_and_time)
{
	struct profile *profile = profile_of_two_stacks();
	Pprof *pprof = pprof_of(profile, PROFILE_TYPE_CPU);

	EXPECT_EQ(1, pprof->n_sample_type, "sample types");
	EXPECT_STR("cpu", string_of(pprof, pprof->sample_type[0]->type), "type");
	EXPECT_STR("nanoseconds", string_of(pprof, pprof->sample_type[0]->unit), "unit");
	EXPECT_STR("cpu", string_of(pprof, pprof->period_type->type), "period's type");
	EXPECT_EQ(1700000000 * NS_PER_SECOND, pprof->time_nanos, "time");
	EXPECT_EQ(5 * NS_PER_SECOND, pprof->duration_nanos, "duration");
	EXPECT_STR("", string_of(pprof, 0), "string 0");
	perftools__profiles__profile__free_unpacked(pprof, NULL);

	pprof = pprof_of(profile, OFF_CPU);
	EXPECT_EQ(1, pprof->n_sample, "off-CPU samples");
	EXPECT_EQ(50000, value_of(pprof, "worker: inlined leaf main"), "off-CPU");
	EXPECT_EQ(2, pprof->n_location, "no location that no sample has");
	perftools__profiles__profile__free_unpacked(pprof, NULL);
	profile_free(profile);
}

TEST(pprof_locations_have_their_mapping_line_and_address)
{
	struct profile *profile = profile_of_two_stacks();
	Pprof *pprof = pprof_of(profile, PROFILE_TYPE_CPU);
	int found = 0;

	EXPECT_EQ(3, pprof->n_mapping, "one for each module");
	for (size_t i = 0; i < pprof->n_location; i++) {
		const PprofLocation *location = pprof->location[i];

		if (location->address != 0x1234)
			continue;
		const Perftools__Profiles__Mapping *mapping =
			pprof->mapping[location->mapping_id - 1];
		found++;
		EXPECT_EQ(location->mapping_id, mapping->id, "ids are positions + 1");
		EXPECT_STR("/usr/bin/llm", string_of(pprof, mapping->filename), "file");
		EXPECT_STR("0123abcd", string_of(pprof, mapping->build_id), "build id");
		assert_true(mapping->memory_start <= 0x1234 && 0x1234 < mapping->memory_limit);
		assert_true(mapping->has_inline_frames && mapping->has_line_numbers);
		EXPECT_EQ(12, location->line[1]->line, "line");
	}
	EXPECT_EQ(1, found, "leaf");
	perftools__profiles__profile__free_unpacked(pprof, NULL);
	profile_free(profile);
}

TEST(a_stack_without_definition_is_lost)
{
	struct profile *profile = profile_new(20 * NS_PER_MS);
	uint32_t stack = 0;

	profile_add_stack_id(profile, (struct id128){ 1, 2 }, &stack);
	profile_add_sample(profile, add_series(profile, "p", PROFILE_TYPE_CPU), stack, 0, 7);
	Pprof *pprof = pprof_of(profile, PROFILE_TYPE_CPU);
	EXPECT_EQ(7, value_of(pprof, "p: [truncated: stack lost]"), "lost");
	perftools__profiles__profile__free_unpacked(pprof, NULL);
	profile_free(profile);
}

TEST(an_empty_profile_makes_empty_files)
{
	struct profile *profile = profile_new(20 * NS_PER_MS);
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	Pprof *pprof = pprof_of(profile, PROFILE_TYPE_CPU);

	EXPECT_EQ(0, pprof->n_sample + pprof->n_location + pprof->n_function + pprof->n_mapping,
		  "counts");
	perftools__profiles__profile__free_unpacked(pprof, NULL);
	EXPECT_EQ(0, export_profile(profile, PROFILE_TYPE_CPU, EXPORT_COLLAPSED, "", &text, NULL),
		  "collapsed");
	EXPECT_EQ(0, text.size, "collapsed");
	profile_free(profile);
}

TEST(exports_collapsed_and_svg)
{
	struct profile *profile = profile_of_two_stacks();
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	_cleanup_(buffer_deinit) struct buffer svg = { 0 };

	EXPECT_EQ(0, export_profile(profile, PROFILE_TYPE_CPU, EXPORT_COLLAPSED, "", &text, NULL),
		  "collapsed");
	assert_non_null(strstr(buffer_string(&text), "llm-server;main;leaf;inlined 120\n"));
	EXPECT_EQ(0, export_profile(profile, PROFILE_TYPE_CPU, EXPORT_SVG, "a title", &svg, NULL),
		  "svg");
	assert_non_null(strstr(buffer_string(&svg), "<svg"));
	assert_non_null(strstr(buffer_string(&svg), "a title"));
	profile_free(profile);
}

TEST(errors_name_their_cause)
{
	struct profile *profile = profile_of_two_stacks();
	_cleanup_(buffer_deinit) struct buffer small = { .size_max = 50 };
	struct error err = { 0 };

	EXPECT_EQ(-EFBIG, export_profile(profile, PROFILE_TYPE_CPU, EXPORT_PPROF, "", &small, &err),
		  "small");
	EXPECT_EQ(-EINVAL, export_profile(profile, "cpu", EXPORT_PPROF, "", &small, &err), "type");
	assert_non_null(strstr(err.text, "five parts"));
	profile_free(profile);
}

static const struct {
	const char *path;
	int rc;
	enum export_format format;
} paths[] = {
	{ "a.collapsed", 0, EXPORT_COLLAPSED },
	{ "/tmp/x.y/a.svg", 0, EXPORT_SVG },
	{ "a.pb.gz", 0, EXPORT_PPROF },
	{ "a.speedscope.json", 0, EXPORT_SPEEDSCOPE },
	{ "a.trace.json", 0, EXPORT_CHROME },
	{ "a.callgrind", 0, EXPORT_CALLGRIND },
	{ "a.pstats", 0, EXPORT_PSTATS },
	{ "a.json", -EINVAL, 0 },
	{ "a.gz", -EINVAL, 0 },
	{ "a.pb", -EINVAL, 0 },
	{ ".svg", -EINVAL, 0 },
	{ "svg", -EINVAL, 0 },
	{ "a.svg.bak", -EINVAL, 0 },
	{ "", -EINVAL, 0 },
};

TEST(the_suffix_selects_the_format)
{
	for EACH (row, paths) {
		enum export_format format = 0;
		struct error err = { 0 };

		EXPECT_EQ(row->rc, export_format_of_path(row->path, &format, &err), row->path);
		EXPECT_EQ(row->format, format, row->path);
		if (row->rc)
			assert_non_null(strstr(err.text, ".collapsed, .svg, .pb.gz, "));
	}
	EXPECT_STR("image/svg+xml", export_format_spec(EXPORT_SVG)->media_type, "svg");
}

TEST(a_name_selects_the_format)
{
	enum export_format format = 0;
	char names[EXPORT_WORDS_BYTES];
	struct error err = { 0 };

	EXPECT_EQ(0, export_format_of_name("pstats", &format, &err), "pstats");
	EXPECT_EQ(EXPORT_PSTATS, format, "pstats");
	EXPECT_EQ(-EINVAL, export_format_of_name("exe", &format, &err), "exe");
	assert_non_null(strstr(err.text, "\"exe\" is not one of collapsed, "));
	export_format_names(names);
	assert_non_null(strstr(names, "callgrind and pstats"));
}

TEST(pprof_counts_samples_by_their_period)
{
	static const struct {
		uint64_t period;
		int64_t counts[3]; // of 120, 3 and 4000
	} rows[] = { { 1, { 120, 3, 4000 } }, { 50, { 2, 1, 80 } }, { 10000, { 1, 1, 1 } } };
	struct profile *profile = profile_of_two_stacks();

	for EACH (row, rows) {
		_cleanup_(buffer_deinit) struct buffer file = { 0 };
		struct error err = { 0 };

		const char *type = PROFILE_TYPE_CPU;
		const struct pprof_options options = { &type, 1, row->period };

		EXPECT_EQ(0, pprof_encode_types(profile, &options, &file, &err), "encode");
		_cleanup_(buffer_deinit) struct buffer plain = inflated(&file);
		Pprof *pprof = perftools__profiles__profile__unpack(NULL, plain.size, plain.bytes);
		assert_non_null(pprof);
		EXPECT_EQ(row->period, pprof->period, "period");
		EXPECT_EQ(2, pprof->n_sample_type, "sample types");
		EXPECT_STR("samples", string_of(pprof, pprof->sample_type[0]->type), "first");
		EXPECT_STR("cpu", string_of(pprof, pprof->sample_type[1]->type), "second");
		EXPECT_STR("cpu", string_of(pprof, pprof->default_sample_type), "default");
		EXPECT_EQ(3, pprof->n_sample, "samples");
		for (size_t i = 0; i < 3; i++) {
			int64_t value = pprof->sample[i]->value[1];

			EXPECT_EQ(row->counts[value == 120 ? 0
					      : value == 3 ? 1
							   : 2],
				  pprof->sample[i]->value[0], "count");
		}
		perftools__profiles__profile__free_unpacked(pprof, NULL);
	}
	profile_free(profile);
}

TEST(pprof_holds_several_types)
{
	// Both off-CPU types call their sample type "blocked".
	const char *types[] = { PROFILE_TYPE_CPU, PROFILE_TYPE_OFF_CPU, PROFILE_TYPE_OFF_WAKE };
	const struct pprof_options options = { types, ARRAY_SIZE(types), 10 };
	static const char *const names[] = { "samples", "cpu", "blocked", "off_wake" };
	struct profile *profile = profile_of_two_stacks();
	_cleanup_(buffer_deinit) struct buffer file = { 0 };
	struct error err = { 0 };
	int64_t sums[ARRAY_SIZE(names)] = { 0 };

	profile_add_sample(profile, add_series(profile, "worker", PROFILE_TYPE_OFF_CPU), 1, 3, 7);
	profile_add_sample(profile, add_series(profile, "worker", PROFILE_TYPE_OFF_WAKE), 1, 3, 9);
	EXPECT_EQ(0, pprof_encode_types(profile, &options, &file, &err), "encode");
	_cleanup_(buffer_deinit) struct buffer plain = inflated(&file);
	Pprof *pprof = perftools__profiles__profile__unpack(NULL, plain.size, plain.bytes);
	assert_non_null(pprof);
	assert_int_equal(ARRAY_SIZE(names), pprof->n_sample_type);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		EXPECT_STR(names[i], string_of(pprof, pprof->sample_type[i]->type), "sample type");
	for (size_t i = 0; i < pprof->n_sample; i++) {
		assert_int_equal(ARRAY_SIZE(names), pprof->sample[i]->n_value);
		for (size_t v = 0; v < ARRAY_SIZE(names); v++)
			sums[v] += pprof->sample[i]->value[v];
	}
	EXPECT_STR("cpu", string_of(pprof, pprof->default_sample_type), "default");
	EXPECT_EQ(12 + 1 + 400, sums[0], "samples of CPU time only");
	EXPECT_EQ(4123, sums[1], "cpu");
	EXPECT_EQ(7, sums[2], "blocked");
	EXPECT_EQ(9, sums[3], "off-wake");
	perftools__profiles__profile__free_unpacked(pprof, NULL);
	profile_free(profile);
}

TEST(every_format_is_written)
{
	struct profile *profile = profile_of_two_stacks();
	struct error err = { 0 };

	for (int format = 0; format < EXPORT_FORMATS; format++) {
		const char *name = export_format_spec((enum export_format)format)->name;
		_cleanup_(buffer_deinit) struct buffer buffer = { 0 };

		EXPECT_EQ(0,
			  export_profile(profile, PROFILE_TYPE_CPU, (enum export_format)format,
					 "title", &buffer, &err),
			  name);
		assert_true(buffer.size > 50);
	}
	profile_free(profile);
}

// For checking by other tools: CAIRN_TEST_PPROF=FILE keeps the file.
TEST(writes_the_file_for_other_tools)
{
	const char *path = getenv("CAIRN_TEST_PPROF");
	struct profile *profile = profile_of_two_stacks();
	_cleanup_(buffer_deinit) struct buffer file = { 0 };

	EXPECT_EQ(0, export_profile(profile, PROFILE_TYPE_CPU, EXPORT_PPROF, "", &file, NULL),
		  "export");
	if (path) {
		_cleanup_fclose_ FILE *stream = fopen(path, "w");

		assert_non_null(stream);
		EXPECT_EQ(file.size, fwrite(file.bytes, 1, file.size, stream), "write");
	}
	profile_free(profile);
}

RUN_TESTS(cmocka_unit_test(pprof_sums_each_stack_over_time),
	  cmocka_unit_test(pprof_has_type_period_and_time),
	  cmocka_unit_test(pprof_locations_have_their_mapping_line_and_address),
	  cmocka_unit_test(a_stack_without_definition_is_lost),
	  cmocka_unit_test(an_empty_profile_makes_empty_files),
	  cmocka_unit_test(exports_collapsed_and_svg), cmocka_unit_test(errors_name_their_cause),
	  cmocka_unit_test(the_suffix_selects_the_format),
	  cmocka_unit_test(a_name_selects_the_format), cmocka_unit_test(every_format_is_written),
	  cmocka_unit_test(pprof_counts_samples_by_their_period),
	  cmocka_unit_test(pprof_holds_several_types),
	  cmocka_unit_test(writes_the_file_for_other_tools))
