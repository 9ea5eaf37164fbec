// SPDX-License-Identifier: Apache-2.0
#include "agent/overhead/bpf_cost.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>

#include "base/cleanup.h"
#include "base/clock.h"

/*
 * From so many runs a second on a whole tick's statistics would be felt: bench_bpf_stats says 54 ns
 * a run here, hence 0.1 % of a core while they are on.
 */
#define SHORT_FROM_RUNS_PER_SECOND 25000
/* Long enough for hundreds of runs at that rate, too short for the main loop to be missed. */
#define BPF_COST_SHORT_NS (10 * NS_PER_MS)

/* Programs that the agent runs itself, by bpf_prog_test_run() and by reading an iterator. */
static const char *const run_by_agent[] = {
	"unwind_snapshot",       "sweep_threads",        "unwind_sleepers",
	"list_thread_registers", "list_running_threads",
};

struct program {
	uint32_t id;
	uint32_t cost;         // position in costs
	uint64_t run_ns, runs; // when the statistics were switched on
	uint64_t new_ns, new_runs;
	int fd; // where it was seen
	bool seen;
};

struct bpf_cost {
	struct program programs[BPF_COST_PROGRAMS_MAX];
	uint32_t program_count;
	struct program_cost costs[BPF_COST_PROGRAMS_MAX];
	double run_ns[BPF_COST_PROGRAMS_MAX], runs[BPF_COST_PROGRAMS_MAX]; // with fractions
	uint32_t cost_count;
	uint64_t unmeasured;
	uint32_t one_in;
	uint32_t tick;   // within the round of one_in
	uint32_t chosen; // the tick of this round to measure in
	bool soon;       // in the next one, too
	bool measuring;
	int stats_fd;        // -1: off, or not by us
	uint64_t begin_ns;   // of the measurement
	uint64_t accrued_ns; // costs are reported until here
};

// ---- programs -------------------------------------------------------------------------------

// The function's name from the program's BTF; the kernel's own is cut.
static void read_whole_name(int fd, char name[PROGRAM_NAME_BYTES])
{
	struct bpf_func_info function = { 0 };
	struct bpf_prog_info info = { .nr_func_info = 1,
				      .func_info_rec_size = sizeof(function),
				      .func_info = (uintptr_t)&function };
	uint32_t size = sizeof(info);

	if (bpf_obj_get_info_by_fd(fd, &info, &size) || !info.btf_id || !info.nr_func_info)
		return;
	struct btf *btf = btf__load_from_kernel_by_id(info.btf_id);
	if (!btf)
		return;
	const struct btf_type *type = btf__type_by_id(btf, function.type_id);
	const char *whole = type ? btf__name_by_offset(btf, type->name_off) : NULL;
	if (whole && *whole)
		snprintf(name, PROGRAM_NAME_BYTES, "%.*s", PROGRAM_NAME_BYTES - 1, whole);
	btf__free(btf);
}

bool bpf_cost_is_in_own_cpu(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(run_by_agent); i++) {
		if (strncmp(name, run_by_agent[i], BPF_OBJ_NAME_LEN - 1) == 0)
			return true;
	}
	return false;
}

static uint32_t find_cost(struct bpf_cost *cost, const char *name)
{
	uint32_t at = 0;

	while (at < cost->cost_count && strcmp(cost->costs[at].name, name) != 0)
		at++;
	if (at == cost->cost_count && at < BPF_COST_PROGRAMS_MAX) {
		snprintf(cost->costs[at].name, PROGRAM_NAME_BYTES, "%s", name);
		cost->costs[at].in_own_cpu = bpf_cost_is_in_own_cpu(name);
		cost->cost_count++;
	}
	return at;
}

static struct program *find_program(struct bpf_cost *cost, int fd, const struct bpf_prog_info *info)
{
	char name[PROGRAM_NAME_BYTES];

