// SPDX-License-Identifier: Apache-2.0
// The BPF unwinder over this program itself: real code of this machine's compiler and C library,
// by tables made of their own unwind information, against backtrace(). The same for every
// processor; `make test-aarch64` runs it for another one.
// Subject: bpf/unwind/unwind.h

#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/ucontext.h>
#include <unistd.h>

#include "agent/dump/live_tables.h"
#include "agent/process/mapped_file.h"
#include "base/cleanup.h"
#include "tests/test.h"

#ifdef __aarch64__
#define __TARGET_ARCH_arm64
#define SIGNED                  __attribute__((target("branch-protection=pac-ret+leaf")))
#define HANDLERS_RETURN_BY_VDSO true
#else
#define SIGNED
#define HANDLERS_RETURN_BY_VDSO false // but by code of the C library
#endif

#define NOINLINE         __attribute__((noinline, noclone))
#define NO_FRAME_POINTER __attribute__((optimize("omit-frame-pointer")))

static const bool unwind_by_tables = true;
static const bool unwind_python = false;

#pragma GCC diagnostic ignored "-Wunknown-pragmas"
#include "bpf/unwind/unwind.h"

enum { FRAMES_MAX = STACK_DEPTH_MAX };

static struct live_tables tables;
static const struct live_file *last_file;
static struct raw_frame found[FRAMES_MAX];
static uint32_t found_count, found_end;
static void *expected[FRAMES_MAX];
static int expected_count;

/* ---- what unwind.h wants ------------------------------------------------------------------- */

/* Our own memory, read by a file: what is not there is an error and no fault. */
static long read_user(void *to, __u32 size, __u64 address)
{
	static int memory = -1;

	if (memory < 0)
		memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	return pread(memory, to, size, (off_t)address) == (ssize_t)size ? 0 : -EFAULT;
}

static struct raw_frame *unwind_frame(struct unwind *unwind, __u32 at)
{
	(void)unwind;
	return at + 1 < FRAMES_MAX ? &found[at + 1] : NULL;
}

static const struct mapping_page *unwind_mapping_page(const struct unwind *unwind, __u32 page)
{
	(void)unwind;
	return page < tables.page_count ? &tables.pages[page] : NULL;
}

static void *unwind_table(__u32 table)
{
	last_file = table < tables.file_count ? &tables.files[table] : NULL;
	return last_file && last_file->table ? (void *)last_file : NULL;
}

static const struct table_page *unwind_table_page(void *table, __u32 page)
{
	const struct live_file *file = table;

	return page < file->page_count ? &file->pages[page] : NULL;
}

static const struct unwind_rule *unwind_rule_at(__u32 rule)
{
	return rule < last_file->table->rule_count ? &last_file->table->rules[rule] : NULL;
}

/* Nothing is remembered here: a test wants each search done. */
static struct cached_rules *unwind_cached_rules(__u64 address)
{
	(void)address;
	return NULL;
}

static const struct python_offsets *python_offsets_at(__u32 runtime)
{
	(void)runtime;
	return NULL;
}

/* ---- the walk ------------------------------------------------------------------------------ */

static void take_registers(struct unwind *unwind, const ucontext_t *context)
{
#ifdef __aarch64__
	const mcontext_t *from = &context->uc_mcontext;

	memcpy(unwind->registers, from->regs, sizeof(from->regs));
	unwind->registers[REGISTER_SP] = from->sp;
	unwind->pc = from->pc;
#else
	static const int order[] = { REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI,
				     REG_RBP, REG_RSP, REG_R8,  REG_R9,  REG_R10, REG_R11,
				     REG_R12, REG_R13, REG_R14, REG_R15 };

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		unwind->registers[i] = (uint64_t)context->uc_mcontext.gregs[order[i]];
	unwind->pc = (uint64_t)context->uc_mcontext.gregs[REG_RIP];
#endif
	unwind->exact_pc = 1;
}

static void unwind_from(const ucontext_t *context)
{
	static struct unwind unwind;

	memset(&unwind, 0, sizeof(unwind));
	take_registers(&unwind, context);
	unwind.process.mapping_page_count = tables.page_count;
	unwind_begin(&unwind);
	for (uint32_t i = 0; i < UNWIND_STEPS_MAX && !unwind_step(&unwind); i++)
		;
	found[0] = unwind.leaf;
	found_count = unwind.frame_count + 1;
	found_end = unwind.end;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	expected_count = backtrace(expected, FRAMES_MAX);
	unwind_from(context);
}

/* A handler in which another signal comes: what it interrupted lies below a signal's frame. */
static NOINLINE void on_outer_signal(int number)
{
	(void)number;
	raise(SIGUSR2);
}

/* ---- ways to the signal -------------------------------------------------------------------- */

#define AFTERWARDS __asm__ volatile("" ::: "memory")

typedef void (*way)(void);

static NOINLINE void go(void)
{
	raise(SIGUSR2);
	AFTERWARDS;
}

static NOINLINE NO_FRAME_POINTER void go_without_frame_pointer(void)
{
	volatile char room[200];

	room[0] = 1;
	raise(SIGUSR2);
	room[1] = room[0];
}

