// SPDX-License-Identifier: Apache-2.0
// Unwind tables in the kernel: built once per file, within a budget, in order, again when their file is analyzed.

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "tests/test.h"

#include "base/hash_table.h"
#include "tests/unit/agent/publish/unwind_tables_fixture.h"

TEST(builds_and_installs_a_file_once)
{
	open_world(1 << 20);
	struct executable *a = make_file(1, (struct order){ .pages = 3, .rules = 5 });
	uint32_t file = want(a);

	EXPECT_EQ(UNWIND_FILE_PENDING, state_of(file), "at first");
	EXPECT_EQ(file, want(a), "known");
	settle();
	EXPECT_EQ(UNWIND_FILE_READY, state_of(file), "then");
	want(a);
	settle();
	EXPECT_EQ(1, builds, "builds");

	const struct unwind_file *ready = unwind_tables_file(tables, file);
	EXPECT_EQ(3 * 4096, ready->bytes, "its memory");
	EXPECT_EQ(1, ready->extent.block_count, "its blocks");
	EXPECT_EQ(IMAGE_ADDRESS, ready->extent.segments[0].address, "its segment");
	EXPECT_EQ(3, maps_double.table_pages[ready->number], "in the kernel");
	close_world();
}

TEST(same_build_id_has_separate_tables)
{
	open_world(1 << 20);
	uint32_t forged = want(make_file(1, (struct order){ .pages = 1, .rules = 1 }));
	settle();
	uint32_t libc = want(make_file(1, (struct order){ .pages = 3, .rules = 5 }));
	settle();
	EXPECT_EQ(2, builds, "builds");
	EXPECT_EQ(1 * 4096, unwind_tables_file(tables, forged)->bytes, "the first");
	EXPECT_EQ(3 * 4096, unwind_tables_file(tables, libc)->bytes, "the other");
	close_world();
}

TEST(a_file_written_meanwhile_gives_no_table)
{
	static const char byte = 1;
	struct file_version version;

	open_world(1 << 20);
	struct executable *executable = make_file(1, (struct order){ .pages = 3, .rules = 5 });
	int fd = executable_open_file(executable, &version);
	pthread_mutex_lock(&building);
	while (sem_trywait(&asked) == 0)
		;
	uint32_t file = want(executable);
	assert_int_equal(UNWIND_FILE_PENDING, state_of(file));
	wait_for_build();
	usleep(20000); // the kernel's clock of files is coarse
	assert_int_equal(1, pwrite(fd, &byte, 1, IMAGE_TEXT));
	close(fd);
	pthread_mutex_unlock(&building);
	settle();
	EXPECT_EQ(UNWIND_FILE_IDLE, state_of(file), "not its writer's word");
	EXPECT_EQ(true, executable_open_file(executable, &version) < 0, "closed");

	// An unwritten copy.
	assert_ptr_equal(executable, make_file(1, (struct order){ .pages = 3, .rules = 5 }));
	EXPECT_EQ(file, want(executable), "the same content");
	settle();
	EXPECT_EQ(UNWIND_FILE_READY, state_of(file), "built from the copy");
	close_world();
}

TEST(rules_get_the_shared_numbers)
{
	open_world(1 << 20);
	uint32_t first = want(make_file(1, (struct order){ .pages = 1, .rules = 3 }));
	settle();
	uint32_t second = want(make_file(2, (struct order){ .pages = 2, .rules = 3 }));
	settle();

	for (uint32_t i = 0; i < 2; i++) {
		const struct unwind_file *file = unwind_tables_file(tables, i ? second : first);
		const uint32_t *words = maps_double.tables[file->number]->words;

		EXPECT_EQ(2, words[0], "the index is as it was");
		for (uint32_t j = 2; j < TABLE_PAGE_WORDS; j++) {
			const struct unwind_rule *rule =
				&maps_double.rules[words[j] & TABLE_RULE_MASK];

			EXPECT_EQ((int32_t)((i + 1) << 16 | (j % 3 + 1)), rule->cfa_offset, "rule");
			EXPECT_EQ(j & 4095, words[j] >> TABLE_RULE_BITS, "row");
		}
	}
	close_world();
}

