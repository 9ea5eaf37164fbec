// SPDX-License-Identifier: Apache-2.0
// Cached Python functions: read once, shared, read again at a reused address, kept after their process has
// exited, and bounded.
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/python/python_code_cache.h"
#include "tests/unit/agent/python/python_heap.h"

enum {
	MANY_AT = PAGES * PAGE, // where many code objects begin
	MANY_STRIDE = 256,
	NOT_BEGUN = PYTHON_INDEX_MAX,
};

#define UNREAD "it could not be read"

struct fixture {
	struct heap heap;
	struct python_code_cache *codes;
	struct process_key process;
	bool gone;    // the process has exited: no interpreter is known
	pid_t parent; // forked it; 0: unknown
	struct work_budget *budget;
};

static int find_interpreter(void *context, const struct process_key *process,
			    struct python_interpreter *ret_interpreter)
{
	const struct fixture *fixture = context;

	if (fixture->gone || (process->pid != (uint32_t)getpid() && !fixture->parent))
		return -ENOENT;
	*ret_interpreter = (struct python_interpreter){ .offsets = &fixture->heap.offsets,
							.code_type = CODE_TYPE,
							.parent = fixture->parent,
							.budget = fixture->budget };
	return 0;
}

static void set_up(struct fixture *fixture, uint32_t more_codes)
{
	uint32_t size = MANY_AT + (more_codes * MANY_STRIDE + PAGE - 1) / PAGE * PAGE;

	*fixture = (struct fixture){ .process = { .pid = getpid(), .start_ns = 1 } };
	open_heap_of(&fixture->heap, 12, false, size);
	fixture->codes = python_code_cache_new(find_interpreter, fixture);
	assert_non_null(fixture->codes);
}

static void tear_down(struct fixture *fixture)
{
	python_code_cache_free(fixture->codes);
	close_heap(&fixture->heap);
}

static struct python_code_cache_stats stats_of(const struct fixture *fixture)
{
	struct python_code_cache_stats stats;

	python_code_cache_read_stats(fixture->codes, &stats);
	return stats;
}

/* The name is UNREAD without a line. */
static struct python_line find_at(struct fixture *fixture, uint32_t at, uint32_t index,
				  uint32_t checksum)
{
	struct raw_frame frame = { .address = address_of(&fixture->heap, at),
				   .tag = FRAME_TAG_PYTHON,
				   .detail = PYTHON_DETAIL(index, checksum) };
	struct python_line place = { .name = UNREAD };

	if (!python_code_cache_find(fixture->codes, &fixture->process, &frame, &place))
		EXPECT_STR(UNREAD, place.name, "untouched");
	return place;
}

static const char *name_at(struct fixture *fixture, uint32_t at, uint32_t checksum)
{
	return find_at(fixture, at, 0, checksum).name;
}

TEST(a_frame_has_name_file_and_line)
{
	struct fixture fixture;

	set_up(&fixture, 0);
	struct python_line place = find_at(&fixture, CODE_AT, 3, checksum_of(10));

	EXPECT_STR("f", place.name, "name");
	EXPECT_STR("f.py", place.file, "file");
	EXPECT_EQ(11, place.line, "line");
	EXPECT_EQ(0, find_at(&fixture, CODE_AT, 8, checksum_of(10)).line, "behind the table");
	EXPECT_EQ(10, find_at(&fixture, CODE_AT, NOT_BEGUN, checksum_of(10)).line, "not begun");
	tear_down(&fixture);
}

TEST(reads_a_code_object_once)
{
	struct fixture fixture;

	set_up(&fixture, 0);
	for (int interval = 0; interval < 100; interval++) {
		EXPECT_STR("f", name_at(&fixture, CODE_AT, checksum_of(10)), "found");
		python_code_cache_expire(fixture.codes);
	}
	EXPECT_EQ(1, stats_of(&fixture).reads, "reads");
	tear_down(&fixture);
}

TEST(reads_a_reused_address_again)
{
	struct fixture fixture;

	set_up(&fixture, 0);
	EXPECT_STR("f", name_at(&fixture, CODE_AT, checksum_of(10)), "first");
	put_code(&fixture.heap, CODE_AT, 99);
	put_text(&fixture.heap, NAME_AT, ASCII, "another", 7);
	EXPECT_STR("another", name_at(&fixture, CODE_AT, checksum_of(99)), "second");
	EXPECT_STR("f", name_at(&fixture, CODE_AT, checksum_of(10)), "a late frame of the first");
	EXPECT_EQ(2, stats_of(&fixture).reads, "reads");
	tear_down(&fixture);
}

