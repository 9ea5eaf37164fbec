// SPDX-License-Identifier: Apache-2.0
// What is published of processes: this test's own and its children's, into a double of the kernel's
// maps. What is found there is compared with what the linker and the files say.

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "tests/test.h"

#include "agent/elf/elf.h"
#include "agent/bpf/mmap_events.h"
#include "agent/process/proc.h"
#include "agent/publish/process_unwind.h"
#include "agent/unwind/unwind_table_build.h"
#include "base/clock.h"
#include "tests/unit/agent/publish/unwind_maps_double.h"
#include "tests/unit/agent/event_texts.h"
#include "tests/unit/agent/process/new_process_table.h"

static struct unwind_maps maps;
static struct executable_table *executables;
static struct process_table *processes;
static struct process_unwinds *unwinds;
static struct event_log *event_log;

static void open_with(const struct process_unwind_options *options)
{
	struct process_unwind_options with_events = *options;
	struct error err = { 0 };

	event_log = with_events.events = event_log_new();
	maps_double_clear();
	executables = executable_table_new();
	processes = new_process_table(executables, NULL);
	if (process_unwind_open(&maps, processes, &with_events, &unwinds, &err))
		fail_msg("process_unwind_open: %s", err.text);
}

static void open_world(void)
{
	open_with(&(struct process_unwind_options){ 0 });
}

static void close_world(void)
{
	process_unwind_close(unwinds);
	event_log_free(event_log);
	process_table_free(processes);
	executable_table_free(executables);
	maps_double_clear();
	maps.unused = false;
}

static struct process_unwind_stats stats_now(void)
{
	struct process_unwind_stats stats;

	process_unwind_read_stats(unwinds, &stats);
	return stats;
}

static struct process_key key_of(pid_t pid)
{
	struct process_key key = { .pid = (uint32_t)pid };
	struct proc proc;

	assert_int_equal(0, proc_open(pid, &proc));
	key.start_ns = proc.stat.start_ticks * (NS_PER_SECOND / PROC_TICKS_PER_SECOND);
	proc_close(&proc);
	return key;
}

static struct process *process_of(pid_t pid)
{
	struct process_key key = key_of(pid);
	struct process *process = process_table_get(processes, &key, "x");

	assert_non_null(process);
	return process;
}

static void settle(void)
{
	for (int i = 0; i < 1000 && stats_now().tables_pending; i++) {
		struct pollfd fd = { .fd = process_unwind_fd(unwinds), .events = POLLIN };

		poll(&fd, 1, 1000);
		process_unwind_read(unwinds);
	}
	EXPECT_EQ(0, stats_now().tables_pending, "all tables are built");
}

/* ---- what the kernel would find ---------------------------------------------------------------- */

static const struct mapping_page *page_of(const struct process_unwind *process, uint32_t page)
{
	struct mapping_page_key key = { process->pages_pid, process->generation, page, 0 };
	struct page_of_double *found = maps_double_page(&key);

	assert_non_null(found); // the unwinder would find none
	return &found->page;
}

static uint32_t last_not_above(const struct mapping_page *page, uint64_t address)
{
	uint32_t at = 0;

	for (uint32_t i = 1; i < MAPPING_PAGE_ENTRIES; i++)
		if (page->starts[i] <= address)
			at = i;
	return at;
}

static struct mapping_code_range range_of(const struct process_unwind *process, uint64_t address)
{
	const struct mapping_page *page = page_of(process, 0);
	uint32_t at = last_not_above(page, address);

	if (process->mapping_page_count > 1) {
		page = page_of(process, at + 1);
		at = last_not_above(page, address);
	}
	if (address < page->starts[at] ||
	    address - page->starts[at] >= (uint64_t)page->ranges[at].units << MAPPING_UNIT_BITS)
		return (struct mapping_code_range){ .code = MAPPING_CODE_UNKNOWN };
	return page->ranges[at];
}

