// SPDX-License-Identifier: Apache-2.0
#include "agent/process/mapping.h"
#include "agent/process/process_table.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>

#include "agent/containers/cgroup.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "tests/unit/agent/process/process_tables.h"

/* This program's function, and its name in the kernel. */
#define PROGRAM "test_process_table"
#define COMM    "test_process_ta"

int function_of_this_program(int number);

__attribute__((noinline)) int function_of_this_program(int number)
{
	return number * 5;
}

static void check_label(const struct process *process, const char *label, const char *value)
{
	assert_non_null(labels_get(&process->labels, label));
	assert_string_equal(value, labels_get(&process->labels, label));
}

TEST(a_scanned_process_adopts_the_kernels_key)
{
	struct tables tables = tables_new(NULL);
	struct error err;

	assert_int_equal(0, process_table_scan(tables.processes, &err));
	uint64_t count = process_table_count(tables.processes);
	assert_true(count > 1);
	struct process_key key = key_of(getpid(), 3);
	struct process *process = process_table_get(tables.processes, &key, "other");
	assert_string_equal(COMM, process->name);
	assert_memory_equal(&key, &process->key, sizeof(key));
	assert_ptr_equal(process, process_table_get(tables.processes, &key, "other"));
	assert_int_equal(count, process_table_count(tables.processes)); // none was added
	tables_free(&tables);
}

TEST(finds_addresses_of_a_running_process)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0);
	struct process *process = process_table_get(tables.processes, &key, "x");
	struct code_address code;

	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	check_code(&tables, process, dlsym(RTLD_DEFAULT, "lfind"), "lfind");
	assert_int_equal(-ENOENT, process_find_code(tables.processes, process, 1, &code));
	assert_null(code.executable);
	assert_int_equal(-ENOENT, process_find_code(tables.processes, process, UINT64_MAX, &code));
	tables_free(&tables);
}

/* A shell with this environment, which only exec can give it; it waits to be ended. */
static pid_t start_shell(char **environment)
{
	char *arguments[] = { "sh", "-c", "echo; read x", NULL };
	int input[2], output[2];
	char ready;

	assert_int_equal(0, pipe(input));
	assert_int_equal(0, pipe(output));
	pid_t child = fork();
	if (child == 0) {
		dup2(input[0], 0);
		dup2(output[1], 1);
		execve("/bin/sh", arguments, environment);
		_exit(1);
	}
	close(input[0]);
	close(output[1]);
	assert_int_equal(1, read(output[0], &ready, 1));
	close(output[0]);
	return child; // its input stays open in this process
}

TEST(a_process_has_the_labels_of_its_environment)
{
	char *environment[] = { "OTEL_SERVICE_NAME=llm",
				"OTEL_RESOURCE_ATTRIBUTES=service.version=1.2", "SECRET=x", NULL };
	struct tables tables = tables_new(NULL);
	pid_t child = start_shell(environment);
	struct process_key key = key_of(child, 1);

	struct process *process = process_table_get(tables.processes, &key, "x");
	check_label(process, "service", "llm");
	check_label(process, "version", "1.2");
	check_label(process, "process", "sh");
	assert_non_null(labels_get(&process->labels, "node"));
	assert_null(labels_get(&process->labels, "SECRET"));
	end(child);
	tables_free(&tables);
}

static uint64_t payer_of_a_child(struct tables *tables, uid_t uid)
{
	pid_t child = fork();

	if (child == 0) {
		if (setuid(uid))
			_exit(1);
		raise(SIGSTOP);
		_exit(0);
	}
	waitpid(child, NULL, WUNTRACED);
	struct process_key key = key_of(child, 1);
	struct process *process = process_table_get(tables->processes, &key, "x");
	assert_non_null(process);
	uint64_t payer = process->budget.payer;
	end(child);
	return payer;
}

/* Or who starts many processes would have as many shares of the agent. */
TEST(a_users_processes_pay_together)
{
	enum { USER = 12345 };
	struct tables tables = tables_new(NULL);
	struct buffer text = { 0 };
	struct cgroup cgroup;
	struct proc proc;

	if (getuid()) {
		print_message("# SKIP: only root can be other users\n");
		tables_free(&tables);
		return;
	}
	assert_int_equal(0, proc_open(getpid(), &proc));
	assert_int_equal(0, proc_read(proc.fd, "cgroup", CGROUP_FILE_BYTES_MAX, &text));
	proc_close(&proc);
	cgroup_parse((const char *)text.bytes, text.size, &cgroup);
	buffer_deinit(&text);
	uint64_t first = payer_of_a_child(&tables, USER);
	bool is_alone = !cgroup.payer[0]; // else this test's container pays for all
	EXPECT_EQ(first, payer_of_a_child(&tables, USER), "the same user's");
	EXPECT_EQ(is_alone, payer_of_a_child(&tables, USER + 1) != first, "another user's");
	uint64_t roots = payer_of_a_child(&tables, 0);
	EXPECT_EQ(is_alone, roots != first, "root's");
	EXPECT_EQ(is_alone, payer_of_a_child(&tables, 0) != roots, "root's other");
	tables_free(&tables);
}

