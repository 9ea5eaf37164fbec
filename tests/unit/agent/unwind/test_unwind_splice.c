// SPDX-License-Identifier: Apache-2.0
// Functions of libc, all with rules: the rules are removed from its table, then recovered by
// following the code and put in again.
#include "agent/unwind/unwind_splice.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/test.h"

struct fixture {
	struct elf elf;
	struct unwind_table *whole;
};

static int open_libc(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	struct stat status;
	struct error err;
	Dl_info info;

	assert_non_null(fixture);
	assert_true(dladdr(dlsym(RTLD_DEFAULT, "regcomp"), &info));
	int fd = open(info.dli_fname, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && fstat(fd, &status) == 0);
	assert_int_equal(0, elf_read_headers(fd, &status, &fixture->elf, &err));
	assert_int_equal(0, unwind_table_build(&fixture->elf, NULL, 0, UNWIND_TABLE_ROWS_MAX,
					       &fixture->whole, &err));
	*state = fixture;
	return 0;
}

static int close_libc(void **state)
{
	struct fixture *fixture = *state;

	unwind_table_free(fixture->whole);
	close(fixture->elf.fd);
	free(fixture);
	return 0;
}

/* Where one of libc's functions lies in its file. */
static struct unwind_mark mark_of(const char *name)
{
	const ElfW(Sym) * symbol;
	void *function = dlsym(RTLD_DEFAULT, name);
	Dl_info info;

	assert_non_null(function);
	assert_true(dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT));
	return (struct unwind_mark){
		.start = symbol->st_value,
		.limit = symbol->st_value + symbol->st_size,
		.flags = MARK_ANALYZE,
	};
}

/* The rule at @address by its number in the table. */
static uint32_t number_at(const struct unwind_table *table, uint64_t address)
{
	return (uint32_t)(unwind_table_find(table, address) - table->rules);
}

static bool is_marked(const struct unwind_mark *marks, uint32_t count, uint64_t address)
{
	for (uint32_t i = 0; i < count; i++)
		if (address - marks[i].start < marks[i].limit - marks[i].start)
			return true;
	return false;
}

/* The same table without rules for the @count pieces at @marks. */
static struct unwind_table *without(const struct unwind_table *table,
				    const struct unwind_mark *marks, uint32_t count)
{
	struct unwind_table *copy = calloc(1, sizeof(*copy));

	assert_non_null(copy);
	*copy = *table;
	copy->words = calloc(table->word_count + 4 * count + 1024, sizeof(*copy->words));
	copy->rules = calloc(table->rule_count, sizeof(*copy->rules));
	assert_true(copy->words && copy->rules);
	memcpy(copy->rules, table->rules, table->rule_count * sizeof(*copy->rules));
	copy->word_count = copy->block_count + 1;
	for (uint32_t block = 0; block < table->block_count; block++) {
		uint32_t last = UINT32_MAX;

		copy->words[block] = copy->word_count;
		for (uint32_t offset = 0; offset < TABLE_BLOCK_BYTES; offset++) {
			uint64_t address =
				table->first_address + (uint64_t)block * TABLE_BLOCK_BYTES + offset;
			uint32_t rule = number_at(table, address);

			if (is_marked(marks, count, address))
				rule = 0;
			if (rule != last)
				copy->words[copy->word_count++] = offset << TABLE_RULE_BITS | rule;
			last = rule;
		}
	}
	copy->words[copy->block_count] = copy->word_count;
	return copy;
}

/*
 * The rules of call frame information, except for padding, where no pc ever is. The frame pointer's may differ: call
 * frame information has it on the stack for longer than needed.
 */
static void expect_function(const struct unwind_table *expected, const struct unwind_table *table,
			    const struct unwind_mark *mark, const char *name)
{
	uint32_t other = 0;

	for (uint64_t address = mark->start; address < mark->limit; address++) {
		const struct unwind_rule *a = unwind_table_find(expected, address);
		const struct unwind_rule *b = unwind_table_find(table, address);

		other += a->cfa != b->cfa || a->cfa_register != b->cfa_register ||
			 a->cfa_offset != b->cfa_offset;
	}
	if (other > (mark->limit - mark->start) / 20)
		fail_msg("%s: %u bytes have no rule or another one", name, other);
}