static const struct unwind_rule *rule_in_kernel(const struct process_unwind *process,
						uint64_t address)
{
	struct mapping_code_range range = range_of(process, address);

	if (range.code < MAPPING_CODE_TABLE)
		return NULL;
	const uint32_t *words = maps_double.tables[range.code - MAPPING_CODE_TABLE]->words;
	uint64_t offset = address - range.bias, block = offset >> TABLE_BLOCK_BITS;
	uint32_t at = words[block];

	for (uint32_t i = at; i < words[block + 1]; i++)
		if (words[i] >> TABLE_RULE_BITS <= (offset & (TABLE_BLOCK_BYTES - 1)))
			at = i;
	return &maps_double.rules[words[at] & TABLE_RULE_MASK];
}

/* The rule of a function's own file, by the linker's load address. */
struct expected {
	struct unwind_table *table;
	uint64_t load_bias;
};

static struct expected expect_file_of(const void *function)
{
	struct expected expected = { 0 };
	struct stat status;
	struct link_map *map;
	struct elf elf;
	Dl_info info;

	assert_true(dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP));
	int fd = open(map->l_name[0] ? map->l_name : "/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && fstat(fd, &status) == 0);
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
	assert_int_equal(
		0, unwind_table_build(&elf, NULL, 0, UNWIND_TABLE_ROWS_MAX, &expected.table, NULL));
	expected.load_bias = map->l_addr;
	close(fd);
	return expected;
}

static const struct {
	const char *what;
	const void *function;
} functions[] = {
	{ "this program", (const void *)open_world },
	{ "the C library", (const void *)qsort },
	{ "another library", (const void *)_cmocka_run_group_tests },
};

/* ---- tests --------------------------------------------------------------------------------- */

TEST(each_address_gets_its_file_rule)
{
	open_world();
	struct process *self = process_of(getpid());
	process_unwind_touch(unwinds, self, 0);
	settle();
	const struct process_unwind *published = maps_double_process((uint32_t)getpid());
	assert_non_null(published);

	for EACH (row, functions) {
		struct expected expected = expect_file_of(row->function);

		for (uint64_t i = 0; i < 4096; i++) {
			uint64_t address = (uintptr_t)row->function + i;
			const struct unwind_rule *rule = rule_in_kernel(published, address);
			const struct unwind_rule *wanted =
				unwind_table_find(expected.table, address - expected.load_bias);

			if (!wanted) // past the end of the file's code
				continue;
			assert_non_null(rule);
			assert_memory_equal(wanted, rule, sizeof(*rule));
		}
		unwind_table_free(expected.table);
	}
	close_world();
}

TEST(code_without_a_file_is_jit_code)
{
	void *code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	open_world();
	process_unwind_touch(unwinds, process_of(getpid()), 0);
	const struct process_unwind *published = maps_double_process((uint32_t)getpid());
	assert_non_null(published);
	EXPECT_EQ(MAPPING_CODE_JIT, range_of(published, (uintptr_t)code).code, "at once");
	EXPECT_EQ(MAPPING_CODE_UNKNOWN, range_of(published, (uintptr_t)qsort).code,
		  "its table is not ready");
	EXPECT_EQ(MAPPING_CODE_UNKNOWN, range_of(published, (uintptr_t)&maps).code, "data");
	settle();
	published = maps_double_process((uint32_t)getpid());
	EXPECT_EQ(MAPPING_CODE_JIT, range_of(published, (uintptr_t)code).code, "and later");
	assert_true(range_of(published, (uintptr_t)qsort).code >= MAPPING_CODE_TABLE);
	munmap(code, 8192);
	close_world();
}

TEST(writes_nothing_when_nothing_changed)
{
	open_world();
	struct process *self = process_of(getpid());
	process_unwind_touch(unwinds, self, 0);
	settle();
	uint32_t puts = maps_double.process_puts;
	uint32_t pages = maps_double.page_count;
	for (int i = 0; i < 100; i++)
		process_unwind_touch(unwinds, self, (uintptr_t)qsort);
	EXPECT_EQ(puts, maps_double.process_puts, "processes");
	EXPECT_EQ(pages, maps_double.page_count, "pages");
	close_world();
}

