// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <stdlib.h>

#include "collector/metrics/metrics.h"

static const char type_line[] = "# TYPE ";

/* How often @text says of which type a metric @name is. */
static int type_lines_of(const char *text, const char *name, size_t length)
{
	int count = 0;

	for (const char *at = text; (at = strstr(at, type_line)); at++) {
		const char *found = at + strlen(type_line);

		count += !strncmp(found, name, length) && found[length] == ' ';
	}
	return count;
}

TEST(each_metric_is_exposed_once)
{
	struct metrics metrics = { 0 };
	const struct store_stats stats = { 0 };
	struct buffer text = { 0 };
	int names = 0;

	metrics_encode(&metrics, &stats, 0, &text);
	buffer_append_byte(&text, 0);
	for (const char *at = (const char *)text.bytes; (at = strstr(at, type_line)); at++) {
		const char *name = at + strlen(type_line);
		int length = (int)strcspn(name, " \n");

		names++;
		if (type_lines_of((const char *)text.bytes, name, (size_t)length) != 1)
			fail_msg("%.*s is there twice", length, name);
	}
	assert_true(names > METRIC_COUNT);
	buffer_deinit(&text);
}

RUN_TESTS(cmocka_unit_test(each_metric_is_exposed_once))