TEST(extra_labels_win)
{
	struct labels extra = { 0 };

	assert_int_equal(0, labels_set(&extra, "service", "mine"));
	assert_int_equal(0, labels_set(&extra, "node", "n7"));
	struct tables tables = tables_new(&extra);
	labels_deinit(&extra); // the table has its own
	struct process_key key = key_of(getpid(), 0);
	struct process *process = process_table_get(tables.processes, &key, "x");
	check_label(process, "service", "mine");
	check_label(process, "node", "n7");
	tables_free(&tables);
}

TEST(an_exited_child_has_its_parents_code)
{
	struct tables tables = tables_new(NULL);
	struct process_key parent = key_of(getpid(), 2);
	pid_t child = fork_and_wait();
	struct process_key key = key_of(child, 2);

	process_table_scan(tables.processes, NULL);
	process_table_get(tables.processes, &parent, "x");
	apply(&tables, PROCESS_FORK, key, getpid(), COMM);
	end(child);
	apply(&tables, PROCESS_EXIT, key, 0, COMM);
	struct process *process = process_table_get(tables.processes, &key, "x");
	assert_true(process->exited);
	check_label(process, "process", COMM);
	check_label(process, "service", PROGRAM);
	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	tables_free(&tables);
}

TEST(reads_an_unsampled_parent_for_its_child)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 2);

	process_table_scan(tables.processes, NULL);
	key.pid = 4000000; // above pid_max's usual values: it has gone
	apply(&tables, PROCESS_FORK, key, getpid(), "child");
	struct process *process = process_table_get(tables.processes, &key, "x");
	assert_string_equal("child", process->name);
	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	const struct process *parent = process_table_parent(tables.processes, process);
	assert_non_null(parent);
	EXPECT_EQ((uint32_t)getpid(), parent->key.pid, "its parent");
	key.exec_id++;
	apply(&tables, PROCESS_EXEC, key, 0, "other");
	process = process_table_get(tables.processes, &key, "x");
	assert_null(process_table_parent(tables.processes, process));
	tables_free(&tables);
}

TEST(a_child_is_its_parent_until_exec)
{
	char *environment[] = { "OTEL_SERVICE_NAME=llm", NULL };
	struct tables tables = tables_new(NULL);
	pid_t child = start_shell(environment); // /proc shows the shell already
	struct process_key key = key_of(child, 5), after = key_of(child, 6);

	process_table_scan(tables.processes, NULL);
	apply(&tables, PROCESS_FORK, key, getpid(), COMM);
	struct process *process = process_table_get(tables.processes, &key, "x");
	assert_string_equal(COMM, process->name);
	check_label(process, "service", PROGRAM);
	check_code(&tables, process, function_of_this_program, "function_of_this_program");

	apply(&tables, PROCESS_EXEC, after, 0, "sh");
	assert_true(process->exited);
	process = process_table_get(tables.processes, &after, "x");
	check_label(process, "service", "llm");
	check_code(&tables, process, function_of_this_program, "(none)");
	end(child);
	tables_free(&tables);
}

TEST(a_lasting_child_gets_its_own_labels)
{
	char *environment[] = { "OTEL_SERVICE_NAME=llm", NULL };
	struct tables tables = tables_new(NULL);
	pid_t child = start_shell(environment); // as a process that set its own name
	struct process_key key = key_of(child, 5);

	process_table_scan(tables.processes, NULL);
	apply(&tables, PROCESS_FORK, key, getpid(), COMM);
	struct process *process = process_table_get(tables.processes, &key, "x");
	check_label(process, "service", PROGRAM);
	usleep(1100000);
	assert_ptr_equal(process, process_table_get(tables.processes, &key, "x"));
	check_label(process, "service", "llm");
	end(child);
	tables_free(&tables);
}

TEST(a_child_outlives_its_parent)
{
	struct tables tables = tables_new(NULL);
	pid_t parent = fork_and_wait();
	struct process_key parent_key = key_of(parent, 2), key = parent_key;

	process_table_get(tables.processes, &parent_key, "x");
	key.pid = 4000000;
	apply(&tables, PROCESS_FORK, key, parent, "child");
	end(parent);
	apply(&tables, PROCESS_EXIT, parent_key, 0, "x");
	struct process *process = process_table_get(tables.processes, &key, "x");
	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	check_label(process, "service", PROGRAM);
	tables_free(&tables);
}