/* More mappings than fit a page: 300 pages of code with gaps between. */
static uint8_t *map_much(void)
{
	uint8_t *code = mmap(NULL, 600 * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < 300; i++)
		assert_int_equal(0, mprotect(code + i * 8192, 4096, PROT_READ | PROT_EXEC));
	return code;
}

TEST(publishes_a_change_in_new_pages)
{
	struct code_address found;

	open_world();
	struct process *self = process_of(getpid());
	process_unwind_touch(unwinds, self, 0);
	settle();
	EXPECT_EQ(1, maps_double.page_count, "pages at first");
	uint32_t generation = maps_double_process((uint32_t)getpid())->generation;

	uint8_t *code = map_much();
	process_find_code(processes, self, (uintptr_t)code, &found);
	process_unwind_touch(unwinds, self, (uintptr_t)code);
	poll(NULL, 0, 1050); // it may have had to wait
	process_unwind_read(unwinds);
	const struct process_unwind *published = maps_double_process((uint32_t)getpid());
	assert_true(published->generation != generation);
	assert_true(published->mapping_page_count > 3);
	EXPECT_EQ(published->mapping_page_count, maps_double.page_count, "the old are gone");
	EXPECT_EQ(maps_double.page_count, stats_now().mapping_pages, "counted");
	for (int i = 0; i < 300; i++) {
		EXPECT_EQ(MAPPING_CODE_JIT, range_of(published, (uintptr_t)code + 8192U * i).code,
			  "new code");
		EXPECT_EQ(MAPPING_CODE_UNKNOWN,
			  range_of(published, (uintptr_t)code + 8192U * i + 4096).code, "between");
	}
	assert_true(range_of(published, (uintptr_t)qsort).code >= MAPPING_CODE_TABLE);
	munmap(code, 600 * 4096);
	close_world();
}

TEST(publishes_a_late_mapping_without_another_sample)
{
	open_world();
	struct process *self = process_of(getpid());
	process_unwind_touch(unwinds, self, 0);
	settle();
	void *code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	// The mappings were read a moment ago, and are not read again yet.
	process_unwind_touch(unwinds, self, (uintptr_t)code);
	const struct process_unwind *published = maps_double_process((uint32_t)getpid());
	EXPECT_EQ(MAPPING_CODE_UNKNOWN, range_of(published, (uintptr_t)code).code, "at first");
	for (int i = 0; i < 3; i++) {
		poll(NULL, 0, 500);
		process_unwind_expire(unwinds);
	}
	EXPECT_EQ(MAPPING_CODE_JIT, range_of(published, (uintptr_t)code).code, "in the end");
	munmap(code, 8192);
	close_world();
}

TEST(limits_publications_of_a_process_mapping_endlessly)
{
	struct mmap_event event = { .kind = MMAP_EVENT_MAP, .pid = (uint32_t)getpid(), .path = "" };
	uint8_t *code = map_much();

	open_world();
	struct process *self = process_of(getpid());
	process_unwind_touch(unwinds, self, 0);
	settle();
	uint64_t before = stats_now().published;
	for (uint64_t i = 0; i < 1000; i++) {
		event.start = 0x10000 + i * 8192;
		event.limit = event.start + 4096;
		process_table_apply_mmap(processes, &event);
		process_unwind_touch(unwinds, self, 0);
	}
	uint64_t published = stats_now().published - before;
	assert_true(published < 500);
	poll(NULL, 0, 1050);
	process_unwind_read(unwinds);
	EXPECT_EQ(MAPPING_CODE_JIT,
		  range_of(maps_double_process((uint32_t)getpid()), event.start).code,
		  "the last one, in the end");
	munmap(code, 600 * 4096);
	close_world();
}

