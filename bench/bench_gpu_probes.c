// SPDX-License-Identifier: Apache-2.0
// Overhead of probes for callers of the CUDA driver: at the first instruction and at the chosen site, with and without a return
// probe; at 100,000 launches a second, with the agent's programs always attached and duty-cycled, and with an empty program; and
// how long attaching takes. Uses the test driver, whose exports have the real one's shape. bench_gpu_agent.py measures an
// application's throughput beside a whole agent.
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
#include <unistd.h>

#include "agent/elf/elf_symbols.h"
#include "agent/gpu/gpu_probes.h"
#include "agent/gpu/gpu_programs.h"
#include "agent/bpf/machine.h"
#include "agent/probes/probe_site.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/gpu/cuda_double.h"

enum {
	ROUNDS = 9, // of each case, in turns: medians
	CALLS = 20000,
	STEPPED_CALLS = 2000,
	LAUNCHES_PER_SECOND = 100000,
	PACED_SECONDS = 10, // of one case in one turn: an on phase or two
	TURNS = 4,
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
	// The agent's.
	struct loader *loader;
	struct gpu_programs *programs;
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

static double median_of(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), compare);
	return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

static double median(double *values)
{
	return median_of(values, ROUNDS);
}

static double time_calls(const struct bench *bench, uint32_t calls)
{
	uint64_t begin_ns = clock_thread_cpu_ns();

	for (uint32_t i = 0; i < calls; i++)
		launch(bench);
	return (double)(clock_thread_cpu_ns() - begin_ns) / calls;
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
		{ .what = "no probe, once more", .calls = CALLS }, // the machine's noise
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

		uint64_t begin_cpu_ns = clock_thread_cpu_ns();
		for (; pacer->launches < due && !pacer->stop; pacer->launches++)
			launch(pacer->bench);
		pacer->cpu_ns += clock_thread_cpu_ns() - begin_cpu_ns;
		usleep(1000);
	}
	pacer->wall_ns = clock_monotonic_ns() - begin_ns;
	return NULL;
}

// ---- the agent's programs -----------------------------------------------------------------------

static void open_programs(struct bench *bench)
{
	const struct loader_options loader_options = {
		.slot_ns = 20 * NS_PER_MS,
		.counts_max = 65536,
		.pid = getpid(), // nobody else's launches
		.level = LOADER_LEVEL_FRAME_POINTER,
	};
	const struct gpu_programs_options options = {
		.slot_ns = 20 * NS_PER_MS,
		.only_targets = true,
		.attach_type = probe_way_attach_type(bench->way),
	};
	struct error err = { 0 };
	int rc = machine_check(&err);

	if (!rc)
		rc = loader_open(&loader_options, &bench->loader, &err);
	if (!rc)
		rc = gpu_programs_open(bench->loader, &options, &bench->programs, &err);
	if (rc)
		fail(err.text, rc);
}

static int ignore_count(void *context, const struct count_key *key, const struct count *count)
{
	(void)context;
	(void)key;
	(void)count;
	return 0;
}

// As the agent does every few seconds, or its maps would fill up.
static void drain(const struct bench *bench)
{
	struct error err = { 0 };
	int rc = loader_swap_counts(bench->loader, &err);

	if (!rc)
		rc = loader_drain_counts(bench->loader, ignore_count, NULL, &err);
	if (rc)
		fail(err.text, rc);
}

static struct gpu_probes *open_probes(const struct bench *bench)
{
	struct gpu_probes_options options = {
		.files.way = bench->way,
		.read_hits = gpu_programs_read_hits,
		.set_on_phase = gpu_programs_set_on_phase,
		.set_generation = gpu_programs_set_generation,
		.context = bench->programs,
	};
	struct gpu_probes *probes;
	struct error err;

	options.files.calls = gpu_calls(&options.files.call_count);
	gpu_programs_by_kind(bench->programs, &options.files.programs);
	probe_cost_measure(bench->way, &options.files.cost);
	int rc = gpu_probes_open(&options, &probes, &err);
	if (rc)
		fail("opening probes", rc);
	return probes;
}

// ---- tiers --------------------------------------------------------------------------------------

/* The first two are the same: what differs between them is the machine's noise. */
enum tier {
	TIER_NONE,
	TIER_NONE_AGAIN,
	TIER_DUTY_CYCLED,
	TIER_ALWAYS,
	TIER_EMPTY,
	TIER_FIRST,
	TIERS
};

static const char *const tier_names[TIERS] = {
	[TIER_NONE] = "no probe",
	[TIER_NONE_AGAIN] = "no probe, once more",
	[TIER_DUTY_CYCLED] = "the agent's program, duty-cycled",
	[TIER_ALWAYS] = "the agent's program, always attached",
	[TIER_EMPTY] = "an empty program, always attached",
	[TIER_FIRST] = "the same at the first instruction",
};

/* One probe of the launch function, always attached. */
static struct probe_link *attach_always(const struct bench *bench, enum tier tier)
{
	static const struct gpu_on_phase always = { .end_ns = UINT64_MAX, .weight = 1 };
	struct probe_place place = {
		.offset = bench->site.offset - (tier == TIER_FIRST ? bench->site.skip : 0),
	};
	int program_fd = bench->program_fd;
	struct probe_link *link = NULL;

