// SPDX-License-Identifier: Apache-2.0
// What it costs to see page faults: a burst of them with and without the source, in turns, and what its
// programs take per fault by the kernel's own account. Needs root.

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/bpf/loader.h"
#include "agent/sources/page_faults.h"
#include "base/clock.h"

enum {
	PAIRS = 15,
	STORM_BYTES = 256 << 20, // some 65,000 faults, a tenth of a second
};

/* Nanoseconds of this thread's CPU time per fault: other processes do not count. */
static double run_storm(void)
{
	char *memory =
		mmap(NULL, STORM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t begin_ns = clock_process_cpu_ns();

	madvise(memory, STORM_BYTES, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < STORM_BYTES; at += 4096)
		((volatile char *)memory)[at] = 1;
	double ns = (clock_process_cpu_ns() - begin_ns) / (STORM_BYTES / 4096.0);
	munmap(memory, STORM_BYTES);
	return ns;
}

static int compare(const void *a, const void *b)
{
	double first = *(const double *)a, second = *(const double *)b;

	return first < second ? -1 : first > second;
}

static double median(double *values)
{
	qsort(values, PAIRS, sizeof(*values), compare);
	return values[PAIRS / 2];
}

static struct page_faults *open_lane(const struct loader *loader)
{
	struct page_faults_options options = { .slot_ns = 20 * NS_PER_MS };
	struct page_faults *faults;
	struct error err = { 0 };

	if (page_faults_open(loader, &options, &faults, &err)) {
		fprintf(stderr, "%s\n", err.text);
		exit(1);
	}
	return faults;
}

int main(void)
{
	struct loader_options options = { .slot_ns = 20 * NS_PER_MS, .counts_max = 1 << 16 };
	double without[PAIRS], with[PAIRS], null[PAIRS], kept[PAIRS], noise[PAIRS];
	struct loader *loader;
	struct error err = { 0 };

	if (loader_open(&options, &loader, &err)) {
		fprintf(stderr, "%s\n", err.text);
		return 1;
	}
	for (int i = 0; i < PAIRS; i++) {
		without[i] = run_storm();
		struct page_faults *faults = open_lane(loader);
		run_storm(); // the first tenth of a second takes more stacks
		with[i] = run_storm();
		page_faults_close(faults);
		null[i] = run_storm();
		kept[i] = without[i] / with[i];
		noise[i] = without[i] / null[i];
	}
	printf("page faults in a storm: %.0f ns each without, %.0f ns with; %.3f of the throughput "
	       "is kept (without against without: %.3f)\n",
	       median(without), median(with), median(kept), median(noise));

	struct page_faults *faults = open_lane(loader);
	uint64_t ns = 0, runs = 0;

	for (int i = 0; i < 3; i++)
		run_storm();
	page_faults_read_run_time(faults, &ns, &runs);
	if (runs)
		printf("its programs: %.0f ns a run, two runs a fault\n", (double)ns / runs);
	else
		printf("its programs: unknown (sysctl kernel.bpf_stats_enabled=1 shows it)\n");
	page_faults_close(faults);
	loader_close(loader);
	return 0;
}