TEST(a_similar_code_object_is_another_one)
{
	struct fixture fixture;
	uint32_t mark_at, second = python_checksum(1, 2, 67, 10, MARK + 16, OTHER_MARK);

	set_up(&fixture, 0);
	mark_at = fixture.heap.offsets.code_start + fixture.heap.offsets.code_marks[0];
	EXPECT_STR("f", name_at(&fixture, CODE_AT, checksum_of(10)), "first");
	put_u32(&fixture.heap, mark_at, MARK + 16);
	put_text(&fixture.heap, NAME_AT, ASCII, "g", 1);
	EXPECT_STR("g", name_at(&fixture, CODE_AT, second), "second");
	tear_down(&fixture);
}

TEST(a_frame_of_replaced_code_is_unknown)
{
	struct fixture fixture;

	set_up(&fixture, 0);
	struct python_line place = find_at(&fixture, CODE_AT, 3, checksum_of(10) ^ 1);

	EXPECT_STR(UNREAD, place.name, "name");
	EXPECT_EQ(1, stats_of(&fixture).reused, "counted");
	EXPECT_STR("f", name_at(&fixture, CODE_AT, checksum_of(10)), "what is there now");
	tear_down(&fixture);
}

TEST(without_checksum_entries_last_one_interval)
{
	struct fixture fixture;

	set_up(&fixture, 0);
	EXPECT_STR("f", name_at(&fixture, CODE_AT, 0), "first");
	put_text(&fixture.heap, NAME_AT, ASCII, "g", 1);
	EXPECT_STR("f", name_at(&fixture, CODE_AT, 0), "cached");
	python_code_cache_expire(fixture.codes);
	EXPECT_STR("g", name_at(&fixture, CODE_AT, 0), "next interval");
	tear_down(&fixture);
}

TEST(processes_of_one_program_share_contents)
{
	struct fixture fixture;

	set_up(&fixture, 0);
	for (uint32_t worker = 0; worker < 64; worker++) {
		fixture.process.start_ns = worker + 1;
		EXPECT_STR("f", name_at(&fixture, CODE_AT, checksum_of(10)), "each");
	}
	EXPECT_EQ(64, stats_of(&fixture).codes, "one for each process");
	EXPECT_EQ(1, stats_of(&fixture).contents, "one for all");

	// Processes that were not forked have their parts at other addresses.
	put_u32(&fixture.heap, fixture.heap.offsets.code_start + fixture.heap.offsets.code_marks[0],
		0x5550);
	fixture.process.start_ns = 99;
	name_at(&fixture, CODE_AT, python_checksum(1, 2, 67, 10, 0x5550, OTHER_MARK));
	EXPECT_EQ(1, stats_of(&fixture).contents, "still one for all");
	put_code(&fixture.heap, CODE_AT, 10);

	// Sharing is by content: another name, file, line or table is another content.
	put_text(&fixture.heap, NAME_AT, ASCII, "g", 1);
	fixture.process.start_ns = 100;
	EXPECT_STR("g", name_at(&fixture, CODE_AT, checksum_of(10)), "name");
	put_text(&fixture.heap, FILE_AT, ASCII, "g.py", 4);
	fixture.process.start_ns = 101;
	EXPECT_STR("g.py", find_at(&fixture, CODE_AT, 0, checksum_of(10)).file, "file");
	put_lines(&fixture.heap, 2, (const uint8_t[]){ 0x80 | 13 << 3 | 7, 4 }, 2);
	fixture.process.start_ns = 102;
	EXPECT_EQ(12, find_at(&fixture, CODE_AT, 0, checksum_of(10)).line, "lines");
	EXPECT_EQ(4, stats_of(&fixture).contents, "four");
	tear_down(&fixture);
}

TEST(entries_outlive_their_process)
{
	struct fixture fixture;

	set_up(&fixture, 1);
	put_code(&fixture.heap, MANY_AT, 20);
	EXPECT_STR("f", name_at(&fixture, CODE_AT, checksum_of(10)), "while it lives");
	fixture.gone = true;
	EXPECT_STR("f", name_at(&fixture, CODE_AT, checksum_of(10)), "afterwards");
	EXPECT_STR(UNREAD, name_at(&fixture, MANY_AT, checksum_of(20)), "never read");
	fixture.gone = false;
	EXPECT_STR("f", name_at(&fixture, MANY_AT, checksum_of(20)), "known again at once");
	tear_down(&fixture);
}