static const struct {
	const char *what;
	struct order order;
	const char *reason; // NULL: that is no failure
} failures[] = {
	{ "no unwind information", { .pages = 0 }, NULL },
	{ "it cannot be compiled", { .rc = -ENOEXEC }, "a.so: as ordered" },
	{ "larger than all the room",
	  { .pages = 300, .rules = 1 },
	  "a.so: table dropped: kernel memory for tables full (needs 1200 KiB)" },
	{ "an index that leads out",
	  { .pages = 1, .rules = 1, .broken = 1 },
	  "a.so: table is inconsistent" },
	{ "a rule that is not there",
	  { .pages = 1, .rules = 1, .broken = 2 },
	  "a.so: table is inconsistent" },
};

TEST(caches_unusable_files_with_reason)
{
	for EACH (row, failures) {
		struct unwind_tables_stats stats;

		open_world(1 << 20);
		struct executable *a = make_file(1, row->order);
		uint32_t file = want(a);
		settle();
		EXPECT_EQ(UNWIND_FILE_NONE, state_of(file), row->what);
		want(a);
		settle();
		EXPECT_EQ(1, builds, row->what);
		unwind_tables_read_stats(tables, &stats);
		EXPECT_EQ(row->reason != NULL, stats.failed, row->what);
		EXPECT_EQ(0, stats.bytes, row->what);
		EXPECT_EQ(1, stats.rules, row->what);
		if (row->reason)
			EXPECT_STR(row->reason, stats.last_failure.text, row->what);
		close_world();
	}
}

TEST(does_not_build_what_cannot_fit)
{
	open_world(1 << 20);
	want(make_file(1, (struct order){ .pages = 3, .rules = 5 }));
	settle();
	EXPECT_EQ((1 << 20) / 2 / 4, rows_max_asked, "words in half of the room");
	close_world();
	open_world(1 << 30);
	want(make_file(1, (struct order){ .pages = 3, .rules = 5 }));
	settle();
	EXPECT_EQ(UNWIND_TABLE_ROWS_MAX, rows_max_asked, "however much room there is");
	close_world();
}

TEST(survives_a_kernel_that_refuses)
{
	struct unwind_tables_stats stats;

	open_world(1 << 20);
	maps_double.install_rc = -EPERM;
	uint32_t a = want(make_file(1, (struct order){ .pages = 1, .rules = 2 }));
	settle();
	EXPECT_EQ(UNWIND_FILE_NONE, state_of(a), "install");
	maps_double.install_rc = 0;
	maps_double.create_rc = -ENOMEM;
	uint32_t b = want(make_file(2, (struct order){ .pages = 2, .rules = 2 }));
	settle();
	EXPECT_EQ(UNWIND_FILE_NONE, state_of(b), "create");
	unwind_tables_read_stats(tables, &stats);
	EXPECT_EQ(1, stats.rules, "no rule is left behind");
	EXPECT_EQ(0, stats.bytes, "no bytes");
	maps_double.create_rc = 0;
	uint32_t c = want(make_file(3, (struct order){ .pages = 3, .rules = 2 }));
	settle();
	EXPECT_EQ(UNWIND_FILE_READY, state_of(c), "the next one is used");
	close_world();
}

TEST(builds_most_missed_then_smallest_first)
{
	open_world(1 << 20);
	sem_init(&asked, 0, 0);
	pthread_mutex_lock(&building);
	// The first is with the builder before the others come, which wait.
	uint32_t first = want(make_file(1, (struct order){ .pages = 1, .rules = 1 }));
	wait_for_build();
	struct executable *missed = make_file(2, (struct order){ .pages = 2, .rules = 1 });
	unwind_tables_want(tables, make_file(3, (struct order){ .pages = 3, .rules = 1 }), 4096);
	uint32_t file = unwind_tables_want(tables, missed, 1 << 20);
	unwind_tables_want(tables, make_file(4, (struct order){ .pages = 4, .rules = 1 }), 8192);
	unwind_tables_miss(tables, file, missed);
	pthread_mutex_unlock(&building);
	settle();
	EXPECT_EQ(UNWIND_FILE_READY, state_of(first), "all are built");
	EXPECT_EQ(1, order_of[1], "before the others came");
	EXPECT_EQ(2, order_of[2], "the one that was missed, though it is large");
	EXPECT_EQ(3, order_of[3], "the smallest");
	EXPECT_EQ(4, order_of[4], "the rest");
	close_world();
}