TEST(finds_libraries_above_too_much_jit_code)
{
	enum { COUNT = 20000 };
	uint8_t *code = mmap(NULL, COUNT * 8192UL, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (uint32_t i = 0; i < COUNT; i++)
		assert_int_equal(0, mprotect(code + i * 8192UL, 4096, PROT_READ | PROT_EXEC));
	open_world();
	process_unwind_touch(unwinds, process_of(getpid()), 0);
	settle();
	const struct process_unwind *published = maps_double_process((uint32_t)getpid());
	assert_true(range_of(published, (uintptr_t)qsort).code >= MAPPING_CODE_TABLE);
	EXPECT_EQ(MAPPING_CODE_JIT, range_of(published, (uintptr_t)code).code, "the first");
	EXPECT_EQ(MAPPING_CODE_JIT,
		  range_of(published, (uintptr_t)code + (COUNT - 1) * 8192UL).code, "the last");
	munmap(code, COUNT * 8192UL);
	close_world();
}

TEST(publishes_later_when_the_kernel_lacks_memory)
{
	struct code_address found;

	open_world();
	uint8_t *code = map_much();
	struct process *self = process_of(getpid());
	maps_double.pages_rc = -ENOMEM;
	maps_double.pages_to_put = 2;
	process_unwind_touch(unwinds, self, 0);
	assert_null(maps_double_process((uint32_t)getpid()));
	EXPECT_EQ(0, maps_double.page_count, "no page is left behind");
	EXPECT_EQ(1, stats_now().publish_failed, "counted");
	maps_double.pages_rc = 0;
	maps_double.process_rc = -ENOMEM;
	settle();
	EXPECT_EQ(0, maps_double.page_count, "nor without a process");
	maps_double.process_rc = 0;
	poll(NULL, 0, 1050);
	process_unwind_touch(unwinds, self, 0);
	assert_non_null(maps_double_process((uint32_t)getpid()));

	// A failure later leaves what was there.
	uint32_t count = maps_double.page_count;
	assert_int_equal(0, mprotect(code, 4096, PROT_NONE));
	process_find_code(processes, self, 4096, &found);
	maps_double.pages_rc = -E2BIG;
	process_unwind_touch(unwinds, self, 0);
	EXPECT_EQ(count, maps_double.page_count, "the pages of before");
	maps_double.pages_rc = 0;
	munmap(code, 600 * 4096);
	close_world();
}

/* ---- the life of processes ----------------------------------------------------------------------- */

static pid_t start_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); // should the test fail
		pause();
		_exit(0);
	}
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void apply(enum process_event event, struct process_key key)
{
	struct process_record record = { .kind = RECORD_PROCESS, .event = event, .process = key };

	process_unwind_apply(unwinds, &record);
}

static const struct {
	const char *what;
	enum process_event event;
	int64_t start_change; // of the event's process against the one published
	uint32_t exec_change;
	bool stays;
} events[] = {
	{ "its exit", PROCESS_EXIT, 0, 0, false },
	{ "its exit after an exec not seen", PROCESS_EXIT, 0, 1, false },
	{ "exit of a former owner of the pid", PROCESS_EXIT, -1000, 0, true },
	{ "it executes another program", PROCESS_EXEC, 0, 1, false },
	{ "its own exec, reported late", PROCESS_EXEC, 0, 0, true },
	{ "its own fork, reported late", PROCESS_FORK, 0, 0, true },
	{ "a new owner of the pid", PROCESS_FORK, 1000, 0, false },
};

