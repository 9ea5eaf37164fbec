// SPDX-License-Identifier: Apache-2.0
#include "proto/otlp.h"

#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/export/collapsed.h"
#include "base/import/otlp_import.h"
#include "proto/retry_info.h"
#include "proto/wire_append.h"
#include "tests/unit/proto/small_profile.h"

enum { ALL = 1 << 20 };

static uint32_t add_frame(struct profile *profile, enum frame_kind kind, const char *module,
			  const char *name, const char *file)
{
	struct location location = { .id = id128_of(name, strlen(name)),
				     .kind = kind,
				     .offset = 64 };
	struct line line = { .number = file ? 12 : 0 };
	uint32_t at = 0;

	profile_add_string(profile, module, &location.module);
	profile_add_string(profile, name, &line.name);
	profile_add_string(profile, file ? file : "", &line.file);
	EXPECT_EQ(0, profile_add_location(profile, &location, &line, 1, &at), name);
	return at;
}

static uint32_t add_process(struct profile *profile, const char *type, const char *thread)
{
	static const char *const pairs[][2] = {
		{ LABEL_SERVICE, "llm" },       { LABEL_PROCESS, "python3" },
		{ LABEL_NODE, "a17" },          { LABEL_NAMESPACE, "ml" },
		{ LABEL_POD, "llm-0" },         { LABEL_CONTAINER, "server" },
		{ LABEL_CONTAINER_ID, "f00d" }, { LABEL_WORKLOAD, "llm" },
		{ LABEL_VERSION, "1.2" },       { LABEL_WORKLOAD_KIND, "statefulset" },
		{ LABEL_WAIT, "lock" },
	};
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	uint32_t at = 0;

	for EACH (pair, pairs)
		labels_set(&labels, (*pair)[0], (*pair)[1]);
	labels_set(&labels, LABEL_THREAD, thread);
	EXPECT_EQ(0, profile_add_series(profile, &labels, type, &at), type);
	return at;
}

// small_profile() and a process of a pod: Python over the kernel, an interval, and a type without stacks.
static struct profile *mixed_profile(void)
{
	struct profile *profile = small_profile();
	uint32_t stack[3], at, cut;

	for (uint32_t i = 0; i < profile->series_count; i++)
		labels_set(&profile->series[i].labels, LABEL_PROCESS, "python3");
	profile_add_string(profile, "outer", &profile->lines[1].name);
	stack[0] = add_frame(profile, FRAME_KIND_KERNEL, "[kernel]", "do_futex", NULL);
	stack[1] = add_location(profile, "jit", 0);
	profile->locations[stack[1]].kind = FRAME_KIND_JIT;
	stack[2] = add_frame(profile, FRAME_KIND_PYTHON, "", "serve", "/srv/app.py");
	EXPECT_EQ(0, profile_add_stack(profile, stack, 3, STACK_END_COMPLETE, &at), "stack");
	EXPECT_EQ(0, profile_add_stack(profile, stack, 2, STACK_END_NO_TABLE, &cut), "cut");
	uint32_t blocked = add_process(profile, PROFILE_TYPE_OFF_CPU, "worker");
	uint32_t other = add_process(profile, PROFILE_TYPE_OFF_CPU, "other");
	uint32_t launches = add_process(profile, PROFILE_TYPE_GPU_LAUNCH, "worker");
	uint32_t wall = add_process(profile, PROFILE_TYPE_WALL, "worker");
	profile_add_interval(profile, blocked, at, SLOT, 124, 1000000007); // 2.5 s
	profile_add_sample(profile, other, cut, SLOT + 9, 3);
	profile_add_sample(profile, launches, at, SLOT + 1, 40);
	profile_add_sample(profile, wall, at, SLOT + 1, 1000);
	return profile;
}

static const char *const stack_types[] = { PROFILE_TYPE_CPU, PROFILE_TYPE_OFF_CPU,
					   PROFILE_TYPE_GPU_LAUNCH };

static void expect_equal(const struct profile *sent, const struct importer *importer)
{
	for EACH (type, stack_types) {
		_cleanup_(buffer_deinit) struct buffer expected = { 0 }, found = { 0 };

		EXPECT_EQ(0, collapsed_encode(sent, *type, &expected), *type);
		EXPECT_EQ(0, collapsed_encode(importer->profile, *type, &found), *type);
		assert_true(expected.size > 0);
		EXPECT_STR(buffer_string(&expected), buffer_string(&found), *type);
	}
}

