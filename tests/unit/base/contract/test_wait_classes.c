// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "base/contract/wait_classes.h"

TEST(classes_are_found_by_token)
{
	for (int class = 0; class < WAIT_CLASS_COUNT; class ++)
		EXPECT_EQ(class, wait_class_find(wait_class_name(class)), wait_class_name(class));
}

TEST(unknown_classes_are_other)
{
	EXPECT_EQ(WAIT_CLASS_OTHER, wait_class_find("from a newer agent"), "a token");
	EXPECT_STR("other", wait_class_name((enum wait_class)250), "a number");
}

RUN_TESTS(cmocka_unit_test(classes_are_found_by_token), cmocka_unit_test(unknown_classes_are_other))