TEST(a_payer_past_its_share_waits)
{
	open_world(1 << 20);
	sem_init(&asked, 0, 0);
	pthread_mutex_lock(&building);
	want(make_file_of(7, 1, (struct order){ .pages = 1, .rules = 1, .cpu_ms = 300 }));
	wait_for_build();
	// Heavier, and there before the other.
	struct executable *missed = make_file_of(7, 2, (struct order){ .pages = 2, .rules = 1 });
	unwind_tables_miss(tables, want(missed), missed);
	unwind_tables_want(tables, make_file_of(8, 3, (struct order){ .pages = 3, .rules = 1 }),
			   1 << 20);
	pthread_mutex_unlock(&building);
	settle();
	EXPECT_EQ(1, order_of[1], "the long one");
	EXPECT_EQ(2, order_of[3], "another payer's");
	EXPECT_EQ(3, order_of[2], "the next of the first payer");
	close_world();
}

TEST(one_payers_queue_leaves_places)
{
	struct unwind_tables_stats stats;

	open_world(64 << 20);
	sem_init(&asked, 0, 0);
	pthread_mutex_lock(&building);
	for (uint16_t i = 1; i <= 300; i++)
		want(make_file_of(7, i, (struct order){ .pages = 1, .rules = 1 }));
	unwind_tables_read_stats(tables, &stats);
	uint32_t file = want(make_file_of(8, 301, (struct order){ .pages = 1, .rules = 1 }));
	enum unwind_file_state first = state_of(file);
	pthread_mutex_unlock(&building);
	EXPECT_EQ(128, stats.pending, "of the first payer");
	EXPECT_EQ(UNWIND_FILE_PENDING, first, "another payer's");
	settle();
	EXPECT_EQ(UNWIND_FILE_READY, state_of(file), "another payer's");
	// The first's places are free again.
	file = want(make_file_of(7, 302, (struct order){ .pages = 1, .rules = 1 }));
	EXPECT_EQ(UNWIND_FILE_PENDING, state_of(file), "the first payer's");
	settle();
	close_world();
}

TEST(prefetches_fill_half_the_budget)
{
	struct unwind_tables_stats stats;
	struct executable *large;
	uint32_t file;

	open_world(100 * 4096);
	want(make_file(1, (struct order){ .pages = 40, .rules = 1 }));
	settle();
	large = make_file(2, (struct order){ .pages = 30, .rules = 1 });
	file = unwind_tables_want(tables, large, 12 * 30 * 4096);
	EXPECT_EQ(UNWIND_FILE_IDLE, state_of(file), "large, and no sample needs it");
	EXPECT_EQ(UNWIND_FILE_PENDING,
		  state_of(want(make_file(3, (struct order){ .pages = 1, .rules = 1 }))),
		  "small ones are built all the same");
	settle();
	unwind_tables_miss(tables, file, large);
	EXPECT_EQ(UNWIND_FILE_PENDING, state_of(file), "missed");
	settle();
	EXPECT_EQ(UNWIND_FILE_READY, state_of(file), "there is room for what is needed");
	unwind_tables_read_stats(tables, &stats);
	EXPECT_EQ(71 * 4096, stats.bytes, "in all");
	close_world();
}

TEST(one_process_fills_unused_space)
{
	const struct order order = { .pages = 12, .rules = 1 };

	open_world(20 * 4096);
	struct executable *executable = make_file(1, order);
	uint32_t file = unwind_tables_want(tables, executable, 12 * 12 * 4096);
	EXPECT_EQ(UNWIND_FILE_IDLE, state_of(file), "more than half");
	unwind_tables_prefetch_all(tables);
	unwind_tables_want(tables, executable, 12 * 12 * 4096);
	EXPECT_EQ(UNWIND_FILE_PENDING, state_of(file), "there are no others");
	close_world();
}

