// SPDX-License-Identifier: Apache-2.0
// The programs of page faults on the running kernel: children touch known amounts of memory. Needs
// root and BTF.

#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/bpf/loader.h"
#include "agent/bpf/machine.h"
#include "agent/sources/page_faults.h"
#include "base/clock.h"

#ifdef __SANITIZE_ADDRESS__
#define MORE_SHARE 5 // an eighth of memory is its shadow
#else
#define MORE_SHARE 20
#endif

enum {
	TOUCHED_BYTES = 64 << 20,
	FILE_BYTES = 16 << 20,
	MORE_BYTES_MAX = TOUCHED_BYTES / MORE_SHARE, // what the child needs besides
};

static bool machine_is_fit(void)
{
	struct error err;

	return machine_check(&err) == 0;
}

struct setting {
	struct loader *loader;
	struct page_faults *faults;
};

static struct setting open_setting(bool no_tracepoints)
{
	struct loader_options loader_options = {
		.slot_ns = 20 * NS_PER_MS,
		.counts_max = 65536,
		.pid = getpid(), // no other process may disturb
	};
	struct page_faults_options options = {
		.slot_ns = 20 * NS_PER_MS,
		.only_targets = true,
		.no_tracepoints = no_tracepoints,
	};
	struct setting setting;
	struct error err = { 0 };

	if (loader_open(&loader_options, &setting.loader, &err) ||
	    page_faults_open(setting.loader, &options, &setting.faults, &err))
		fail_msg("%s", err.text);
	return setting;
}

static void close_setting(struct setting *setting)
{
	page_faults_close(setting->faults);
	loader_close(setting->loader);
}

/* What was counted of a process. */
struct seen {
	uint32_t pid;
	uint64_t bytes;
	uint64_t faults; // the weight of its samples
	uint64_t without_stack;
	count_fn see;
};

static int see_count(void *context, const struct count_key *key, const struct count *count)
{
	struct seen *seen = context;

	if (key->process.pid != seen->pid || key->kind != SAMPLE_KIND_PAGE_FAULT)
		return 0;
	seen->bytes += count->value;
	seen->faults += count->samples;
	if (!key->user.high && !key->user.low)
		seen->without_stack++;
	return 0;
}

static void see_stack(void *context, const struct stack_record *record)
{
	(void)context;
	(void)record;
}

static void see_process(void *context, const struct process_record *record)
{
	(void)context;
	(void)record;
}

/* Children are new to the unwinder: their first samples are in no count yet. */
static void see_snapshot(void *context, const struct snapshot_record *record)
{
	struct seen *seen = context;
	struct count_key key = record->key;

	key.user.low = 1;
	seen->see(seen, &key, &record->count);
}

static struct seen drain(struct setting *setting, pid_t pid, count_fn see)
{
	struct seen seen = { .pid = pid, .see = see };
	struct record_handlers handlers = {
		.stack = see_stack,
		.process = see_process,
		.snapshot = see_snapshot,
		.context = &seen,
	};
	struct error err = { 0 };

	if (loader_swap_counts(setting->loader, &err) ||
	    loader_read_records(setting->loader, &handlers, &err) ||
	    loader_drain_counts(setting->loader, see, &seen, &err))
		fail_msg("%s", err.text);
	return seen;
}

/* ---- what a child does with memory ----------------------------------------------------------- */

static char *map_pages(size_t bytes)
{
	char *memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		_exit(1);
	madvise(memory, bytes, MADV_NOHUGEPAGE);
	return memory;
}

static void touch(volatile char *memory, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += 4096)
		memory[at] = 1;
}

static void touch_small_pages(void)
{
	touch(map_pages(TOUCHED_BYTES), TOUCHED_BYTES);
}

static void touch_huge_pages(void)
{
	const size_t huge = 2 << 20;
	char *memory = map_pages(TOUCHED_BYTES + huge);

	memory = (char *)(((uintptr_t)memory + huge - 1) & ~(uintptr_t)(huge - 1));
	if (madvise(memory, TOUCHED_BYTES, MADV_HUGEPAGE))
		_exit(2);
	// The first touch of each is somewhere within it.
	for (size_t at = 0; at < TOUCHED_BYTES; at += huge)
		((volatile char *)memory)[at + 5 * 4096 * (at / huge % 97)] = 1;
	touch(memory, TOUCHED_BYTES);
}

static void touch_pages_of_the_parent(void)
{
	char *memory = map_pages(TOUCHED_BYTES);
	int status;

	touch(memory, TOUCHED_BYTES);
	pid_t pid = fork();
	if (pid == 0) {
		touch(memory, TOUCHED_BYTES);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	_exit(status);
}

static void read_pages_that_nobody_wrote(void)
{
	volatile char *memory = map_pages(TOUCHED_BYTES);
	char sum = 0;

	for (size_t at = 0; at < TOUCHED_BYTES; at += 4096)
		sum += memory[at];
	_exit(sum);
}

static void read_a_mapped_file(void)
{
	char path[] = "/tmp/cairn-page-faults-XXXXXX";
	int fd = mkstemp(path);
	char block[65536] = { 1 };
	char sum = 0;

	unlink(path);
	for (size_t at = 0; at < FILE_BYTES; at += sizeof(block))
		if (write(fd, block, sizeof(block)) != sizeof(block))
			_exit(1);
	volatile char *memory = mmap(NULL, FILE_BYTES, PROT_READ, MAP_PRIVATE, fd, 0);
	if (memory == MAP_FAILED)
		_exit(1);
	for (size_t at = 0; at < FILE_BYTES; at += 4096)
		sum += memory[at + 64];
	_exit(sum);
}

static void let_the_kernel_touch_it(void)
{
	char *memory = map_pages(TOUCHED_BYTES);
	int pipe_fds[2];

	if (pipe(pipe_fds) || write(pipe_fds[1], "x", 1) != 1)
		_exit(1);
	for (size_t at = 0; at < TOUCHED_BYTES; at += 4096)
		if (read(pipe_fds[0], memory + at, 1) != 1 || write(pipe_fds[1], "x", 1) != 1)
			_exit(1);
}

/* Returns the pid, of which nothing is left to be counted. */
static pid_t run(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		fn();
		_exit(0);
	}
	waitpid(pid, &status, 0);
	EXPECT_EQ(0, status, "the child");
	return pid;
}

