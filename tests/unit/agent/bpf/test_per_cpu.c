// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdlib.h>

#include "tests/test.h"

#include "agent/bpf/per_cpu.h"

TEST(parses_or_refuses_cpu_lists)
{
	static const struct {
		const char *text;
		int rc;
		uint32_t last;
	} cases[] = {
		{ "0\n", 1, 0 },          { "0-3\n", 4, 3 },
		{ "0-1,4,6-7", 5, 7 },    { "", -EBADMSG, 0 },
		{ "\n", -EBADMSG, 0 },    { "3-1", -EBADMSG, 0 },
		{ "0-", -EBADMSG, 0 },    { "0,", -EBADMSG, 0 },
		{ "-1", -EBADMSG, 0 },    { "a", -EBADMSG, 0 },
		{ "0-15", -E2BIG, 0 },    { "0 1", -EBADMSG, 0 },
		{ "4,0-1", -EBADMSG, 0 }, { "0-99999999999999999999", -EBADMSG, 0 },
	};

	for EACH (c, cases) {
		uint32_t cpus[8] = { 0 };
		int rc = cpu_list_parse(c->text, cpus, 8);

		EXPECT_EQ(c->rc, rc, c->text);
		if (rc > 0)
			EXPECT_EQ(c->last, cpus[rc - 1], c->text);
	}
}

struct item {
	uint32_t cpu;
	uint32_t serial;
};

static uint32_t opened, closed;

static int open_item(void *context, uint32_t cpu, void *item)
{
	(void)context;
	*(struct item *)item = (struct item){ cpu, ++opened };
	return 0;
}

static void close_item(void *context, void *item)
{
	(void)context;
	(void)item;
	closed++;
}

TEST(opens_and_closes_items_with_their_cpus)
{
	struct per_cpu set = { .item_size = sizeof(struct item),
			       .open = open_item,
			       .close = close_item };
	bool changed;

	opened = closed = 0;
	assert_int_equal(0, per_cpu_update(&set, &changed));
	assert_true(changed);
	uint32_t count = set.count;
	assert_true(count > 0);
	assert_int_equal(0, per_cpu_update(&set, &changed));
	assert_false(changed);
	EXPECT_EQ(count, opened, "each once");

	// As if the first CPU had come online since, and one beyond the last had gone.
	struct item *items = reallocarray(set.items, count + 1, sizeof(*items));
	assert_non_null(items);
	set.items = items;
	items[count] = (struct item){ PER_CPU_MAX, 0 };
	for (uint32_t i = 0; i < count; i++)
		items[i] = items[i + 1];
	set.count = count;
	assert_int_equal(0, per_cpu_update(&set, &changed));
	assert_true(changed);
	EXPECT_EQ(count, set.count, "all CPUs again");
	EXPECT_EQ(count + 1, opened, "only the new one is opened");
	EXPECT_EQ(1, closed, "only the old one is closed");
	items = set.items;
	EXPECT_EQ(count + 1, items[0].serial, "sorted by CPU");
	per_cpu_close(&set);
	EXPECT_EQ(count + 1, closed, "closes all");
}

RUN_TESTS(cmocka_unit_test(parses_or_refuses_cpu_lists),
	  cmocka_unit_test(opens_and_closes_items_with_their_cpus))
