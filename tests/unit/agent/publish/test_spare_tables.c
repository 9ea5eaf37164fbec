// SPDX-License-Identifier: Apache-2.0
// Which unwind tables give way when the budget or the numbers are used up.

#include <errno.h>

#include "tests/test.h"

#include "base/clock.h"
#include "base/hash_table.h"
#include "tests/unit/agent/publish/unwind_tables_fixture.h"

TEST(evicts_unneeded_then_least_recently_used)
{
	uint64_t now = clock_monotonic_ns(), later = now + MINUTE_NS;
	uint32_t files[4];

	open_world(1 << 20);
	uint32_t wanting = want(make_file(9, (struct order){ .rc = -EBADMSG }));
	files[0] = load(0, 3, 1, false);
	files[1] = load(1, 3, 1, false);
	files[2] = load(2, 2, 1, true);
	files[3] = load(3, 4, 1, true);
	for (uint64_t i = 0; i < 4; i++) { // of those needed the second's use is longest ago
		unwind_tables_hold(tables, files[i]);
		unwind_tables_use(tables, files[i], now + (i == 1 ? 10 : 20) * NS_PER_SECOND);
	}
	EXPECT_EQ(12 * 4096, unwind_tables_spare_bytes(tables, later, 0, wanting), "all could go");
	EXPECT_EQ(6 * 4096, unwind_tables_spare_bytes(tables, later, MINUTE_NS, wanting),
		  "but not what is in use");
	static const uint32_t order[] = { 3, 2, 1, 0 };
	for EACH (i, order) {
		EXPECT_EQ(files[*i], unwind_tables_victim(tables, later, 0, wanting),
			  "the next one");
		give_up(files[*i]);
	}
	EXPECT_EQ(HASH_TABLE_NONE, unwind_tables_victim(tables, later, 0, wanting), "none is left");
	close_world();
}

static uint32_t load_missed_of(uint64_t payer, uint8_t id, uint32_t pages, uint32_t misses)
{
	struct executable *executable =
		make_file_of(payer, id, (struct order){ .pages = pages, .rules = 1 });
	uint32_t file = want(executable);

	for (uint32_t i = 0; i < misses; i++)
		unwind_tables_miss(tables, file, executable);
	settle();
	return file;
}

static uint32_t load_missed(uint8_t id, uint32_t pages, uint32_t misses)
{
	return load_missed_of(0, id, pages, misses);
}

/* However many samples need its tables: a hostile one makes as many as it likes. */
TEST(one_payers_tables_keep_no_other_out)
{
	uint64_t now = clock_monotonic_ns();

	open_world(100 * 4096);
	uint32_t many = load_missed_of(7, 1, 40, 90), few = load_missed_of(7, 2, 40, 80);
	uint32_t file = load_missed_of(8, 3, 35, 1);
	EXPECT_EQ(UNWIND_FILE_NO_SPACE, state_of(file), "too large");
	EXPECT_EQ(40 * 4096, unwind_tables_spare_bytes(tables, now, MINUTE_NS, file),
		  "one of the two");
	EXPECT_EQ(few, unwind_tables_victim(tables, now, MINUTE_NS, file), "that fewer need");
	give_up(few);
	EXPECT_EQ(HASH_TABLE_NONE, unwind_tables_victim(tables, now, MINUTE_NS, file), "no more");
	EXPECT_EQ(UNWIND_FILE_READY, state_of(many), "the other stays");
	close_world();
}

TEST(many_samples_push_out_up_to_half)
{
	uint64_t now = clock_monotonic_ns();

	open_world(100 * 4096);
	load_missed_of(7, 1, 30, 90);
	uint32_t rare = load_missed_of(8, 2, 40, 1);
	uint32_t larger = load_missed_of(7, 3, 45, 90), smaller = load_missed_of(9, 4, 45, 90);
	EXPECT_EQ(HASH_TABLE_NONE, unwind_tables_victim(tables, now, MINUTE_NS, larger),
		  "it would have more than half");
	EXPECT_EQ(rare, unwind_tables_victim(tables, now, MINUTE_NS, smaller), "a newcomer");
	close_world();
}

