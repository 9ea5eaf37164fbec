// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/base/export/export_fixture.h"

#include <errno.h>

#include "base/export/call_graph.h"

static uint32_t function_of(const struct call_graph *graph, const char *name)
{
	for (uint32_t i = 0; i < graph->stacks.function_count; i++)
		if (strcmp(named_function_name(&graph->stacks, i), name) == 0)
			return i;
	fail_msg("no function \"%s\"", name);
	return 0;
}

static int64_t edge_total(const struct call_graph *graph, const char *caller, const char *callee)
{
	int64_t total = 0;

	for (uint32_t i = 0; i < graph->edge_count; i++)
		if (graph->edges[i].caller == function_of(graph, caller) &&
		    graph->edges[i].callee == function_of(graph, callee))
			total += graph->edges[i].total;
	return total;
}

static void expect_function(const struct call_graph *graph, const char *name, int64_t self,
			    int64_t total)
{
	EXPECT_EQ(self, graph->functions[function_of(graph, name)].self, name);
	EXPECT_EQ(total, graph->functions[function_of(graph, name)].total, name);
}

TEST(lines_of_one_function_are_one_function)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	_cleanup_(call_graph_deinit) struct call_graph graph = { 0 };
	uint32_t a[] = { frame(profile, FRAME_KIND_PYTHON, "leaf", "/a.py", 3),
			 frame(profile, FRAME_KIND_PYTHON, "main", "/a.py", 10) };
	uint32_t b[] = { frame(profile, FRAME_KIND_PYTHON, "leaf", "/a.py", 4),
			 frame(profile, FRAME_KIND_PYTHON, "main", "/a.py", 11) };

	merged(profile, a, 2, 5);
	merged(profile, b, 2, 7);
	assert_int_equal(0, call_graph_init(&graph, profile, PROFILE_TYPE_CPU));
	EXPECT_EQ(2, graph.stacks.function_count, "functions");
	EXPECT_EQ(12, graph.total, "total");
	EXPECT_EQ(2, graph.line_count, "self by line");
	EXPECT_EQ(2, graph.edge_count, "edges by the caller's line");
	expect_function(&graph, "leaf", 12, 12);
	expect_function(&graph, "main", 0, 12);
	EXPECT_EQ(12, edge_total(&graph, "main", "leaf"), "calls");
}

TEST(recursion_counts_once)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	_cleanup_(call_graph_deinit) struct call_graph graph = { 0 };
	uint32_t f = frame(profile, FRAME_KIND_NATIVE, "f", "", 0);
	uint32_t g = frame(profile, FRAME_KIND_NATIVE, "g", "", 0);

	merged(profile, (uint32_t[]){ f, f, f }, 3, 10);
	merged(profile, (uint32_t[]){ f, g, f, g }, 4, 100);
	assert_int_equal(0, call_graph_init(&graph, profile, PROFILE_TYPE_CPU));
	expect_function(&graph, "f", 110, 110);
	expect_function(&graph, "g", 0, 100);
	EXPECT_EQ(0, edge_total(&graph, "f", "f"), "direct recursion has no edge");
	EXPECT_EQ(100, edge_total(&graph, "g", "f"), "twice in one stack");
	EXPECT_EQ(100, edge_total(&graph, "f", "g"), "back");
}

TEST(other_types_are_left_out)
{
	_cleanup_(profile_freep) struct profile *profile = profile_new(20 * NS_PER_MS);
	_cleanup_(call_graph_deinit) struct call_graph graph = { 0 };
	uint32_t f = frame(profile, FRAME_KIND_NATIVE, "f", "", 0);

	sample(profile, "app", "", PROFILE_TYPE_OFF_CPU, &f, 1, 0, 4);
	merged(profile, NULL, 0, 3);
	assert_int_equal(0, call_graph_init(&graph, profile, PROFILE_TYPE_CPU));
	EXPECT_EQ(3, graph.total, "total");
	expect_function(&graph, "[no stack]", 3, 3);
}

RUN_TESTS(cmocka_unit_test(lines_of_one_function_are_one_function),
	  cmocka_unit_test(recursion_counts_once), cmocka_unit_test(other_types_are_left_out))
