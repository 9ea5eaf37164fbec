// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/contract/profile_types.h"
#include "collector/pyroscope/label_map.h"

static void selector_deinit_(struct pyroscope_selector *selector)
{
	pyroscope_selector_deinit(selector);
}

static bool matches(const char *text, const char *service, const char *tenant)
{
	_cleanup_(selector_deinit_) struct pyroscope_selector selector = { 0 };
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	struct error err = { 0 };

	labels_set(&labels, "service", service);
	labels_set(&labels, "tenant", tenant);
	EXPECT_EQ(0, pyroscope_selector_parse(text, "shop", &selector, &err), text);
	return selector_matches(&selector.selector, &labels);
}

TEST(service_name_is_service)
{
	EXPECT_EQ(true, matches("{service_name=\"web\"}", "web", "shop"), "=");
	EXPECT_EQ(false, matches("{service_name=\"web\"}", "llm", "shop"), "= of another");
	EXPECT_EQ(true, matches("{service_name=~\"w.*\"}", "web", "shop"), "=~");
	EXPECT_EQ(false, matches("{service_name!=\"web\"}", "web", "shop"), "!=");
	EXPECT_EQ(true, matches("{service=\"web\"}", "web", "shop"), "our own name");
	EXPECT_EQ(true, matches("{}", "web", "shop"), "all");
	EXPECT_STR("service", label_map_to_ours("service_name"), "to ours");
	EXPECT_STR("service_name", label_map_to_theirs("service"), "to theirs");
	EXPECT_STR("pod", label_map_to_theirs("pod"), "the same in both");
}

TEST(a_selector_keeps_to_its_tenant)
{
	EXPECT_EQ(false, matches("{}", "web", "bank"), "another tenant's");
	EXPECT_EQ(false, matches("{tenant=\"bank\"}", "web", "bank"), "named");
}

TEST(the_type_is_taken_out_of_the_selector)
{
	_cleanup_(selector_deinit_) struct pyroscope_selector selector = { 0 };
	struct error err = { 0 };

	EXPECT_EQ(0,
		  pyroscope_selector_parse("{__profile_type__=\"" PROFILE_TYPE_CPU
					   "\", service_name=\"web\"}",
					   "shop", &selector, &err),
		  "parse");
	EXPECT_STR(PROFILE_TYPE_CPU, selector.type, "type");
	EXPECT_EQ(true, matches("{__profile_type__=\"" PROFILE_TYPE_CPU "\"}", "web", "shop"),
		  "holds for all series");
}

static const struct {
	const char *text, *word;
} refused[] = {
	{ "{__profile_type__=~\".*cpu.*\"}", "__profile_type__=" },
	{ "{__profile_type__=\"cpu\"}", "five parts" },
	{ "{__name__=\"process_cpu\"}", "__profile_type__=" },
	{ "{service_name=}", "column" },
};

TEST(refuses_other_parts_of_the_type)
{
	for EACH (row, refused) {
		struct pyroscope_selector selector;
		struct error err = { 0 };

		EXPECT_EQ(-EINVAL, pyroscope_selector_parse(row->text, "", &selector, &err),
			  row->text);
		if (!strstr(err.text, row->word))
			fail_msg("%s: \"%s\" lacks \"%s\"", row->text, err.text, row->word);
	}
}

TEST(parts_of_the_type_are_labels)
{
	struct profile_type parts;
	uint32_t count;

	label_map_type_labels(&count);
	EXPECT_EQ(6, count, "labels");
	EXPECT_STR(
		"nanoseconds",
		label_map_type_part(label_map_type_label("__unit__"), PROFILE_TYPE_OFF_CPU, &parts),
		"unit");
	EXPECT_STR("wall",
		   label_map_type_part(label_map_type_label("__period_type__"),
				       PROFILE_TYPE_OFF_CPU, &parts),
		   "period type");
	EXPECT_STR(PROFILE_TYPE_OFF_CPU,
		   label_map_type_part(label_map_type_label("__profile_type__"),
				       PROFILE_TYPE_OFF_CPU, &parts),
		   "all");
	assert_null(label_map_type_label("service_name"));
}

RUN_TESTS(cmocka_unit_test(service_name_is_service),
	  cmocka_unit_test(a_selector_keeps_to_its_tenant),
	  cmocka_unit_test(the_type_is_taken_out_of_the_selector),
	  cmocka_unit_test(refuses_other_parts_of_the_type),
	  cmocka_unit_test(parts_of_the_type_are_labels))
