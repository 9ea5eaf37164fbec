// SPDX-License-Identifier: Apache-2.0
#include "agent/stats.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "bpf/counters.h"

enum { COST_TEXT_BYTES = 280 };

static const char *const sentences[] = {
#define X(id, sentence) [COUNTER_##id] = sentence,
	BPF_COUNTERS(X)
#undef X
};

// Counters that tell of something lost. Times and frames do not.
static const enum bpf_counter losses[] = {
	COUNTER_COUNTS_FULL,         COUNTER_COUNTS_BUSY,       COUNTER_RING_FULL,
	COUNTER_TARGETS_FULL,        COUNTER_SNAPSHOTS_DROPPED, COUNTER_SENT_STACKS_FULL,
	COUNTER_THREADS_DROPPED,     COUNTER_GPU_CALLS_NESTED,  COUNTER_GPU_MAPS_FULL,
	COUNTER_GPU_CAPTURES_MISSED,
};

/* Of these some are lost on any busy machine: worth a line if it is more than one in so many. */
#define LOSSES_ORDINARY 20

static const struct {
	enum bpf_counter lost, of;
} ordinary_losses[] = {
	{ COUNTER_OFF_CPU_BUSY, COUNTER_SWITCHES },
	{ COUNTER_WAKES_BUSY, COUNTER_WAKES },
	{ COUNTER_FAULTS_DROPPED, COUNTER_FAULTS_SAMPLED },
	{ COUNTER_GPU_CALLS_DROPPED, COUNTER_GPU_CALLS },
	{ COUNTER_GPU_CALLS_BUSY, COUNTER_GPU_CALLS },
};

_Static_assert(COUNTER_COUNT <= ARRAY_SIZE(((struct profiler_stats *)0)->bpf_counters),
	       "the profiler's stats have room for all counters");

static uint64_t read_rss(void)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/statm", "re");
	unsigned long long pages = 0;

	if (!file || fscanf(file, "%*u %llu", &pages) != 1)
		return 0;
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

void stats_read(struct stats *ret_stats, const struct profiler *profiler, struct sender *sender)
{
	*ret_stats = (struct stats){
		.time_ns = clock_monotonic_ns(),
		.cpu_ns = clock_process_cpu_ns(),
		.rss_bytes = read_rss(),
	};
	profiler_read_stats(profiler, &ret_stats->profiler);
	sender_read_stats(sender, &ret_stats->sender);
}

static uint64_t counted(const struct stats *before, const struct stats *now,
			enum bpf_counter counter)
{
	return now->profiler.bpf_counters[counter] - before->profiler.bpf_counters[counter];
}

// The overhead that the governor last saw, and what it sheds.
static void format_overhead(const struct profiler_stats *stats, char text[COST_TEXT_BYTES])
{
	const struct budget_stats *budget = &stats->budget;

	text[0] = 0;
	if (!stats->budget_known)
		return;
	snprintf(text, COST_TEXT_BYTES,
		 "overhead %.2f %% of a core%s, budget %.2f %%, %u shedding steps active "
		 "(CPU sampling at %uHz, off-CPU stacks of %u processes off%s%s), %llu "
		 "shedding changes; ",
		 100 * budget->overhead, budget->estimated ? " (estimated)" : "",
		 100 * budget->budget, budget->level, budget->frequency_hz,
		 budget->steps[KNOB_PROCESS_OFF_CPU],
		 budget->steps[KNOB_OFF_CPU] ? ", off-CPU, run queue and wall clock off" : "",
		 budget->steps[KNOB_PAGE_FAULTS] ? ", page faults off" : "",
		 (unsigned long long)budget->changes);
}

