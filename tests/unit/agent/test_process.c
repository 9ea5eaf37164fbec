// SPDX-License-Identifier: Apache-2.0
#include "agent/process.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/exec_mappings.h"
#include "agent/mapping.h"
#include "agent/proc.h"
#include "agent/process_entry.h"
#include "base/clock.h"
#include "tests/test.h"

int function_of_this_program(int number);

__attribute__((noinline)) int function_of_this_program(int number)
{
	return number * 5;
}

struct tables {
	struct executable_table *executables;
	struct process_table *processes;
};

static struct tables tables_new(const struct labels *extra)
{
	struct tables tables = { .executables = executable_table_new() };

	tables.processes = process_table_new(tables.executables, extra);
	assert_non_null(tables.processes);
	return tables;
}

static void tables_free(struct tables *tables)
{
	process_table_free(tables->processes);
	executable_table_free(tables->executables);
}

/* A key as the kernel would tell it: the nanoseconds below a tick are not in /proc. */
static struct process_key key_of(pid_t pid, uint32_t exec_id)
{
	struct proc proc;

	assert_int_equal(0, proc_open(pid, &proc));
	proc_close(&proc);
	return (struct process_key){ .pid = (uint32_t)pid,
				     .exec_id = exec_id,
				     .start_ns = proc.stat.start_ticks * 10000000 + 1234567 };
}

static pid_t fork_and_wait(void)
{
	pid_t child = fork();

	if (child == 0)
		for (;;)
			pause();
	assert_true(child > 0);
	return child;
}

static void end(pid_t child)
{
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
}

static void apply(struct tables *tables, enum process_event event, struct process_key key,
		  pid_t parent, const char *name)
{
	struct process_record record = {
		.kind = RECORD_PROCESS,
		.event = event,
		.process = key,
		.parent_pid = (uint32_t)parent,
	};

	snprintf(record.name, sizeof(record.name), "%s", name);
	process_table_apply(tables->processes, &record);
}

static void check_code(struct tables *tables, struct process *process, const void *function,
		       const char *name)
{
	struct symbol symbol = { .name = "(none)" };
	struct code_address code;

	if (process_find_code(tables->processes, process, (uintptr_t)function + 1, &code) == 0)
		executable_find_symbol(tables->executables, code.executable, code.offset, &symbol);
	assert_string_equal(name, symbol.name);
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
	assert_string_equal("test_process", process->name);
	assert_memory_equal(&key, &process->key, sizeof(key));
	assert_ptr_equal(process, process_table_get(tables.processes, &key, "other"));
	assert_int_equal(count, process_table_count(tables.processes)); // none was added
	tables_free(&tables);
}

TEST(addresses_of_a_living_process_are_found)
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

TEST(a_child_that_has_gone_is_read_as_its_parent)
{
	struct tables tables = tables_new(NULL);
	struct process_key parent = key_of(getpid(), 2);
	pid_t child = fork_and_wait();
	struct process_key key = key_of(child, 2);

	process_table_scan(tables.processes, NULL);
	process_table_get(tables.processes, &parent, "x");
	apply(&tables, PROCESS_FORK, key, getpid(), "test_process");
	end(child);
	apply(&tables, PROCESS_EXIT, key, 0, "test_process");
	struct process *process = process_table_get(tables.processes, &key, "x");
	assert_true(process->exited);
	check_label(process, "process", "test_process");
	check_label(process, "service", "test_process");
	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	tables_free(&tables);
}

TEST(a_parent_that_was_never_sampled_is_read_for_its_child)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 2);

	process_table_scan(tables.processes, NULL);
	key.pid = 4000000; // above pid_max's usual values: it has gone
	apply(&tables, PROCESS_FORK, key, getpid(), "child");
	struct process *process = process_table_get(tables.processes, &key, "x");
	assert_string_equal("child", process->name);
	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	tables_free(&tables);
}

