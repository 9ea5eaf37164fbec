// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdbool.h>

#include "tests/test.h"

#include "agent/bpf/perf_events.h"

static uint32_t common_divisor(uint32_t a, uint32_t b)
{
	while (b) {
		uint32_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

TEST(periods_share_no_factor_and_keep_the_frequency)
{
	static const uint32_t frequencies[] = { 1, 19, 49, 99, 100, 250, 999, 1000 };

	for EACH (hz, frequencies) {
		uint32_t periods[PERF_PERIODS];
		double sum = 0, mean = 1e6 / *hz;
		char what[16];

		snprintf(what, sizeof(what), "%u Hz", *hz);
		perf_periods_of(*hz, periods);
		for (uint32_t i = 0; i < PERF_PERIODS; i++) {
			sum += periods[i];
			if (periods[i] < 0.64 * mean || periods[i] > 1.36 * mean)
				fail_msg("%s: %u us is too far from the mean", what, periods[i]);
			for (uint32_t j = 0; j < i; j++)
				EXPECT_EQ(1, common_divisor(periods[i], periods[j]), what);
		}
		if (fabs(sum / PERF_PERIODS / mean - 1) > 0.01)
			fail_msg("%s: the mean is %.1f us", what, sum / PERF_PERIODS);
	}
}

RUN_TESTS(cmocka_unit_test(periods_share_no_factor_and_keep_the_frequency))