TEST(a_table_lacks_functions_until_they_are_analyzed)
{
	const struct order order = { .pages = 4, .rules = 1 };

	open_world(100 * 4096);
	struct executable *executable = make_file(1, order);
	uint32_t file = want(executable);
	settle();
	EXPECT_EQ(false, unwind_tables_lacks_analyzed(tables, file), "none is known");
	unwind_tables_analyze(tables, file, executable, IMAGE_TEXT, 16);
	EXPECT_EQ(true, unwind_tables_lacks_analyzed(tables, file), "one is known");
	usleep(110000); // one looks for them only so often
	unwind_tables_renew(tables);
	EXPECT_EQ(true, unwind_tables_lacks_analyzed(tables, file), "being built");
	take_built();
	EXPECT_EQ(false, unwind_tables_lacks_analyzed(tables, file), "built");
	close_world();
}

TEST(caches_costly_tables_only)
{
	static const struct order cheap = { .pages = 1, .rules = 1, .rows = 5 },
				  costly = { .pages = 1, .rules = 1, .rows = 5, .cpu_ms = 2 };
	char folder[] = "/tmp/cairn-unwind-tables-XXXXXX", command[64];
	struct unwind_tables_stats stats;

	assert_non_null(mkdtemp(folder));
	for (int start = 0; start < 2; start++) {
		open_world_with(folder, 100 * 4096);
		want(make_file(1, cheap));
		want(make_file(2, costly));
		settle();
		unwind_tables_read_stats(tables, &stats);
		EXPECT_EQ(start, stats.from_disk, start ? "the costly one" : "none is there");
		close_world();
	}
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(0, system(command));
}

TEST(loads_analyzed_functions_from_disk)
{
	const struct order order = { .pages = 20, .rules = 1, .rows = 20000, .cpu_ms = 2 };
	char folder[] = "/tmp/cairn-unwind-tables-XXXXXX", command[64];

	assert_non_null(mkdtemp(folder));
	open_world_with(folder, 100 * 4096);
	struct executable *executable = make_file(1, order);
	uint32_t file = want(executable);
	settle();
	begin_renewal(file, executable, 0);
	take_built();
	close_world();

	open_world_with(folder, 100 * 4096);
	executable = make_file(1, order);
	file = want(executable);
	settle();
	struct unwind_tables_stats stats;
	unwind_tables_read_stats(tables, &stats);
	EXPECT_EQ(UNWIND_FILE_READY, state_of(file), "at once");
	EXPECT_EQ(1, stats.from_disk, "it is the same file");
	usleep(110000);
	unwind_tables_renew(tables);
	struct pollfd fd = { .fd = unwind_tables_fd(tables), .events = POLLIN };
	EXPECT_EQ(0, poll(&fd, 1, 500), "nothing is built again");
	close_world();
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(0, system(command));
}

static uint32_t open_descriptors(void)
{
	DIR *folder = opendir("/proc/self/fd");
	uint32_t count = 0;

	assert_non_null(folder);
	while (readdir(folder))
		count++;
	closedir(folder);
	return count;
}

TEST(keeps_analyzed_files_open_while_needed)
{
	enum { FILES = 100, OPEN_MAX = 64 };
	struct executable *files[FILES];
	uint32_t numbers[FILES];

	open_world(1 << 30);
	for (uint16_t i = 0; i < FILES; i++) {
		files[i] = make_file(i, (struct order){ .pages = 1, .rules = 1 });
		numbers[i] = want(files[i]);
	}
	settle();
	uint32_t before = open_descriptors(), built = builds;
	for (int i = 0; i < FILES; i++)
		unwind_tables_analyze(tables, numbers[i], files[i], IMAGE_TEXT, 16);
	EXPECT_EQ(before + OPEN_MAX, open_descriptors(), "so many are kept open");
	give_up(numbers[0]);
	EXPECT_EQ(before + OPEN_MAX - 1, open_descriptors(), "not for evicted tables");
	for (int i = 0; i < 2; i++) { // as many as are open, then the others
		for (int j = 1; j < FILES; j++)
			want(files[j]);
		usleep(110000);
		unwind_tables_renew(tables);
		while (open_descriptors() > before)
			take_built();
		EXPECT_EQ(built + (i ? FILES - 1 : OPEN_MAX), builds, "built again");
	}
	close_world();
}