TEST(a_child_is_its_parent_until_it_calls_exec)
{
	char *environment[] = { "OTEL_SERVICE_NAME=llm", NULL };
	struct tables tables = tables_new(NULL);
	pid_t child = start_shell(environment); // /proc shows the shell already
	struct process_key key = key_of(child, 5), after = key_of(child, 6);

	process_table_scan(tables.processes, NULL);
	apply(&tables, PROCESS_FORK, key, getpid(), "test_process");
	struct process *process = process_table_get(tables.processes, &key, "x");
	assert_string_equal("test_process", process->name);
	check_label(process, "service", "test_process");
	check_code(&tables, process, function_of_this_program, "function_of_this_program");

	apply(&tables, PROCESS_EXEC, after, 0, "sh");
	assert_true(process->exited);
	process = process_table_get(tables.processes, &after, "x");
	check_label(process, "service", "llm");
	check_code(&tables, process, function_of_this_program, "(none)");
	end(child);
	tables_free(&tables);
}

TEST(a_child_that_lives_on_is_looked_at_itself)
{
	char *environment[] = { "OTEL_SERVICE_NAME=llm", NULL };
	struct tables tables = tables_new(NULL);
	pid_t child = start_shell(environment); // stands for one that set its own name
	struct process_key key = key_of(child, 5);

	process_table_scan(tables.processes, NULL);
	apply(&tables, PROCESS_FORK, key, getpid(), "test_process");
	struct process *process = process_table_get(tables.processes, &key, "x");
	check_label(process, "service", "test_process");
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
	check_label(process, "service", "test_process");
	tables_free(&tables);
}

TEST(exec_makes_another_process_of_the_same_pid)
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

TEST(a_sample_from_before_exec_does_not_undo_it)
{
	struct tables tables = tables_new(NULL);
	struct process_key before = key_of(getpid(), 0xffffffff), after = key_of(getpid(), 0);

	// exec_id wraps around: 0 comes after the greatest
	apply(&tables, PROCESS_EXEC, after, 0, "new");
	struct process *old = process_table_get(tables.processes, &before, "old");
	assert_true(old->exited);
	assert_string_equal("old", old->name);
	check_code(&tables, old, function_of_this_program, "(none)"); // /proc shows another by now
	struct process *process = process_table_get(tables.processes, &after, "x");
	assert_false(process->exited);
	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	tables_free(&tables);
}

TEST(a_pid_given_to_another_process_is_told_apart)
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
	assert_string_equal("test_process", process->name);
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

TEST(a_program_that_has_gone_keeps_what_exec_does_not_change)
{
	char *environment[] = { "OTEL_RESOURCE_ATTRIBUTES=k8s.pod.name=p1", NULL };
	struct tables tables = tables_new(NULL);
	pid_t child = start_shell(environment);
	struct process_key before = key_of(child, 1), after = key_of(child, 2);

	process_table_get(tables.processes, &before, "x");
	apply(&tables, PROCESS_EXEC, after, 0, "ls");
	end(child);
	struct process *process = process_table_get(tables.processes, &after, "x");
	check_label(process, "service", "ls");
	check_label(process, "process", "ls");
	check_label(process, "pod", "p1");
	tables_free(&tables);
}

TEST(exited_processes_are_kept_until_they_expire)
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

TEST(a_lost_exit_is_noticed)
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

TEST(events_without_number_are_bounded)
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

TEST(a_library_that_is_loaded_later_is_found)
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

static void *map_code(void)
{
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(MAP_FAILED, code);
	return code;
}

TEST(another_generation_is_another_list)
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

/* ---- followed by the kernel's events ---- */

static void tell(struct tables *tables, uint32_t pid, enum mmap_event_kind kind, uint64_t start,
		 uint64_t limit, const char *path)
{
	struct mmap_event event = {
		.kind = kind, .pid = pid, .start = start, .limit = limit, .path = path
	};

	process_table_apply_mmap(tables->processes, &event);
}

static bool is_code(struct tables *tables, struct process *process, uint64_t address)
{
	struct code_address code;

	process_find_code(tables->processes, process, address, &code);
	return !code.is_data && !code.is_unknown;
}