void stats_format(const struct stats *before, const struct stats *now, char text[STATS_TEXT_BYTES])
{
	char cost[COST_TEXT_BYTES];
	uint64_t time_ns = now->time_ns - before->time_ns;
	uint64_t runs = now->profiler.bpf_run_count - before->profiler.bpf_run_count;
	uint64_t run_ns = now->profiler.bpf_run_ns - before->profiler.bpf_run_ns;
	char bpf[64] = "BPF time unknown (sysctl kernel.bpf_stats_enabled=1 shows it)";

	if (runs)
		snprintf(bpf, sizeof(bpf), "%llu ns of BPF each",
			 (unsigned long long)(run_ns / runs));
	format_overhead(&now->profiler, cost);
	snprintf(text, STATS_TEXT_BYTES,
		 "last %.0f s: %llu samples, %s, agent %.2f %% of a core, RSS %.1f MiB; %s"
		 "%llu batches sent (%.1f KiB), %llu waiting (%.1f KiB); "
		 "%llu processes, %llu files, %llu stacks, %.1f MiB of symbols, drain %.1f ms; "
		 "%llu processes unwound by %llu tables (%.1f MiB in the kernel, %llu to come), "
		 "%llu Python functions (%.1f MiB)",
		 time_ns / 1e9, (unsigned long long)counted(before, now, COUNTER_SAMPLES), bpf,
		 time_ns ? 100.0 * (now->cpu_ns - before->cpu_ns) / time_ns : 0,
		 now->rss_bytes / 1048576.0, cost,
		 (unsigned long long)(now->sender.batches_sent - before->sender.batches_sent),
		 (now->sender.bytes_sent - before->sender.bytes_sent) / 1024.0,
		 (unsigned long long)now->sender.spool_batches, now->sender.spool_bytes / 1024.0,
		 (unsigned long long)now->profiler.processes,
		 (unsigned long long)now->profiler.files, (unsigned long long)now->profiler.stacks,
		 now->profiler.symbols_bytes / 1048576.0, now->profiler.drain_ns / 1e6,
		 (unsigned long long)now->profiler.unwind.processes,
		 (unsigned long long)now->profiler.unwind.tables,
		 now->profiler.unwind.bytes / 1048576.0,
		 (unsigned long long)now->profiler.unwind.tables_pending,
		 (unsigned long long)now->profiler.python.codes,
		 now->profiler.python.bytes / 1048576.0);
}

// "What was lost: 3", without the full stop that a counter's sentence ends in.
static void append(char text[STATS_TEXT_BYTES], uint64_t count, const char *what)
{
	size_t used = strlen(text);

	if (count)
		snprintf(text + used, STATS_TEXT_BYTES - used, "%s%.*s: %llu", used ? "; " : "",
			 (int)strcspn(what, "."), what, (unsigned long long)count);
}

bool stats_format_losses(const struct stats *before, const struct stats *now,
			 char text[STATS_TEXT_BYTES])
{
	text[0] = 0;
	for (size_t i = 0; i < ARRAY_SIZE(losses); i++)
		append(text, counted(before, now, losses[i]), sentences[losses[i]]);
	for (size_t i = 0; i < ARRAY_SIZE(ordinary_losses); i++) {
		enum bpf_counter lost = ordinary_losses[i].lost, of = ordinary_losses[i].of;

		if (counted(before, now, lost) > counted(before, now, of) / LOSSES_ORDINARY)
			append(text, counted(before, now, lost), sentences[lost]);
	}
	append(text, now->profiler.snapshots_lost - before->profiler.snapshots_lost,
	       "Samples of new processes that could not be unwound");
	append(text, now->profiler.unwind.tables_refused - before->profiler.unwind.tables_refused,
	       "Unwind tables that had no room in the kernel");
	append(text, now->profiler.unwind.mappings_cut - before->profiler.unwind.mappings_cut,
	       "Mappings of processes that have too many");
	append(text, now->profiler.python.failures - before->profiler.python.failures,
	       "Python functions that could not be read");
	append(text, now->profiler.python.reused - before->profiler.python.reused,
	       "Python functions that were replaced before they were read");
	append(text, now->profiler.python.refused - before->profiler.python.refused,
	       "Python frames left unnamed because too many functions were new");
	append(text, now->profiler.jit.cut - before->profiler.jit.cut,
	       "Processes with more functions made at run time than are named");
	append(text, now->profiler.jit.refused - before->profiler.jit.refused,
	       "Looks for such functions' names left out because all take too much memory");
	append(text, now->profiler.stacks_lost - before->profiler.stacks_lost,
	       "Stacks whose frames did not arrive");
	append(text, now->profiler.budget.changes_lost - before->profiler.budget.changes_lost,
	       "Load-shedding changes not exported: too many in one interval");
	append(text, now->sender.samples_dropped - before->sender.samples_dropped,
	       "Samples dropped because the spool was full");
	append(text, now->sender.samples_refused - before->sender.samples_refused,
	       "Samples that the collector refused");
	return *text;
}
