// SPDX-License-Identifier: Apache-2.0
// What a probe in the GPU's driver costs who calls it: at the first instruction against the chosen one,
// with and without seeing the return; at 100,000 launches a second, always against in windows; and how
// long attaching takes. All on the test driver, whose exports have the real one's shape.
//
//	bench_gpu_probes PATH/libcuda.so.1
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent/elf_symbols.h"
#include "agent/gpu_probes.h"
#include "agent/probe_site.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/gpu/cuda_double.h"

enum {
	ROUNDS = 9, // of each case, in turns: medians
	CALLS = 20000,
	STEPPED_CALLS = 2000,
	LAUNCHES_PER_SECOND = 100000,
	PACED_SECONDS = 10,
};

typedef CUresult launch_fn(CUfunction, unsigned int, unsigned int, unsigned int, unsigned int,
			   unsigned int, unsigned int, unsigned int, CUstream, void **, void **);

struct bench {
	int fd;
	enum probe_way way;
	int program_fd;
	launch_fn *launch;
	struct elf elf;
	struct elf_symbols symbols;
	struct probe_site site;
};

static void fail(const char *what, int rc)
{
	fprintf(stderr, "%s: %s\n", what, strerror(rc < 0 ? -rc : rc));
	exit(1);
}

// Refused, for there is no context: as little of the driver as can be.
static void launch(const struct bench *bench)
{
	bench->launch(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

// Others run on this machine, too.
static uint64_t thread_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

// ---- a call -----------------------------------------------------------------------------------

struct site_case {
	const char *what;
	bool entry, at_return, at_first;
	uint32_t calls;
	double ns[ROUNDS];
};

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	return values[ROUNDS / 2];
}

static double time_calls(const struct bench *bench, uint32_t calls)
{
	uint64_t begin_ns = thread_cpu_ns();

	for (uint32_t i = 0; i < calls; i++)
		launch(bench);
	return (double)(thread_cpu_ns() - begin_ns) / calls;
}

static double time_case(const struct bench *bench, const struct site_case *row)
{
	const struct probe_place place = {
		.offset = bench->site.offset - (row->at_first ? bench->site.skip : 0),
	};
	struct probe_link *entry = NULL, *at_return = NULL;
	int rc = 0;

	if (row->at_return)
		rc = probe_link_attach(bench->way, bench->program_fd, bench->fd, &place, 1, true,
				       &at_return);
	if (!rc && row->entry)
		rc = probe_link_attach(bench->way, bench->program_fd, bench->fd, &place, 1, false,
				       &entry);
	if (rc)
		fail("attaching", rc);
	double ns = time_calls(bench, row->calls);
	probe_link_detach(entry);
	probe_link_detach(at_return);
	return ns;
}

static void bench_sites(const struct bench *bench)
{
	static struct site_case rows[] = {
		{ .what = "no probe", .calls = CALLS },
		{ .what = "chosen site", .entry = true, .calls = CALLS },
		{ .what = "first instruction",
		  .entry = true,
		  .at_first = true,
		  .calls = STEPPED_CALLS },
		{ .what = "chosen site, entry and return",
		  .entry = true,
		  .at_return = true,
		  .calls = CALLS },
	};

	for (int round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
			rows[i].ns[round] = time_case(bench, &rows[i]);
	}
	double bare = median(rows[0].ns);
	printf("a call of cuLaunchKernel (site at +%u), medians of %d rounds:\n", bench->site.skip,
	       ROUNDS);
	printf("  %-32s %8.0f ns\n", rows[0].what, bare);
	for (size_t i = 1; i < ARRAY_SIZE(rows); i++)
		printf("  %-32s %8.0f ns more\n", rows[i].what, median(rows[i].ns) - bare);
}

// ---- 100,000 launches a second ------------------------------------------------------------------

struct pacer {
	const struct bench *bench;
	_Atomic bool stop;
	uint64_t launches, cpu_ns, wall_ns;
};

// In bursts of a millisecond's worth, asleep in between: only the calls' CPU time counts.
static void *pace(void *context)
{
	struct pacer *pacer = context;
	uint64_t begin_ns = clock_monotonic_ns();

	while (!pacer->stop) {
		uint64_t due =
			(clock_monotonic_ns() - begin_ns) / (NS_PER_SECOND / LAUNCHES_PER_SECOND);

		uint64_t begin_cpu_ns = thread_cpu_ns();
		for (; pacer->launches < due && !pacer->stop; pacer->launches++)
			launch(pacer->bench);
		pacer->cpu_ns += thread_cpu_ns() - begin_cpu_ns;
		usleep(1000);
	}
	pacer->wall_ns = clock_monotonic_ns() - begin_ns;
	return NULL;
}

// Entries are told by what the pacer has done: the double's empty program counts nothing.
static int read_hits(void *context, uint64_t ret_hits[GPU_CALL_COUNT])
{
	memset(ret_hits, 0, GPU_CALL_COUNT * sizeof(*ret_hits));
	ret_hits[GPU_CALL_LAUNCH] = *(volatile uint64_t *)&((struct pacer *)context)->launches;
	return 0;
}

static struct gpu_probes *open_probes(const struct bench *bench, struct pacer *pacer)
{
	struct gpu_probes_options options = {
		.way = bench->way,
		.read_hits = read_hits,
		.context = pacer,
	};
	struct gpu_probes *probes;
	struct error err;

	options.calls = gpu_calls(&options.call_count);
	for (uint32_t call = 0; call < GPU_CALL_COUNT; call++) {
		options.programs.entry_fds[call] = bench->program_fd;
		options.programs.return_fds[call] = bench->program_fd;
	}
	probe_cost_measure(bench->way, &options.cost);
	int rc = gpu_probes_open(&options, &probes, &err);
	if (rc)
		fail("opening probes", rc);
	return probes;
}

enum tier { TIER_NONE, TIER_WINDOWS, TIER_ALWAYS, TIER_FIRST, TIERS };

static double run_paced(const struct bench *bench, enum tier tier, double *ret_rate)
{
	const struct gpu_driver driver = { .number = 1,
					   .fd = bench->fd,
					   .path = "the test driver" };
	struct pacer pacer = { .bench = bench };
	struct gpu_probes *probes = tier == TIER_WINDOWS ? open_probes(bench, &pacer) : NULL;
	const struct probe_place place = {
		.offset = bench->site.offset - (tier == TIER_FIRST ? bench->site.skip : 0),
	};
	struct probe_link *link = NULL;
	pthread_t thread;

	if (tier >= TIER_ALWAYS &&
	    probe_link_attach(bench->way, bench->program_fd, bench->fd, &place, 1, false, &link))
		fail("attaching", 0);
	if (pthread_create(&thread, NULL, pace, &pacer))
		fail("a thread", 0);
	if (probes)
		gpu_probes_add(probes, &driver);
	for (uint64_t end_ns = clock_monotonic_ns() + PACED_SECONDS * NS_PER_SECOND;
	     clock_monotonic_ns() < end_ns; usleep(20000)) {
		if (probes)
			gpu_probes_tick(probes, clock_monotonic_ns());
	}
	pacer.stop = true;
	pthread_join(thread, NULL);
	if (probes) {
		struct gpu_probes_stats stats;

		gpu_probes_read_stats(probes, &stats);
		printf("  (windows: %llu, 1 in %u of the time; its own estimate %.2f %% of a "
		       "core)\n",
		       (unsigned long long)stats.windows, stats.weight, 100 * stats.cost);
		gpu_probes_close(probes);
	}
	probe_link_detach(link);
	*ret_rate = (double)pacer.launches * NS_PER_SECOND / (double)pacer.wall_ns;
	return 100.0 * (double)pacer.cpu_ns / (double)pacer.wall_ns;
}

static void bench_tiers(const struct bench *bench)
{
	static const char *const names[TIERS] = { "no probe", "in windows, chosen site",
						  "always, chosen site",
						  "always, first instruction" };
	double none = 0;

	printf("CPU of a thread that launches %d times a second, %d s each:\n", LAUNCHES_PER_SECOND,
	       PACED_SECONDS);
	for (enum tier tier = 0; tier < TIERS; tier++) {
		double rate, percent = run_paced(bench, tier, &rate);

		if (tier == TIER_NONE)
			none = percent;
		printf("  %-32s %8.2f %% of a core, %+.2f; %.0f launches a second\n", names[tier],
		       percent, percent - none, rate);
	}
}

// ---- attaching --------------------------------------------------------------------------------

static void bench_attaching(const struct bench *bench)
{
	const struct gpu_driver driver = { .number = 1,
					   .fd = bench->fd,
					   .path = "the test driver" };
	double add_ms[ROUNDS], remove_ms[ROUNDS];
	struct gpu_probes_stats stats = { 0 };
	struct pacer pacer = { 0 };

	for (int round = 0; round < ROUNDS; round++) {
		struct gpu_probes *probes = open_probes(bench, &pacer);
		uint64_t begin_ns = clock_monotonic_ns();

		gpu_probes_add(probes, &driver);
		uint64_t added_ns = clock_monotonic_ns();
		gpu_probes_read_stats(probes, &stats);
		gpu_probes_remove(probes, &driver);
		add_ms[round] = (double)(added_ns - begin_ns) / NS_PER_MS;
		remove_ms[round] = (double)(clock_monotonic_ns() - added_ns) / NS_PER_MS;
		gpu_probes_close(probes);
	}
	printf("probing %u functions of a file: %.1f ms, ending it %.1f ms (medians of %d)\n",
	       stats.functions, median(add_ms), median(remove_ms), ROUNDS);
}

static void open_bench(struct bench *bench, const char *path)
{
	struct stat status;
	struct error err = { 0 };
	void *library = dlopen(path, RTLD_NOW);

	bench->way = probe_link_choose(&err);
	if (bench->way == PROBE_WAY_NONE) {
		printf("# SKIP %s\n", err.text);
		exit(0);
	}
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		exit(1);
	}
	*(void **)&bench->launch = dlsym(library, "cuLaunchKernel");
	bench->fd = open(path, O_RDONLY | O_CLOEXEC);
	bench->program_fd = probe_link_load_empty(bench->way);
	if (bench->fd < 0 || bench->program_fd < 0 || fstat(bench->fd, &status))
		fail(path, -EIO);
	int rc = elf_read_headers(bench->fd, &status, &bench->elf, &err);
	if (!rc)
		rc = elf_symbols_init(&bench->symbols, &bench->elf);
	if (!rc)
		rc = probe_site_find(&bench->symbols, "cuLaunchKernel", &bench->site);
	if (rc)
		fail(path, rc);
}

int main(int argc, char **argv)
{
	struct bench bench;

	if (argc != 2) {
		fprintf(stderr, "usage: %s PATH/libcuda.so.1\n", argv[0]);
		return 2;
	}
	open_bench(&bench, argv[1]);
	bench_sites(&bench);
	bench_tiers(&bench);
	bench_attaching(&bench);
	elf_symbols_deinit(&bench.symbols);
	return 0;
}