static void test_functions_get_their_rules_and_the_rest_stays(void **state)
{
	static const char *const names[] = { "regcomp", "glob", "wordexp" };
	struct fixture *fixture = *state;
	const struct unwind_table *whole = fixture->whole;
	struct unwind_mark marks[ARRAY_SIZE(names)];
	struct unwind_table *table = NULL;
	struct error err = { 0 };

	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++)
		marks[i] = mark_of(names[i]);
	struct unwind_table *before = without(whole, marks, ARRAY_SIZE(names));
	assert_int_equal(0, unwind_table_splice(&fixture->elf, before, marks, ARRAY_SIZE(names),
						&table, &err));
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++)
		expect_function(whole, table, &marks[i], names[i]);
	for (uint64_t at = 0; at < (uint64_t)whole->block_count * TABLE_BLOCK_BYTES; at++) {
		uint64_t address = whole->first_address + at;

		if (!is_marked(marks, ARRAY_SIZE(names), address))
			assert_memory_equal(unwind_table_find(whole, address),
					    unwind_table_find(table, address),
					    sizeof(struct unwind_rule));
	}
	unwind_table_free(table);
	unwind_table_free(before);
}

static void test_where_nothing_is_missing_the_table_stays(void **state)
{
	struct fixture *fixture = *state;
	struct unwind_mark mark = mark_of("regcomp");
	struct unwind_table *table = NULL;

	assert_int_equal(
		0, unwind_table_splice(&fixture->elf, fixture->whole, &mark, 1, &table, NULL));
	assert_int_equal(fixture->whole->row_count, table->row_count);
	assert_int_equal(fixture->whole->word_count, table->word_count);
	assert_memory_equal(fixture->whole->words, table->words,
			    table->word_count * sizeof(*table->words));
	unwind_table_free(table);
}

static void test_refuses_code_outside_table(void **state)
{
	struct fixture *fixture = *state;
	const struct unwind_table *whole = fixture->whole;
	uint64_t start = whole->first_address;
	uint64_t limit = start + (uint64_t)whole->block_count * TABLE_BLOCK_BYTES;
	const struct unwind_mark cases[] = {
		{ start, start + 16, MARK_ANALYZE },
		{ start - 64, start + 16, MARK_ANALYZE },
		{ limit - 16, limit, MARK_ANALYZE },
		{ limit + 16, limit + 32, MARK_ANALYZE },
		{ start + (limit - start) / 2, UINT64_MAX, MARK_ANALYZE },
		{ start + (limit - start) / 2, start, MARK_ANALYZE },
		{ UINT64_MAX - 16, UINT64_MAX, MARK_ANALYZE },
	};
	struct unwind_table nothing = { 0 }, wrapped = *whole, *table = NULL;
	uint64_t last = UINT64_MAX - (TABLE_BLOCK_BYTES - 1) - (limit - start) / 2;
	const struct unwind_mark inside = { last + (limit - start) / 2,
					    last + (limit - start) / 2 + 16, MARK_ANALYZE };

	wrapped.first_address = last & ~(uint64_t)(TABLE_BLOCK_BYTES - 1);
	assert_int_equal(-ERANGE,
			 unwind_table_splice(&fixture->elf, &wrapped, &inside, 1, &table, NULL));

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_int_equal(-ERANGE, unwind_table_splice(&fixture->elf, whole, &cases[i], 1,
							      &table, NULL));
	assert_int_equal(-ERANGE,
			 unwind_table_splice(&fixture->elf, &nothing, &cases[0], 1, &table, NULL));
}

/* A table from a disk is sound, but may number its rules otherwise. */
static void test_rules_that_we_number_otherwise_are_refused(void **state)
{
	struct fixture *fixture = *state;
	struct unwind_mark mark = mark_of("regcomp");
	struct unwind_table *table = NULL, *other = without(fixture->whole, NULL, 0);

	other->rules[4] = other->rules[0];
	assert_int_equal(-ERANGE,
			 unwind_table_splice(&fixture->elf, other, &mark, 1, &table, NULL));
	unwind_table_free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_functions_get_their_rules_and_the_rest_stays),
		cmocka_unit_test(test_where_nothing_is_missing_the_table_stays),
		cmocka_unit_test(test_refuses_code_outside_table),
		cmocka_unit_test(test_rules_that_we_number_otherwise_are_refused),
	};

	return cmocka_run_group_tests(tests, open_libc, close_libc);
}