TEST(reads_an_exited_childs_code_from_its_parent)
{
	struct fixture fixture;
	pid_t child = fork();

	if (!child)
		_exit(0);
	assert_true(child > 0);
	waitpid(child, NULL, 0);
	set_up(&fixture, 0);
	fixture.process.pid = (uint32_t)child;
	fixture.parent = getpid();
	EXPECT_STR("f", name_at(&fixture, CODE_AT, checksum_of(10)), "older than the fork");
	EXPECT_STR(UNREAD, name_at(&fixture, CODE_AT, checksum_of(11)), "another in its place");
	EXPECT_STR(UNREAD, name_at(&fixture, CODE_AT, 0), "no checksum to compare");
	tear_down(&fixture);
}

TEST(retries_failed_reads_once_per_interval)
{
	struct fixture fixture;

	set_up(&fixture, 1);
	for (int i = 0; i < 10; i++)
		EXPECT_STR(UNREAD, name_at(&fixture, MANY_AT, checksum_of(20)), "no code");
	EXPECT_EQ(1, stats_of(&fixture).reads, "reads");
	EXPECT_EQ(1, stats_of(&fixture).failures, "counted");
	EXPECT_EQ(1, stats_of(&fixture).used, "once in an interval");
	put_code(&fixture.heap, MANY_AT, 20);
	python_code_cache_expire(fixture.codes);
	EXPECT_STR("f", name_at(&fixture, MANY_AT, checksum_of(20)), "there by now");
	EXPECT_EQ(2, stats_of(&fixture).reads, "reads");
	python_code_cache_expire(fixture.codes);
	EXPECT_STR("f", name_at(&fixture, MANY_AT, checksum_of(20)), "cached");
	EXPECT_EQ(2, stats_of(&fixture).reads, "not read again");
	EXPECT_EQ(3, stats_of(&fixture).used, "once in each interval");
	tear_down(&fixture);
}

TEST(an_empty_name_is_shown_as_unnamed)
{
	struct fixture fixture;

	set_up(&fixture, 0);
	put_text(&fixture.heap, NAME_AT, ASCII, "", 0);
	struct python_line place = find_at(&fixture, CODE_AT, 0, checksum_of(10));

	EXPECT_STR("<unnamed>", place.name, "name");
	EXPECT_STR("f.py", place.file, "file");
	tear_down(&fixture);
}

TEST(evicts_idle_code)
{
	struct fixture fixture;

	set_up(&fixture, 1);
	put_code(&fixture.heap, MANY_AT, 20);
	name_at(&fixture, MANY_AT, checksum_of(20));
	for (int interval = 0; interval <= PYTHON_CODE_IDLE_INTERVALS; interval++) {
		name_at(&fixture, CODE_AT, checksum_of(10));
		python_code_cache_expire(fixture.codes);
	}
	EXPECT_EQ(1, stats_of(&fixture).codes, "the used one");
	EXPECT_EQ(1, stats_of(&fixture).contents, "the used one's");
	for (int interval = 0; interval <= PYTHON_CODE_IDLE_INTERVALS; interval++)
		python_code_cache_expire(fixture.codes);
	EXPECT_EQ(0, stats_of(&fixture).codes, "none");
	EXPECT_EQ(0, stats_of(&fixture).bytes, "no memory");
	EXPECT_STR("f", name_at(&fixture, CODE_AT, checksum_of(10)), "read again");
	tear_down(&fixture);
}

TEST(evicts_the_least_recently_used_code)
{
	struct fixture fixture;

	set_up(&fixture, PYTHON_CODES_MAX);
	for (uint32_t i = 0; i < PYTHON_CODES_MAX; i++)
		put_code(&fixture.heap, MANY_AT + i * MANY_STRIDE, 100 + i);
	name_at(&fixture, CODE_AT, checksum_of(10));
	for (uint32_t i = 0; i < PYTHON_CODES_MAX; i++) {
		if (i % 10000 == 0) {
			python_code_cache_expire(fixture.codes);
			name_at(&fixture, CODE_AT, checksum_of(10));
		}
		EXPECT_STR("f", name_at(&fixture, MANY_AT + i * MANY_STRIDE, checksum_of(100 + i)),
			   "each");
	}
	struct python_code_cache_stats stats = stats_of(&fixture);

	assert_true(stats.codes <= PYTHON_CODES_MAX);
	assert_true(stats.evicted > 0);
	name_at(&fixture, CODE_AT, checksum_of(10));
	EXPECT_EQ(stats.reads, stats_of(&fixture).reads, "the one in use stayed");
	name_at(&fixture, MANY_AT, checksum_of(100));
	EXPECT_EQ(stats.reads + 1, stats_of(&fixture).reads, "the oldest went");
	tear_down(&fixture);
}