TEST(a_mapping_that_is_told_belongs_to_one_process)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0), child = key;
	struct process *process = process_table_get(tables.processes, &key, "x");

	child.pid = 4000000;
	apply(&tables, PROCESS_FORK, child, getpid(), "child");
	struct process *copy = process_table_get(tables.processes, &child, "x");
	uint64_t generation = process_mappings_generation(copy);
	tell(&tables, child.pid, MMAP_EVENT_MAP, 0x1000, 0x2000, "//anon");
	assert_true(is_code(&tables, copy, 0x1800));
	assert_false(is_code(&tables, process, 0x1800));
	assert_int_equal(generation, process_mappings_generation(process));
	assert_int_not_equal(generation, process_mappings_generation(copy));
	check_code(&tables, copy, function_of_this_program, "function_of_this_program");

	generation = process_mappings_generation(copy);
	tell(&tables, child.pid, MMAP_EVENT_MAP, 0x1000, 0x2000, "//anon"); // once more
	assert_int_equal(generation, process_mappings_generation(copy));
	tell(&tables, 4000001, MMAP_EVENT_MAP, 0x1000, 0x2000, "//anon"); // of nobody
	tables_free(&tables);
}

TEST(what_exec_maps_is_the_next_programs)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0);
	struct process *old = process_table_get(tables.processes, &key, "x");

	tell(&tables, key.pid, MMAP_EVENT_EXEC, 0, 0, "");
	tell(&tables, key.pid, MMAP_EVENT_MAP, 0x1000, 0x2000, "//anon");
	assert_false(is_code(&tables, old, 0x1800)); // exec has not come to its end
	tell(&tables, key.pid, MMAP_EVENT_EXEC, 0, 0, "");
	tell(&tables, key.pid, MMAP_EVENT_MAP, 0x3000, 0x4000, "//anon");
	key.exec_id = 1;
	apply(&tables, PROCESS_EXEC, key, 0, "first");
	struct process *first = process_table_get(tables.processes, &key, "x");
	key.exec_id = 2;
	apply(&tables, PROCESS_EXEC, key, 0, "second");
	struct process *second = process_table_get(tables.processes, &key, "x");
	assert_true(is_code(&tables, first, 0x1800));
	assert_false(is_code(&tables, first, 0x3800));
	assert_true(is_code(&tables, second, 0x3800));
	assert_false(is_code(&tables, second, 0x1800));
	tell(&tables, key.pid, MMAP_EVENT_MAP, 0x5000, 0x6000, "//anon");
	assert_true(is_code(&tables, second, 0x5800)); // its own, after exec
	tables_free(&tables);
}

TEST(execs_without_end_are_bounded)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = { .pid = 4000000, .exec_id = 1, .start_ns = 5 };

	for (uint32_t i = 0; i < 3 * EXEC_MAPPINGS_MAX; i++) {
		tell(&tables, key.pid + i, MMAP_EVENT_EXEC, 0, 0, "");
		tell(&tables, key.pid + i, MMAP_EVENT_MAP, 0x1000, 0x2000, "//anon");
	}
	apply(&tables, PROCESS_EXEC, key, 0, "first"); // long pushed out
	assert_false(is_code(&tables, process_table_get(tables.processes, &key, "x"), 0x1800));
	key.pid += 3 * EXEC_MAPPINGS_MAX - 1;
	apply(&tables, PROCESS_EXEC, key, 0, "last");
	assert_true(is_code(&tables, process_table_get(tables.processes, &key, "x"), 0x1800));
	tell(&tables, 77, MMAP_EVENT_EXEC, 0, 0, "");
	tell(&tables, 0, MMAP_EVENT_LOST, 0, 0, "");
	key.pid = 77;
	apply(&tables, PROCESS_EXEC, key, 0, "of a loss");
	assert_false(is_code(&tables, process_table_get(tables.processes, &key, "x"), 0x1800));
	tables_free(&tables);
}

/* A table that follows this machine's processes; NULL where that is not allowed. */
static struct mmap_events *follow(struct tables *tables)
{
	struct mmap_events *events = NULL;

