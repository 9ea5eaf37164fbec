// SPDX-License-Identifier: Apache-2.0
// Threads in `cairn top`: what each did with its time.

#include "tests/test.h"

#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/contract/thread_states.h"
#include "cli/thread_table.h"

static const struct stated {
	const char *type, *process, *thread, *state, *wait;
	int64_t value;
} samples[] = {
	{ PROFILE_TYPE_WALL, "llm", "tokenizer-N", THREAD_STATE_RUNNING, NULL, 10 },
	{ PROFILE_TYPE_WALL, "llm", "tokenizer-N", THREAD_STATE_BLOCKED, "gil", 25 },
	{ PROFILE_TYPE_WALL, "llm", "tokenizer-N", THREAD_STATE_BLOCKED, "lock", 5 },
	{ PROFILE_TYPE_WALL, "llm", "main", THREAD_STATE_RUN_QUEUE, NULL, 20 },
	{ PROFILE_TYPE_WALL, "llm", "main", THREAD_STATE_BLOCKED, "gpu", 60 },
	{ PROFILE_TYPE_WALL, "web", "main", THREAD_STATE_RUNNING, NULL, 80 },
	{ PROFILE_TYPE_CPU, "web", "main", NULL, NULL, 7 },
};

static void build(const char *type, struct thread_table *ret_table)
{
	struct profile *profile = profile_new(1000000000);
	struct error err = { 0 };

	for EACH (sample, samples) {
		struct labels labels = { 0 };
		uint32_t series, stack;

		assert_int_equal(0, labels_set(&labels, LABEL_PROCESS, sample->process));
		assert_int_equal(0, labels_set(&labels, LABEL_THREAD, sample->thread));
		if (sample->state)
			assert_int_equal(0, labels_set(&labels, LABEL_STATE, sample->state));
		if (sample->wait)
			assert_int_equal(0, labels_set(&labels, LABEL_WAIT, sample->wait));
		assert_int_equal(0, profile_add_series(profile, &labels, sample->type, &series));
		assert_int_equal(0,
				 profile_add_stack(profile, NULL, 0, STACK_END_COMPLETE, &stack));
		assert_int_equal(0, profile_add_sample(profile, series, stack, 1, sample->value));
		labels_deinit(&labels);
	}
	assert_int_equal(0, thread_table_build(profile, type, ret_table, &err));
	assert_int_equal(0, thread_table_select(ret_table, ""));
	profile_free(profile);
}

static void expect_row(const struct thread_table *table, uint32_t at, const char *process,
		       const char *thread, const int64_t *parts)
{
	const struct thread_row *row = &table->rows[table->shown[at]];

	EXPECT_STR(process, string_table_get(&table->strings, row->process), thread);
	EXPECT_STR(thread, string_table_get(&table->strings, row->thread), process);
	for (int part = 0; part < TIME_PART_COUNT; part++)
		EXPECT_EQ(parts[part], row->parts[part], time_part_key((enum time_part)part));
}

TEST(divides_wall_clock_time_by_what_threads_did)
{
	struct thread_table table;

	build(PROFILE_TYPE_WALL, &table);
	EXPECT_EQ(3, table.shown_count, "threads of one name of one process are a row");
	EXPECT_EQ(200, table.total, "total");
	expect_row(&table, 0, "llm", "main", (int64_t[]){ 0, 20, 0, 60, 0 });
	expect_row(&table, 1, "web", "main", (int64_t[]){ 80, 0, 0, 0, 0 });
	expect_row(&table, 2, "llm", "tokenizer-N", (int64_t[]){ 10, 0, 25, 0, 5 });
	assert_int_equal(0, thread_table_select(&table, "LLM"));
	EXPECT_EQ(2, table.shown_count, "by process");
	assert_int_equal(0, thread_table_select(&table, "token"));
	EXPECT_EQ(1, table.shown_count, "by thread");
	thread_table_deinit(&table);
}

TEST(cpu_time_has_no_parts)
{
	struct thread_table table;

	build(PROFILE_TYPE_CPU, &table);
	EXPECT_EQ(1, table.shown_count, "only this type");
	EXPECT_EQ(7, table.total, "total");
	assert_false(table.has_parts);
	thread_table_deinit(&table);
}

RUN_TESTS(cmocka_unit_test(divides_wall_clock_time_by_what_threads_did),
	  cmocka_unit_test(cpu_time_has_no_parts))
