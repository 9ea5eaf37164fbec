// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/stacks/location_table.h"

/* Our own executable is the file, this is the function in it. */
__attribute__((noinline)) static int a_known_function(int argument)
{
	__asm__ volatile("" : "+r"(argument));
	return argument + 1;
}

enum { MANY_SYMBOLS = 70000 };
#define MANY_AT 0xffffffff82000000ULL

static struct executable_table *executables;
static struct kallsyms *kallsyms;
static struct executable *self;
static uint64_t self_base; // file offset = address - this, in the text

static const char kernel_symbols[] = "ffffffff81000000 T _text\n"
				     "ffffffff81001000 T do_work\n"
				     "ffffffff81002000 t do_more\n"
				     "ffffffffc0001000 t mod_work\t[zram]\n";

static void find_self(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	uint64_t address = (uint64_t)a_known_function;
	unsigned long long start, end, offset;
	char line[512];

	assert_non_null(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%llx-%llx %*s %llx", &start, &end, &offset) == 3 &&
		    address >= start && address < end)
			self_base = start - offset;
	}
	fclose(maps);
	assert_true(self_base != 0);
}

static int set_up(void **state)
{
	char path[] = "/tmp/cairn-kallsyms-XXXXXX";
	int fd = mkstemp(path);
	struct error err;

	(void)state;
	assert_true(fd >= 0);
	FILE *file = fdopen(fd, "w");
	fputs(kernel_symbols, file);
	for (uint32_t i = 0; i < MANY_SYMBOLS; i++)
		fprintf(file, "%llx T many_%u\n", MANY_AT + 16 * i, i);
	fclose(file);
	assert_int_equal(0, kallsyms_open(path, &kallsyms, &err));
	unlink(path);

	executables = executable_table_new();
	fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_int_equal(0, executable_table_open(executables, fd, "/bin/self", &self, &err));
	close(fd);
	executable_hold(self);
	find_self();
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	executable_release(self);
	executable_table_free(executables);
	kallsyms_close(kallsyms);
	return 0;
}

/* A location as a profile shows it. */
static const char *shown(struct location_table *table, uint32_t number,
			 struct location *ret_location)
{
	static char name[256];
	struct profile *profile = profile_new(20000000);
	uint32_t position;

	location_table_begin_profile(table);
	assert_true(number != HASH_TABLE_NONE);
	assert_int_equal(0, location_table_put(table, number, profile, &position));
	*ret_location = profile->locations[position];
	location_display_name(profile, ret_location, 0, name, sizeof(name));
	profile_free(profile);
	return name;
}

TEST(a_leaf_is_reduced_to_its_function)
{
	struct location_table *table = location_table_new(executables, kallsyms);
	uint64_t offset = (uint64_t)a_known_function - self_base;
	uint32_t leaf = location_table_add_leaf(table, self, offset);
	struct location location;

	EXPECT_EQ(leaf, location_table_add_leaf(table, self, offset + 3), "another pc of it");
	EXPECT_STR("a_known_function", shown(table, leaf, &location), "name");
	EXPECT_EQ(offset, location.offset, "where the function begins");
	EXPECT_EQ(FRAME_KIND_NATIVE, location.kind, "kind");
	location_table_free(table);
}

TEST(named_call_keeps_offset)
{
	struct location_table *table = location_table_new(executables, kallsyms);
	uint64_t offset = (uint64_t)a_known_function - self_base;
	uint32_t first = location_table_add_call(table, self, offset + 2);
	uint32_t second = location_table_add_call(table, self, offset + 3);
	struct location location;

	assert_int_not_equal(first, second);
	EXPECT_EQ(first, location_table_add_call(table, self, offset + 2), "found again");
	EXPECT_STR("a_known_function", shown(table, second, &location), "name");
	EXPECT_EQ(offset + 3, location.offset, "the call");
	location_table_free(table);
}

