// SPDX-License-Identifier: Apache-2.0
// Stacks of real children, which record their own by backtrace().
#include "agent/dump/live_unwind.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/dump/live_memory.h"
#include "agent/process/proc.h"
#include "agent/dump/process_pause.h"
#include "base/clock.h"
#include "tests/test.h"
#include "tests/unit/agent/process/new_process_table.h"

enum { FRAMES_MAX = 8192, DEEP = 5000, WAIT_MS = 5000 };

static struct {
	atomic_int ready;
	int count;
	void *frames[FRAMES_MAX];
} * own;

/* ---- children ------------------------------------------------------------------------------ */

static __attribute__((noinline)) void wait_here(void)
{
	void *frames[FRAMES_MAX];
	int count = backtrace(frames, FRAMES_MAX);

	own->count = count - 1; // above this function
	memcpy(own->frames, frames + 1, (size_t)own->count * sizeof(*frames));
	own->ready = 1;
	while (own->ready)
		pause();
}

static __attribute__((noinline)) int recurse(int depth)
{
	if (!depth) {
		wait_here();
		return 0;
	}
	int below = recurse(depth - 1);
	__asm__ volatile("" : "+r"(below));
	return below + 1;
}

/* A child that waits below @depth calls. */
static pid_t start(int depth)
{
	own->ready = 0;
	pid_t pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		recurse(depth);
		_exit(1);
	}
	for (int i = 0; !own->ready && i < WAIT_MS; i++)
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- looking ------------------------------------------------------------------------------- */

static struct executable_table *executables;
static struct process_table *processes;