TEST(events_withdraw_what_was_published)
{
	pid_t child = start_child();

	for EACH (row, events) {
		open_world();
		process_unwind_touch(unwinds, process_of(child), 0);
		assert_non_null(maps_double_process((uint32_t)child));
		struct process_key key = key_of(child);
		key.start_ns += (uint64_t)row->start_change;
		key.exec_id += row->exec_change;
		apply(row->event, key);
		if (row->event == PROCESS_EXIT) { // samples of it may wait
			assert_non_null(maps_double_process((uint32_t)child));
			settle();
			poll(NULL, 0, 220);
			process_unwind_read(unwinds);
		}
		EXPECT_EQ(row->stays, maps_double_process((uint32_t)child) != NULL, row->what);
		EXPECT_EQ(row->stays, maps_double.page_count != 0, row->what);
		EXPECT_EQ(row->stays, stats_now().processes, row->what);
		close_world();
	}
	end_child(child);
}

TEST(withdraws_a_process_whose_exit_was_lost)
{
	pid_t child = start_child();

	open_world();
	process_unwind_touch(unwinds, process_of(child), 0);
	process_unwind_touch(unwinds, process_of(getpid()), 0);
	end_child(child);
	process_unwind_expire(unwinds);
	assert_null(maps_double_process((uint32_t)child));
	assert_non_null(maps_double_process((uint32_t)getpid()));
	close_world();
}

TEST(evicts_pages_of_least_recently_sampled_processes)
{
	pid_t children[6];

	// Two pages for mappings and no space for tables, which does not matter here.
	open_with(&(struct process_unwind_options){ .bytes_max = 4 * 4096 });
	for (int i = 0; i < 6; i++) {
		children[i] = start_child();
		process_unwind_touch(unwinds, process_of(children[i]), 0);
		if (i == 1) { // the first is in use, so the second goes
			struct process_key key = key_of(children[0]);
			process_unwind_use(unwinds, &key);
		}
		if (i == 2) {
			assert_non_null(maps_double_process((uint32_t)children[0]));
			assert_null(maps_double_process((uint32_t)children[1]));
		}
		assert_non_null(maps_double_process((uint32_t)children[i]));
	}
	EXPECT_EQ(2, maps_double.page_count, "pages");
	EXPECT_EQ(2, maps_double.page_count_max, "ever");
	EXPECT_EQ(4, stats_now().dropped, "counted");
	for (int i = 0; i < 6; i++)
		end_child(children[i]);
	close_world();
}

TEST(an_unused_unwinder_gets_nothing)
{
	maps.unused = true;
	open_world();
	process_unwind_touch(unwinds, process_of(getpid()), 0);
	EXPECT_EQ(0, stats_now().processes, "processes");
	EXPECT_EQ(0, stats_now().tables_pending, "tables");
	close_world();
}

TEST(loads_large_tables_from_disk_next_time)
{
	char folder[] = "/tmp/cairn-unwind-XXXXXX";
	struct process_unwind_options options = { .cache_folder = mkdtemp(folder) };
	uint64_t from_disk[2];

	assert_non_null(options.cache_folder);
	for (int i = 0; i < 2; i++) {
		open_with(&options);
		fail_on_event(event_log);
		process_unwind_touch(unwinds, process_of(getpid()), 0);
		settle();
		from_disk[i] = stats_now().tables_from_disk;
		close_world();
	}
	EXPECT_EQ(0, from_disk[0], "the first agent builds them all");
	assert_true(from_disk[1] > 0);

	char command[128];
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(0, system(command));
}

TEST(reports_an_unusable_cache_once)
{
	open_with(&(struct process_unwind_options){ .cache_folder = "/proc/none" });
	const char *event = next_event_text(event_log);
	assert_true(event && strstr(event, "no cache on disk"));
	fail_on_event(event_log);
	process_unwind_touch(unwinds, process_of(getpid()), 0);
	settle();
	assert_true(stats_now().tables > 0);
	close_world();
}

/* Maps an interpreter that is none: its name and its loop are there, nothing else. NULL: no compiler. */
static void *load_stranger(const char *folder, const char *name)
{
	const char *source = "void *_PyEval_EvalFrameDefault(void *a) { return a; }";
	char command[512], path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	snprintf(command, sizeof(command), "echo '%s' | cc -shared -fPIC -x c -o '%s' - 2>&-",
		 source, path);
	if (system(command))
		return NULL;
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(library);
	unlink(path);
	return library;
}

