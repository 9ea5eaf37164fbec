// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "collector/ingest/seen_agents.h"

#define NOW (1000 * NS_PER_SECOND)

static void note(struct seen_agents *agents, uint64_t machine, uint64_t boot, const char *node,
		 const char *tenant, uint64_t now_ns)
{
	struct batch_id batch = { .agent = { 1, machine },
				  .boot = { 2, boot },
				  .agent_version = "1.2.3" };
	struct profile *profile = profile_new(20 * NS_PER_MS);
	struct labels labels = { 0 };
	uint32_t series, stack;

	assert_int_equal(0, labels_set(&labels, LABEL_NODE, node));
	assert_int_equal(0, labels_set(&labels, LABEL_TENANT, tenant));
	assert_int_equal(0, profile_add_series(profile, &labels, PROFILE_TYPE_RSS, &series));
	assert_int_equal(0, profile_add_stack(profile, NULL, 0, STACK_END_COMPLETE, &stack));
	for (uint64_t slot = 1; slot < 4; slot++)
		assert_int_equal(0, profile_add_sample(profile, series, stack, slot, 1));
	seen_agents_note(agents, &batch, profile, now_ns);
	labels_deinit(&labels);
	profile_free(profile);
}

/* "node:batches:samples ..." of a tenant. */
static void expect_list(struct seen_agents *agents, const char *tenant, const char *expected)
{
	struct seen_agent *list = NULL;
	char text[512] = "";
	uint32_t count = 0;

	assert_int_equal(0, seen_agents_list(agents, tenant, &list, &count));
	for (uint32_t i = 0; i < count; i++) {
		size_t length = strlen(text);

		snprintf(text + length, sizeof(text) - length, "%s%s:%llu:%llu", i ? " " : "",
			 list[i].node, (unsigned long long)list[i].batches,
			 (unsigned long long)list[i].samples);
		assert_string_equal("1.2.3", list[i].version);
	}
	free(list);
	EXPECT_STR(expected, text, tenant);
}

TEST(lists_a_tenants_agents_by_node)
{
	struct seen_agents *agents = seen_agents_new();

	note(agents, 2, 1, "node-b", "blue", NOW);
	note(agents, 1, 1, "node-a", "red", NOW);
	note(agents, 2, 1, "node-b", "blue", NOW + 5 * NS_PER_SECOND);
	note(agents, 3, 1, "node-c", "", NOW);
	expect_list(agents, ACCESS_ALL_TENANTS, "node-a:1:3 node-b:2:6 node-c:1:3");
	expect_list(agents, "blue", "node-b:2:6");
	expect_list(agents, ACCESS_NO_TENANT, "node-c:1:3");
	expect_list(agents, "green", "");
	seen_agents_free(agents);
}

TEST(no_tenant_replaces_anothers_agent)
{
	struct seen_agents *agents = seen_agents_new();

	note(agents, 1, 1, "node-a", "red", NOW);
	note(agents, 1, 2, "node-x", "blue", NOW + NS_PER_SECOND); // claims the same machine,
	note(agents, 1, 1, "node-y", "blue", NOW + NS_PER_SECOND); // and the same start
	expect_list(agents, "red", "node-a:1:3");
	seen_agents_free(agents);
}

TEST(a_restarted_agent_counts_once)
{
	struct seen_agents *agents = seen_agents_new();

	note(agents, 1, 1, "node-a", "", NOW);
	note(agents, 1, 2, "node-a", "", NOW + NS_PER_SECOND);
	expect_list(agents, ACCESS_ALL_TENANTS, "node-a:1:3");
	EXPECT_EQ(1, seen_agents_count(agents, NOW), "a machine");
	EXPECT_EQ(0, seen_agents_count(agents, NOW + 2 * NS_PER_SECOND), "later");
	// Both run, on a machine whose id was copied.
	note(agents, 1, 1, "node-x", "", NOW + 2 * NS_PER_SECOND);
	EXPECT_EQ(2, seen_agents_count(agents, NOW), "two that send");
	seen_agents_free(agents);
}

TEST(cuts_long_node_names)
{
	struct seen_agents *agents = seen_agents_new();
	struct seen_agent *list;
	char name[300];
	uint32_t count;

	memset(name, 'n', sizeof(name));
	name[250] = '\0';
	note(agents, 1, 1, name, "", NOW);
	assert_int_equal(0, seen_agents_list(agents, ACCESS_ALL_TENANTS, &list, &count));
	EXPECT_EQ(SEEN_NODE_BYTES - 1, strlen(list[0].node), "its length");
	free(list);
	seen_agents_free(agents);
}

RUN_TESTS(cmocka_unit_test(lists_a_tenants_agents_by_node),
	  cmocka_unit_test(no_tenant_replaces_anothers_agent),
	  cmocka_unit_test(a_restarted_agent_counts_once), cmocka_unit_test(cuts_long_node_names))
