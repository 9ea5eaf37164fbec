// SPDX-License-Identifier: Apache-2.0
// Mappings of processes while they change, and processes that are hard to read.
#include "agent/process/process_table.h"

#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include "agent/process/early_mappings.h"
#include "agent/process/mapping.h"
#include "agent/process/process_entry.h"
#include "base/clock.h"
#include "base/sanitized.h"
#include "tests/unit/agent/process/process_tables.h"

int function_of_this_program(int number);

__attribute__((noinline)) int function_of_this_program(int number)
{
	return number * 5;
}

/* ---- mmap events ---- */

static void send(struct tables *tables, uint32_t pid, enum mmap_event_kind kind, uint64_t start,
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

TEST(a_mapping_event_changes_one_process)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0), child = key;
	struct process *process = process_table_get(tables.processes, &key, "x");

	child.pid = 4000000;
	apply(&tables, PROCESS_FORK, child, getpid(), "child");
	struct process *copy = process_table_get(tables.processes, &child, "x");
	uint64_t generation = process_mappings_generation(copy);
	send(&tables, child.pid, MMAP_EVENT_MAP, 0x1000, 0x2000, "//anon");
	assert_true(is_code(&tables, copy, 0x1800));
	assert_false(is_code(&tables, process, 0x1800));
	assert_int_equal(generation, process_mappings_generation(process));
	assert_int_not_equal(generation, process_mappings_generation(copy));
	check_code(&tables, copy, function_of_this_program, "function_of_this_program");

	generation = process_mappings_generation(copy);
	send(&tables, child.pid, MMAP_EVENT_MAP, 0x1000, 0x2000, "//anon"); // once more
	assert_int_equal(generation, process_mappings_generation(copy));
	send(&tables, 4000001, MMAP_EVENT_MAP, 0x1000, 0x2000, "//anon"); // of an unknown process
	tables_free(&tables);
}

TEST(mappings_during_exec_are_the_new_programs)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0);
	struct process *old = process_table_get(tables.processes, &key, "x");

	send(&tables, key.pid, MMAP_EVENT_EXEC, 0, 0, "");
	send(&tables, key.pid, MMAP_EVENT_MAP, 0x1000, 0x2000, "//anon");
	assert_false(is_code(&tables, old, 0x1800)); // exec has not ended
	send(&tables, key.pid, MMAP_EVENT_EXEC, 0, 0, "");
	send(&tables, key.pid, MMAP_EVENT_MAP, 0x3000, 0x4000, "//anon");
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
	send(&tables, key.pid, MMAP_EVENT_MAP, 0x5000, 0x6000, "//anon");
	assert_true(is_code(&tables, second, 0x5800)); // its own, after exec
	tables_free(&tables);
}

TEST(bounds_unfinished_execs)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = { .pid = 4000000, .exec_id = 1, .start_ns = 5 };

	for (uint32_t i = 0; i < 3 * EARLY_MAPPINGS_MAX; i++) {
		send(&tables, key.pid + i, MMAP_EVENT_EXEC, 0, 0, "");
		send(&tables, key.pid + i, MMAP_EVENT_MAP, 0x1000, 0x2000, "//anon");
	}
	apply(&tables, PROCESS_EXEC, key, 0, "first"); // its list was dropped long ago
	assert_false(is_code(&tables, process_table_get(tables.processes, &key, "x"), 0x1800));
	key.pid += 3 * EARLY_MAPPINGS_MAX - 1;
	apply(&tables, PROCESS_EXEC, key, 0, "last");
	assert_true(is_code(&tables, process_table_get(tables.processes, &key, "x"), 0x1800));
	send(&tables, 77, MMAP_EVENT_EXEC, 0, 0, "");
	send(&tables, 0, MMAP_EVENT_LOST, 0, 0, "");
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

/* Events of a program that ends at once, as the BPF programs send them. */
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

TEST(knows_a_process_of_one_millisecond)
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
	unlink(program); // known from the first run
	process = process_table_get(tables.processes, &key, "x");
	assert_string_equal(program, code_of(&tables, process, program));
	tables_free(&tables);
	mmap_events_close(events);
}

TEST(knows_a_deleted_file_by_build_id)
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
		SKIP("this kernel reports no build ids");
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