TEST(exec_makes_a_new_process)
{
	struct tables tables = tables_new(NULL);
	struct process_key before = key_of(getpid(), 7), after = key_of(getpid(), 8);

	struct process *old = process_table_get(tables.processes, &before, "x");
	apply(&tables, PROCESS_EXEC, after, 0, "new");
	assert_true(old->exited);
	struct process *process = process_table_get(tables.processes, &after, "x");
	assert_ptr_not_equal(old, process);
	assert_false(process->exited);
	assert_ptr_equal(old, process_table_get(tables.processes, &before, "x"));
	check_code(&tables, old, function_of_this_program, "function_of_this_program");
	tables_free(&tables);
}

TEST(a_sample_from_before_exec_changes_nothing)
{
	struct tables tables = tables_new(NULL);
	struct process_key before = key_of(getpid(), 0xffffffff), after = key_of(getpid(), 0);

	// exec_id wraps around: 0 comes after the greatest
	apply(&tables, PROCESS_EXEC, after, 0, "new");
	struct process *old = process_table_get(tables.processes, &before, "old");
	assert_true(old->exited);
	assert_string_equal("old", old->name);
	check_code(&tables, old, function_of_this_program,
		   "(none)"); // /proc shows another program by now
	struct process *process = process_table_get(tables.processes, &after, "x");
	assert_false(process->exited);
	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	tables_free(&tables);
}

TEST(a_reused_pid_is_another_process)
{
	struct tables tables = tables_new(NULL);
	struct process_key now = key_of(getpid(), 0), earlier = now;

	earlier.start_ns -= 5 * NS_PER_SECOND;
	struct process *gone = process_table_get(tables.processes, &earlier, "gone");
	assert_string_equal("gone", gone->name); // not this program's
	check_code(&tables, gone, function_of_this_program, "(none)");
	check_label(gone, "service", "gone");
	struct process *process = process_table_get(tables.processes, &now, "x");
	assert_true(gone->exited);
	assert_string_equal(COMM, process->name);
	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	tables_free(&tables);
}

TEST(exec_of_a_scanned_process_adopts_it)
{
	struct tables tables = tables_new(NULL);

	process_table_scan(tables.processes, NULL);
	uint64_t count = process_table_count(tables.processes);
	apply(&tables, PROCESS_EXEC, key_of(getpid(), 4), 0, "new");
	assert_int_equal(count, process_table_count(tables.processes));
	tables_free(&tables);
}

TEST(an_exited_program_keeps_labels_over_exec)
{
	char *environment[] = { "OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=p1", NULL };
	struct tables tables = tables_new(NULL);
	pid_t child = start_shell(environment);
	struct process_key before = key_of(child, 1), after = key_of(child, 2);

	process_table_allow_attributes(tables.processes, "k8s.pod.name");
	process_table_get(tables.processes, &before, "x");
	apply(&tables, PROCESS_EXEC, after, 0, "ls");
	end(child);
	struct process *process = process_table_get(tables.processes, &after, "x");
	check_label(process, "service", "ls");
	check_label(process, "process", "ls");
	check_label(process, "pod", "p1");
	tables_free(&tables);
}

TEST(keeps_exited_processes_until_they_expire)
{
	struct tables tables = tables_new(NULL);
	pid_t child = fork_and_wait();
	struct process_key key = key_of(child, 0);
	struct process *process = process_table_get(tables.processes, &key, "x");

	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	apply(&tables, PROCESS_EXIT, key, 0, "x");
	end(child);
	process_table_expire(tables.processes, NS_PER_SECOND);
	assert_int_equal(1, process_table_count(tables.processes));
	assert_ptr_equal(process, process_table_get(tables.processes, &key, "x"));
	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	usleep(2000);
	process_table_expire(tables.processes, NS_PER_MS);
	assert_int_equal(0, process_table_count(tables.processes));
	tables_free(&tables);
}

TEST(notices_a_lost_exit_event)
{
	struct tables tables = tables_new(NULL);
	pid_t child = fork_and_wait();
	struct process_key key = key_of(child, 0);
	struct process *process = process_table_get(tables.processes, &key, "x");

	process_table_expire(tables.processes, NS_PER_SECOND);
	assert_false(process->exited);
	end(child);
	process_table_expire(tables.processes, NS_PER_SECOND);
	assert_true(process->exited);
	tables_free(&tables);
}