static int set_up(void **state)
{
	const struct labels none = { 0 };

	(void)state;
	own = mmap(NULL, sizeof(*own), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	executables = executable_table_new();
	processes = new_process_table(executables, &none);
	return own == MAP_FAILED || !executables || !processes;
}

static int tear_down(void **state)
{
	(void)state;
	process_table_free(processes);
	executable_table_free(executables);
	munmap(own, sizeof(*own));
	return 0;
}

static struct live_unwind *open_unwind(pid_t pid, const struct live_unwind_options *options)
{
	struct live_unwind *unwind = NULL;
	struct error err = { 0 };
	struct proc proc;

	assert_int_equal(0, proc_open(pid, &proc));
	const struct process_key key = {
		.pid = (uint32_t)pid,
		.start_ns = proc.stat.start_ticks * (NS_PER_SECOND / PROC_TICKS_PER_SECOND),
	};
	proc_close(&proc);
	struct process *process = process_table_get(processes, &key, "child");
	if (live_unwind_open(processes, process, pid, options, &unwind, &err))
		fail_msg("%s", err.text);
	return unwind;
}

static struct process_pause *pause_process(pid_t pid, struct thread_registers *ret_registers)
{
	struct process_pause *pause;
	struct error err;

	if (process_pause_begin(pid, &pause, &err))
		fail_msg("%s", err.text);
	*ret_registers = process_pause_find(pause, pid)->registers;
	return pause;
}

/* Above wait_here() the stack is the one that the child recorded. */
static void expect_told(const struct live_stack *stack, const char *what)
{
	EXPECT_EQ(STACK_END_COMPLETE, stack->end, what);
	if ((int)stack->frame_count <= own->count)
		fail_msg("%s: %u frames of %d", what, stack->frame_count, own->count);
	const struct raw_frame *frames = stack->frames + stack->frame_count - own->count;
	for (int i = 1; i < own->count; i++) // 0 is in wait_here() itself, further on by now
		EXPECT_EQ((uintptr_t)own->frames[i] - 1, frames[i].address, what);
}

TEST(unwinds_with_tables_built_on_demand)
{
	const struct live_unwind_options options = { .build_at_once = true };
	struct live_stack stack = { 0 };
	struct live_unwind_stats stats;
	struct thread_registers registers;
	pid_t pid = start(10);
	struct live_unwind *unwind = open_unwind(pid, &options);
	struct process_pause *pause = pause_process(pid, &registers);

	EXPECT_EQ(0, live_unwind_thread(unwind, &registers, &stack), "walk");
	expect_told(&stack, "the first time");
	live_unwind_clear_memory(unwind);
	EXPECT_EQ(0, live_unwind_thread(unwind, &registers, &stack), "walk");
	expect_told(&stack, "again, into the same stack");
	live_unwind_read_stats(unwind, &stats);
	assert_in_range(stats.tables, 2, 10);

	process_pause_free(pause);
	live_stack_deinit(&stack);
	live_unwind_close(unwind);
	stop(pid);
}

TEST(builds_no_tables_during_a_pause)
{
	const struct live_unwind_options options = { .no_python = true };
	struct live_stack stack = { 0 };
	struct live_unwind_stats stats;
	struct thread_registers registers;
	pid_t pid = start(10);
	struct live_unwind *unwind = open_unwind(pid, &options);
	struct process_pause *pause = pause_process(pid, &registers);

	EXPECT_EQ(0, live_unwind_thread(unwind, &registers, &stack), "walk");
	EXPECT_EQ(STACK_END_NO_MAPPING, stack.end, "the leaf's table is missing");
	EXPECT_EQ(1, stack.frame_count, "the leaf is there");
	live_unwind_read_stats(unwind, &stats);
	EXPECT_EQ(0, stats.tables, "nothing was built");
	EXPECT_EQ(1, live_unwind_build_missing(unwind), "what was missing");
	EXPECT_EQ(0, live_unwind_build_missing(unwind), "nothing more");

	live_unwind_scan(unwind, registers.pc, thread_registers_sp(&registers));
	assert_true(live_unwind_build_missing(unwind) > 0);
	EXPECT_EQ(0, live_unwind_thread(unwind, &registers, &stack), "walk");
	expect_told(&stack, "after a look at the stack");

	process_pause_free(pause);
	live_stack_deinit(&stack);
	live_unwind_close(unwind);
	stop(pid);
}

TEST(unwinds_deeper_than_the_kernel)
{
	const struct live_unwind_options options = { .build_at_once = true };
	struct live_stack stack = { 0 };
	struct thread_registers registers;
	pid_t pid = start(DEEP);
	struct live_unwind *unwind = open_unwind(pid, &options);
	struct process_pause *pause = pause_process(pid, &registers);

	EXPECT_EQ(0, live_unwind_thread(unwind, &registers, &stack), "walk");
	assert_true(stack.frame_count > DEEP);
	expect_told(&stack, "deep");

	process_pause_free(pause);
	live_stack_deinit(&stack);
	live_unwind_close(unwind);
	stop(pid);
}

static const struct {
	const char *what;
	struct thread_registers registers;
	enum stack_end end;
} hostile[] = {
	{ "nothing known", { .pc = 0 }, STACK_END_NO_MAPPING },
	{ "a pc in the kernel", { .pc = 0xffffffff81000000 }, STACK_END_NO_MAPPING },
	{ "a pc at the end of all addresses", { .pc = UINT64_MAX }, STACK_END_NO_MAPPING },
	{ "32-bit code", { .compat = true }, STACK_END_COMPAT },
};

TEST(bad_registers_give_a_short_stack)
{
	const struct live_unwind_options options = { .build_at_once = true };
	struct live_stack stack = { 0 };
	pid_t pid = start(1);
	struct live_unwind *unwind = open_unwind(pid, &options);

	for EACH (c, hostile) {
		live_unwind_scan(unwind, c->registers.pc, UINT64_MAX - 7);
		EXPECT_EQ(0, live_unwind_thread(unwind, &c->registers, &stack), c->what);
		EXPECT_EQ(c->end, stack.end, c->what);
		assert_true(stack.frame_count <= 1);
	}
	live_stack_deinit(&stack);
	live_unwind_close(unwind);
	stop(pid);
}

TEST(an_exited_process_gives_no_stack)
{
	const struct live_unwind_options options = { .build_at_once = true };
	struct live_stack stack = { 0 };
	struct thread_registers registers;
	pid_t pid = start(1);
	struct live_unwind *unwind = open_unwind(pid, &options);
	struct process_pause *pause = pause_process(pid, &registers);

	process_pause_free(pause);
	stop(pid);
	EXPECT_EQ(0, live_unwind_thread(unwind, &registers, &stack), "walk");
	EXPECT_EQ(STACK_END_FAULT, stack.end, "its memory is not there");
	live_stack_deinit(&stack);
	live_unwind_close(unwind);
}

/* ---- memory -------------------------------------------------------------------------------- */

enum { PAGE = LIVE_PAGE_BYTES };

TEST(reads_memory_across_pages)
{
	uint8_t *pages =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct live_memory *memory = live_memory_new(getpid());
	uint64_t base = (uintptr_t)pages;
	uint8_t bytes[64];

	for (int i = 0; i < 3 * PAGE; i++)
		pages[i] = (uint8_t)(i / 7);
	mprotect(pages + 3 * PAGE, PAGE, PROT_NONE);
	for (int at = PAGE - 40; at < PAGE + 8; at++) {
		EXPECT_EQ(0, live_memory_read(memory, base + at, bytes, 40), "over a border");
		assert_memory_equal(pages + at, bytes, 40);
	}
	EXPECT_EQ(0, live_memory_read(memory, base + 3 * PAGE - 8, bytes, 8), "the last word");
	EXPECT_EQ(-EFAULT, live_memory_read(memory, base + 3 * PAGE - 8, bytes, 9), "and one more");
	EXPECT_EQ(-EFAULT, live_memory_read(memory, base + 3 * PAGE, bytes, 1), "beyond");
	EXPECT_EQ(-EFAULT, live_memory_read(memory, UINT64_MAX - 3, bytes, 8),
		  "the end of addresses");
	EXPECT_EQ(-EFAULT, live_memory_read(memory, 0, bytes, 8), "the first page");
	live_memory_free(memory);
	munmap(pages, 4 * PAGE);
}

TEST(caches_memory_until_cleared)
{
	uint8_t *pages =
		mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct live_memory *memory = live_memory_new(getpid());
	uint64_t base = (uintptr_t)pages;
	uint8_t byte;

	pages[0] = 1;
	mprotect(pages + 2 * PAGE, 2 * PAGE, PROT_NONE);
	live_memory_prefetch(memory, base, 4); // as far as they are there
	uint64_t reads = live_memory_reads(memory);
	pages[0] = 2;
	EXPECT_EQ(0, live_memory_read(memory, base, &byte, 1), "read");
	EXPECT_EQ(1, byte, "as it was");
	EXPECT_EQ(0, live_memory_read(memory, base + 2 * PAGE - 1, &byte, 1), "read");
	EXPECT_EQ(reads, live_memory_reads(memory), "no system call");
	live_memory_clear(memory);
	EXPECT_EQ(0, live_memory_read(memory, base, &byte, 1), "read");
	EXPECT_EQ(2, byte, "as it is");
	live_memory_free(memory);
	munmap(pages, 4 * PAGE);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

RUN_TESTS(CASE(unwinds_with_tables_built_on_demand), CASE(builds_no_tables_during_a_pause),
	  CASE(unwinds_deeper_than_the_kernel), CASE(bad_registers_give_a_short_stack),
	  CASE(an_exited_process_gives_no_stack), cmocka_unit_test(reads_memory_across_pages),
	  cmocka_unit_test(caches_memory_until_cleared))
