// SPDX-License-Identifier: Apache-2.0
// The unwinder over live interpreters, every one that this machine has: what CPython says of its own
// threads' frames is what the unwinder must find, address by address and instruction by instruction.
// TRUTH_PYTHONS names more interpreters, with colons between.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/executable.h"
#include "agent/mapped_file.h"
#include "agent/mapping_pages.h"
#include "agent/process_memory.h"
#include "agent/python_runtime.h"
#include "agent/unwind_table.h"
#include "base/cleanup.h"
#include "tests/test.h"

#define SCRIPT "tests/truth/python_frames/threads.py"

enum {
	FRAMES_MAX = 2048,
	THREADS_MAX = 64,
	TABLES_MAX = 128,
};

/* ---- the unwinder's surroundings ---------------------------------------------------------------- */

#pragma GCC diagnostic ignored "-Wunknown-pragmas" // for the kernel's compiler

#define unwind_by_tables 1
#define unwind_python    1

#include "bpf/unwind.h"

static struct {
	pid_t pid;
	struct mapping_list *mappings;
	struct mapping_page pages[8];
	uint32_t page_count;
	struct unwind_table *tables[TABLES_MAX];
	uint32_t table_count;
	struct python_runtimes *runtimes;
	struct executable_table *executables;
	struct python_process python;
	uint64_t reads;
} live;

static long read_user(void *to, __u32 size, __u64 address)
{
	live.reads++;
	return process_memory_read(live.pid, address, to, size);
}

static struct raw_frame frames[STACK_DEPTH_MAX];

static struct raw_frame *unwind_frame(struct unwind *unwind, __u32 at)
{
	(void)unwind;
	return at < STACK_DEPTH_MAX ? &frames[at] : NULL;
}

static const struct mapping_page *unwind_mapping_page(const struct unwind *unwind, __u32 page)
{
	(void)unwind;
	return page < ARRAY_SIZE(live.pages) ? &live.pages[page] : NULL;
}

static struct unwind_table *table_read; // whose page is asked for

static void *unwind_table(__u32 table)
{
	table_read = table < live.table_count ? live.tables[table] : NULL;
	return table_read;
}

static const struct table_page *unwind_table_page(void *opaque, __u32 page)
{
	static struct table_page pages[2];
	static uint32_t turn;
	const struct unwind_table *table = opaque;
	struct table_page *copy = &pages[turn++ % 2];

	for (uint32_t i = 0; i < TABLE_PAGE_WORDS; i++) {
		uint64_t at = (uint64_t)page * TABLE_PAGE_WORDS + i;

		copy->words[i] = at < table->word_count ? table->words[at] : 0;
	}
	return copy;
}

static const struct unwind_rule *unwind_rule_at(__u32 rule)
{
	return rule < table_read->rule_count ? &table_read->rules[rule] : NULL;
}

static const struct python_offsets *python_offsets_at(__u32 runtime)
{
	return python_runtimes_offsets(live.runtimes, runtime);
}

/* ---- a live process ----------------------------------------------------------------------------- */

/* Build the table of a file. Returns its number, and what it covers. */
static uint32_t add_table(struct executable *executable, struct unwind_extent *ret_extent)
{
	static struct unwind_mark marks[UNWIND_MARKS_MAX];
	_cleanup_close_ int fd = executable_open_file(executable);
	struct unwind_table *table = NULL;
	struct error err = { 0 };
	struct stat status;
	uint32_t count = 0;
	struct elf elf;

	if (fd < 0 || fstat(fd, &status) || live.table_count == TABLES_MAX ||
	    elf_read_headers(fd, &status, &elf, &err) || python_eval_marks(&elf, marks, &count) ||
	    unwind_table_build(&elf, marks, count, &table, &err))
		fail_msg("%s: %s", executable->path, err.text);
	*ret_extent = (struct unwind_extent){ .first_address = table->first_address,
					      .block_count = table->block_count };
	for (uint32_t i = 0; i < elf.load_count; i++) {
		if (elf.loads[i].p_flags & PF_X)
			ret_extent->segments[ret_extent->segment_count++] = (struct unwind_segment){
				elf.loads[i].p_offset, elf.loads[i].p_vaddr, elf.loads[i].p_filesz
			};
	}
	live.tables[live.table_count] = table;
	return live.table_count++;
}

