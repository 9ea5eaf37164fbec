// SPDX-License-Identifier: Apache-2.0
// Which processes lose their mappings in the kernel when there is no space: those sampled longest ago, of the payer who
// has most.
#include "agent/publish/unwind_eviction.h"

#include "tests/test.h"

enum { HOSTILE = 7, HONEST = 8, RECORDS = 40, HONEST_ONE = 3, EVICTED = 3 };

static struct published records[RECORDS];
static uint32_t evicted[RECORDS], evicted_count;

static void note(void *context, struct published *record)
{
	(void)context;
	evicted[evicted_count++] = record->key.pid;
	record->key.pid = 0;
}

/* A process is sampled later than those before it; one is an honest one. */
static struct published_processes fill(void)
{
	evicted_count = 0;
	for (uint32_t i = 0; i < RECORDS; i++)
		records[i] = (struct published){ .key.pid = 100 + i,
						 .payer = i == HONEST_ONE ? HONEST : HOSTILE,
						 .page_count = 2,
						 .used_ns = 1000 + i };
	return (struct published_processes){ .records = records, .slot_count = RECORDS };
}

TEST(evicts_largest_payer_first)
{
	struct published_processes published = fill();

	records[RECORDS - 1].payer = HONEST;
	unwind_evict_processes(&published, &records[RECORDS - 1], note, NULL);
	EXPECT_EQ(EVICTED, evicted_count, "one in 16, and one");
	EXPECT_EQ(100, evicted[0], "sampled longest ago");
	EXPECT_EQ(101, evicted[1], "then");
	EXPECT_EQ(102, evicted[2], "then");
	records[0].key.pid = records[1].key.pid = records[2].key.pid = 0;
	evicted_count = 0;
	unwind_evict_processes(&published, &records[RECORDS - 1], note, NULL);
	for (uint32_t i = 0; i < evicted_count; i++)
		EXPECT_EQ(true, evicted[i] != 100 + HONEST_ONE, "of the other payer");
	EXPECT_EQ(104, evicted[0], "the next of the one who has most");
}

TEST(of_the_same_payer_the_oldest_goes)
{
	struct published_processes published = fill();

	records[0].payer = HONEST; // sampled longest ago
	unwind_evict_processes(&published, &records[RECORDS - 1], note, NULL);
	EXPECT_EQ(100, evicted[0], "anybody's");
	EXPECT_EQ(EVICTED, evicted_count, "one in 16, and one");
}

TEST(never_evicts_requester)
{
	struct published_processes published = fill();

	unwind_evict_processes(&published, &records[0], note, NULL);
	for (uint32_t i = 0; i < evicted_count; i++)
		EXPECT_EQ(true, evicted[i] != 100, "the kept one");
	EXPECT_EQ(EVICTED, evicted_count, "one in 16, and one");
}

RUN_TESTS(cmocka_unit_test(evicts_largest_payer_first),
	  cmocka_unit_test(of_the_same_payer_the_oldest_goes),
	  cmocka_unit_test(never_evicts_requester))