TEST(bounds_processes_from_events)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = { .start_ns = 1 };

	for (key.pid = 4000000; key.pid < 4000000 + 2 * PROCESSES_MAX; key.pid++)
		apply(&tables, key.pid % 2 ? PROCESS_FORK : PROCESS_EXEC, key, 1, "storm");
	assert_int_equal(PROCESSES_MAX, process_table_count(tables.processes));
	key.pid = 4000000;
	apply(&tables, PROCESS_EXIT, key, 0, "storm");
	assert_non_null(process_table_get(tables.processes, &key, "x"));
	process_table_expire(tables.processes, 60 * NS_PER_SECOND);
	assert_true(process_table_count(tables.processes) < PROCESSES_MAX);
	apply(&tables, 77, key, 0, "no such event");
	tables_free(&tables);
}

TEST(finds_a_library_loaded_later)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0);
	struct process *process = process_table_get(tables.processes, &key, "x");

	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	void *library = dlopen("libz.so.1", RTLD_NOW);
	if (!library)
		SKIP("no libz.so.1 here");
	check_code(&tables, process, dlsym(library, "inflate"), "inflate");
	dlclose(library);
	tables_free(&tables);
}

TEST(a_new_generation_is_a_new_list)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0), child = key;
	struct process *process = process_table_get(tables.processes, &key, "x");
	uint64_t generation = process_mappings_generation(process);
	struct code_address code;

	assert_int_not_equal(0, generation);
	assert_non_null(process_mappings(tables.processes, process));
	child.pid = 4000000;
	apply(&tables, PROCESS_FORK, child, getpid(), "child");
	struct process *copy = process_table_get(tables.processes, &child, "x");
	assert_int_equal(generation, process_mappings_generation(copy));

	void *anonymous = map_code();
	process_find_code(tables.processes, process, (uintptr_t)anonymous, &code);
	assert_false(code.is_data);
	assert_int_not_equal(generation, process_mappings_generation(process));
	assert_int_equal(generation, process_mappings_generation(copy));
	munmap(anonymous, 4096);
	tables_free(&tables);
}

TEST(bounds_reads_for_unmapped_addresses)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0);
	struct process *process = process_table_get(tables.processes, &key, "x");
	struct code_address code;

	uint64_t before = clock_process_cpu_ns();
	for (uint64_t i = 0; i < 100000; i++)
		process_find_code(tables.processes, process, 0x10000 + i, &code);
	assert_true(clock_process_cpu_ns() - before <
		    slower_ns(500 * NS_PER_MS)); // 100,000 reads take seconds
	tables_free(&tables);
}

static uint64_t each_millisecond(void)
{
	static uint64_t now_ns;

	return now_ns += NS_PER_MS;
}

static void list_function(uint64_t address, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *file = fopen(path, "a");
	fprintf(file, "%lx 10 %s\n", (unsigned long)address, name);
	fclose(file);
	usleep(100000); // files are read at a bounded rate
}

static const char *jit_name_of(struct tables *tables, struct process *process, uint64_t address)
{
	struct code_address code;

	process_find_code(tables->processes, process, address, &code);
	return code.jit_name ? code.jit_name : "";
}

static uint32_t count_files(struct tables *tables, struct process *process, enum mapping_file state)
{
	const struct mapping_list *list = process_mappings(tables->processes, process);
	uint32_t count = 0;

	for (uint32_t i = 0; i < list->count; i++)
		count += list->mappings[i].file == state;
	return count;
}

static enum mapping_file state_of_vdso(const struct mapping_list *list)
{
	for (uint32_t i = 0; i < list->count; i++)
		if (strcmp(mapping_path(list, &list->mappings[i]), "[vdso]") == 0)
			return list->mappings[i].file;
	return MAPPING_FILE_OPENED; // this kernel maps none
}

/* Each takes a millisecond: one process's files do not use up the agent's time. The vdso is the kernel's. */
TEST(files_are_identified_within_their_budget)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0);
	struct work_pool *work = process_table_work(tables.processes);

	work->cpu_ns = each_millisecond;
	work->process_ns = NS_PER_MS;
	struct process *process = process_table_get(tables.processes, &key, "x");
	EXPECT_EQ(true, count_files(&tables, process, MAPPING_FILE_UNKNOWN) > 0, "left for later");
	EXPECT_EQ(MAPPING_FILE_OPENED, state_of_vdso(process_mappings(tables.processes, process)),
		  "the vdso");
	EXPECT_EQ(0, count_files(&tables, process, MAPPING_FILE_REFUSED), "refused");
	EXPECT_EQ(1, work->put_off, "processes put off");
	for (int i = 0; i < 1000 && count_files(&tables, process, MAPPING_FILE_UNKNOWN); i++)
		process_table_expire(tables.processes, NS_PER_SECOND);
	EXPECT_EQ(0, count_files(&tables, process, MAPPING_FILE_UNKNOWN), "in the end");
	EXPECT_EQ(true, count_files(&tables, process, MAPPING_FILE_OPENED) > 3, "all");
	tables_free(&tables);
}