static NOINLINE void go_with_room(void)
{
	volatile char *room = __builtin_alloca((size_t)(getpid() % 1000) + 1);

	room[0] = 1;
	go();
	room[0] = 2;
}

static NOINLINE NO_FRAME_POINTER void go_aligned(void)
{
	char aligned[128] __attribute__((aligned(64)));

	__asm__ volatile("" ::"r"(aligned) : "memory");
	go_without_frame_pointer();
	__asm__ volatile("" ::"r"(aligned) : "memory");
}

static NOINLINE int recurse(int depth)
{
	if (!depth) {
		go_without_frame_pointer();
		return 0;
	}
	int below = recurse(depth - 1);
	__asm__ volatile("" : "+r"(below));
	return below + 1;
}

static NOINLINE void go_deep(void)
{
	if (recurse(200) != 200)
		abort();
}

static int compare(const void *a, const void *b)
{
	go_aligned();
	return *(const int *)a - *(const int *)b;
}

static NOINLINE void go_through_library(void)
{
	int numbers[] = { 2, 1 };

	qsort(numbers, 2, sizeof(*numbers), compare);
	AFTERWARDS;
}

/* With return addresses that the processor has signed, where it does. */
static NOINLINE SIGNED void go_signed(void)
{
	go_through_library();
	AFTERWARDS;
}

static NOINLINE void go_below_a_signal(void)
{
	raise(SIGUSR1);
	AFTERWARDS;
}

static const struct {
	const char *what;
	way go;
	bool by_signal; // through a handler's frame, too
} ways[] = {
	{ "with a frame pointer", go, false },
	{ "without a frame pointer", go_without_frame_pointer, false },
	{ "with room of a size known only now", go_with_room, false },
	{ "with a stack aligned anew", go_aligned, false },
	{ "200 calls deep", go_deep, false },
	{ "through the C library", go_through_library, false },
	{ "with signed return addresses", go_signed, false },
	{ "through a signal's frame", go_below_a_signal, true },
};

/* ---- tests --------------------------------------------------------------------------------- */

static struct executable_table *executables;
static bool has_vdso;

static int use_files(struct mapping_list *mappings)
{
	_cleanup_close_ int folder = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (uint32_t i = 0; i < mappings->count; i++) {
		struct mapping *mapping = &mappings->mappings[i];
		const char *path = mapping_path(mappings, mapping);
		_cleanup_close_ int fd = path[0] == '/'
						 ? open(path, O_RDONLY | O_CLOEXEC)
						 : mapped_file_open(folder, mappings, mapping);
		struct executable *executable;

		if (fd < 0 || executable_table_open(executables, fd, path, &executable, NULL))
			continue;
		mapping->executable = executable_hold(executable);
		mapping->file = MAPPING_FILE_OPENED;
		has_vdso |= strcmp(path, "[vdso]") == 0;
	}
	return live_tables_init(&tables, mappings, NULL);
}

static int set_up(void **state)
{
	struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO };
	struct mapping_list *mappings;
	_cleanup_close_ int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	void *unused[1];

	(void)state;
	backtrace(unused, 1); // loads what it needs
	executables = executable_table_new();
	if (!executables || maps < 0 || mapping_list_read(maps, &mappings) || use_files(mappings))
		return -1;
	for (uint32_t i = 0; i < mappings->count; i++)
		live_tables_want(&tables, mappings->mappings[i].start);
	live_tables_build(&tables);
	mapping_list_release(mappings);
	sigaction(SIGUSR2, &action, NULL);
	signal(SIGUSR1, on_outer_signal);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	live_tables_deinit(&tables);
	executable_table_free(executables);
	return 0;
}

/* backtrace() has the handler and its return before the leaf. */
static int find_leaf(void)
{
	for (int i = 0; i < expected_count; i++)
		if ((uintptr_t)expected[i] == found[0].address)
			return i;
	return -1;
}

/* An address that was interrupted is exact; others are those of the call. */
static void expect_told(const char *what)
{
	int leaf = find_leaf();

	if (leaf < 0)
		fail_msg("%s: backtrace() does not say where it was interrupted", what);
	EXPECT_EQ(STACK_END_COMPLETE, found_end, what);
	EXPECT_EQ(expected_count - leaf, found_count, what);
	for (uint32_t i = 1; i < found_count; i++) {
		uint64_t address = (uintptr_t)expected[leaf + i];

		if (found[i].address != address && found[i].address != address - 1)
			fail_msg("%s: frame %u is 0x%llx, not 0x%llx", what, i,
				 (unsigned long long)found[i].address, (unsigned long long)address);
	}
}

TEST(unwinds_its_own_stacks)
{
	for EACH (c, ways) {
		if (c->by_signal && HANDLERS_RETURN_BY_VDSO && !has_vdso) {
			printf("# SKIP %s: no vDSO under this emulator\n", c->what);
			continue;
		}
		expected_count = 0;
		c->go();
		expect_told(c->what);
	}
}

RUN_TESTS(cmocka_unit_test_setup_teardown(unwinds_its_own_stacks, set_up, tear_down))