TEST(events_of_read_mappings_change_nothing)
{
	struct tables tables = tables_new(NULL);
	struct mmap_events *events = follow(&tables);
	struct process_key key = key_of(getpid(), 0);

	if (!events)
		SKIP("perf events are not allowed here");
	int file = open("/bin/true", O_RDONLY);
	void *place = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	process_table_read_mmaps(tables.processes);
	struct process *process =
		process_table_get(tables.processes, &key, "x"); // reads the mappings
	uint64_t generation = process_mappings_generation(process);
	mprotect(place, 4096, PROT_READ);
	mprotect(place, 4096, PROT_READ | PROT_EXEC);
	process_table_read_mmaps(tables.processes);
	assert_int_equal(generation, process_mappings_generation(process));
	munmap(place, 4096);
	close(file);
	tables_free(&tables);
	mmap_events_close(events);
}

TEST(notices_a_replaced_library)
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

TEST(skips_events_of_endless_mapping)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0);
	struct process *process = process_table_get(tables.processes, &key, "x");

	uint64_t before = clock_process_cpu_ns();
	for (uint64_t i = 0; i < 300000; i++) { // each in front of all others
		uint64_t start = (100000 - i % 50000) * 0x2000;

		send(&tables, key.pid, MMAP_EVENT_MAP, start, start + 0x1000,
		     i / 50000 % 2 ? "[vdso]" : "//anon");
	}
	assert_true(clock_process_cpu_ns() - before < slower_ns(NS_PER_SECOND));
	check_code(&tables, process, function_of_this_program, "function_of_this_program");
	tables_free(&tables);
}

/* ---- JIT code ---- */

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

TEST(names_jit_code_by_the_perf_map)
{
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0), child = key;
	uint64_t code = (uintptr_t)map_code();
	char text[64];

	struct process *process = process_table_get(tables.processes, &key, "x");
	assert_string_equal("", jit_name_at(&tables, process, code));
	snprintf(text, sizeof(text), "%lx 10 first\n", (unsigned long)code);
	append_perf_map(text);
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

/* So many names that those of a few programs reach JIT_BYTES_MAX. */
static void write_large_map(uint64_t code, uint32_t lines)
{
	char path[64];

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	FILE *file = fopen(path, "w");
	for (uint32_t i = 0; i < lines; i++)
		fprintf(file, "%lx 1 %0200u\n", (unsigned long)code + lines - i, i);
	fclose(file);
}

static size_t bytes_in_use(void)
{
	struct mallinfo2 info = mallinfo2(); // zeros under AddressSanitizer

	return info.uordblks + info.hblkhd;
}

TEST(bounds_jit_names)
{
	if (slower_ns(1) > 1)
		SKIP("an emulated CPU does not read four lists of 20 MB before the test's end");
	struct tables tables = tables_new(NULL);
	struct process_key key = key_of(getpid(), 0);
	uint64_t code = (uintptr_t)map_code();
	struct process_jit_losses losses;
	char path[64];

	write_large_map(code, 100000); // 20 MB
	struct work_pool *pool = process_table_work(tables.processes);
	const uint64_t times = IS_SANITIZED ? 10 : 1; // that reading a map costs
	pool->process_ns = times * slower_ns(WORK_PROCESS_NS_MAX);
	pool->total_ns = times * slower_ns(WORK_TOTAL_NS_MAX);
	size_t before_bytes = bytes_in_use();
	for (uint32_t i = 0; i < 4; i++) { // as four programs, one after the other
		key.exec_id = i;
		struct process *process = process_table_get(tables.processes, &key, "x");
		uint64_t before = clock_process_cpu_ns();
		jit_name_at(&tables, process, code); // one step of the file only
		assert_true(clock_process_cpu_ns() - before < times * slower_ns(200 * NS_PER_MS));
		for (int step = 0; step < 6; step++) {
			usleep(51000);
			jit_name_at(&tables, process, code); // which is in no function
		}
	}
	assert_true(bytes_in_use() - before_bytes < JIT_BYTES_MAX + (16 << 20));
	process_table_read_jit_losses(tables.processes, &losses);
	assert_true(losses.cut > 0);
	assert_true(losses.refused > 0);
	process_table_expire(tables.processes, 60 * NS_PER_SECOND);
	assert_true(bytes_in_use() - before_bytes < JIT_BYTES_MAX);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	unlink(path);
	munmap((void *)(uintptr_t)code, 4096);
	tables_free(&tables);
}

/* ---- processes that are hard to read ---- */

