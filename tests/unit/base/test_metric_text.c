// SPDX-License-Identifier: Apache-2.0
#include "base/metric_text.h"

#include <stdlib.h>
#include <string.h>

#include "tests/test.h"

TEST(writes_metrics_in_prometheus_text)
{
	struct buffer text = { 0 };

	metric_text_add(&text, "cairn_agents", "gauge", "Agents.", 3);
	metric_text_begin(&text, "cairn_seconds_total", "counter", "Time.");
	assert_string_equal(buffer_string(&text),
			    "# HELP cairn_agents Agents.\n# TYPE cairn_agents gauge\n"
			    "cairn_agents 3\n"
			    "# HELP cairn_seconds_total Time.\n"
			    "# TYPE cairn_seconds_total counter\n");
	buffer_deinit(&text);
}

TEST(keeps_all_digits_of_a_count)
{
	struct buffer text = { 0 };

	metric_text_add(&text, "bytes", "counter", "Bytes.", 123456789012345.0);
	assert_non_null(strstr(buffer_string(&text), "\nbytes 123456789012345\n"));
	buffer_deinit(&text);
}

static double value_of(struct buffer *text, const char *name)
{
	const char *found = strstr(buffer_string(text), name);

	assert_non_null(found);
	return strtod(found + strlen(name), NULL);
}

TEST(reads_its_own_process)
{
	struct buffer text = { 0 };

	metric_text_add_process(&text);
	// A small program and its libraries; with a sanitizer's shadow.
	assert_in_range((uint64_t)value_of(&text, "\nprocess_resident_memory_bytes "), 256 << 10,
			1 << 30);
	assert_true(value_of(&text, "\nprocess_cpu_seconds_total ") > 0);
	buffer_deinit(&text);
}

RUN_TESTS(cmocka_unit_test(writes_metrics_in_prometheus_text),
	  cmocka_unit_test(keeps_all_digits_of_a_count), cmocka_unit_test(reads_its_own_process))