	for (uint32_t i = 0; i < cost->program_count; i++) {
		if (cost->programs[i].id == info->id)
			return &cost->programs[i];
	}
	snprintf(name, sizeof(name), "%.*s", BPF_OBJ_NAME_LEN, info->name);
	read_whole_name(fd, name);
	uint32_t at = find_cost(cost, name);
	if (cost->program_count == BPF_COST_PROGRAMS_MAX || at == BPF_COST_PROGRAMS_MAX) {
		cost->unmeasured++;
		return NULL;
	}
	struct program *program = &cost->programs[cost->program_count++];
	*program = (struct program){ .id = info->id, .cost = at };
	return program;
}

// Another thread may have closed it and opened something else: only programs report that much.
static bool read_info(int fd, struct bpf_prog_info *ret_info)
{
	uint32_t size = sizeof(*ret_info);

	*ret_info = (struct bpf_prog_info){ 0 };
	return !bpf_obj_get_info_by_fd(fd, ret_info, &size) && size >= sizeof(*ret_info) &&
	       ret_info->id;
}

static void see_program(struct bpf_cost *cost, int fd, const struct bpf_prog_info *info)
{
	struct program *program = find_program(cost, fd, info);

	if (!program || program->seen)
		return;
	program->seen = true;
	program->fd = fd;
	program->new_ns = info->run_time_ns;
	program->new_runs = info->run_cnt;
}

// Where we saw it the last time: spares to read what it is.
static bool is_known(const struct bpf_cost *cost, int fd, uint32_t id)
{
	for (uint32_t i = 0; i < cost->program_count; i++) {
		if (cost->programs[i].fd == fd && cost->programs[i].id == id)
			return true;
	}
	return false;
}

static bool is_program(int folder, const char *name)
{
	char target[32];
	ssize_t length = readlinkat(folder, name, target, sizeof(target) - 1);

	if (length < 0)
		return false;
	target[length] = 0;
	return strcmp(target, "anon_inode:bpf-prog") == 0;
}

static void begin_seeing(struct bpf_cost *cost)
{
	for (uint32_t i = 0; i < cost->program_count; i++)
		cost->programs[i].seen = false;
}

// All programs that this process holds, whoever of its modules loaded them.
static int see_programs(struct bpf_cost *cost)
{
	DIR *folder = opendir("/proc/self/fd");
	struct bpf_prog_info info;
	struct dirent *entry;

	if (!folder)
		return -errno;
	begin_seeing(cost);
	while ((entry = readdir(folder))) {
		int fd = atoi(entry->d_name);

		// First what rules out files and maps at once: there are hundreds of them.
		if (read_info(fd, &info) &&
		    (is_known(cost, fd, info.id) || is_program(dirfd(folder), entry->d_name)))
			see_program(cost, fd, &info);
	}
	closedir(folder);
	return 0;
}

// Those that were seen at the beginning: one that came since is not reported before the next time.
static void see_programs_again(struct bpf_cost *cost)
{
	struct bpf_prog_info info;

	begin_seeing(cost);
	for (uint32_t i = 0; i < cost->program_count; i++) {
		struct program *program = &cost->programs[i];

		if (read_info(program->fd, &info) && info.id == program->id)
			see_program(cost, program->fd, &info);
	}
}

static void drop_unloaded_programs(struct bpf_cost *cost)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < cost->program_count; i++) {
		if (cost->programs[i].seen)
			cost->programs[kept++] = cost->programs[i];
	}
	cost->program_count = kept;
}

// ---- measuring ------------------------------------------------------------------------------

// What was measured last holds until something else is.
static void accrue(struct bpf_cost *cost, uint64_t now_ns)
{
	double seconds = (double)(now_ns - cost->accrued_ns) / NS_PER_SECOND;

	for (uint32_t i = 0; i < cost->cost_count; i++) {
		struct program_cost *program = &cost->costs[i];

		cost->run_ns[i] += program->ns_per_second * seconds;
		cost->runs[i] += program->runs_per_second * seconds;
		program->run_ns = (uint64_t)cost->run_ns[i];
		program->runs = (uint64_t)cost->runs[i];
	}
	cost->accrued_ns = now_ns;
}