	if (tier == TIER_ALWAYS) {
		const struct gpu_call_symbol *symbol = gpu_calls_find("cuLaunchKernel");

		program_fd = gpu_programs_entry_fd(bench->programs, symbol);
		place.cookie = symbol->cookie | (uint64_t)GPU_CALL_DUTY_CYCLED << 16;
		gpu_programs_set_on_phase(bench->programs, &always);
	}
	int rc = probe_link_attach(bench->way, program_fd, bench->fd, &place, 1, false, &link);
	if (rc)
		fail("attaching", rc);
	return link;
}

static void pass_seconds(const struct bench *bench, struct gpu_probes *probes, uint64_t ns)
{
	uint64_t end_ns = clock_monotonic_ns() + ns, drain_ns = clock_monotonic_ns();

	for (uint64_t now = drain_ns; now < end_ns; now = clock_monotonic_ns()) {
		usleep(20000);
		if (probes)
			gpu_probes_tick(probes, now);
		if (now - drain_ns >= NS_PER_SECOND) {
			drain_ns = now;
			drain(bench);
		}
	}
}

/* CPU time of a launch, ns. */
static double run_paced(const struct bench *bench, enum tier tier, struct gpu_probes *probes)
{
	struct pacer pacer = { .bench = bench };
	struct probe_link *link = tier >= TIER_ALWAYS ? attach_always(bench, tier) : NULL;
	pthread_t thread;

	if (pthread_create(&thread, NULL, pace, &pacer))
		fail("a thread", 0);
	pass_seconds(bench, probes, PACED_SECONDS * NS_PER_SECOND);
	pacer.stop = true;
	pthread_join(thread, NULL);
	probe_link_detach(link);
	probe_link_settle();
	double rate = (double)pacer.launches * NS_PER_SECOND / (double)pacer.wall_ns;
	if (rate < 0.95 * LAUNCHES_PER_SECOND)
		printf("  (only %.0f launches a second: %s)\n", rate, tier_names[tier]);
	return (double)pacer.cpu_ns / (double)pacer.launches;
}

/* The measured launch rate lasts from one turn to the next, as in an agent. */
static double run_duty_cycled(const struct bench *bench, struct gpu_probes *probes)
{
	const struct gpu_driver driver = { .number = 1,
					   .fd = bench->fd,
					   .path = "the test driver" };

	gpu_probes_add(probes, &driver);
	double ns = run_paced(bench, TIER_DUTY_CYCLED, probes);
	gpu_probes_remove(probes, &driver);
	return ns;
}

static void print_on_phases(struct gpu_probes *probes)
{
	struct gpu_probes_stats stats;

	gpu_probes_read_stats(probes, &stats);
	printf("  (on phases: %llu, weight %u; by its own account %.2f %% of a core)\n",
	       (unsigned long long)stats.on_phases, stats.weight, 100 * stats.cost);
}

static void bench_tiers(const struct bench *bench)
{
	struct gpu_probes *probes = open_probes(bench);
	double more[TIERS][TURNS], bare[TURNS];

	for (int turn = 0; turn < TURNS; turn++) {
		for (int tier = 0; tier < TIERS; tier++) {
			double ns = tier == TIER_DUTY_CYCLED
					    ? run_duty_cycled(bench, probes)
					    : run_paced(bench, (enum tier)tier, NULL);

			if (tier == TIER_NONE)
				bare[turn] = ns;
			more[tier][turn] = ns - bare[turn];
		}
	}
	printf("a launch of %d a second, CPU time; %d turns of %d s, each against the first of its "
	       "turn; medians [range]:\n",
	       LAUNCHES_PER_SECOND, TURNS, PACED_SECONDS);
	printf("  %-38s %6.0f ns\n", tier_names[TIER_NONE], median_of(bare, TURNS));
	for (int tier = TIER_NONE_AGAIN; tier < TIERS; tier++) {
		double ns = median_of(more[tier], TURNS); // and sorts

		printf("  %-38s %6.0f ns more [%.0f..%.0f], %.2f %% of a core\n", tier_names[tier],
		       ns, more[tier][0], more[tier][TURNS - 1],
		       100 * ns * LAUNCHES_PER_SECOND / NS_PER_SECOND);
	}
	print_on_phases(probes);
	gpu_probes_close(probes);
}

// ---- attaching --------------------------------------------------------------------------------

static void bench_attaching(const struct bench *bench)
{
	const struct gpu_driver driver = { .number = 1,
					   .fd = bench->fd,
					   .path = "the test driver" };
	double add_ms[ROUNDS], remove_ms[ROUNDS];
	struct gpu_probes_stats stats = { 0 };

	for (int round = 0; round < ROUNDS; round++) {
		struct gpu_probes *probes = open_probes(bench);
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
	struct bench bench = { 0 };

	if (argc != 2) {
		fprintf(stderr, "usage: %s PATH/libcuda.so.1\n", argv[0]);
		return 2;
	}
	open_bench(&bench, argv[1]);
	open_programs(&bench);
	bench_sites(&bench);
	bench_tiers(&bench);
	bench_attaching(&bench);
	gpu_programs_close(bench.programs);
	loader_close(bench.loader);
	elf_symbols_deinit(&bench.symbols);
	return 0;
}