	if (mmap_events_open(&events, NULL))
		return NULL;
	process_table_follow(tables->processes, events);
	return events;
}

/* A program that ends at once, as the kernel's programs tell it. */
static struct process_key run(struct tables *tables, const char *program)
{
	struct process_key key = { .exec_id = 5, .start_ns = 1 };
	pid_t child = fork();

	if (child == 0) {
		execl(program, program, NULL);
		_exit(1);
	}
	key.pid = (uint32_t)child;
	waitpid(child, NULL, 0);
	apply(tables, PROCESS_FORK, key, getpid(), "test_process");
	key.exec_id++;
	apply(tables, PROCESS_EXEC, key, 0, "true");
	apply(tables, PROCESS_EXIT, key, 0, "true");
	return key;
}

static const struct mapping *mapping_of(const struct mapping_list *list, const char *path)
{
	for (uint32_t i = 0; list && i < list->count; i++)
		if (strcmp(mapping_path(list, &list->mappings[i]), path) == 0)
			return &list->mappings[i];
	return NULL;
}

/* The executable at the beginning of the file's code; "": none. */
static const char *code_of(struct tables *tables, struct process *process, const char *path)
{
	const struct mapping_list *list = process_mappings(tables->processes, process);
	const struct mapping *mapping = mapping_of(list, path);
	struct code_address code = { 0 };

	assert_non_null(mapping);
	process_find_code(tables->processes, process, mapping->start, &code);
	return code.executable ? code.executable->path : "";
}

TEST(a_process_that_lived_a_millisecond_is_known)
{
	struct tables tables = tables_new(NULL);
	struct mmap_events *events = follow(&tables);
	char program[] = "/tmp/cairn-true-XXXXXX", command[128];

	if (!events)
		SKIP("perf events are not allowed here");
	int fd = mkstemp(program);
	snprintf(command, sizeof(command), "cp /bin/true %s; chmod 755 %s", program, program);
	assert_int_equal(0, system(command));
	close(fd);
	struct process_key key = key_of(getpid(), 5); // whose files its children see
	process_table_get(tables.processes, &key, "x");
	key = run(&tables, program);
	struct process *process = process_table_get(tables.processes, &key, "x");
	assert_true(process->exited);
	assert_string_equal(program, code_of(&tables, process, program));
	assert_string_equal("[vdso]", code_of(&tables, process, "[vdso]"));

	key = run(&tables, program);
	unlink(program); // known from the run before
	process = process_table_get(tables.processes, &key, "x");
	assert_string_equal(program, code_of(&tables, process, program));
	tables_free(&tables);
	mmap_events_close(events);
}

TEST(a_file_that_has_gone_too_is_known_by_its_build_id)
{
	struct tables tables = tables_new(NULL);
	struct mmap_events *events = follow(&tables);
	char program[] = "/tmp/cairn-true-XXXXXX", command[256];

	if (!events)
		SKIP("perf events are not allowed here");
	close(mkstemp(program));
	snprintf(command, sizeof(command), "cp /bin/true %s; chmod 755 %s", program, program);
	assert_int_equal(0, system(command));
	struct process_key key = run(&tables, program);
	// Another file takes its name.
	snprintf(command, sizeof(command), "cp /bin/false %s.new; mv %s.new %s", program, program,
		 program);
	assert_int_equal(0, system(command));
	struct process *process = process_table_get(tables.processes, &key, "x");
	if (!mapping_build_id(process_mappings(tables.processes, process),
			      mapping_of(process_mappings(tables.processes, process), program))[0])
		SKIP("this kernel tells no build ids");
	struct code_address code;
	const struct mapping *mapping =
		mapping_of(process_mappings(tables.processes, process), program);
	assert_int_equal(0, process_find_code(tables.processes, process, mapping->start, &code));
	assert_string_equal(mapping_build_id(process_mappings(tables.processes, process), mapping),
			    code.executable->id);
	assert_true(executable_wants_file(code.executable));
	unlink(program);
	tables_free(&tables);
	mmap_events_close(events);
}