TEST(evicts_tables_of_few_for_many)
{
	uint64_t now = clock_monotonic_ns();

	open_world(100 * 4096);
	uint32_t few = load_missed(1, 30, 3), some = load_missed(2, 40, 9);
	uint32_t file = load_missed(3, 45, 13);
	EXPECT_EQ(UNWIND_FILE_NO_SPACE, state_of(file), "too large");
	// 15 pages and a 64th of 100.
	EXPECT_EQ(15 * 4096 + 6400, unwind_tables_shortage(tables, file), "what it lacks");
	EXPECT_EQ(HASH_TABLE_NONE, unwind_tables_victim(tables, now, MINUTE_NS, file),
		  "13 are not more than four times 3");
	file = load_missed(4, 45, 40);
	EXPECT_EQ(70 * 4096, unwind_tables_spare_bytes(tables, now, MINUTE_NS, file),
		  "both may go");
	EXPECT_EQ(few, unwind_tables_victim(tables, now, MINUTE_NS, file),
		  "the one that fewer need");
	give_up(few);
	EXPECT_EQ(some, unwind_tables_victim(tables, now, MINUTE_NS, file), "then the other");
	close_world();
}

TEST(evicts_unmapped_tables_first)
{
	open_world(100 * 4096);
	uint32_t left = load_missed(1, 40, 9), mapped = load_missed(2, 30, 9);
	uint32_t file = load_missed(3, 45, 1);
	uint64_t now;

	EXPECT_EQ(UNWIND_FILE_NO_SPACE, state_of(file), "too large");
	for (uint32_t each = left; each != HASH_TABLE_NONE;
	     each = each == left ? mapped : HASH_TABLE_NONE) {
		unwind_tables_hold(tables, each);
		unwind_tables_use(tables, each, clock_monotonic_ns());
	}
	now = clock_monotonic_ns();
	EXPECT_EQ(HASH_TABLE_NONE, unwind_tables_victim(tables, now + 6 * MINUTE_NS, HOUR_NS, file),
		  "in use");
	unwind_tables_release(tables, left);
	// Compilers come back at once.
	EXPECT_EQ(HASH_TABLE_NONE, unwind_tables_victim(tables, now, HOUR_NS, file),
		  "left just now");
	EXPECT_EQ(left, unwind_tables_victim(tables, now + 6 * MINUTE_NS, HOUR_NS, file),
		  "left for more than a twelfth of an hour");
	unwind_tables_release(tables, mapped);
	close_world();
}

TEST(evicts_unmapped_tables_at_half_the_budget)
{
	uint32_t files[3];

	open_world(20 * 4096);
	for (uint8_t i = 0; i < 3; i++) {
		files[i] = load(i, 4, 1, false);
		unwind_tables_hold(tables, files[i]);
	}
	unwind_tables_release(tables, files[1]);
	unwind_tables_release(tables, files[2]);
	uint64_t now = clock_monotonic_ns();
	unwind_tables_trim(tables, now, MINUTE_NS);
	EXPECT_EQ(UNWIND_FILE_READY, state_of(files[1]), "mapped until a moment ago");
	unwind_tables_trim(tables, now + 2 * MINUTE_NS, MINUTE_NS);
	EXPECT_EQ(UNWIND_FILE_READY, state_of(files[0]), "mapped");
	EXPECT_EQ(UNWIND_FILE_IDLE, state_of(files[1]), "not mapped");
	EXPECT_EQ(UNWIND_FILE_READY, state_of(files[2]), "8 of 20 pages are less than half");
	close_world();
}

TEST(keeps_tables_being_rebuilt)
{
	struct unwind_tables_stats stats;

	open_world(20 * 4096);
	struct executable *renewed = make_file(1, (struct order){ .pages = 8, .rules = 1 });
	uint32_t file = want(renewed), other = load(2, 4, 1, true);
	pthread_mutex_lock(&building);
	begin_renewal(file, renewed, 0);
	uint32_t victim = unwind_tables_victim(tables, UINT64_MAX, 0, other);
	uint64_t spare = unwind_tables_spare_bytes(tables, UINT64_MAX, 0, other);
	unwind_tables_trim(tables, UINT64_MAX, 0);
	pthread_mutex_unlock(&building);
	EXPECT_EQ(other, victim, "not the largest");
	EXPECT_EQ(4 * 4096, spare, "could go");
	EXPECT_EQ(UNWIND_FILE_READY, state_of(file), "not trimmed");
	EXPECT_EQ(UNWIND_FILE_IDLE, state_of(other), "trimmed");
	for (uint64_t before = changed_of(file); changed_of(file) == before;)
		take_built();
	unwind_tables_read_stats(tables, &stats);
	EXPECT_EQ(8 * 4096, stats.bytes, "counted once");
	EXPECT_EQ(file, unwind_tables_victim(tables, UINT64_MAX, 0, other), "then it may go");
	close_world();
}

/* Tables that stacks were seen to need, for all numbers that there are. */
static void take_all_numbers(void)
{
	for (uint16_t id = 0; id < UNWIND_TABLES_MAX; id += 64) {
		struct executable *batch[64];

		for (uint16_t i = 0; i < 64; i++) {
			batch[i] = make_file((uint16_t)(id + i),
					     (struct order){ .pages = 1, .rules = 1 });
			unwind_tables_miss(tables, want(batch[i]), batch[i]);
		}
		settle();
		for (uint16_t i = 0; i < 64; i++)
			executable_release(batch[i]);
		executable_table_trim(executables); // only so many are kept open
	}
}