// By the administrator, who spares us the capability to do it (CAP_SYS_ADMIN).
static bool are_on_for_everybody(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/sys/kernel/bpf_stats_enabled", "re");
	int value = 0;

	return file && fscanf(file, "%d", &value) == 1 && value;
}

static int begin(struct bpf_cost *cost)
{
	int fd = bpf_enable_stats(BPF_STATS_RUN_TIME);

	if (fd < 0 && (errno != EPERM || !are_on_for_everybody()))
		return -errno;
	cost->stats_fd = fd;
	cost->measuring = true;
	int rc = see_programs(cost);
	drop_unloaded_programs(cost);
	for (uint32_t i = 0; i < cost->program_count; i++) {
		cost->programs[i].run_ns = cost->programs[i].new_ns;
		cost->programs[i].runs = cost->programs[i].new_runs;
	}
	cost->begin_ns = clock_monotonic_ns();
	return rc;
}

static void end(struct bpf_cost *cost)
{
	uint64_t now_ns = clock_monotonic_ns();

	see_programs_again(cost);
	cleanup_closep(&cost->stats_fd);
	cost->stats_fd = -1;
	cost->measuring = false;
	accrue(cost, now_ns);
	if (now_ns <= cost->begin_ns)
		return;
	for (uint32_t i = 0; i < cost->cost_count; i++)
		cost->costs[i].ns_per_second = cost->costs[i].runs_per_second = 0;

	double per_second = (double)NS_PER_SECOND / (now_ns - cost->begin_ns);
	for (uint32_t i = 0; i < cost->program_count; i++) {
		struct program *program = &cost->programs[i];

		if (!program->seen)
			continue;
		struct program_cost *sum = &cost->costs[program->cost];
		sum->ns_per_second += (program->new_ns - program->run_ns) * per_second;
		sum->runs_per_second += (program->new_runs - program->runs) * per_second;
	}
}

static bool is_busy(const struct bpf_cost *cost)
{
	double runs = 0;

	for (uint32_t i = 0; i < cost->cost_count; i++)
		runs += cost->costs[i].runs_per_second;
	return runs >= SHORT_FROM_RUNS_PER_SECOND;
}

static int measure_briefly(struct bpf_cost *cost)
{
	const struct timespec pause = { .tv_nsec = BPF_COST_SHORT_NS };
	int rc = begin(cost);

	if (rc)
		return rc;
	nanosleep(&pause, NULL);
	end(cost);
	return 0;
}

int bpf_cost_tick(struct bpf_cost *cost)
{
	int rc = 0;

	if (cost->measuring)
		end(cost);
	if (cost->tick == 0)
		cost->chosen = cost->accrued_ns ? (uint32_t)random() % cost->one_in : 0;
	if (!cost->accrued_ns)
		cost->accrued_ns = clock_monotonic_ns();
	// Every other tick: a storm's rates change fast.
	if (is_busy(cost))
		rc = cost->tick % 2 == 0 ? measure_briefly(cost) : rc;
	else if ((cost->tick == cost->chosen || cost->soon) && !rc)
		rc = begin(cost);
	cost->soon = false;
	cost->tick = (cost->tick + 1) % cost->one_in;
	return rc;
}

// ---- life -----------------------------------------------------------------------------------

struct bpf_cost *bpf_cost_new(uint32_t one_in)
{
	struct bpf_cost *cost = calloc(1, sizeof(*cost));

	if (!cost)
		return NULL;
	cost->one_in = one_in ? one_in : 1;
	cost->stats_fd = -1;
	return cost;
}

void bpf_cost_free(struct bpf_cost *cost)
{
	if (!cost)
		return;
	cleanup_closep(&cost->stats_fd);
	free(cost);
}

void bpf_cost_measure_soon(struct bpf_cost *cost)
{
	cost->soon = true;
}

const struct program_cost *bpf_cost_read(struct bpf_cost *cost, uint32_t *ret_count)
{
	if (cost->accrued_ns)
		accrue(cost, clock_monotonic_ns());
	*ret_count = cost->cost_count;
	return cost->costs;
}

uint64_t bpf_cost_unmeasured(const struct bpf_cost *cost)
{
	return cost->unmeasured;
}
