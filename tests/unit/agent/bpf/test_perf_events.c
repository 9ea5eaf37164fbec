// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
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

TEST(lists_of_cpus_are_read_or_refused)
{
	static const struct {
		const char *text;
		int rc;
		uint32_t last;
	} cases[] = {
		{ "0\n", 1, 0 },
		{ "0-3\n", 4, 3 },
		{ "0-1,4,6-7", 5, 7 },
		{ "", -EBADMSG, 0 },
		{ "\n", -EBADMSG, 0 },
		{ "3-1", -EBADMSG, 0 },
		{ "0-", -EBADMSG, 0 },
		{ "0,", -EBADMSG, 0 },
		{ "-1", -EBADMSG, 0 },
		{ "a", -EBADMSG, 0 },
		{ "0-15", -E2BIG, 0 },
		{ "0 1", -EBADMSG, 0 },
		{ "0-99999999999999999999", -EBADMSG, 0 },
	};

	for EACH (c, cases) {
		uint32_t cpus[8] = { 0 };
		int rc = cpu_list_parse(c->text, cpus, 8);

		EXPECT_EQ(c->rc, rc, c->text);
		if (rc > 0)
			EXPECT_EQ(c->last, cpus[rc - 1], c->text);
	}
}

RUN_TESTS(cmocka_unit_test(periods_share_no_factor_and_keep_the_frequency),
	  cmocka_unit_test(lists_of_cpus_are_read_or_refused))