TEST(kernel_code_is_identified_by_symbol)
{
	struct location_table *table = location_table_new(executables, kallsyms);
	uint32_t leaf = location_table_add_kernel(table, 0xffffffff81001010, true);
	uint32_t call = location_table_add_kernel(table, 0xffffffff81001010, false);
	struct location location;

	EXPECT_EQ(leaf, location_table_add_kernel(table, 0xffffffff81001888, true), "one function");
	assert_int_not_equal(leaf, call);
	EXPECT_STR("do_work_[k]", shown(table, leaf, &location), "leaf");
	EXPECT_EQ(0, location.offset, "leaf");
	EXPECT_STR("do_work_[k]", shown(table, call, &location), "caller");
	EXPECT_EQ(0x10, location.offset, "caller");
	EXPECT_EQ(FRAME_KIND_KERNEL, location.kind, "caller");
	location_table_free(table);
}

TEST(kernel_code_needs_symbols_for_names)
{
	struct location_table *table = location_table_new(executables, NULL);
	uint32_t leaf = location_table_add_kernel(table, 0xffffffff81001010, true);
	struct location location;

	assert_non_null(strstr(shown(table, leaf, &location), "[kernel]+0xffffffff81001010"));
	location_table_free(table);
}

TEST(unnamed_jit_leaves_differ_by_page)
{
	struct location_table *table = location_table_new(executables, kallsyms);
	uint32_t leaf = location_table_add_anonymous(table, 0x7f0000001234, true);
	uint32_t call = location_table_add_anonymous(table, 0x7f0000001234, false);
	struct location location;

	EXPECT_EQ(leaf, location_table_add_anonymous(table, 0x7f0000001fff, true), "same page");
	EXPECT_STR("[anon]+0x7f0000001000", shown(table, leaf, &location), "leaf");
	EXPECT_STR("[anon]+0x7f0000001234", shown(table, call, &location), "caller");
	EXPECT_EQ(FRAME_KIND_JIT, location.kind, "kind");
	location_table_free(table);
}

TEST(jit_code_is_identified_by_name)
{
	struct location_table *table = location_table_new(executables, kallsyms);
	uint32_t function = location_table_add_jit(table, "JS:f /a.js:1:1");
	struct location location;

	EXPECT_EQ(function, location_table_add_jit(table, "JS:f /a.js:1:1"), "once more");
	assert_int_not_equal(function, location_table_add_jit(table, "JS:g /a.js:2:1"));
	EXPECT_STR("JS:f /a.js:1:1", shown(table, function, &location), "name");
	EXPECT_EQ(FRAME_KIND_JIT, location.kind, "kind");
	location_table_free(table);
}

TEST(python_is_identified_by_function_file_and_line)
{
	struct location_table *table = location_table_new(executables, kallsyms);
	uint32_t first = location_table_add_python(table, "Model.forward", "/srv/model.py", 42);
	struct location location;

	EXPECT_EQ(first, location_table_add_python(table, "Model.forward", "/srv/model.py", 42),
		  "found again");
	assert_int_not_equal(
		first, location_table_add_python(table, "Model.forward", "/srv/model.py", 43));
	assert_int_not_equal(
		first, location_table_add_python(table, "Model.forward", "/opt/model.py", 42));
	assert_int_not_equal(
		first, location_table_add_python(table, "Other.forward", "/srv/model.py", 42));
	EXPECT_STR("Model.forward (model.py:42)", shown(table, first, &location), "name");
	EXPECT_EQ(FRAME_KIND_PYTHON, location.kind, "kind");
	assert_true(id128_equal(
		location_id_of_line(FRAME_KIND_PYTHON, "Model.forward", "/srv/model.py", 42),
		location.id));
	uint32_t no_line = location_table_add_python(table, "run", "<string>", 0);
	EXPECT_STR("run (<string>)", shown(table, no_line, &location), "no line");
	uint32_t no_file = location_table_add_python(table, "<unknown> (python)", "", 0);
	EXPECT_STR("<unknown> (python)", shown(table, no_file, &location), "no file");
	location_table_free(table);
}