static void read_mappings(void)
{
	struct mapping_pages pages = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d", live.pid);
	_cleanup_close_ int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_cleanup_close_ int maps = openat(folder, "maps", O_RDONLY | O_CLOEXEC);
	assert_int_equal(0, mapping_list_read(maps, &live.mappings));
	for (uint32_t i = 0; i < live.mappings->count; i++) {
		struct mapping *mapping = &live.mappings->mappings[i];
		_cleanup_close_ int fd = mapped_file_open(folder, live.mappings, mapping);
		struct unwind_extent extent;
		struct error err;

		if (fd < 0 || executable_table_open(live.executables, fd,
						    mapping_path(live.mappings, mapping),
						    &mapping->executable, &err))
			continue;
		executable_hold(mapping->executable);
		mapping->file = MAPPING_FILE_OPENED;

		uint32_t table = add_table(mapping->executable, &extent);

		assert_int_equal(0, mapping_pages_add_table(&pages, mapping, &extent, table));
	}
	live.page_count = mapping_pages_count(&pages);
	assert_true(live.page_count <= ARRAY_SIZE(live.pages));
	for (uint32_t i = 0; i < live.page_count; i++)
		mapping_pages_write(&pages, i, &live.pages[i]);
	mapping_pages_deinit(&pages);
}

static void forget_process(void)
{
	for (uint32_t i = 0; i < live.table_count; i++)
		unwind_table_free(live.tables[i]);
	live.table_count = 0;
	mapping_list_release(live.mappings);
	live.mappings = NULL;
}

/* Stop @tid, unwind it, and let it go on. Its frames are in `frames` then, the leaf in the result. */
static struct unwind *unwind_thread(pid_t tid)
{
	static struct unwind unwind;
	struct user_regs_struct regs;
	int status;

	assert_int_equal(0, ptrace(PTRACE_SEIZE, tid, NULL, NULL));
	assert_int_equal(0, ptrace(PTRACE_INTERRUPT, tid, NULL, NULL));
	assert_int_equal(tid, waitpid(tid, &status, __WALL));
	assert_int_equal(0, ptrace(PTRACE_GETREGS, tid, NULL, &regs));

	const uint64_t values[] = { regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi,
				    regs.rbp, regs.rsp, regs.r8,  regs.r9,  regs.r10, regs.r11,
				    regs.r12, regs.r13, regs.r14, regs.r15 };

	memset(&unwind, 0, sizeof(unwind));
	memcpy(unwind.registers, values, sizeof(values));
	unwind.pc = regs.rip;
	unwind.exact_pc = 1;
	unwind.thread_pointer = regs.fs_base;
	unwind.process.mapping_page_count = live.page_count;
	unwind.process.python = live.python;
	unwind_begin(&unwind);
	for (uint32_t i = 0; i < UNWIND_STEPS_MAX && !unwind_step(&unwind); i++)
		;
	assert_int_equal(0, ptrace(PTRACE_DETACH, tid, NULL, NULL));
	return &unwind;
}

/* ---- what CPython says -------------------------------------------------------------------------- */

struct true_frame {
	uint64_t code;
	uint32_t index;
	char name[64];
};

struct true_thread {
	pid_t tid;
	char name[64];
	uint32_t frame_count;
	struct true_frame *frames;
};

struct interpreter {
	pid_t pid;
	FILE *output;
	struct true_thread threads[THREADS_MAX];
	uint32_t thread_count;
};

static void read_truth(struct interpreter *interpreter)
{
	char line[256];
	struct true_thread *thread = NULL;

	while (fgets(line, sizeof(line), interpreter->output)) {
		struct true_frame frame = { 0 };
		int tid;
		char name[64];

		if (sscanf(line, "thread %d %63s", &tid, name) == 2 &&
		    interpreter->thread_count < THREADS_MAX) {
			thread = &interpreter->threads[interpreter->thread_count++];
			thread->tid = tid;
			strcpy(thread->name, name);
			thread->frames = calloc(FRAMES_MAX, sizeof(*thread->frames));
		} else if (thread && thread->frame_count < FRAMES_MAX &&
			   sscanf(line, "frame %" SCNu64 " %u %63s", &frame.code, &frame.index,
				  frame.name) == 3) {
			thread->frames[thread->frame_count++] = frame;
		} else if (strcmp(line, "ready\n") == 0) {
			return;
		}
	}
	fail_msg("the interpreter ended early");
}

static void start(struct interpreter *interpreter, const char *path)
{
	int ends[2];

	assert_int_equal(0, pipe2(ends, O_CLOEXEC));
	interpreter->pid = fork();
	if (!interpreter->pid) {
		dup2(ends[1], STDOUT_FILENO);
		alarm(60);
		execl(path, path, SCRIPT, NULL);
		_exit(127);
	}
	close(ends[1]);
	interpreter->output = fdopen(ends[0], "r");
}

