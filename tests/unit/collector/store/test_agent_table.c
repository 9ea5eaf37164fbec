// SPDX-License-Identifier: Apache-2.0
// Acknowledged sequences: whose they are, and who loses them when the table is full.
#include "tests/unit/collector/store/store_fixture.h"

#include "collector/store/agent_table.h"

static struct store_batch_id batch_by(uint64_t identity, uint64_t agent, uint64_t sequence)
{
	struct store_batch_id batch = batch_of(agent, sequence);

	batch.identity = (struct id128){ identity, 0 };
	return batch;
}

static void note_removed(void *context, const struct agent_entry *entry)
{
	uint32_t *removed = context; // by identity

	removed[entry->identity.high]++;
}

/** Store a batch as the commit does, each in a write of its own. */
static int store_batch(struct agent_table *table, const struct store_batch_id *batch,
		       uint64_t now_ns, uint32_t *removed)
{
	agent_table_begin(table);
	int rc = agent_table_reserve(table, batch, now_ns, removed, note_removed);
	if (rc == 0)
		agent_table_set(table, batch);
	return rc;
}

TEST(agents_expire)
{
	struct agent_table table = { 0 };
	uint32_t removed[2] = { 0 };

	for (uint64_t i = 0; i < 1000; i++) {
		struct store_batch_id batch = batch_by(i % 2, i, i + 1);

		EXPECT_EQ(0, agent_table_find(&table, &batch), "not there yet");
		assert_int_equal(0, store_batch(&table, &batch, i % 2 ? 200 : 100, removed));
	}
	struct store_batch_id batch = batch_by(1, 7, 9);
	EXPECT_EQ(8, agent_table_find(&table, &batch), "the seventh");
	assert_int_equal(0, store_batch(&table, &batch, 200, removed));
	EXPECT_EQ(9, agent_table_find(&table, &batch), "a later batch");
	batch.boot.low++;
	EXPECT_EQ(0, agent_table_find(&table, &batch), "another boot");
	agent_table_expire(&table, 150, removed, note_removed);
	EXPECT_EQ(500, removed[0], "removed");
	EXPECT_EQ(0, removed[1], "kept");
	EXPECT_EQ(500, table.count, "left");
	EXPECT_EQ(1, table.identity_count, "identities left");
	batch = batch_by(1, 7, 1);
	EXPECT_EQ(9, agent_table_find(&table, &batch), "still found");
	batch = batch_by(0, 8, 1);
	EXPECT_EQ(0, agent_table_find(&table, &batch), "gone");
	agent_table_expire(&table, 300, removed, note_removed);
	EXPECT_EQ(0, table.count, "all gone");
	EXPECT_EQ(0, table.identity_count, "no identity");
	assert_int_equal(0, store_batch(&table, &batch, 400, removed));
	agent_table_deinit(&table);
}

TEST(largest_owner_loses_its_entries)
{
	enum { COUNT_MAX = 100, HONEST = 30 };
	struct agent_table table = { .count_max = COUNT_MAX };
	uint32_t removed[2 + HONEST] = { 0 };

	for (uint64_t i = 0; i < HONEST; i++) { // each an identity with one agent
		struct store_batch_id batch = batch_by(2 + i, 1, 7);

		assert_int_equal(0, store_batch(&table, &batch, 10, removed));
	}
	for (uint64_t i = 0; i < 10 * COUNT_MAX; i++) { // one identity invents agents
		struct store_batch_id batch = batch_by(1, i, 1);

		assert_int_equal(0, store_batch(&table, &batch, 20 + i, removed));
	}
	EXPECT_EQ(COUNT_MAX, table.count, "full");
	EXPECT_EQ(10 * COUNT_MAX - (COUNT_MAX - HONEST), removed[1], "its own are evicted");
	EXPECT_EQ(removed[1], table.evicted, "counted");
	for (uint64_t i = 0; i < HONEST; i++) {
		struct store_batch_id batch = batch_by(2 + i, 1, 8), young = batch_by(2 + i, 2, 1);

		EXPECT_EQ(7, agent_table_find(&table, &batch), "an older agent's");
		assert_int_equal(0, store_batch(&table, &young, 5000, removed)); // is accepted
		EXPECT_EQ(0, removed[2 + i], "evicts nobody's but the hostile one's");
	}
	struct store_batch_id first = batch_by(1, 10 * COUNT_MAX - 1, 1);
	EXPECT_EQ(1, agent_table_find(&table, &first), "the oldest go first");
	agent_table_deinit(&table);
}

