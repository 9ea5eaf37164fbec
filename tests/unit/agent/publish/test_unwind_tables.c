// SPDX-License-Identifier: Apache-2.0
// Unwind tables in the kernel: built once per file, within a budget, evicted when long unused. The
// kernel's maps are a double, and so is the compiler of call frame information: a file holds how
// large its table is to be.

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "tests/test.h"

#include "agent/unwind/unwind_table_build.h"
#include "agent/publish/unwind_tables.h"
#include "base/clock.h"
#include "base/hash_table.h"
#include "tests/unit/agent/elf/elf_writer.h"
#include "tests/unit/agent/publish/unwind_maps_double.h"

#define MINUTE_NS (60 * NS_PER_SECOND)
#define HOUR_NS   (60 * MINUTE_NS)

/* A file's text: the table to build. */
struct order {
	uint32_t pages; // of words
	uint32_t rules; // of its own
	int32_t rc;     // fail instead
	uint32_t broken;
	uint32_t cpu_ms; // of building it: cached on disk from 1 on
	uint32_t rows;
};

enum { BUILD_WAIT_S = 20 }; // for the builder to ask, at most

static atomic_uint builds;
static atomic_uint rows_max_asked;                           // by the last build
static atomic_uint order_of[64];                             // by pages: when the table was built
static pthread_mutex_t building = PTHREAD_MUTEX_INITIALIZER; // held: builds wait
static sem_t asked;                                          // for each build

static void use_cpu(uint32_t ms)
{
	struct timespec now, end;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
	end.tv_nsec += (long)ms * 1000000;
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((now.tv_sec - end.tv_sec) * 1000000000L + now.tv_nsec < end.tv_nsec);
}

/* As many rows as are worth a file on disk, in order, as the cache checks. */
static void make_rows(struct unwind_table *table, const struct order *order)
{
	uint32_t each = order->rows / 5, index = 5 + 1;

	table->block_count = 5;
	table->word_count = index + 5 * each;
	for (uint32_t block = 0; block <= 5; block++)
		table->words[block] = index + block * each;
	for (uint32_t i = 0; i < 5 * each; i++)
		table->words[index + i] = i % each << TABLE_RULE_BITS;
}

static struct unwind_table *table_of(const struct order *order)
{
	struct unwind_table *table = calloc(1, sizeof(*table));

	table->first_address = IMAGE_ADDRESS;
	table->row_count = order->rows;
	table->block_count = order->pages ? 1 : 0;
	table->word_count = order->pages * TABLE_PAGE_WORDS;
	table->words = calloc(table->word_count + 2, sizeof(*table->words));
	table->rule_count = order->rules;
	table->rules = calloc(order->rules + 1, sizeof(*table->rules));
	for (uint32_t i = 0; i < order->rules; i++)
		table->rules[i] = (struct unwind_rule){
			.cfa = CFA_REGISTER,
			.cfa_offset = (int32_t)(order->pages << 16 | (i + 1)),
		};
	table->words[0] = 2;
	table->words[1] = order->broken == 1 ? table->word_count + 1 : table->word_count;
	for (uint32_t i = 2; i < table->word_count && order->rules; i++)
		table->words[i] =
			(i & (TABLE_BLOCK_BYTES - 1)) << TABLE_RULE_BITS | i % order->rules;
	if (order->broken == 2)
		table->words[2] = order->rules;
	if (order->rows)
		make_rows(table, order);
	return table;
}

int unwind_table_build(const struct elf *elf, const struct unwind_mark *marks, uint32_t mark_count,
		       uint32_t rows_max, struct unwind_table **ret_table, struct error *err)
{
	struct order order;

	(void)marks;
	(void)mark_count;
	rows_max_asked = rows_max;
	assert_int_equal(0, elf_read(elf, IMAGE_TEXT, &order, sizeof(order)));
	sem_post(&asked);
	pthread_mutex_lock(&building);
	pthread_mutex_unlock(&building);
	use_cpu(order.cpu_ms);
	builds++;
	if (order.rc)
		return error_set(err, order.rc, "as ordered");
	if (order.pages < 64)
		order_of[order.pages] = builds;
	*ret_table = table_of(&order);
	return 0;
}

/* The builder is asked for a table; without memory for it, never. */
static void wait_for_build(void)
{
	const struct timespec until = { .tv_sec = (time_t)(clock_monotonic_ns() / NS_PER_SECOND) +
						  BUILD_WAIT_S };

	assert_int_equal(0, sem_clockwait(&asked, CLOCK_MONOTONIC, &until));
}

/* ---- the world ----------------------------------------------------------------------------- */

static struct unwind_maps maps;
static struct executable_table *executables;
static struct unwind_tables *tables;

/* @folder: of tables on disk; NULL: none. */
static void open_world_with(const char *folder, uint64_t bytes_max)
{
	struct unwind_table_cache *cache = NULL;
	struct error err = { 0 };

	maps_double_clear();
	builds = 0;
	executables = executable_table_new();
	if (folder && unwind_table_cache_open(folder, 1 << 20, &cache, &err))
		fail_msg("unwind_table_cache_open: %s", err.text);
	if (unwind_tables_open(&maps, cache, bytes_max, &tables, &err))
		fail_msg("unwind_tables_open: %s", err.text);
}

