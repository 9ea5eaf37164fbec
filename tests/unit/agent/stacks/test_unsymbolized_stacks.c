// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/unsymbolized_stacks.h"

#include <stdlib.h>

#include "tests/unit/agent/process/process_tables.h"

static struct {
	uint32_t count;
	struct stack_hash last;
} evicted;

static void evict(void *context, const struct stack_hash *hash)
{
	assert_ptr_equal(&evicted, context);
	evicted.count++;
	evicted.last = *hash;
}

static uint32_t retry(struct unsymbolized_stacks *unnamed, struct tables *tables)
{
	evicted.count = 0;
	unsymbolized_stacks_retry(unnamed, tables->processes, evict, &evicted);
	return evicted.count;
}

static void list_function(uint64_t address)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *file = fopen(path, "a");
	fprintf(file, "%lx 10 f\n", (unsigned long)address);
	fclose(file);
	usleep(100000); // files are read at a bounded rate
}

static void look_up(struct tables *tables, const struct process_key *key, uint64_t address)
{
	struct code_address code;

	process_find_code(tables->processes, process_table_get(tables->processes, key, "x"),
			  address, &code);
	assert_true(code.is_jit);
}

TEST(retries_stacks_when_jit_names_come)
{
	struct tables tables = tables_new(NULL);
	struct unsymbolized_stacks unnamed = { 0 };
	struct process_key key = key_of(getpid(), 0);
	uint64_t code = (uintptr_t)map_code();

	look_up(&tables, &key, code);
	unsymbolized_stacks_add_jit(&unnamed, tables.processes, &(struct stack_hash){ 1, 2 }, &key);
	assert_int_equal(0, retry(&unnamed, &tables));
	list_function(code);
	assert_int_equal(1, retry(&unnamed, &tables)); // reads the names itself
	assert_int_equal(2, evicted.last.low);
	assert_int_equal(0, retry(&unnamed, &tables)); // once

	unsymbolized_stacks_add_jit(&unnamed, tables.processes, &(struct stack_hash){ 3, 4 }, &key);
	assert_int_equal(0, retry(&unnamed, &tables));
	list_function(code + 16);
	assert_int_equal(1, retry(&unnamed, &tables));
	assert_int_equal(4, evicted.last.low);

	char path[64];
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	unlink(path);
	munmap((void *)(uintptr_t)code, 4096);
	unsymbolized_stacks_deinit(&unnamed);
	tables_free(&tables);
}

TEST(retries_unread_python_stacks_once)
{
	struct tables tables = tables_new(NULL);
	struct unsymbolized_stacks unnamed = { 0 };
	struct process_key key = key_of(getpid(), 0);

	unsymbolized_stacks_add_python(&unnamed, &(struct stack_hash){ 1, 2 }, &key);
	assert_int_equal(1, retry(&unnamed, &tables));
	assert_int_equal(2, evicted.last.low);
	assert_int_equal(0, retry(&unnamed, &tables)); // once
	unsymbolized_stacks_deinit(&unnamed);
	tables_free(&tables);
}

TEST(drops_stacks_of_unknown_processes)
{
	struct tables tables = tables_new(NULL);
	struct unsymbolized_stacks unnamed = { 0 };
	struct process_key key = key_of(getpid(), 0), nobody = { .pid = 4000000, .start_ns = 1 };

	process_table_get(tables.processes, &key, "x");
	for (uint64_t i = 0; i < 2 * UNSYMBOLIZED_STACKS_MAX; i++)
		unsymbolized_stacks_add_jit(&unnamed, tables.processes,
					    &(struct stack_hash){ 1, i }, i % 2 ? &nobody : &key);
	assert_int_equal(UNSYMBOLIZED_STACKS_MAX, unnamed.count);
	assert_int_equal(0, retry(&unnamed, &tables));
	assert_int_equal(UNSYMBOLIZED_STACKS_MAX / 2, unnamed.count);
	unsymbolized_stacks_deinit(&unnamed);
	tables_free(&tables);
}

RUN_TESTS(cmocka_unit_test(retries_stacks_when_jit_names_come),
	  cmocka_unit_test(retries_unread_python_stacks_once),
	  cmocka_unit_test(drops_stacks_of_unknown_processes))