TEST(reports_each_problem)
{
	char folder[] = "/tmp/cairn-unwind-XXXXXX";
	struct python_runtimes *python = python_runtimes_new();

	assert_non_null(mkdtemp(folder));
	void *library = load_stranger(folder, "libpython3.9.so.1.0");
	rmdir(folder);
	if (!library)
		SKIP("no C compiler here");
	open_with(
		&(struct process_unwind_options){ .cache_folder = "/proc/none", .python = python });
	process_unwind_touch(unwinds, process_of(getpid()), 0);
	const char *event = next_event_text(event_log);
	assert_true(event && strstr(event, "no cache on disk"));
	event = next_event_text(event_log);
	assert_true(event && strstr(event, "3.9"));
	fail_on_event(event_log);
	dlclose(library);
	close_world();
	python_runtimes_free(python);
}

/* ---- room for tables ------------------------------------------------------------------------------- */

static pid_t start_program(const char *program, const char *argument)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, program, argument, (char *)NULL);
		_exit(1);
	}
	poll(NULL, 0, 100); // until it has executed and loaded its libraries
	return pid;
}

/* A stack ended in each file that this program maps, for want of its table. */
static int miss_file(struct dl_phdr_info *file, size_t size, void *process)
{
	(void)size;
	for (int i = 0; i < file->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &file->dlpi_phdr[i];

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X))
			continue;
		process_unwind_touch(unwinds, process, file->dlpi_addr + segment->p_vaddr);
		settle();
	}
	return 0;
}

/* What is published refers to tables that are there. */
static void expect_tables_of(const struct process_unwind *process)
{
	const struct mapping_page *page = page_of(process, 0);

	EXPECT_EQ(1, process->mapping_page_count, "pages");
	for (uint32_t i = 0; i < MAPPING_PAGE_ENTRIES; i++)
		if (page->ranges[i].code >= MAPPING_CODE_TABLE)
			assert_non_null(
				maps_double.tables[page->ranges[i].code - MAPPING_CODE_TABLE]);
}

TEST(evicts_unneeded_tables_for_needed_ones)
{
	const uint64_t bytes_max = 56 * 4096;
	pid_t sleeper = start_program("/bin/sleep", "60");

	// Some libraries' tables fit, but not those of all that this program maps.
	open_with(&(struct process_unwind_options){ .bytes_max = bytes_max, .kept_ns = 1 });
	process_unwind_touch(unwinds, process_of(sleeper), 0);
	settle();
	assert_true(stats_now().tables >= 2);
	struct process *self = process_of(getpid());
	process_unwind_touch(unwinds, self, 0);
	settle();
	dl_iterate_phdr(miss_file, self);
	struct process_unwind_stats stats = stats_now();
	assert_true(stats.tables_evicted > 0);
	assert_true(stats.bytes <= bytes_max);
	EXPECT_EQ(2, stats.processes, "both are still published");
	expect_tables_of(maps_double_process((uint32_t)sleeper));
	expect_tables_of(maps_double_process((uint32_t)getpid()));
	end_child(sleeper);
	close_world();
}

/* A function of it is analyzed: its table is built again. */
static void follow_code_at(struct process *process, const void *function)
{
	struct code_address code;

	assert_int_equal(0, process_find_code(processes, process, (uintptr_t)function, &code));
	process_unwind_analyze(unwinds, code.executable, code.offset, 64);
}

/* Until the process is no longer published; returns whether that is so. */
static bool read_until_gone(pid_t pid)
{
	for (int i = 0; i < 200 && maps_double_process((uint32_t)pid); i++) {
		process_unwind_read(unwinds);
		poll(NULL, 0, 10);
	}
	return !maps_double_process((uint32_t)pid);
}

