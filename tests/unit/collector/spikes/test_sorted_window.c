// SPDX-License-Identifier: Apache-2.0
// The window against what sorting its values gives.
#include "collector/spikes/sorted_window.h"

#include "tests/test.h"
#include "tests/unit/collector/spikes/noise.h"

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

TEST(has_the_last_values_sorted)
{
	struct noise noise = { .state = 7 };
	struct sorted_window window = { 0 };
	double values[500];

	for (uint32_t i = 0; i < 500; i++) {
		double expected[SORTED_WINDOW_MAX];
		uint32_t count = i + 1 < SORTED_WINDOW_MAX ? i + 1 : SORTED_WINDOW_MAX;

		values[i] = floor(20 * noise_draw(&noise)) - 5; // many are equal
		sorted_window_add(&window, values[i]);
		memcpy(expected, values + i + 1 - count, count * sizeof(*expected));
		qsort(expected, count, sizeof(*expected), compare_doubles);
		assert_int_equal(count, window.count);
		assert_memory_equal(expected, window.sorted, count * sizeof(*expected));
	}
}

RUN_TESTS(cmocka_unit_test(has_the_last_values_sorted))