TEST(puts_a_location_once_into_each_profile)
{
	struct location_table *table = location_table_new(executables, kallsyms);
	uint32_t number = location_table_add_kernel(table, 0xffffffff81002000, true);

	for (int interval = 0; interval < 2; interval++) {
		struct profile *profile = profile_new(20000000);
		uint32_t first = 7, second = 8;

		location_table_begin_profile(table);
		EXPECT_EQ(0, location_table_put(table, number, profile, &first), "put");
		EXPECT_EQ(0, location_table_put(table, number, profile, &second), "put again");
		EXPECT_EQ(0, first, "position");
		EXPECT_EQ(0, second, "position");
		EXPECT_EQ(1, profile->location_count, "once");
		profile_free(profile);
	}
	location_table_free(table);
}

TEST(a_sweep_keeps_marked_and_recent_locations)
{
	struct location_table *table = location_table_new(executables, kallsyms);
	struct location location;
	uint32_t kept = location_table_add_call(table, self, 100);
	uint32_t dropped = location_table_add_call(table, self, 200);
	uint32_t lately = location_table_add_kernel(table, 0xffffffff81002000, true);

	for (int interval = 0; interval < 20; interval++)
		location_table_begin_profile(table);
	shown(table, lately, &location);
	location_table_mark(table, kept);
	location_table_sweep(table);
	EXPECT_EQ(2, location_table_count(table), "two stay");
	EXPECT_EQ(kept, location_table_add_call(table, self, 100), "the marked one");
	EXPECT_EQ(dropped, location_table_add_call(table, self, 300), "its number is used again");
	assert_int_not_equal(dropped, location_table_add_call(table, self, 200));
	EXPECT_STR("do_more_[k]", shown(table, lately, &location), "the used one");
	location_table_free(table);
}

TEST(names_survive_a_rebuild_of_the_strings)
{
	struct location_table *table = location_table_new(executables, kallsyms);
	uint32_t kept =
		location_table_add_leaf(table, self, (uint64_t)a_known_function - self_base);
	uint32_t python = location_table_add_python(table, "f", "/srv/f.py", 7);
	struct location location;

	// More names than a table keeps idle, so that the sweep interns again what is in use.
	for (uint32_t i = 0; i < MANY_SYMBOLS; i++)
		location_table_add_kernel(table, MANY_AT + 16 * i, true);
	EXPECT_EQ(MANY_SYMBOLS + 2, location_table_count(table), "all of them");
	for (int interval = 0; interval < 20; interval++)
		location_table_begin_profile(table);
	location_table_mark(table, kept);
	location_table_mark(table, python);
	location_table_sweep(table);
	EXPECT_EQ(2, location_table_count(table), "only two are marked");
	EXPECT_STR("a_known_function", shown(table, kept, &location), "its name");
	EXPECT_STR("f (f.py:7)", shown(table, python, &location), "its name and file");
	EXPECT_STR(
		"many_7_[k]",
		shown(table, location_table_add_kernel(table, MANY_AT + 16 * 7, true), &location),
		"a new one");
	location_table_free(table);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_leaf_is_reduced_to_its_function),
		cmocka_unit_test(named_call_keeps_offset),
		cmocka_unit_test(kernel_code_is_identified_by_symbol),
		cmocka_unit_test(kernel_code_needs_symbols_for_names),
		cmocka_unit_test(jit_code_is_identified_by_name),
		cmocka_unit_test(unnamed_jit_leaves_differ_by_page),
		cmocka_unit_test(python_is_identified_by_function_file_and_line),
		cmocka_unit_test(puts_a_location_once_into_each_profile),
		cmocka_unit_test(a_sweep_keeps_marked_and_recent_locations),
		cmocka_unit_test(names_survive_a_rebuild_of_the_strings),
	};

	return a_known_function(cmocka_run_group_tests(tests, set_up, tear_down)) - 1;
}