/* A child that runs @fn and reports when it is ready; ended by end(). NULL pid where it cannot. */
static pid_t start(void (*fn)(int ready))
{
	int ready[2];
	char byte;

	assert_int_equal(0, pipe(ready));
	pid_t child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		fn(ready[1]);
		_exit(1);
	}
	close(ready[1]);
	bool is_ready = read(ready[0], &byte, 1) == 1;
	close(ready[0]);
	if (is_ready)
		return child;
	waitpid(child, NULL, 0);
	return 0;
}

static void say_ready(int ready)
{
	if (write(ready, "x", 1) != 1)
		_exit(1);
}

enum { MANY_MAPPINGS = 5000 };

/* Every second page of a range is code, so that none can be joined with the next. */
static void map_many(int ready)
{
	char *range =
		mmap(NULL, 2 * MANY_MAPPINGS * 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < MANY_MAPPINGS; i++)
		if (mprotect(range + 2 * i * 4096, 4096, PROT_READ | PROT_EXEC))
			_exit(1);
	say_ready(ready);
	pause();
}

static void check_many(struct tables *tables, struct process *process)
{
	const struct mapping_list *list = process_mappings(tables->processes, process);
	uint32_t pages = 0;

	assert_non_null(list);
	for (uint32_t i = 0; i < list->count; i++) {
		const struct mapping *mapping = &list->mappings[i];

		if (!mapping_is_jit(list, mapping) || mapping->limit - mapping->start != 4096)
			continue;
		pages++;
		assert_true(is_code(tables, process, mapping->start));
	}
	assert_true(pages >= MANY_MAPPINGS);
	check_code(tables, process, function_of_this_program, "function_of_this_program");
}

TEST(reads_and_updates_five_thousand_mappings)
{
	struct tables tables = tables_new(NULL), followed = tables_new(NULL);
	struct mmap_events *events = follow(&followed);
	struct process_key parent = key_of(getpid(), 0);

	process_table_get(followed.processes, &parent, "x");
	uint64_t before = clock_process_cpu_ns();
	pid_t child = start(map_many);
	assert_int_not_equal(0, child);
	struct process_key key = key_of(child, 0);
	check_many(&tables, process_table_get(tables.processes, &key, "x"));
	apply(&followed, PROCESS_FORK, key, getpid(), "child");
	check_many(&followed, process_table_get(followed.processes, &key, "x"));
	assert_true(clock_process_cpu_ns() - before < slower_ns(2 * NS_PER_SECOND));
	end(child);
	tables_free(&tables);
	tables_free(&followed);
	mmap_events_close(events);
}

static void *live_on(void *ready)
{
	usleep(10000); // the main thread is gone by then
	say_ready((int)(intptr_t)ready);
	pause();
	return NULL;
}

static void leave_main_thread(int ready)
{
	pthread_t thread;

	map_code();
	pthread_create(&thread, NULL, live_on, (void *)(intptr_t)ready);
	pthread_exit(NULL);
}

TEST(reads_a_process_without_main_thread)
{
	struct tables tables = tables_new(NULL);
	pid_t child = start(leave_main_thread);

	assert_int_not_equal(0, child);
	struct process_key key = key_of(child, 0);
	struct process *process = process_table_get(tables.processes, &key, "x");
	check_code(&tables, process, function_of_this_program, "function_of_this_program");

	// Its JIT code has names, too.
	const struct mapping_list *list = process_mappings(tables.processes, process);
	char path[64], line[64];
	uint64_t code = 0;
	for (uint32_t i = 0; i < list->count; i++)
		if (mapping_is_jit(list, &list->mappings[i]))
			code = list->mappings[i].start;
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", child);
	snprintf(line, sizeof(line), "%lx 10 generated\n", (unsigned long)code);
	FILE *file = fopen(path, "w");
	fputs(line, file);
	fclose(file);
	assert_string_equal("generated", jit_name_at(&tables, process, code));
	unlink(path);
	end(child);
	tables_free(&tables);
}

/* In namespaces of its own, where /tmp/inside is a program that nobody else sees. */
static void enter_container(int ready)
{
	if (unshare(CLONE_NEWPID | CLONE_NEWNS))
		_exit(1);
	pid_t inner = fork();
	if (inner)
		_exit(waitpid(inner, NULL, 0) < 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", "/tmp", "tmpfs", 0, NULL) ||
	    system("cp /bin/sleep /tmp/inside; cp /tmp/inside /tmp/gone") != 0)
		_exit(1);
	pid_t gone = fork();
	if (gone == 0) {
		execl("/tmp/gone", "gone", "0", NULL);
		_exit(1);
	}
	waitpid(gone, NULL, 0);
	dup2(ready, 9);
	execl("/bin/sh", "sh", "-c", "exec 8>&9 9>&-; echo x >&8; exec 8>&-; exec /tmp/inside 100",
	      NULL);
}