static void open_world(uint64_t bytes_max)
{
	open_world_with(NULL, bytes_max);
}

static void close_world(void)
{
	unwind_tables_close(tables);
	executable_table_free(executables);
	maps_double_clear();
}

/* A file of its own identity whose table is as ordered. */
static struct executable *make_file(uint16_t id, struct order order)
{
	static struct elf_image image;
	struct executable *executable = NULL;

	image_init(&image);
	memcpy(image.note_id, &id, sizeof(id));
	memcpy(image.text, &order, sizeof(order));
	int fd = image_open_cut(&image, IMAGE_BYTES);
	assert_int_equal(0, executable_table_open(executables, fd, "/lib/a.so", &executable, NULL));
	close(fd);
	return executable_hold(executable);
}

static uint32_t want(struct executable *executable)
{
	uint32_t file = unwind_tables_want(tables, executable, 4096);

	assert_true(file != HASH_TABLE_NONE);
	return file;
}

static enum unwind_file_state state_of(uint32_t file)
{
	return unwind_tables_file(tables, file)->state;
}

/* Take over what was built until none is pending. Returns the file that wants room. */
static uint32_t settle(void)
{
	struct unwind_tables_stats stats;
	uint32_t wanting = HASH_TABLE_NONE, last;

	for (int i = 0; i < 1000; i++) {
		unwind_tables_read_stats(tables, &stats);
		if (!stats.pending)
			return wanting;
		struct pollfd fd = { .fd = unwind_tables_fd(tables), .events = POLLIN };
		poll(&fd, 1, 1000);
		unwind_tables_read(tables, &last);
		if (last != HASH_TABLE_NONE)
			wanting = last;
	}
	fail_msg("%s", "nothing settles");
	return wanting;
}

/* ---- tests --------------------------------------------------------------------------------- */

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

/* As if a process of @payer had mapped it. */
static struct executable *make_file_of(uint64_t payer, uint16_t id, struct order order)
{
	struct executable *executable = make_file(id, order);

	executable->payer = payer;
	return executable;
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

static void give_up(uint32_t file)
{
	assert_int_equal(0, unwind_tables_withdraw(tables, file));
	unwind_tables_remove(tables, file);
}

/* A table that a stack was seen to need, unless it is spare. */
static uint32_t load(uint8_t id, uint32_t pages, uint32_t rules, bool is_spare)
{
	struct executable *executable =
		make_file(id, (struct order){ .pages = pages, .rules = rules });
	uint32_t file = want(executable);

	if (!is_spare)
		unwind_tables_miss(tables, file, executable);
	settle();
	return file;
}

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

static uint64_t changed_of(uint32_t file)
{
	return unwind_tables_file(tables, file)->changed;
}

/* A stack ended in code that the table knows nothing of. Returns when the renewal is with the builder. */
static void begin_renewal(uint32_t file, struct executable *executable, uint64_t offset)
{
	unwind_tables_analyze(tables, file, executable, IMAGE_TEXT + offset, 16);
	usleep(110000); // one looks for them only so often
	unwind_tables_renew(tables);
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

static void take_built(void)
{
	struct pollfd fd = { .fd = unwind_tables_fd(tables), .events = POLLIN };
	uint32_t wanting;

	EXPECT_EQ(1, poll(&fd, 1, 5000), "built");
	unwind_tables_read(tables, &wanting);
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
	  cmocka_unit_test(evicts_unneeded_then_least_recently_used),
	  cmocka_unit_test(one_payers_tables_keep_no_other_out),
	  cmocka_unit_test(many_samples_push_out_up_to_half),
	  cmocka_unit_test(evicts_tables_of_few_for_many),
	  cmocka_unit_test(evicts_unmapped_tables_first),
	  cmocka_unit_test(evicts_unmapped_tables_at_half_the_budget),
	  cmocka_unit_test(keeps_tables_being_rebuilt),
	  cmocka_unit_test(keeps_analyzed_files_open_while_needed),
	  cmocka_unit_test(one_process_fills_unused_space),
	  cmocka_unit_test(a_table_lacks_functions_until_they_are_analyzed),
	  cmocka_unit_test(caches_costly_tables_only),
	  cmocka_unit_test(loads_analyzed_functions_from_disk),
	  cmocka_unit_test(evicts_a_table_for_a_free_number),
	  cmocka_unit_test(evicts_unmapped_tables_at_half_the_numbers),
	  cmocka_unit_test(keeps_the_budget_by_evicting),
	  cmocka_unit_test(a_prefetch_without_room_waits_for_demand),
	  cmocka_unit_test(rebuilds_evicted_tables_on_demand),
	  cmocka_unit_test(limits_rules_as_well), cmocka_unit_test(retries_a_file_that_is_not_open),
	  cmocka_unit_test(closing_does_not_wait_for_queued_builds))