static uint64_t ready(void)
{
	struct unwind_tables_stats stats;

	unwind_tables_read_stats(tables, &stats);
	return stats.ready;
}

TEST(evicts_a_table_for_a_free_number)
{
	const struct order order = { .pages = 1, .rules = 1 };
	uint32_t wanting, none;

	open_world(1 << 30);
	take_all_numbers();
	EXPECT_EQ(UNWIND_TABLES_MAX, ready(), "all are in use");
	EXPECT_EQ(UNWIND_FILE_IDLE, state_of(want(make_file(5000, order))), "a guess");
	struct executable *missed = make_file(6000, order);
	uint32_t file = want(missed);
	unwind_tables_miss(tables, file, missed);
	EXPECT_EQ(UNWIND_FILE_NO_SPACE, state_of(file), "no number is left");
	unwind_tables_read(tables, &wanting);
	EXPECT_EQ(file, wanting, "it wants one");
	unwind_tables_read(tables, &none);
	EXPECT_EQ(HASH_TABLE_NONE, none, "reported once");

	uint32_t victim = unwind_tables_victim(tables, UINT64_MAX, 0, wanting);
	assert_true(victim != HASH_TABLE_NONE);
	EXPECT_EQ(0, unwind_tables_shortage(tables, wanting), "any will do");
	give_up(victim);
	take_built();
	assert_true(unwind_tables_file(tables, file)->changed != 0); // so that it is wanted again
	EXPECT_EQ(file, want(missed), "as this does");
	EXPECT_EQ(UNWIND_FILE_PENDING, state_of(file), "at once");
	settle();
	EXPECT_EQ(UNWIND_FILE_READY, state_of(file), "with the number of the other");
	close_world();
}

TEST(evicts_unmapped_tables_at_half_the_numbers)
{
	open_world(1 << 30);
	take_all_numbers();
	for (int i = 0; i < 40; i++)
		unwind_tables_trim(tables, UINT64_MAX, 0);
	EXPECT_EQ(UNWIND_TABLES_MAX / 2, ready(), "left");
	close_world();
}

TEST(keeps_the_budget_by_evicting)
{
	struct unwind_tables_stats stats;

	open_world(10 * 4096);
	uint32_t old = load(1, 4, 1, false);
	load(2, 4, 1, false);
	struct executable *third = make_file(3, (struct order){ .pages = 4, .rules = 1 });
	uint32_t file = want(third);
	unwind_tables_miss(tables, file, third);
	EXPECT_EQ(file, settle(), "wants room");
	EXPECT_EQ(UNWIND_FILE_NO_SPACE, state_of(file), "has none");
	EXPECT_EQ(4 * 4096, unwind_tables_file(tables, file)->bytes, "so much");
	want(third);
	EXPECT_EQ(UNWIND_FILE_NO_SPACE, state_of(file), "is not built again at once");
	unwind_tables_read_stats(tables, &stats);
	EXPECT_EQ(8 * 4096, stats.bytes, "within the budget");
	EXPECT_EQ(1, stats.refused, "counted");

	uint32_t number = unwind_tables_file(tables, old)->number;
	give_up(old);
	unwind_tables_retry(tables, file);
	want(third);
	settle();
	EXPECT_EQ(UNWIND_FILE_READY, state_of(file), "there is room");
	assert_true(unwind_tables_file(tables, file)->number != number); // it waited behind
	assert_null(maps_double.tables[number]);
	unwind_tables_read_stats(tables, &stats);
	EXPECT_EQ(8 * 4096, stats.bytes, "as before");
	EXPECT_EQ(1, stats.evicted, "counted");
	close_world();
}

RUN_TESTS(cmocka_unit_test(evicts_unneeded_then_least_recently_used),
	  cmocka_unit_test(one_payers_tables_keep_no_other_out),
	  cmocka_unit_test(many_samples_push_out_up_to_half),
	  cmocka_unit_test(evicts_tables_of_few_for_many),
	  cmocka_unit_test(evicts_unmapped_tables_first),
	  cmocka_unit_test(evicts_unmapped_tables_at_half_the_budget),
	  cmocka_unit_test(keeps_tables_being_rebuilt),
	  cmocka_unit_test(evicts_a_table_for_a_free_number),
	  cmocka_unit_test(evicts_unmapped_tables_at_half_the_numbers),
	  cmocka_unit_test(keeps_the_budget_by_evicting))
