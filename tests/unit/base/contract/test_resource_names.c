// SPDX-License-Identifier: Apache-2.0
#include "base/contract/resource_names.h"

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "tests/test.h"

TEST(each_label_has_one_attribute)
{
	uint32_t count;
	const struct resource_name *names = resource_names(&count);

	for (uint32_t i = 0; i < count; i++) {
		if (!(names[i].uses & RESOURCE_OF_LABEL))
			continue;
		EXPECT_STR(names[i].attribute,
			   resource_name_of_label(names[i].label, names[i].workload_kind),
			   names[i].label);
		// What the agent sends is what the collector takes.
		EXPECT_STR(names[i].label,
			   resource_name_find(names[i].attribute, RESOURCE_OF_SENDER)->label,
			   names[i].attribute);
	}
}

TEST(what_a_user_may_say_is_bounded)
{
	static const struct {
		const char *attribute;
		bool of_process, of_sender, is_allowed;
	} rows[] = {
		{ "service.name", true, true, true },
		{ "service.team", false, false, true },
		{ "host.name", false, true, false },
		{ "container.id", false, true, false },
		{ "k8s.pod.name", true, true, false },
		{ "process.environment_variable.SECRET", false, false, false },
	};

	for EACH (row, rows) {
		EXPECT_EQ(row->of_process,
			  resource_name_find(row->attribute, RESOURCE_OF_PROCESS) != NULL,
			  row->attribute);
		EXPECT_EQ(row->of_sender,
			  resource_name_find(row->attribute, RESOURCE_OF_SENDER) != NULL,
			  row->attribute);
		EXPECT_EQ(row->is_allowed, resource_name_is_allowed(row->attribute),
			  row->attribute);
	}
}

RUN_TESTS(cmocka_unit_test(each_label_has_one_attribute),
	  cmocka_unit_test(what_a_user_may_say_is_bounded))