static pid_t only_child_of(pid_t pid)
{
	char path[64], text[32] = "";

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, pid);
	int fd = open(path, O_RDONLY);
	if (fd >= 0 && read(fd, text, sizeof(text) - 1) < 0)
		text[0] = '\0';
	close(fd);
	return atoi(text);
}

static void wait_for_program(pid_t pid, const char *program)
{
	char path[64], target[64] = "";

	snprintf(path, sizeof(path), "/proc/%d/exe", pid);
	for (int i = 0; i < 200 && strcmp(target, program) != 0; i++) {
		ssize_t size = readlink(path, target, sizeof(target) - 1);
		target[size > 0 ? size : 0] = '\0';
		usleep(10000);
	}
}

TEST(reads_a_process_in_other_namespaces)
{
	struct tables tables = tables_new(NULL);
	pid_t outer = start(enter_container);

	if (!outer)
		SKIP("namespaces cannot be made here");
	pid_t inner = only_child_of(outer);
	assert_true(inner > 1);
	wait_for_program(inner, "/tmp/inside");
	struct process_key key = key_of(inner, 3);
	struct process *process = process_table_get(tables.processes, &key, "x");
	assert_string_equal("/tmp/inside", code_of(&tables, process, "/tmp/inside"));
	kill(inner, SIGKILL);
	end(outer);
	tables_free(&tables);
}

TEST(opens_the_running_file_not_its_replacement)
{
	char program[] = "/tmp/cairn-sleep-XXXXXX", command[256];
	struct tables tables = tables_new(NULL);
	struct code_address code;
	int descriptors[2];

	close(mkstemp(program));
	snprintf(command, sizeof(command), "cp /bin/sleep %s; chmod 755 %s", program, program);
	assert_int_equal(0, system(command));
	assert_int_equal(0, pipe2(descriptors, O_CLOEXEC));
	pid_t child = fork();
	if (child == 0) {
		execl(program, "sleep", "100", NULL);
		_exit(1);
	}
	close(descriptors[1]);
	assert_int_equal(0, read(descriptors[0], command, 1)); // closed by exec
	close(descriptors[0]);
	wait_for_program(child, program);
	snprintf(command, sizeof(command), "cp /bin/true %s.new; mv %s.new %s", program, program,
		 program);
	assert_int_equal(0, system(command));

	struct process_key key = key_of(child, 1);
	struct process *process = process_table_get(tables.processes, &key, "x");
	const struct mapping_list *list = process_mappings(tables.processes, process);
	const struct mapping *mapping = mapping_of(list, program);
	assert_non_null(mapping);
	assert_int_equal(0, process_find_code(tables.processes, process, mapping->start, &code));
	struct executable *other;
	int fd = open("/bin/sleep", O_RDONLY);
	assert_int_equal(0, executable_table_open(tables.executables, fd, "x", &other, NULL));
	assert_ptr_equal(other, code.executable); // the same build id
	close(fd);
	unlink(program);
	end(child);
	tables_free(&tables);
}

RUN_TESTS(cmocka_unit_test(a_mapping_event_changes_one_process),
	  cmocka_unit_test(mappings_during_exec_are_the_new_programs),
	  cmocka_unit_test(bounds_unfinished_execs),
	  cmocka_unit_test(knows_a_process_of_one_millisecond),
	  cmocka_unit_test(knows_a_deleted_file_by_build_id),
	  cmocka_unit_test(events_of_read_mappings_change_nothing),
	  cmocka_unit_test(notices_a_replaced_library),
	  cmocka_unit_test(skips_events_of_endless_mapping),
	  cmocka_unit_test(names_jit_code_by_the_perf_map), cmocka_unit_test(bounds_jit_names),
	  cmocka_unit_test(reads_and_updates_five_thousand_mappings),
	  cmocka_unit_test(reads_a_process_without_main_thread),
	  cmocka_unit_test(reads_a_process_in_other_namespaces),
	  cmocka_unit_test(opens_the_running_file_not_its_replacement))