static void expect_bytes(uint64_t bytes, const struct seen *seen, const char *what)
{
	if (seen->bytes + MORE_BYTES_MAX < bytes || seen->bytes > bytes + MORE_BYTES_MAX)
		fail_msg("%s: %.1f MiB of %llu faults, expected %.1f MiB", what,
			 seen->bytes / 1048576.0, (unsigned long long)seen->faults,
			 bytes / 1048576.0);
	EXPECT_EQ(0, seen->without_stack, what);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static const struct {
	const char *what;
	void (*fn)(void);
	uint64_t bytes;
	bool only_with_tracepoints; // else the kind of a fault is not known
} cases[] = {
	{ "small pages", touch_small_pages, TOUCHED_BYTES, false },
	{ "huge pages", touch_huge_pages, TOUCHED_BYTES, false },
	{ "pages that nobody wrote", read_pages_that_nobody_wrote, 0, true },
	{ "pages of a file", read_a_mapped_file, FILE_BYTES, false },
	{ "pages that the kernel writes", let_the_kernel_touch_it, TOUCHED_BYTES, false },
	// Of the process that was forked first, whose own child counts for itself.
	{ "a parent's pages", touch_pages_of_the_parent, TOUCHED_BYTES, false },
};

static void expect_all_amounts(bool no_tracepoints)
{
	struct setting setting = open_setting(no_tracepoints);

	page_faults_set_budget(setting.faults, UINT32_MAX); // each fault is looked at
	for EACH (c, cases) {
		if (c->only_with_tracepoints && no_tracepoints)
			continue;
		struct seen seen = drain(&setting, run(c->fn), see_count);

		expect_bytes(c->bytes, &seen, c->what);
	}
	close_setting(&setting);
}

TEST(counts_bytes_faulted_in)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	expect_all_amounts(false);
}

TEST(counts_bytes_without_tracepoints)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	expect_all_amounts(true);
}

/* The child of a child: what it copies was its parent's. */

static int see_copier(void *context, const struct count_key *key, const struct count *count)
{
	struct seen *seen = context;

	if (key->process.pid == seen->pid || key->kind != SAMPLE_KIND_PAGE_FAULT ||
	    key->process.pid == (uint32_t)getpid())
		return 0;
	seen->bytes += count->value;
	seen->faults += count->samples;
	return 0;
}

TEST(copied_pages_belong_to_the_writer)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct setting setting = open_setting(false);

	page_faults_set_budget(setting.faults, UINT32_MAX);
	struct seen seen = drain(&setting, run(touch_pages_of_the_parent), see_copier);

	expect_bytes(TOUCHED_BYTES, &seen, "copies");
	close_setting(&setting);
}

TEST(counts_nothing_while_stopped)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct setting setting = open_setting(false);

	page_faults_set_budget(setting.faults, UINT32_MAX);
	EXPECT_EQ(0, page_faults_set_running(setting.faults, false), "pause");
	struct seen seen = drain(&setting, run(touch_small_pages), see_count);
	EXPECT_EQ(0, seen.faults, "meanwhile");
	EXPECT_EQ(0, page_faults_set_running(setting.faults, true), "go on");
	// With the budget that was set: each fault is looked at.
	seen = drain(&setting, run(touch_small_pages), see_count);
	expect_bytes(TOUCHED_BYTES, &seen, "afterwards");
	close_setting(&setting);
}

TEST(unwinds_few_stacks_in_a_storm)
{
	if (!machine_is_fit())
		SKIP("needs root, BTF and Linux 6.1");
	struct setting setting = open_setting(false);
	uint64_t before[COUNTER_COUNT], after[COUNTER_COUNT];
	uint64_t begin_ns = clock_monotonic_ns();

	loader_read_counters(setting.loader, before);
	struct seen seen = drain(&setting, run(touch_small_pages), see_count);
	loader_read_counters(setting.loader, after);
	double seconds = (clock_monotonic_ns() - begin_ns) / 1e9;
	uint64_t sampled = after[COUNTER_FAULTS_SAMPLED] - before[COUNTER_FAULTS_SAMPLED];

	// What a storm leaves uncharged is less than the gaps between samples of two CPUs.
	if (seen.bytes < TOUCHED_BYTES / 10 * 9 || seen.bytes > TOUCHED_BYTES / 10 * 11)
		fail_msg("%.1f MiB", seen.bytes / 1048576.0);
	// Each epoch starts again, with a few times as many; so do two CPUs.
	if (sampled > 2000 + 2 * PAGE_FAULT_STACKS_PER_SECOND * seconds)
		fail_msg("%llu stacks of %llu faults in %.2f s", (unsigned long long)sampled,
			 (unsigned long long)seen.faults, seconds);
	close_setting(&setting);
}

RUN_TESTS(cmocka_unit_test(counts_bytes_faulted_in),
	  cmocka_unit_test(counts_bytes_without_tracepoints),
	  cmocka_unit_test(copied_pages_belong_to_the_writer),
	  cmocka_unit_test(counts_nothing_while_stopped),
	  cmocka_unit_test(unwinds_few_stacks_in_a_storm))