// Sends @profile in requests of @bytes_max; returns their number.
static uint32_t send(const struct profile *profile, size_t bytes_max, struct importer *importer,
		     uint64_t *ret_samples)
{
	_cleanup_(buffer_deinit) struct buffer request = { 0 };
	struct otlp_encoder *encoder = NULL;
	struct error err = { 0 };
	uint32_t count = 0;
	uint64_t samples;

	assert_int_equal(importer_init(importer, NOW_NS, 100000), 0);
	EXPECT_EQ(0, otlp_encoder_new(&batch, profile, &encoder, &err), err.text);
	for (*ret_samples = 0;; count++) {
		EXPECT_EQ(0, otlp_encoder_next(encoder, bytes_max, &request, &samples, &err),
			  err.text);
		if (!samples)
			break;
		*ret_samples += samples;
		EXPECT_EQ(0, otlp_import(importer, request.bytes, request.size, &err), err.text);
	}
	EXPECT_EQ(0, request.size, "nothing is left");
	otlp_encoder_free(encoder);
	return count;
}

TEST(arrives_as_it_was_sent)
{
	_cleanup_(profile_freep) struct profile *profile = mixed_profile();
	struct importer importer;
	uint64_t samples;

	EXPECT_EQ(1, send(profile, ALL, &importer, &samples), "requests");
	EXPECT_EQ(profile->sample_count - 1, samples, "without the type that has no stacks");
	expect_equal(profile, &importer);
	importer_deinit(&importer);
}

TEST(splits_large_batches)
{
	_cleanup_(profile_freep) struct profile *profile = mixed_profile();
	struct importer importer;
	uint64_t samples;

	EXPECT_EQ(6, send(profile, 1, &importer, &samples), "one for each stack of a series");
	EXPECT_EQ(profile->sample_count - 1, samples, "samples");
	expect_equal(profile, &importer);
	importer_deinit(&importer);
}

TEST(encodes_the_same_twice)
{
	_cleanup_(profile_freep) struct profile *profile = mixed_profile();
	struct buffer requests[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		struct otlp_encoder *encoder = NULL;
		uint64_t samples;

		EXPECT_EQ(0, otlp_encoder_new(&batch, profile, &encoder, NULL), "encoder");
		EXPECT_EQ(0, otlp_encoder_next(encoder, ALL, &requests[i], &samples, NULL), "next");
		otlp_encoder_free(encoder);
	}
	EXPECT_EQ(requests[0].size, requests[1].size, "size");
	assert_memory_equal(requests[0].bytes, requests[1].bytes, requests[0].size);
	buffer_deinit(&requests[0]);
	buffer_deinit(&requests[1]);
}

TEST(an_interval_is_a_point_a_second)
{
	_cleanup_(profile_freep) struct profile *profile = mixed_profile();
	struct importer importer;
	uint64_t samples;
	int64_t values[3] = { 0 };

	send(profile, ALL, &importer, &samples);
	for (uint32_t i = 0; i < importer.profile->sample_count; i++) {
		const struct sample *sample = &importer.profile->samples[i];

		if (sample->value > 100000000 && sample->slot - SLOT <= 100)
			values[(sample->slot - SLOT) / 50] += sample->value;
	}
	EXPECT_EQ(400000002, values[0], "a second of two and a half");
	EXPECT_EQ(400000003, values[1], "a second");
	EXPECT_EQ(200000002, values[2], "the rest");
	importer_deinit(&importer);
}

TEST(a_process_is_a_resource)
{
	_cleanup_(profile_freep) struct profile *profile = mixed_profile();
	struct importer importer;
	uint64_t samples;
	const struct labels *labels = NULL;

	send(profile, ALL, &importer, &samples);
	for (uint32_t i = 0; i < importer.profile->series_count; i++)
		if (labels_get(&importer.profile->series[i].labels, LABEL_POD))
			labels = &importer.profile->series[i].labels;
	assert_non_null(labels);
	const struct {
		const char *name, *value;
	} expected[] = {
		{ LABEL_SERVICE, "llm" },       { LABEL_PROCESS, "python3" },
		{ LABEL_NODE, "a17" },          { LABEL_NAMESPACE, "ml" },
		{ LABEL_POD, "llm-0" },         { LABEL_CONTAINER, "server" },
		{ LABEL_CONTAINER_ID, "f00d" }, { LABEL_WORKLOAD, "llm" },
		{ LABEL_VERSION, "1.2" },       { LABEL_WORKLOAD_KIND, "statefulset" },
	};
	for EACH (row, expected)
		EXPECT_STR(row->value, labels_get(labels, row->name), row->name);
	assert_non_null(labels_get(labels, LABEL_THREAD));
	EXPECT_EQ(11, labels->count, "and the thread");
	importer_deinit(&importer);
}