TEST(a_library_put_where_another_one_was_is_noticed)
{
	struct tables tables = tables_new(NULL);
	struct mmap_events *events = follow(&tables);
	struct process_key key = key_of(getpid(), 0);
	struct code_address code;

	if (!events)
		SKIP("perf events are not allowed here");
	int first = open("/bin/true", O_RDONLY), second = open("/bin/false", O_RDONLY);
	struct process *process = process_table_get(tables.processes, &key, "x");
	void *place = map_code();
	mmap(place, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, first, 0);
	assert_int_equal(0, process_find_code(tables.processes, process, (uintptr_t)place, &code));
	assert_string_equal("/usr/bin/true", code.executable->path);
	munmap(place, 4096);
	mmap(place, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, second, 0);
	process_table_read_mmaps(tables.processes); // before the next stack is looked at
	assert_int_equal(0, process_find_code(tables.processes, process, (uintptr_t)place, &code));
	assert_string_equal("/usr/bin/false", code.executable->path);
	munmap(place, 4096);
	close(first);
	close(second);
	tables_free(&tables);
	mmap_events_close(events);
}

TEST(a_process_that_maps_without_end_is_left_alone)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0);
	struct process *process = process_table_get(tables.processes, &key, "x");

	uint64_t before = clock_process_cpu_ns();
	for (uint64_t i = 0; i < 1000000; i++)
		tell(&tables, key.pid, MMAP_EVENT_MAP, 0x1000 + i % 60000 * 0x2000,
		     0x2000 + i % 60000 * 0x2000, i % 7 ? "//anon" : "/x");
	assert_true(clock_process_cpu_ns() - before < NS_PER_SECOND);
	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	tables_free(&tables);
}

/* ---- generated code ---- */

static void append_perf_map(const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	assert_int_equal(strlen(text), write(fd, text, strlen(text)));
	close(fd);
}

static const char *jit_name_at(struct tables *tables, struct process *process, uint64_t address)
{
	struct code_address code;

	assert_int_equal(-ENOENT, process_find_code(tables->processes, process, address, &code));
	assert_true(code.is_jit);
	return code.jit_name ? code.jit_name : "";
}

TEST(generated_code_has_the_names_of_the_processs_perf_map)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0), child = key;
	uint64_t code = (uintptr_t)map_code();
	char text[64];

	struct process *process = process_table_get(tables.processes, &key, "x");
	assert_string_equal("", jit_name_at(&tables, process, code));
	snprintf(text, sizeof(text), "%lx 10 first\n", (unsigned long)code);
	append_perf_map(text);
	assert_string_equal("", jit_name_at(&tables, process, code)); // it was looked for just now
	usleep(60000);
	assert_string_equal("first", jit_name_at(&tables, process, code));

	snprintf(text, sizeof(text), "%lx 10 second\n", (unsigned long)code + 0x10);
	append_perf_map(text);
	usleep(60000);
	assert_string_equal("second", jit_name_at(&tables, process, code + 0x10));
	assert_string_equal("first", jit_name_at(&tables, process, code + 0xf));

	child.pid = 4000000; // has its parent's code
	apply(&tables, PROCESS_FORK, child, getpid(), "child");
	process = process_table_get(tables.processes, &child, "x");
	assert_string_equal("first", jit_name_at(&tables, process, code));
	process_table_expire(tables.processes, NS_PER_SECOND);
	assert_string_equal("first", jit_name_at(&tables, process, code));

	snprintf(text, sizeof(text), "/tmp/perf-%d.map", getpid());
	unlink(text);
	munmap((void *)(uintptr_t)code, 4096);
	tables_free(&tables);
}

/* A program that lists so many names that they fill the room that all have. */
static void write_large_map(uint64_t code, uint32_t lines)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *file = fopen(path, "w");
	for (uint32_t i = 0; i < lines; i++)
		fprintf(file, "%lx 1 %0200u\n", (unsigned long)code + i, i);
	fclose(file);
}

