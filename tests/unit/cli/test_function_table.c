// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include "cli/function_table.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"

enum { DEPTH_MAX = 8 };

/* A sample as a test states it: frames leaf first, ended by NULL. */
struct stated {
	const char *service;
	const char *process;
	int64_t value;
	const char *frames[DEPTH_MAX];
};

static uint32_t add_function(struct profile *profile, const char *name)
{
	struct location location = { .kind = FRAME_KIND_NATIVE };
	struct line line = { 0 };
	uint32_t number = 0;

	location.id = id128_of(name, strlen(name));
	assert_int_equal(0, profile_add_string(profile, name, &line.name));
	assert_int_equal(0, profile_add_location(profile, &location, &line, 1, &number));
	return number;
}

static void add_sample(struct profile *profile, const struct stated *stated)
{
	uint32_t locations[DEPTH_MAX], count = 0, stack, series;
	struct labels labels = { 0 };

	for (; count < DEPTH_MAX && stated->frames[count]; count++)
		locations[count] = add_function(profile, stated->frames[count]);
	assert_int_equal(0, labels_set(&labels, LABEL_SERVICE, stated->service));
	assert_int_equal(0, labels_set(&labels, LABEL_PROCESS, stated->process));
	assert_int_equal(0, profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series));
	assert_int_equal(0,
			 profile_add_stack(profile, locations, count, STACK_END_COMPLETE, &stack));
	assert_int_equal(0, profile_add_sample(profile, series, stack, 1, stated->value));
	labels_deinit(&labels);
}

static void build(const struct stated *samples, uint32_t count,
		  const struct function_choice *choice, struct function_table *ret_table)
{
	struct profile *profile = profile_new(1000000000);
	struct error err = { 0 };

	for (uint32_t i = 0; i < count; i++)
		add_sample(profile, &samples[i]);
	assert_int_equal(0, function_table_build(profile, choice, ret_table, &err));
	profile_free(profile);
}

static const struct function_row *find(const struct function_table *table, const char *process,
				       const char *name)
{
	for (uint32_t i = 0; i < table->row_count; i++) {
		const struct function_row *row = &table->rows[i];

		if (strcmp(string_table_get(&table->strings, row->name), name) == 0 &&
		    strcmp(string_table_get(&table->strings, row->process), process) == 0)
			return row;
	}
	fail_msg("no row for %s in \"%s\"", name, process);
	return NULL;
}

static const struct stated samples[] = {
	{ "shop", "web", 10, { "parse", "main" } },
	{ "shop", "web", 5, { "main" } },
	{ "shop", "web", 3, { "walk", "walk", "walk", "main" } },
	{ "mail", "smtpd", 2, { "parse", "loop", "main" } },
};

static const struct function_choice merged = { .type = PROFILE_TYPE_CPU };

TEST(counts_recursion_once_in_total)
{
	static const struct {
		const char *name;
		int64_t self, total;
	} rows[] = {
		{ "parse", 12, 12 },
		{ "main", 5, 20 },
		{ "walk", 3, 3 },
		{ "loop", 0, 2 },
	};
	struct function_table table;

	build(samples, 4, &merged, &table);
	EXPECT_EQ(20, table.total, "all samples");
	EXPECT_EQ(4, table.row_count, "functions");
	for EACH (row, rows) {
		EXPECT_EQ(row->self, find(&table, "", row->name)->self, row->name);
		EXPECT_EQ(row->total, find(&table, "", row->name)->total, row->name);
	}
	function_table_deinit(&table);
}

