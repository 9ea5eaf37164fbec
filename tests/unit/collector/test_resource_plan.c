// SPDX-License-Identifier: Apache-2.0
#include "collector/resource_plan.h"

#include <errno.h>

#include "tests/test.h"

#define MIB (1ULL << 20)
#define GIB (1ULL << 30)

static const struct {
	const char *what;
	uint64_t wanted, cgroup, machine;
	uint64_t total, store, messages, answers;
} memory_rows[] = {
	{ "as told", 1 * GIB, 8 * GIB, 64 * GIB, 1 * GIB, 512 * MIB, 256 * MIB, 256 * MIB },
	{ "of a cgroup", 0, 2 * GIB, 64 * GIB, 1536 * MIB, 768 * MIB, 384 * MIB, 384 * MIB },
	{ "of a cgroup above the machine's", 0, 99 * GIB, 4 * GIB, 1 * GIB, 512 * MIB, 256 * MIB,
	  256 * MIB },
	{ "of the machine", 0, 0, 4 * GIB, 1 * GIB, 512 * MIB, 256 * MIB, 256 * MIB },
	{ "of a large machine", 0, 0, 512 * GIB, 2 * GIB, 1 * GIB, 512 * MIB, 512 * MIB },
	{ "little: a batch of 4 MiB fits", 64 * MIB, 0, 4 * GIB, 64 * MIB, 32 * MIB, 128 * MIB,
	  32 * MIB },
};

TEST(memory_is_divided)
{
	for EACH (row, memory_rows) {
		struct memory_plan plan = memory_plan_make(row->wanted, row->cgroup, row->machine);

		EXPECT_EQ(row->total, plan.total_bytes, row->what);
		EXPECT_EQ(row->store, plan.store_bytes, row->what);
		EXPECT_EQ(row->messages, plan.messages_bytes, row->what);
		EXPECT_EQ(row->answers, plan.answers_bytes, row->what);
	}
}

static const struct {
	uint64_t limit;
	uint32_t agents, http;
} descriptor_rows[] = {
	{ 16384, 4096, 512 },
	{ 1024, 456, 152 },
	{ 256, 96, 32 },
	{ 128, 48, 16 },
};

TEST(descriptors_are_divided_with_a_reserve)
{
	struct descriptor_plan plan;
	struct error err = { 0 };

	for EACH (row, descriptor_rows) {
		EXPECT_EQ(0, descriptor_plan_make(row->limit, CONNECTIONS_MAX, &plan, &err),
			  err.text);
		EXPECT_EQ(row->agents, plan.agents, "agents");
		EXPECT_EQ(row->http, plan.http, "http");
	}
	EXPECT_EQ(0, descriptor_plan_make(1024, 100, &plan, &err), err.text);
	EXPECT_EQ(100, plan.agents, "so much memory");
	EXPECT_EQ(-EMFILE, descriptor_plan_make(127, 100, &plan, &err), "too few");
	assert_non_null(strstr(err.text, "ulimit -n"));
}

RUN_TESTS(cmocka_unit_test(memory_is_divided),
	  cmocka_unit_test(descriptors_are_divided_with_a_reserve))