TEST(pushes_evict_no_agent)
{
	enum { COUNT_MAX = 100, AGENTS = 50, PUSHERS = 10 };
	struct agent_table table = { .count_max = COUNT_MAX };
	uint32_t removed[1 + PUSHERS] = { 0 };

	for (uint64_t i = 0; i < AGENTS; i++) { // they share a token
		struct store_batch_id batch = batch_by(0, i, 7);

		assert_int_equal(0, store_batch(&table, &batch, 10, removed));
	}
	for (uint64_t i = 0; i < 10 * COUNT_MAX; i++) { // each pusher has fewer than they
		struct store_batch_id push = batch_by(1 + i % PUSHERS, 1000 + i, 1);

		push.boot = push.agent;
		assert_int_equal(0, store_batch(&table, &push, 20 + i, removed));
	}
	EXPECT_EQ(0, removed[0], "agents");
	EXPECT_EQ(0, table.evicted, "agents counted");
	EXPECT_EQ(10 * COUNT_MAX - (COUNT_MAX - AGENTS), table.evicted_pushes, "pushes counted");
	for (uint64_t i = 0; i < COUNT_MAX; i++) { // nor do agents evict the last half of pushes
		struct store_batch_id batch = batch_by(0, AGENTS + i, 7);

		assert_int_equal(0, store_batch(&table, &batch, 5000, removed));
	}
	EXPECT_EQ(COUNT_MAX / 2, table.pushes, "pushes left");
	EXPECT_EQ(COUNT_MAX, removed[0], "agents evict agents");
	agent_table_expire(&table, 4000, removed, note_removed);
	EXPECT_EQ(0, table.pushes, "expired");
	agent_table_deinit(&table);
}

TEST(keeps_what_the_same_write_reserved)
{
	struct agent_table table = { .count_max = 3 };
	uint32_t removed[8] = { 0 };

	agent_table_begin(&table);
	for (uint64_t i = 0; i < 3; i++) {
		struct store_batch_id batch = batch_by(i, 1, 1);

		EXPECT_EQ(0, agent_table_reserve(&table, &batch, 10, removed, note_removed),
			  "room");
	}
	struct store_batch_id batch = batch_by(4, 1, 1);
	EXPECT_EQ(-E2BIG, agent_table_reserve(&table, &batch, 10, removed, note_removed), "full");
	for (uint64_t i = 0; i < 3; i++) {
		struct store_batch_id reserved = batch_by(i, 1, 1);

		agent_table_set(&table, &reserved);
	}
	// Time that stands still or runs back evicts nevertheless.
	EXPECT_EQ(0, store_batch(&table, &batch, 5, removed), "the next write");
	EXPECT_EQ(1, removed[0], "the oldest");
	agent_table_deinit(&table);
}

TEST(equals_a_list_of_entries)
{
	enum { KEYS = 64, COUNT_MAX = 20 };
	struct agent_table table = { .count_max = COUNT_MAX };
	uint64_t random = 5, sequences[KEYS] = { 0 };
	uint32_t removed[4] = { 0 };

	for (uint32_t i = 0; i < 20000; i++) {
		random = random * 6364136223846793005ULL + 1442695040888963407ULL;
		uint64_t number = random >> 40 & (KEYS - 1);
		struct store_batch_id batch = batch_by(number % 4, number, i + 1);
		uint64_t last = agent_table_find(&table, &batch);
		uint32_t counted = 0;

		if (last && last != sequences[number])
			fail_msg("%llu, expected %llu or none", (unsigned long long)last,
				 (unsigned long long)sequences[number]);
		assert_int_equal(0, store_batch(&table, &batch, i + 1, removed));
		sequences[number] = i + 1;
		EXPECT_EQ(i + 1, agent_table_find(&table, &batch), "stored");
		if (i % 500 == 499)
			agent_table_expire(&table, i - 10, removed, note_removed);
		for (uint32_t j = 0; j < table.identity_count; j++)
			counted += table.identities[j].count;
		EXPECT_EQ(table.count, counted, "entries of all identities");
		assert_true(table.count <= COUNT_MAX);
	}
	agent_table_deinit(&table);
}

RUN_TESTS(cmocka_unit_test(agents_expire), cmocka_unit_test(largest_owner_loses_its_entries),
	  cmocka_unit_test(pushes_evict_no_agent),
	  cmocka_unit_test(keeps_what_the_same_write_reserved),
	  cmocka_unit_test(equals_a_list_of_entries))
