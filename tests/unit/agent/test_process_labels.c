// SPDX-License-Identifier: Apache-2.0
#include "agent/process_labels.h"

#include "tests/test.h"

#define ENVIRON(text) .environ_ = (text), .environ_size = sizeof(text)

static const struct {
	const char *what;
	struct process_traits traits;
	const char *label;
	const char *value; // NULL: absent
} cases[] = {
	{ "service name wins",
	  { .name = "a", .executable = "/bin/a", ENVIRON("X=1\0OTEL_SERVICE_NAME=llm") },
	  "service",
	  "llm" },
	{ "service name over attribute",
	  { .name = "a",
	    ENVIRON("OTEL_RESOURCE_ATTRIBUTES=service.name=x\0OTEL_SERVICE_NAME=llm") },
	  "service",
	  "llm" },
	{ "attribute over unit",
	  { .name = "a",
	    .cgroup = "0::/a.service",
	    .cgroup_size = 13,
	    ENVIRON("OTEL_RESOURCE_ATTRIBUTES=service.name=x") },
	  "service",
	  "x" },
	{ "unit over executable",
	  { .name = "a", .executable = "/bin/a", .cgroup = "0::/b.service", .cgroup_size = 13 },
	  "service",
	  "b" },
	{ "executable over process",
	  { .name = "a", .executable = "/usr/bin/python3.11" },
	  "service",
	  "python3.11" },
	{ "process at last", { .name = "a" }, "service", "a" },
	{ "nothing known", { 0 }, "service", "unknown" },
	{ "kernel thread", { .name = "kworker/0:1", .kernel_thread = true }, "service", "kernel" },
	{ "process name", { .name = "kworker/0:1" }, "process", "kworker/0:1" },
	{ "node", { .node = "n1" }, "node", "n1" },
	{ "mapped attribute",
	  { ENVIRON("OTEL_RESOURCE_ATTRIBUTES=a=b, k8s.pod.name = p1 ") },
	  "pod",
	  "p1" },
	{ "other attribute",
	  { ENVIRON("OTEL_RESOURCE_ATTRIBUTES=team.name=core") },
	  "team_name",
	  "core" },
	{ "digit first", { ENVIRON("OTEL_RESOURCE_ATTRIBUTES=1a=core") }, "_1a", "core" },
	{ "percent",
	  { ENVIRON("OTEL_RESOURCE_ATTRIBUTES=service.version=1%2C2%") },
	  "version",
	  "1,2%" },
	{ "no other variable",
	  { ENVIRON("SECRET=1\0OTEL_RESOURCE_ATTRIBUTES=a=b") },
	  "SECRET",
	  NULL },
	{ "prefix is no match",
	  { .name = "a", ENVIRON("OTEL_SERVICE_NAME_X=no") },
	  "service",
	  "a" },
	{ "empty value", { .name = "a", ENVIRON("OTEL_SERVICE_NAME=") }, "service", "a" },
	{ "pairs without sense",
	  { .name = "a", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=,,=,x,=y,z=") },
	  "service",
	  "a" },
	{ "extra wins",
	  { .name = "a", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=extra=no") },
	  "extra",
	  "yes" },
};

TEST(labels_come_from_the_first_that_knows)
{
	struct labels extra = { 0 };

	assert_int_equal(0, labels_set(&extra, "extra", "yes"));
	for
		EACH(row, cases)
		{
			struct labels labels;

			EXPECT_EQ(0, process_labels_detect(&row->traits, &extra, &labels),
				  row->what);
			const char *value = labels_get(&labels, row->label);
			if (row->value)
				EXPECT_STR(row->value, value, row->what);
			else
				EXPECT_EQ(1, value == NULL, row->what);
			labels_deinit(&labels);
		}
	labels_deinit(&extra);
}

TEST(a_variable_cut_at_the_limit_is_not_taken)
{
	struct process_traits traits = { .name = "a",
					 .environ_ = "OTEL_SERVICE_NAME=ll",
					 .environ_size = 20 };
	struct labels labels;

	assert_int_equal(0, process_labels_detect(&traits, NULL, &labels));
	assert_string_equal("a", labels_get(&labels, "service"));
	labels_deinit(&labels);
}

RUN_TESTS(cmocka_unit_test(labels_come_from_the_first_that_knows),
	  cmocka_unit_test(a_variable_cut_at_the_limit_is_not_taken))
