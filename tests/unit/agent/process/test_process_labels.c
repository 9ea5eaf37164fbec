// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_labels.h"

#include <stdlib.h>

#include "agent/process/resource_attributes.h"
#include "tests/test.h"

static uint64_t refused;
static bool own_service;

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
	  { .attribute_patterns = "*",
	    ENVIRON("OTEL_RESOURCE_ATTRIBUTES=a=b, k8s.pod.name = p1 ") },
	  "pod",
	  "p1" },
	{ "other attribute",
	  { .attribute_patterns = "*", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=team.name=core") },
	  "team_name",
	  "core" },
	{ "digit first",
	  { .attribute_patterns = "*", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=1a=core") },
	  "_1a",
	  "core" },
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
	{ "worker of the kernel",
	  { .name = "kworker/0:1", .kernel_thread = true },
	  "process",
	  "kworker" },
	{ "kernel thread in a unit",
	  { .name = "x", .kernel_thread = true, .cgroup = "0::/a.service", .cgroup_size = 13 },
	  "service",
	  "kernel" },
	{ "instance of a unit",
	  { .name = "a", .cgroup = "0::/g@t.service", .cgroup_size = 15 },
	  "service",
	  "g" },
	{ "a user's unit",
	  { .name = "a", .cgroup = "0::/user-7.slice/b.service", .cgroup_size = 26 },
	  "service",
	  "b" },
	{ "a user's unit is below the user's slice",
	  { .name = "a", .cgroup = "0::/user-7.slice/b.service", .cgroup_size = 26 },
	  "unit",
	  "user-7.slice/b.service" },
	{ "manager of a user",
	  { .name = "a", .cgroup = "0::/user-7.slice/user@7.service", .cgroup_size = 31 },
	  "service",
	  "a" },
	{ "scope is no service",
	  { .name = "a", .cgroup = "0::/session-3.scope", .cgroup_size = 19 },
	  "service",
	  "a" },
	{ "replaced executable",
	  { .name = "a", .executable = "/usr/bin/nginx (deleted)" },
	  "service",
	  "nginx" },
	{ "a runtime's copy of itself",
	  { .name = "runc:[2:INIT]", .executable = "/memfd:runc_cloned:/proc/self/exe (deleted)" },
	  "service",
	  "runc" },
	{ "a program in memory",
	  { .name = "loader", .executable = "/memfd:sealed-7f3a (deleted)" },
	  "service",
	  "loader" },
	{ "a program in memory, named by its file",
	  { .name = "memfd:sealed-91",
	    .executable = "/memfd:sealed-91173221a7ea (deleted)",
	    .command = "tools/backend" },
	  "service",
	  "backend" },
	{ "the same, without a command",
	  { .name = "memfd:sealed-91", .executable = "/memfd:sealed-91173221a7ea (deleted)" },
	  "service",
	  "memfd:sealed-91" },
	{ "a step of a helper", { .name = "runc:[1:CHILD]" }, "service", "runc" },
	{ "only a step", { .name = ":[1:CHILD]" }, "service", ":[1:CHILD]" },
	{ "better attribute first",
	  { .attribute_patterns = "*",
	    ENVIRON("OTEL_RESOURCE_ATTRIBUTES=deployment.environment.name=k,deployment.environment="
		    "s") },
	  "environment",
	  "k" },
	{ "better attribute last",
	  { .attribute_patterns = "*",
	    ENVIRON("OTEL_RESOURCE_ATTRIBUTES=deployment.environment=s,deployment.environment.name="
		    "k") },
	  "environment",
	  "k" },
	{ "plain name does not replace a known one",
	  { .attribute_patterns = "*", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=p,pod=q") },
	  "pod",
	  "p" },
	{ "node is the agent's to say",
	  { .attribute_patterns = "*",
	    .node = "n1",
	    ENVIRON("OTEL_RESOURCE_ATTRIBUTES=node=x,host.name=y") },
	  "node",
	  "n1" },
	{ "thread is the sample's to say",
	  { .attribute_patterns = "*", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=thread=x") },
	  "thread",
	  NULL },
	{ "SDK's own attributes",
	  { ENVIRON("OTEL_RESOURCE_ATTRIBUTES=telemetry.sdk.name=x") },
	  "telemetry_sdk_name",
	  NULL },
	{ "a namespace is ours",
	  { .attribute_patterns = "*", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=namespace=x") },
	  "namespace",
	  NULL },
	{ "a tenant is the collector's",
	  { .attribute_patterns = "*", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=tenant=x") },
	  "tenant",
	  NULL },
	{ "a pod in disguise",
	  { .attribute_patterns = "*", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=p%6Fd=x,pod.uid=x") },
	  "pod_uid",
	  NULL },
	{ "a service's namespace is its own",
	  { ENVIRON("OTEL_RESOURCE_ATTRIBUTES=service.namespace=s") },
	  "namespace",
	  NULL },
	{ "allowed on every machine",
	  { ENVIRON("OTEL_RESOURCE_ATTRIBUTES=service.namespace=s") },
	  "service_namespace",
	  "s" },
	{ "not allowed",
	  { ENVIRON("OTEL_RESOURCE_ATTRIBUTES=db.password=x") },
	  "db_password",
	  NULL },
	{ "not allowed although known",
	  { ENVIRON("OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=x") },
	  "pod",
	  NULL },
	{ "allowed by name",
	  { .attribute_patterns = "a,team.name", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=team.name=x") },
	  "team_name",
	  "x" },
	{ "a longer name than allowed",
	  { .attribute_patterns = "team", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=team.name=x") },
	  "team_name",
	  NULL },
	{ "allowed by its begin",
	  { .attribute_patterns = "a,k8s.*", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=x") },
	  "pod",
	  "x" },
	{ "not UTF-8",
	  { .name = "a", ENVIRON("OTEL_SERVICE_NAME=a\xff\xc3\xa9\n") },
	  "service",
	  "a?\xc3\xa9?" },
	{ "percent to not UTF-8",
	  { .attribute_patterns = "*", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=a=%ff%00%C3%A9") },
	  "a",
	  "?%00\xc3\xa9" },
	{ "first of two", { ENVIRON("OTEL_SERVICE_NAME=x\0OTEL_SERVICE_NAME=y") }, "service", "x" },
	{ "extra wins",
	  { .attribute_patterns = "*", .name = "a", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=extra=no") },
	  "extra",
	  "yes" },
};

TEST(labels_come_from_the_first_source)
{
	struct labels extra = { 0 };

	assert_int_equal(0, labels_set(&extra, "extra", "yes"));
	for EACH (row, cases) {
		struct labels labels;

		EXPECT_EQ(0,
			  process_labels_detect(&row->traits, &extra, &labels, &own_service,
						&refused),
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

TEST(ignores_a_variable_cut_at_the_limit)
{
	struct process_traits traits = { .name = "a",
					 .environ_ = "OTEL_SERVICE_NAME=ll",
					 .environ_size = 20 };
	struct labels labels;

	assert_int_equal(0, process_labels_detect(&traits, NULL, &labels, &own_service, &refused));
	assert_string_equal("a", labels_get(&labels, "service"));
	labels_deinit(&labels);
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

TEST(a_named_container_keeps_its_id)
{
	static const char cgroup[] = "0::/kubepods/pod12345678-1234-1234-1234-123456789abc/" ID;
	struct process_traits traits = { .name = "a",
					 .cgroup = cgroup,
					 .cgroup_size = sizeof(cgroup) - 1 };
	struct labels labels;

	assert_int_equal(0, process_labels_detect(&traits, NULL, &labels, &own_service, &refused));
	assert_string_equal(ID, labels_get(&labels, "container"));
	assert_string_equal("12345678-1234-1234-1234-123456789abc", labels_get(&labels, "pod_uid"));
	labels_deinit(&labels);

	traits.attribute_patterns = "k8s.*";
	traits.environ_ = "OTEL_RESOURCE_ATTRIBUTES=k8s.container.name=web";
	traits.environ_size = strlen(traits.environ_) + 1;
	assert_int_equal(0, process_labels_detect(&traits, NULL, &labels, &own_service, &refused));
	assert_string_equal("web", labels_get(&labels, "container"));
	assert_string_equal(ID, labels_get(&labels, "container_id"));
	labels_deinit(&labels);
}

TEST(many_attributes_leave_room_for_detected_labels)
{
	static char environment[64 << 10] = "OTEL_RESOURCE_ATTRIBUTES=";
	struct process_traits traits = {
		.name = "a", .node = "n", .environ_ = environment, .attribute_patterns = "a*"
	};
	struct labels extra = { 0 }, labels;
	size_t size = strlen(environment);
	uint64_t before = refused;

	for (int i = 0; i < 1000; i++)
		size += (size_t)snprintf(environment + size, sizeof(environment) - size, "a%d=%d,",
					 i, i);
	traits.environ_size = size + 1;
	assert_int_equal(0, labels_set(&extra, "team", "core"));
	assert_int_equal(0,
			 process_labels_detect(&traits, &extra, &labels, &own_service, &refused));
	assert_string_equal("core", labels_get(&labels, "team"));
	assert_string_equal("n", labels_get(&labels, "node"));
	assert_string_equal("a", labels_get(&labels, "process"));
	assert_string_equal("7", labels_get(&labels, "a7"));
	assert_true(labels.count < LABELS_MAX);
	assert_int_equal(RESOURCE_ATTRIBUTES_READ_MAX - RESOURCE_ATTRIBUTES_MAX + 1,
			 refused - before);
	labels_deinit(&labels);
	labels_deinit(&extra);
}

TEST(counts_refused_attributes)
{
	struct process_traits traits = {
		ENVIRON("OTEL_RESOURCE_ATTRIBUTES=service.name=a,key=secret,pod=x,,=,service.x=1"),
		.attribute_patterns = "pod",
	};
	struct labels labels;
	uint64_t count = 0;

	assert_int_equal(0, process_labels_detect(&traits, NULL, &labels, &own_service, &count));
	assert_int_equal(2, count); // key, pod; those without sense say nothing
	labels_deinit(&labels);
}

TEST(survives_random_environments)
{
	static char environment[600];

	srand(2);
	for (int round = 0; round < 20000; round++) {
		size_t size = (size_t)snprintf(environment, sizeof(environment),
					       "OTEL_RESOURCE_ATTRIBUTES=");
		size_t end = size + (size_t)rand() % (sizeof(environment) - size);
		for (; size < end; size++)
			environment[size] = "=,%%0Aa. \0\xc3\xa9\xffsr"[rand() % 15];
		struct process_traits traits = { .environ_ = environment,
						 .environ_size = size,
						 .attribute_patterns = "*" };
		struct labels labels;

		assert_int_equal(
			0, process_labels_detect(&traits, NULL, &labels, &own_service, &refused));
		labels_deinit(&labels);
	}
}

#define CGROUP(path) .cgroup = "0::" path, .cgroup_size = sizeof("0::" path) - 1

static const struct {
	const char *what;
	struct container_record container;
	struct process_traits traits;
	const char *label, *value; // NULL: absent
} contained[] = {
	{ "the name", { .name = "shop-web-1" }, { .name = "a" }, "container", "shop-web-1" },
	{ "the id", { .name = "shop-web-1" }, { .name = "a" }, "container_id", ID },
	{ "Compose's service",
	  { .name = "n", .service = "web" },
	  { .name = "a" },
	  "service",
	  "web" },
	{ "Compose's project",
	  { .name = "n", .project = "shop" },
	  { .name = "a" },
	  "compose_project",
	  "shop" },
	{ "the image's tag", { .name = "n", .version = "1.2" }, { .name = "a" }, "version", "1.2" },
	{ "over the executable",
	  { .service = "web" },
	  { .name = "a", .executable = "/bin/a" },
	  "service",
	  "web" },
	{ "over a unit in it",
	  { .service = "web" },
	  { .name = "a", CGROUP("/docker-" ID ".scope/b.service") },
	  "service",
	  "web" },
	{ "below OTEL_SERVICE_NAME",
	  { .service = "web" },
	  { .name = "a", ENVIRON("OTEL_SERVICE_NAME=llm") },
	  "service",
	  "llm" },
	{ "below its own version",
	  { .version = "1" },
	  { .name = "a", ENVIRON("OTEL_RESOURCE_ATTRIBUTES=service.version=2") },
	  "version",
	  "2" },
	{ "without a name", { .name = "" }, { .name = "a" }, "container", ID },
	{ "without a service", { .name = "n" }, { .name = "a" }, "service", "a" },
};

TEST(a_container_of_docker_names_its_processes)
{
	for EACH (row, contained) {
		struct process_traits traits = row->traits;
		struct labels labels = { 0 };

		traits.container = &row->container;
		if (!traits.cgroup)
			traits.cgroup = "0::/system.slice/docker-" ID ".scope";
		traits.cgroup_size = strlen(traits.cgroup);
		EXPECT_EQ(0, process_labels_detect(&traits, NULL, &labels, &own_service, &refused),
			  row->what);
		const char *value = labels_get(&labels, row->label);
		EXPECT_STR(row->value, value ? value : "(none)", row->what);
		labels_deinit(&labels);
	}
}

RUN_TESTS(cmocka_unit_test(labels_come_from_the_first_source),
	  cmocka_unit_test(ignores_a_variable_cut_at_the_limit),
	  cmocka_unit_test(a_named_container_keeps_its_id),
	  cmocka_unit_test(many_attributes_leave_room_for_detected_labels),
	  cmocka_unit_test(counts_refused_attributes),
	  cmocka_unit_test(survives_random_environments),
	  cmocka_unit_test(a_container_of_docker_names_its_processes))
