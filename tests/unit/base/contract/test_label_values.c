// SPDX-License-Identifier: Apache-2.0
#include <stdbool.h>

#include "tests/test.h"

#include "base/contract/label_names.h"
#include "base/contract/label_values.h"

TEST(values_belong_to_labels)
{
	uint32_t count, label_count;
	const struct label_value_spec *values = label_value_specs(&count);
	const struct label_spec *labels = label_specs(&label_count);

	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = 0;

		while (at < label_count && strcmp(labels[at].name, values[i].label) != 0)
			at++;
		EXPECT_EQ(true, at < label_count, values[i].label);
	}
}

TEST(values_of_a_label_stand_together)
{
	uint32_t count;
	const struct label_value_spec *values = label_value_specs(&count);

	for (uint32_t i = 1; i < count; i++) {
		for (uint32_t j = 0; strcmp(values[i].label, values[i - 1].label) != 0 && j < i;
		     j++)
			EXPECT_EQ(false, strcmp(values[i].label, values[j].label) == 0,
				  values[i].label);
	}
}

TEST(values_are_tokens)
{
	uint32_t count;
	const struct label_value_spec *values = label_value_specs(&count);

	for (uint32_t i = 0; i < count; i++)
		EXPECT_EQ(strlen(values[i].value),
			  strspn(values[i].value, "abcdefghijklmnopqrstuvwxyz0123456789_"),
			  values[i].value);
}

RUN_TESTS(cmocka_unit_test(values_belong_to_labels),
	  cmocka_unit_test(values_of_a_label_stand_together), cmocka_unit_test(values_are_tokens))