static const struct {
	const char *what;
	uint64_t bytes_max; // 0: enough
} rooms[] = {
	{ "all tables are there", 0 },
	{ "some had no space: they are waited for", 56 * 4096 },
};

TEST(nothing_refers_to_a_replaced_table)
{
	const void *function = (const void *)_cmocka_run_group_tests;

	for EACH (row, rooms) {
		open_with(&(struct process_unwind_options){ .bytes_max = row->bytes_max });
		struct process *self = process_of(getpid());
		process_unwind_touch(unwinds, self, (uintptr_t)function);
		settle();
		follow_code_at(self, function);
		maps_double.process_rc = -ENOMEM;
		EXPECT_EQ(true, read_until_gone(getpid()), row->what);
		maps_double.process_rc = 0;
		process_unwind_touch(unwinds, self, 0);
		expect_tables_of(maps_double_process((uint32_t)getpid()));
		close_world();
	}
}

enum { CODE_BYTES = 16384 };

/* Maps some code of a program. */
static void *map_program(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	void *code = mmap(NULL, CODE_BYTES, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);

	assert_true(fd >= 0 && code != MAP_FAILED);
	close(fd);
	return code;
}

/* Mappings are read again when an address is in none of them, not too often. */
static void read_mappings_again(struct process *process)
{
	uint64_t before = process_mappings_generation(process);
	struct code_address found;

	for (int i = 0; i < 200 && process_mappings_generation(process) == before; i++) {
		process_find_code(processes, process, 4096, &found);
		poll(NULL, 0, 10);
	}
	assert_true(process_mappings_generation(process) != before);
}

TEST(holds_tables_while_the_kernel_uses_them)
{
	struct code_address code;
	pid_t pid = getpid();
	void *program = map_program("/bin/true");

	open_world();
	struct process *self = process_of(pid);
	process_unwind_touch(unwinds, self, 0);
	settle();
	assert_int_equal(0, process_find_code(processes, self, (uintptr_t)program, &code));
	struct executable *executable = executable_hold(code.executable);
	munmap(program, CODE_BYTES);
	read_mappings_again(self);
	maps_double.process_rc = -ENOMEM;
	for (int i = 0; i < 200 && !stats_now().publish_failed; i++) { // it may have to wait
		process_unwind_touch(unwinds, self, 0);
		poll(NULL, 0, 10);
	}
	EXPECT_EQ(1, stats_now().publish_failed, "it is published with the program still");
	process_unwind_analyze(unwinds, executable, 4096, 64);
	assert_true(read_until_gone(pid));
	executable_release(executable);
	close_world();
}

RUN_TESTS(cmocka_unit_test(each_address_gets_its_file_rule),
	  cmocka_unit_test(code_without_a_file_is_jit_code),
	  cmocka_unit_test(writes_nothing_when_nothing_changed),
	  cmocka_unit_test(publishes_a_change_in_new_pages),
	  cmocka_unit_test(publishes_a_late_mapping_without_another_sample),
	  cmocka_unit_test(limits_publications_of_a_process_mapping_endlessly),
	  cmocka_unit_test(finds_libraries_above_too_much_jit_code),
	  cmocka_unit_test(publishes_later_when_the_kernel_lacks_memory),
	  cmocka_unit_test(events_withdraw_what_was_published),
	  cmocka_unit_test(withdraws_a_process_whose_exit_was_lost),
	  cmocka_unit_test(evicts_pages_of_least_recently_sampled_processes),
	  cmocka_unit_test(an_unused_unwinder_gets_nothing),
	  cmocka_unit_test(loads_large_tables_from_disk_next_time),
	  cmocka_unit_test(reports_an_unusable_cache_once), cmocka_unit_test(reports_each_problem),
	  cmocka_unit_test(evicts_unneeded_tables_for_needed_ones),
	  cmocka_unit_test(nothing_refers_to_a_replaced_table),
	  cmocka_unit_test(holds_tables_while_the_kernel_uses_them))