TEST(unnamed_frames_keep_build_id_and_offset)
{
	_cleanup_(profile_freep) struct profile *profile = mixed_profile();
	struct importer importer;
	uint64_t samples;

	send(profile, ALL, &importer, &samples);
	uint32_t at = profile_find_location(
		importer.profile,
		location_id_of_offset(FRAME_KIND_NATIVE, "abcdef", strlen("unnamed")));
	assert_int_not_equal(HASH_TABLE_NONE, at);
	EXPECT_STR("abcdef",
		   profile_string(importer.profile, importer.profile->locations[at].build_id),
		   "build id");
	importer_deinit(&importer);
}

TEST(reads_partial_success)
{
	_cleanup_(buffer_deinit) struct buffer success = { 0 }, bytes = { 0 };
	struct otlp_answer answer;

	EXPECT_EQ(0, otlp_answer_read(NULL, 0, &answer, NULL), "nothing is all");
	EXPECT_EQ(0, answer.rejected_profiles, "nothing is all");
	wire_append_number(&success, 1, 3);
	wire_append_text(&success, 2, "too\nold");
	wire_append_message(&bytes, 1, &success);
	EXPECT_EQ(0, otlp_answer_read(bytes.bytes, bytes.size, &answer, NULL), "read");
	EXPECT_EQ(3, answer.rejected_profiles, "rejected");
	EXPECT_STR("too?old", answer.message, "message");
	EXPECT_EQ(-EBADMSG, otlp_answer_read(bytes.bytes, bytes.size - 1, &answer, NULL), "cut");
}

TEST(reads_when_to_try_again)
{
	static const struct {
		const char *what, *type;
		uint64_t seconds, ns;
		uint32_t pause_ms;
	} rows[] = {
		{ "a pause", "type.googleapis.com/google.rpc.RetryInfo", 2, 500000000, 2500 },
		{ "less than a millisecond", "type.googleapis.com/google.rpc.RetryInfo", 0, 1, 1 },
		{ "none", "type.googleapis.com/google.rpc.RetryInfo", 0, 0, 1 },
		{ "a century", "google.rpc.RetryInfo", 3155760000, 0, RETRY_PAUSE_MS_MAX },
		{ "before now", "google.rpc.RetryInfo", -1, 0, 1 },
		{ "another detail", "type.googleapis.com/google.rpc.ErrorInfo", 2, 0, 0 },
	};

	for EACH (row, rows) {
		_cleanup_(buffer_deinit) struct buffer delay = { 0 }, retry = { 0 }, any = { 0 },
						       status = { 0 };

		wire_append_number(&delay, 1, row->seconds);
		wire_append_number(&delay, 2, row->ns);
		wire_append_message(&retry, 1, &delay);
		wire_append_text(&any, 1, row->type);
		wire_append_message(&any, 2, &retry);
		wire_append_number(&status, 1, 8);
		wire_append_message(&status, 3, &any);
		EXPECT_EQ(row->pause_ms, retry_info_pause_ms(status.bytes, status.size), row->what);
	}
	EXPECT_EQ(0, retry_info_pause_ms("\xff\xff", 2), "rubbish");
}

TEST(writes_when_to_try_again)
{
	char text[RETRY_INFO_TEXT_BYTES];

	retry_info_encode(8, 2500, text);
	// As Python's base64 has it.
	EXPECT_STR("CAgaNgoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBj"
		   "LlJldHJ5SW5mbxIKCggIAhCAyrXuAQ",
		   text, "2.5 s");
	retry_info_encode(8, UINT32_MAX, text);
	assert_true(strlen(text) < RETRY_INFO_TEXT_BYTES - 1);
}

RUN_TESTS(cmocka_unit_test(writes_when_to_try_again), cmocka_unit_test(arrives_as_it_was_sent),
	  cmocka_unit_test(splits_large_batches), cmocka_unit_test(encodes_the_same_twice),
	  cmocka_unit_test(an_interval_is_a_point_a_second),
	  cmocka_unit_test(a_process_is_a_resource),
	  cmocka_unit_test(unnamed_frames_keep_build_id_and_offset),
	  cmocka_unit_test(reads_partial_success), cmocka_unit_test(reads_when_to_try_again))