TEST(a_prefetch_without_room_waits_for_demand)
{
	open_world(10 * 4096);
	// Its size promises less than its table turns out to be.
	struct executable *file = make_file(1, (struct order){ .pages = 3, .rules = 1 });
	load(2, 4, 1, false);
	load(3, 4, 1, false);
	EXPECT_EQ(UNWIND_FILE_IDLE, state_of(want(file)), "half is used");
	close_world();
}

TEST(rebuilds_evicted_tables_on_demand)
{
	open_world(1 << 20);
	struct executable *a = make_file(1, (struct order){ .pages = 1, .rules = 1 });
	uint32_t file = want(a);
	settle();
	give_up(file);
	EXPECT_EQ(UNWIND_FILE_IDLE, state_of(file), "not known to be needed");
	unwind_tables_miss(tables, file, a);
	settle();
	EXPECT_EQ(UNWIND_FILE_READY, state_of(file), "again");
	EXPECT_EQ(2, builds, "builds");
	close_world();
}

TEST(limits_rules_as_well)
{
	open_world(64 << 20);
	for (uint32_t i = 1; i <= 4; i++)
		EXPECT_EQ(UNWIND_FILE_READY, state_of(load((uint8_t)i, i, 4000, true)), "16,000");
	struct executable *last = make_file(9, (struct order){ .pages = 9, .rules = 4000 });
	uint32_t file = want(last);
	unwind_tables_miss(tables, file, last);
	settle();
	EXPECT_EQ(UNWIND_FILE_NO_SPACE, state_of(file), "20,000 are too many");
	EXPECT_EQ(UNWIND_FILE_READY, state_of(load(10, 10, 300, true)), "fewer fit");
	close_world();
}

TEST(retries_a_file_that_is_not_open)
{
	open_world(1 << 20);
	struct executable *a = make_file(1, (struct order){ .pages = 1, .rules = 1 });

	executable_release(a);
	executable_table_trim(executables); // closes what is not held
	uint32_t file = want(a);
	EXPECT_EQ(UNWIND_FILE_UNOPENED, state_of(file), "closed");
	a = make_file(1, (struct order){ .pages = 1, .rules = 1 });
	EXPECT_EQ(file, want(a), "the same file");
	settle();
	EXPECT_EQ(UNWIND_FILE_READY, state_of(file), "open");
	close_world();
}

TEST(closing_does_not_wait_for_queued_builds)
{
	open_world(1 << 20);
	for (int i = 0; i < 100; i++)
		want(make_file((uint8_t)i, (struct order){ .pages = 1, .rules = 1 }));
	close_world(); // no leak, no crash: for the sanitizers
}

RUN_TESTS(cmocka_unit_test(builds_and_installs_a_file_once),
	  cmocka_unit_test(same_build_id_has_separate_tables),
	  cmocka_unit_test(a_file_written_meanwhile_gives_no_table),
	  cmocka_unit_test(rules_get_the_shared_numbers),
	  cmocka_unit_test(caches_unusable_files_with_reason),
	  cmocka_unit_test(does_not_build_what_cannot_fit),
	  cmocka_unit_test(survives_a_kernel_that_refuses),
	  cmocka_unit_test(builds_most_missed_then_smallest_first),
	  cmocka_unit_test(a_payer_past_its_share_waits),
	  cmocka_unit_test(one_payers_queue_leaves_places),
	  cmocka_unit_test(prefetches_fill_half_the_budget),
	  cmocka_unit_test(keeps_analyzed_files_open_while_needed),
	  cmocka_unit_test(one_process_fills_unused_space),
	  cmocka_unit_test(a_table_lacks_functions_until_they_are_analyzed),
	  cmocka_unit_test(caches_costly_tables_only),
	  cmocka_unit_test(loads_analyzed_functions_from_disk),
	  cmocka_unit_test(a_prefetch_without_room_waits_for_demand),
	  cmocka_unit_test(rebuilds_evicted_tables_on_demand),
	  cmocka_unit_test(limits_rules_as_well), cmocka_unit_test(retries_a_file_that_is_not_open),
	  cmocka_unit_test(closing_does_not_wait_for_queued_builds))