static void stop(struct interpreter *interpreter)
{
	kill(interpreter->pid, SIGKILL);
	waitpid(interpreter->pid, NULL, 0);
	fclose(interpreter->output);
	for (uint32_t i = 0; i < interpreter->thread_count; i++)
		free(interpreter->threads[i].frames);
}

/* ---- the comparison ----------------------------------------------------------------------------- */

static uint32_t mismatches;

static void mismatch(const char *path, const struct true_thread *thread, uint32_t at,
		     const struct raw_frame *found)
{
	if (++mismatches > 20)
		return;
	if (at >= thread->frame_count)
		print_error("%s: %s: frame %u too many: %llx\n", path, thread->name, at,
			    (unsigned long long)found->address);
	else
		print_error("%s: %s: frame %u of %u is %s %llx+%u, found %llx+%u\n", path,
			    thread->name, at, thread->frame_count, thread->frames[at].name,
			    (unsigned long long)thread->frames[at].code, thread->frames[at].index,
			    found ? (unsigned long long)found->address : 0,
			    found ? PYTHON_DETAIL_INDEX(found->detail) : 0);
}

static bool is_same(const struct true_frame *truth, const struct raw_frame *found)
{
	return truth->code == found->address &&
	       truth->index == PYTHON_DETAIL_INDEX(found->detail) &&
	       PYTHON_DETAIL_CHECKSUM(found->detail);
}

/* Python frames must be the true ones; native ones may lie between. */
static void compare(const char *path, const struct true_thread *thread)
{
	const struct unwind *unwind = unwind_thread(thread->tid);
	uint32_t at = 0, limit = unwind->frame_count;

	for (uint32_t i = 0; i <= limit; i++) {
		const struct raw_frame *found = i ? &frames[i - 1] : &unwind->leaf;

		if (found->tag != FRAME_TAG_PYTHON)
			continue;
		if (at >= thread->frame_count || !is_same(&thread->frames[at], found)) {
			mismatch(path, thread, at, found);
			return;
		}
		at++;
	}
	if (unwind->end == END_TAG_DEPTH && limit == STACK_DEPTH_MAX - 1)
		return;
	if (at != thread->frame_count)
		mismatch(path, thread, at, NULL);
	if (unwind->end != END_TAG_COMPLETE && ++mismatches < 20)
		print_error("%s: %s: ended by %u after %u frames\n", path, thread->name,
			    unwind->end, limit);
}

static void check_interpreter(const char *path)
{
	struct interpreter interpreter = { 0 };
	struct error notice = { 0 };

	start(&interpreter, path);
	read_truth(&interpreter);
	live.pid = interpreter.pid;
	live.executables = executable_table_new();
	live.runtimes = python_runtimes_new();
	read_mappings();

	int rc =
		python_runtimes_find(live.runtimes, live.pid, live.mappings, &live.python, &notice);

	if (rc)
		fail_msg("%s: %d: %s", path, rc, notice.text);
	for (uint32_t i = 0; i < interpreter.thread_count; i++)
		compare(path, &interpreter.threads[i]);
	print_message("%s: %u threads, ways %u\n", path, interpreter.thread_count,
		      live.python.ways);
	forget_process();
	python_runtimes_free(live.runtimes);
	executable_table_free(live.executables);
	stop(&interpreter);
}

TEST(frames_of_every_interpreter_are_those_it_tells)
{
	char text[4096];
	glob_t found;
	int rc;

	snprintf(text, sizeof(text), "%s/.pyenv/versions/3.*/bin/python3", getenv("HOME") ?: "");
	rc = glob(text, 0, NULL, &found);
	if (rc && rc != GLOB_NOMATCH)
		fail_msg("glob: %d", rc);
	glob("/usr/bin/python3", GLOB_APPEND, NULL, &found);
	for (size_t i = 0; i < found.gl_pathc; i++)
		check_interpreter(found.gl_pathv[i]);
	globfree(&found);
	snprintf(text, sizeof(text), "%s", getenv("TRUTH_PYTHONS") ?: "");
	for (char *path = strtok(text, ":"); path; path = strtok(NULL, ":"))
		check_interpreter(path);
	assert_int_equal(0, mismatches);
}

RUN_TESTS(cmocka_unit_test(frames_of_every_interpreter_are_those_it_tells))
