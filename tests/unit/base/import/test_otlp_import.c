// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/export/collapsed.h"
#include "base/import/otlp_import.h"
#include "base/import/otlp_labels.h"
#include "tests/unit/base/import/otlp_recorded.h"
#include "tests/unit/base/import/pprof_bytes.h"

#define FROM_NS  1700000000000000000ULL
#define BUILD_ID "0123456789abcdef0123456789abcdef01234567"

static int import(struct importer *importer, const void *bytes, size_t size, struct error *err)
{
	assert_int_equal(importer_init(importer, FROM_NS, 100000), 0);
	return otlp_import(importer, bytes, size, err);
}

static void expect_stacks(const struct importer *importer, const char *type, const char *expected)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	assert_int_equal(collapsed_encode(importer->profile, type, &text), 0);
	assert_string_equal(expected, buffer_string(&text));
}

TEST(reads_official_encoders_request)
{
	struct importer importer;
	struct error err = { 0 };

	assert_int_equal(import(&importer, otlp_recorded, sizeof(otlp_recorded), &err), 0);
	assert_int_equal(40 + 40 + 2 + 1, importer.samples);
	// 40 hits of 50 ms each.
	expect_stacks(
		&importer, PROFILE_TYPE_CPU,
		"python3;<module> (app.py:30);Model.predict (model.py:12) 2000000000\n"
		"python3;<module> (app.py:30);Model.predict (model.py:12);libcompute.so+0x1234 "
		"2000000000\n");
	expect_stacks(&importer, PROFILE_TYPE_OFF_CPU,
		      "python3;<module> (app.py:30);Model.predict (model.py:12) 3000000\n");
	expect_stacks(&importer, "memory:alloc_space:bytes:alloc_space:bytes",
		      "other;<module> (app.py:30);Model.predict (model.py:12) 4096\n");
	importer_deinit(&importer);
}

TEST(keeps_time_of_each_hit)
{
	struct importer importer;
	uint32_t per_slot[250] = { 0 };

	assert_int_equal(import(&importer, otlp_recorded, sizeof(otlp_recorded), NULL), 0);
	const struct profile *profile = importer.profile;
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];
		const char *type = profile_string(profile, profile->series[sample->series].type);

		if (strcmp(type, PROFILE_TYPE_CPU) == 0) {
			assert_int_equal(0, sample->more_slots);
			per_slot[sample->slot - FROM_NS / IMPORT_SLOT_NS]++;
		}
	}
	for (uint32_t i = 0; i < 80; i++) // every 50 ms from the beginning: slots 0, 2, 5, 7 ...
		assert_int_equal(1, per_slot[i * 50 / 20]);
	importer_deinit(&importer);
}

TEST(unnamed_frames_keep_build_id_and_offset)
{
	struct id128 id = location_id_of_offset(FRAME_KIND_NATIVE, BUILD_ID, 0x1234);
	struct importer importer;

	assert_int_equal(import(&importer, otlp_recorded, sizeof(otlp_recorded), NULL), 0);
	uint32_t at = profile_find_location(importer.profile, id);
	assert_int_not_equal(HASH_TABLE_NONE, at);
	const struct location *location = &importer.profile->locations[at];
	EXPECT_STR(BUILD_ID, profile_string(importer.profile, location->build_id), "build id");
	assert_int_equal(0, location->line_count);
	importer_deinit(&importer);
}

TEST(labels_are_those_allowed)
{
	struct importer importer;

	assert_int_equal(import(&importer, otlp_recorded, sizeof(otlp_recorded), NULL), 0);
	const struct labels *labels = &importer.profile->series[0].labels;
	static const char *const expected[][2] = {
		{ LABEL_SERVICE, "otlp-app" }, { LABEL_NAMESPACE, "shop" },
		{ LABEL_POD, "app-7d9f" },     { LABEL_WORKLOAD, "app" },
		{ LABEL_NODE, "node-a" },      { LABEL_WORKLOAD_KIND, "deployment" },
		{ LABEL_THREAD, "worker" },    { LABEL_PROCESS, "python3" },
	};
	for EACH (row, expected)
		EXPECT_STR((*row)[1], labels_get(labels, (*row)[0]), (*row)[0]);
	assert_int_equal(ARRAY_SIZE(expected), labels->count); // neither the pid nor the secret
	importer_deinit(&importer);
}

TEST(service_has_a_fallback)
{
	static const struct {
		const char *name, *value, *service;
	} rows[] = {
		{ "process.executable.name", "nginx", "nginx" },
		{ "container.name", "web", "web" },
		{ "k8s.daemonset.name", "proxy", "proxy" },
		{ "process.pid", "1", "unknown_service" },
	};

	for EACH (row, rows) {
		_cleanup_(labels_deinit) struct labels labels = { 0 };

		otlp_label_set(&labels, row->name, strlen(row->name), row->value,
			       strlen(row->value));
		assert_int_equal(otlp_labels_finish(&labels), 0);
		EXPECT_STR(row->service, labels_get(&labels, LABEL_SERVICE), row->name);
	}
}

TEST(refuses_requests_without_dictionary)
{
	_cleanup_(buffer_deinit) struct buffer bytes = { 0 };
	struct importer importer;
	struct error err = { 0 };

	put_text(&bytes, 1, "");
	assert_int_equal(import(&importer, bytes.bytes, bytes.size, &err), -EBADMSG);
	assert_non_null(strstr(err.text, "too old"));
	importer_deinit(&importer);
	assert_int_equal(import(&importer, NULL, 0, &err), 0); // nothing is no fault
	importer_deinit(&importer);
}

TEST(survives_every_changed_byte)
{
	uint8_t bytes[sizeof(otlp_recorded)];

	memcpy(bytes, otlp_recorded, sizeof(bytes));
	for (size_t i = 0; i < sizeof(bytes); i++) {
		struct importer importer;
		struct error err = { 0 };

		bytes[i] ^= 0xff;
		int rc = import(&importer, bytes, sizeof(bytes), &err);
		if (rc && rc != -EBADMSG && rc != -EINVAL && rc != -E2BIG)
			fail_msg("byte %zu: %d %s", i, rc, err.text);
		importer_deinit(&importer);
		bytes[i] ^= 0xff;
	}
}

TEST(refuses_indices_beyond_tables)
{
	static const uint8_t stack[] = { 0x08, 5 };
	_cleanup_(buffer_deinit) struct buffer sample = { 0 }, profile = { 0 }, scope = { 0 },
					       resource = { 0 }, request = { 0 };
	struct importer importer;
	struct error err = { 0 };

	put_bytes(&sample, 2, stack, sizeof(stack));
	put_bytes(&scope, 2, sample.bytes, sample.size);
	put_bytes(&resource, 2, scope.bytes, scope.size);
	put_bytes(&request, 1, resource.bytes, resource.size);
	put_text(&request, 2, "");
	assert_int_equal(import(&importer, request.bytes, request.size, &err), -EBADMSG);
	assert_string_equal("OTLP: sample.stack_index: 5 is not below the 0 entries of its table",
			    err.text);
	importer_deinit(&importer);
}

RUN_TESTS(cmocka_unit_test(reads_official_encoders_request),
	  cmocka_unit_test(keeps_time_of_each_hit),
	  cmocka_unit_test(unnamed_frames_keep_build_id_and_offset),
	  cmocka_unit_test(labels_are_those_allowed), cmocka_unit_test(service_has_a_fallback),
	  cmocka_unit_test(refuses_requests_without_dictionary),
	  cmocka_unit_test(survives_every_changed_byte),
	  cmocka_unit_test(refuses_indices_beyond_tables))
