// SPDX-License-Identifier: Apache-2.0
// Subject: collector/http/http_diagnose.c
// The API's description against what the collector answers.
// Subject: collector/openapi.yaml
#include "tests/test.h"

#include "collector/diagnose/gpu_class.h"
#include "collector/diagnose/verdict.h"
#include "collector/http/web_assets.h"

static const char *description(void)
{
	for (uint32_t i = 0; i < web_asset_count; i++) {
		if (strcmp(web_assets[i].path, "/api/v1/openapi.yaml") == 0)
			return (const char *)web_assets[i].plain;
	}
	fail_msg("it is not embedded");
	return "";
}

/* The list of names that begins with @first, each with a comma before and behind; @text has room. */
static void list_that_begins_with(const char *first, char *text, size_t size)
{
	char beginning[64];
	size_t used = 1;

	snprintf(beginning, sizeof(beginning), "[%s,", first);
	const char *at = strstr(description(), beginning);
	assert_non_null(at);
	text[0] = ',';
	for (at++; *at && *at != ']' && used < size - 2; at++) {
		if (!strchr(" \n", *at))
			text[used++] = *at;
	}
	text[used++] = ',';
	text[used] = 0;
}

static bool is_listed(const char *list, const char *name)
{
	char item[64];

	snprintf(item, sizeof(item), ",%s,", name);
	return strstr(list, item) != NULL;
}

TEST(lists_all_classes_of_bottlenecks)
{
	char list[1024];
	uint32_t commas = 0, listed = 0;

	list_that_begins_with("no_data", list, sizeof(list));
	for (int class = 0; class < VERDICT_CLASS_COUNT; class ++) {
		EXPECT_EQ(true, is_listed(list, verdict_class_name(class)),
			  verdict_class_name(class));
		listed++;
	}
	for (int class = GPU_CLASS_AMBIGUOUS; class < GPU_CLASS_COUNT; class ++) {
		EXPECT_EQ(true, is_listed(list, gpu_class_name(class)), gpu_class_name(class));
		listed++;
	}
	for (const char *at = list; *at; at++)
		commas += *at == ',';
	EXPECT_EQ(listed, commas - 1, "nothing else is listed");
}

TEST(lists_all_kinds_of_frames)
{
	char list[256];

	list_that_begins_with("unknown", list, sizeof(list));
	for (int kind = 0; kind < FRAME_KIND_COUNT; kind++)
		EXPECT_EQ(true, is_listed(list, frame_kind_name(kind)), frame_kind_name(kind));
}

RUN_TESTS(cmocka_unit_test(lists_all_classes_of_bottlenecks),
	  cmocka_unit_test(lists_all_kinds_of_frames))