TEST(reads_nothing_of_a_program_left_alone)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 1);

	assert_int_equal(0, process_table_scan(tables.processes, NULL));
	process_table_leave_alone(tables.processes, getpid());
	struct process *process = process_table_get(tables.processes, &key, "x");
	EXPECT_EQ(true, !process_mappings(tables.processes, process), "its mappings are not read");
	EXPECT_EQ(0, process->budget.spent_ns, "spent");
	key.exec_id++;
	process = process_table_get(tables.processes, &key, "y");
	EXPECT_EQ(true, count_files(&tables, process, MAPPING_FILE_OPENED) > 3, "the next one's");
	tables_free(&tables);
}

TEST(reads_the_program_after_one_left_alone)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 1);

	assert_int_equal(0, process_table_scan(tables.processes, NULL));
	process_table_leave_alone(tables.processes, getpid());
	apply(&tables, PROCESS_EXEC, key, 0, "next"); // the first that is heard of it
	struct process *process = process_table_get(tables.processes, &key, "x");
	EXPECT_EQ(true, count_files(&tables, process, MAPPING_FILE_OPENED) > 3, "its mappings");
	tables_free(&tables);
}

/* Each read of its files takes a millisecond, and no more are allowed. */
TEST(puts_off_what_a_process_may_not_cost)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0);
	uint64_t code = (uintptr_t)map_code();
	struct process *process = process_table_get(tables.processes, &key, "x");
	char path[64];

	list_function(code, "f");
	process_mappings(tables.processes, process);
	struct work_pool *work = process_table_work(tables.processes);
	work->cpu_ns = each_millisecond;
	work->process_ns = NS_PER_MS;
	for (int i = 0; i < 1000; i++) // what its files have cost is paid off
		process_table_expire(tables.processes, NS_PER_SECOND);
	EXPECT_STR("f", jit_name_of(&tables, process, code), "within the budget");
	list_function(code + 16, "g");
	EXPECT_STR("", jit_name_of(&tables, process, code + 16), "spent");
	EXPECT_STR("f", jit_name_of(&tables, process, code), "known before");
	EXPECT_EQ(1, work->put_off, "processes put off");
	process_table_expire(tables.processes, NS_PER_SECOND);
	EXPECT_STR("g", jit_name_of(&tables, process, code + 16), "in the next interval");

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	unlink(path);
	munmap((void *)(uintptr_t)code, 4096);
	tables_free(&tables);
}

RUN_TESTS(cmocka_unit_test(a_new_generation_is_a_new_list),
	  cmocka_unit_test(a_scanned_process_adopts_the_kernels_key),
	  cmocka_unit_test(finds_addresses_of_a_running_process),
	  cmocka_unit_test(a_process_has_the_labels_of_its_environment),
	  cmocka_unit_test(a_users_processes_pay_together), cmocka_unit_test(extra_labels_win),
	  cmocka_unit_test(an_exited_child_has_its_parents_code),
	  cmocka_unit_test(reads_an_unsampled_parent_for_its_child),
	  cmocka_unit_test(a_child_is_its_parent_until_exec),
	  cmocka_unit_test(a_lasting_child_gets_its_own_labels),
	  cmocka_unit_test(a_child_outlives_its_parent), cmocka_unit_test(exec_makes_a_new_process),
	  cmocka_unit_test(a_sample_from_before_exec_changes_nothing),
	  cmocka_unit_test(a_reused_pid_is_another_process),
	  cmocka_unit_test(exec_of_a_scanned_process_adopts_it),
	  cmocka_unit_test(an_exited_program_keeps_labels_over_exec),
	  cmocka_unit_test(keeps_exited_processes_until_they_expire),
	  cmocka_unit_test(notices_a_lost_exit_event),
	  cmocka_unit_test(bounds_processes_from_events),
	  cmocka_unit_test(finds_a_library_loaded_later),
	  cmocka_unit_test(bounds_reads_for_unmapped_addresses),
	  cmocka_unit_test(files_are_identified_within_their_budget),
	  cmocka_unit_test(reads_nothing_of_a_program_left_alone),
	  cmocka_unit_test(reads_the_program_after_one_left_alone),
	  cmocka_unit_test(puts_off_what_a_process_may_not_cost))