TEST(innermost_inlined_call_has_self)
{
	struct profile *profile = profile_new(1000000000);
	struct location location = { .id = id128_of("inlined", 7), .kind = FRAME_KIND_NATIVE };
	struct line lines[2] = { 0 };
	struct labels labels = { 0 };
	struct function_table table;
	struct error err = { 0 };
	uint32_t number, series, stack;

	assert_int_equal(0, profile_add_string(profile, "inner", &lines[0].name));
	assert_int_equal(0, profile_add_string(profile, "outer", &lines[1].name));
	assert_int_equal(0, profile_add_location(profile, &location, lines, 2, &number));
	assert_int_equal(0, profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series));
	assert_int_equal(0, profile_add_stack(profile, &number, 1, STACK_END_COMPLETE, &stack));
	assert_int_equal(0, profile_add_sample(profile, series, stack, 1, 5));
	assert_int_equal(0, function_table_build(profile, &merged, &table, &err));
	EXPECT_EQ(5, find(&table, "", "inner")->self, "inner's self");
	EXPECT_EQ(0, find(&table, "", "outer")->self, "outer's self");
	EXPECT_EQ(5, find(&table, "", "outer")->total, "outer's total");
	function_table_deinit(&table);
	profile_free(profile);
}

TEST(groups_rows_by_process)
{
	static const struct function_choice choice = { .type = PROFILE_TYPE_CPU,
						       .by_process = true };
	struct function_table table;

	build(samples, 4, &choice, &table);
	EXPECT_EQ(10, find(&table, "web", "parse")->self, "parse in web");
	EXPECT_EQ(2, find(&table, "smtpd", "parse")->self, "parse in smtpd");
	EXPECT_EQ(18, find(&table, "web", "main")->total, "main in web");
	function_table_deinit(&table);
}

static const char *shown(const struct function_table *table, uint32_t at)
{
	return string_table_get(&table->strings, table->rows[table->shown[at]].name);
}

TEST(orders_and_filters_rows)
{
	struct function_table table;

	build(samples, 4, &merged, &table);
	assert_int_equal(0, function_table_select(&table, "", ORDER_BY_SELF));
	EXPECT_STR("parse", shown(&table, 0), "most self");
	EXPECT_STR("main", shown(&table, 1), "second by self");
	EXPECT_STR("loop", shown(&table, 3), "least self");
	assert_int_equal(0, function_table_select(&table, "", ORDER_BY_TOTAL));
	EXPECT_STR("main", shown(&table, 0), "most total");
	assert_int_equal(0, function_table_select(&table, "PAR", ORDER_BY_SELF));
	EXPECT_EQ(1, table.shown_count, "filter ignores case");
	assert_int_equal(0, function_table_select(&table, "nothing has this", ORDER_BY_SELF));
	EXPECT_EQ(0, table.shown_count, "nothing passes");
	function_table_deinit(&table);
}

TEST(counts_time_of_unknown_stacks)
{
	struct profile *profile = profile_new(1000000000);
	struct function_table table;
	struct labels labels = { 0 };
	struct error err = { 0 };
	uint32_t series, stack;

	assert_int_equal(0, profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series));
	assert_int_equal(0, profile_add_stack_id(profile, id128_of("x", 1), &stack));
	assert_int_equal(0, profile_add_sample(profile, series, stack, 1, 9));
	assert_int_equal(0, function_table_build(profile, &merged, &table, &err));
	EXPECT_EQ(9, find(&table, "", "[unknown stack]")->self, "unknown stack");
	function_table_deinit(&table);
	profile_free(profile);
}

/* As a collector may answer. */
TEST(sums_of_rows_never_overflow)
{
	_cleanup_(function_table_deinit) struct function_table table = { 0 };

	for (int i = 0; i < 2; i++)
		EXPECT_EQ(0,
			  function_table_add(&table, "", "main", FRAME_KIND_NATIVE, INT64_MIN,
					     INT64_MAX),
			  "add");
	EXPECT_EQ(1, table.row_count, "rows");
	EXPECT_EQ(INT64_MIN, table.rows[0].self, "self");
	EXPECT_EQ(INT64_MAX, table.rows[0].total, "total");
}

RUN_TESTS(cmocka_unit_test(counts_recursion_once_in_total),
	  cmocka_unit_test(innermost_inlined_call_has_self),
	  cmocka_unit_test(groups_rows_by_process), cmocka_unit_test(orders_and_filters_rows),
	  cmocka_unit_test(counts_time_of_unknown_stacks),
	  cmocka_unit_test(sums_of_rows_never_overflow))