TEST(bounds_memory_of_names_and_lines)
{
	struct fixture fixture;
	uint64_t bytes_max = 0;

	// A different line every two units: 30,000 rows of 8 bytes each.
	set_up(&fixture, 1000);
	put_u64(&fixture.heap, CODE_AT + fixture.heap.offsets.code_lines,
		address_of(&fixture.heap, MANY_AT));
	put_u64(&fixture.heap, MANY_AT + fixture.heap.head, 60000);
	for (uint32_t i = 0; i < 60000; i += 2)
		memcpy(fixture.heap.bytes + MANY_AT + fixture.heap.head + 16 + i,
		       (const uint8_t[]){ 0x80 | 13 << 3 | 1, 2 }, 2);
	for (uint32_t i = 0; i < 200; i++) {
		fixture.process.start_ns = i + 1;
		put_u32(&fixture.heap,
			CODE_AT + fixture.heap.offsets.code_start +
				fixture.heap.offsets.code_firstlineno,
			100 + i);
		EXPECT_EQ(100 + i + 5, find_at(&fixture, CODE_AT, 8, checksum_of(100 + i)).line,
			  "line");
		if (stats_of(&fixture).bytes > bytes_max)
			bytes_max = stats_of(&fixture).bytes;
	}
	assert_true(stats_of(&fixture).evicted > 50);
	assert_true(bytes_max > PYTHON_CODE_CACHE_BYTES_MAX / 2);
	assert_true(bytes_max < PYTHON_CODE_CACHE_BYTES_MAX + 300000);
	tear_down(&fixture);
}

TEST(bounds_reads_per_interval)
{
	struct fixture fixture;

	set_up(&fixture, 0);
	for (uint32_t i = 0; i < 100000; i++)
		name_at(&fixture, MANY_AT + i * 16, 1);
	struct python_code_cache_stats stats = stats_of(&fixture);

	EXPECT_EQ(PYTHON_CODE_READ_BYTES_MAX / 1024, stats.reads, "failed reads, a KiB each");
	EXPECT_EQ(100000 - stats.reads, stats.refused, "the others");
	EXPECT_STR(UNREAD, name_at(&fixture, CODE_AT, checksum_of(10)), "nor this");
	python_code_cache_expire(fixture.codes);
	EXPECT_STR("f", name_at(&fixture, CODE_AT, checksum_of(10)), "in the next interval");
	tear_down(&fixture);
}

static uint64_t each_millisecond(void)
{
	static uint64_t now_ns;

	return now_ns += 1000000;
}

/* Each read takes a millisecond. */
TEST(bounds_reads_of_one_process)
{
	struct work_pool pool = { .process_ns = 20 * 1000000, .cpu_ns = each_millisecond };
	struct work_budget hostile = { .pool = &pool }, honest = { .pool = &pool };
	struct fixture fixture;

	set_up(&fixture, 0);
	fixture.budget = &hostile;
	for (uint32_t i = 0; i < 1000; i++)
		name_at(&fixture, MANY_AT + i * 16, 1);
	EXPECT_EQ(20, stats_of(&fixture).reads, "failed reads");
	EXPECT_EQ(980, stats_of(&fixture).refused, "the others");
	EXPECT_EQ(1, pool.put_off, "processes put off");
	fixture.process.start_ns++; // another one
	fixture.budget = &honest;
	EXPECT_STR("f", name_at(&fixture, CODE_AT, checksum_of(10)), "its function");
	tear_down(&fixture);
}

RUN_TESTS(cmocka_unit_test(a_frame_has_name_file_and_line),
	  cmocka_unit_test(reads_a_code_object_once),
	  cmocka_unit_test(reads_a_reused_address_again),
	  cmocka_unit_test(a_similar_code_object_is_another_one),
	  cmocka_unit_test(a_frame_of_replaced_code_is_unknown),
	  cmocka_unit_test(without_checksum_entries_last_one_interval),
	  cmocka_unit_test(processes_of_one_program_share_contents),
	  cmocka_unit_test(entries_outlive_their_process),
	  cmocka_unit_test(reads_an_exited_childs_code_from_its_parent),
	  cmocka_unit_test(retries_failed_reads_once_per_interval),
	  cmocka_unit_test(an_empty_name_is_shown_as_unnamed), cmocka_unit_test(evicts_idle_code),
	  cmocka_unit_test(evicts_the_least_recently_used_code),
	  cmocka_unit_test(bounds_memory_of_names_and_lines),
	  cmocka_unit_test(bounds_reads_per_interval),
	  cmocka_unit_test(bounds_reads_of_one_process))
