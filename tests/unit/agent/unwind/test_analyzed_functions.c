// SPDX-License-Identifier: Apache-2.0
// Which functions of a file are functions, and that the next agent knows them.
#include "agent/unwind/analyzed_functions.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

static char folder[] = "/tmp/cairn-analyzed-XXXXXX";
static struct unwind_table_cache *cache;

static void open_cache(void)
{
	struct error err;

	assert_non_null(mkdtemp(folder));
	if (unwind_table_cache_open(folder, 1 << 20, &cache, &err))
		fail_msg("%s", err.text);
}

static int execute(const char *command, const char *argument)
{
	char line[128];

	snprintf(line, sizeof(line), "%s%s", command, argument);
	return system(line);
}

static const struct {
	const char *what;
	struct unwind_function function;
	bool added;
} functions[] = {
	{ "the first", { 0x1000, 0x100 }, true },
	{ "behind it", { 0x1100, 0x100 }, true },
	{ "the same again", { 0x1000, 0x100 }, false },
	{ "within one", { 0x1180, 0x10 }, false },
	{ "around one", { 0xf00, 0x200 }, false },
	{ "of no size", { 0x2000, 0 }, true },
	{ "of no size again", { 0x2000, 0 }, false },
	{ "to the end of all addresses", { 0x3000, UINT64_MAX }, true },
};

TEST(adds_each_function_once)
{
	struct analyzed_functions found = { 0 };

	for EACH (row, functions)
		EXPECT_EQ(row->added, analyzed_functions_add(&found, &row->function), row->what);
	for (uint64_t i = 0; i < UNWIND_FUNCTIONS_MAX; i++)
		analyzed_functions_add(&found, &(struct unwind_function){ 2 * i, 2 });
	EXPECT_EQ(UNWIND_FUNCTIONS_MAX, found.count, "no more than there is room for");
}

/* Each sample in a function without a symbol ends at another address. */
TEST(unknown_functions_are_added_apart)
{
	static const struct {
		const char *what;
		struct unwind_function function;
		bool added;
	} rows[] = {
		{ "an address", { 0x11000, UNWIND_UNKNOWN_BYTES }, true },
		{ "one behind it", { 0x11fff, UNWIND_UNKNOWN_BYTES }, false },
		{ "one before it", { 0x10001, UNWIND_UNKNOWN_BYTES }, false },
		{ "one apart", { 0x12000, UNWIND_UNKNOWN_BYTES }, true },
		{ "a function near it", { 0x11800, 16 }, true },
	};
	struct analyzed_functions found = { 0 };

	for EACH (row, rows)
		EXPECT_EQ(row->added, analyzed_functions_add(&found, &row->function), row->what);
}

TEST(the_next_agent_knows_analyzed_functions)
{
	struct analyzed_functions stored = { .functions = { { 0x1000, 16 }, { 0x2000, 32 } },
					     .count = 2 };
	struct analyzed_functions loaded = { .functions = { { 0x1008, 8 } }, .count = 1 };

	open_cache();
	analyzed_functions_store(cache, "one", &stored);
	analyzed_functions_load(cache, "another", &loaded);
	EXPECT_EQ(1, loaded.count, "of another file");
	analyzed_functions_load(cache, "one", &loaded);
	EXPECT_EQ(2, loaded.count, "of this one, but what overlaps");
	EXPECT_EQ(0x2000, loaded.functions[1].offset, "offset");
	EXPECT_EQ(32, loaded.functions[1].size, "size");
	analyzed_functions_load(NULL, "one", &loaded);
	analyzed_functions_store(NULL, "one", &loaded);
	EXPECT_EQ(2, loaded.count, "without a cache");
	unwind_table_cache_close(cache);
	assert_int_equal(0, execute("rm -r ", folder));
}

// Debian's and nodesource's: it has all names, or none.
TEST(expects_functions_built_into_v8)
{
	struct analyzed_functions found = { 0 };
	struct stat status;
	struct elf elf;
	int fd = open("/usr/bin/node", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		SKIP("Node is not installed");
	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
	EXPECT_EQ(0, analyzed_functions_expect(&elf, &found), "Node");
	close(fd);
	if (!found.count)
		SKIP("this Node has no names of them");
	EXPECT_EQ(1, found.count, "one piece of code");
	assert_true(found.functions[0].size > 1 << 20);

	found.count = 0;
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
	EXPECT_EQ(0, analyzed_functions_expect(&elf, &found), "this program");
	EXPECT_EQ(0, found.count, "has none");
	close(fd);
}

RUN_TESTS(cmocka_unit_test(adds_each_function_once),
	  cmocka_unit_test(unknown_functions_are_added_apart),
	  cmocka_unit_test(the_next_agent_knows_analyzed_functions),
	  cmocka_unit_test(expects_functions_built_into_v8))