TEST(names_of_generated_code_are_bounded)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0);
	uint64_t code = (uintptr_t)map_code();
	char path[64];

	write_large_map(code, 100000); // 20 MB
	size_t before_bytes = mallinfo2().uordblks;
	for (uint32_t i = 0; i < 4; i++) { // as four programs, one after the other
		key.exec_id = i;
		struct process *process = process_table_get(tables.processes, &key, "x");
		uint64_t before = clock_process_cpu_ns();
		jit_name_at(&tables, process, code); // one step of the file only
		assert_true(clock_process_cpu_ns() - before < 200 * NS_PER_MS);
		for (int step = 0; step < 6; step++) {
			usleep(51000);
			jit_name_at(&tables, process, code + 4000);
		}
	}
	assert_true(mallinfo2().uordblks - before_bytes < JIT_BYTES_MAX + (16 << 20));
	process_table_expire(tables.processes, 60 * NS_PER_SECOND);
	assert_true(mallinfo2().uordblks - before_bytes < JIT_BYTES_MAX);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	unlink(path);
	munmap((void *)(uintptr_t)code, 4096);
	tables_free(&tables);
}

TEST(addresses_in_no_mapping_do_not_cause_reads_without_end)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0);
	struct process *process = process_table_get(tables.processes, &key, "x");
	struct code_address code;

	uint64_t before = clock_process_cpu_ns();
	for (uint64_t i = 0; i < 100000; i++)
		process_find_code(tables.processes, process, 0x10000 + i, &code);
	assert_true(clock_process_cpu_ns() - before <
		    500 * NS_PER_MS); // 100,000 reads take seconds
	tables_free(&tables);
}

RUN_TESTS(cmocka_unit_test(generated_code_has_the_names_of_the_processs_perf_map),
	  cmocka_unit_test(names_of_generated_code_are_bounded),
	  cmocka_unit_test(a_mapping_that_is_told_belongs_to_one_process),
	  cmocka_unit_test(what_exec_maps_is_the_next_programs),
	  cmocka_unit_test(execs_without_end_are_bounded),
	  cmocka_unit_test(a_process_that_lived_a_millisecond_is_known),
	  cmocka_unit_test(a_file_that_has_gone_too_is_known_by_its_build_id),
	  cmocka_unit_test(a_library_put_where_another_one_was_is_noticed),
	  cmocka_unit_test(a_process_that_maps_without_end_is_left_alone),
	  cmocka_unit_test(another_generation_is_another_list),
	  cmocka_unit_test(a_scanned_process_adopts_the_kernels_key),
	  cmocka_unit_test(addresses_of_a_living_process_are_found),
	  cmocka_unit_test(a_process_has_the_labels_of_its_environment),
	  cmocka_unit_test(extra_labels_win),
	  cmocka_unit_test(a_child_that_has_gone_is_read_as_its_parent),
	  cmocka_unit_test(a_parent_that_was_never_sampled_is_read_for_its_child),
	  cmocka_unit_test(a_child_is_its_parent_until_it_calls_exec),
	  cmocka_unit_test(a_child_that_lives_on_is_looked_at_itself),
	  cmocka_unit_test(a_child_outlives_its_parent),
	  cmocka_unit_test(exec_makes_another_process_of_the_same_pid),
	  cmocka_unit_test(a_sample_from_before_exec_does_not_undo_it),
	  cmocka_unit_test(a_pid_given_to_another_process_is_told_apart),
	  cmocka_unit_test(exec_of_a_scanned_process_adopts_it),
	  cmocka_unit_test(a_program_that_has_gone_keeps_what_exec_does_not_change),
	  cmocka_unit_test(exited_processes_are_kept_until_they_expire),
	  cmocka_unit_test(a_lost_exit_is_noticed),
	  cmocka_unit_test(events_without_number_are_bounded),
	  cmocka_unit_test(a_library_that_is_loaded_later_is_found),
	  cmocka_unit_test(addresses_in_no_mapping_do_not_cause_reads_without_end))
