// SPDX-License-Identifier: Apache-2.0
#include "agent/stats.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "base/memory_limit.h"

/* Of the counters of losses that rise on any busy machine, a log line is worth more than one in so many. */
enum { ORDINARY_LOSSES = 20, OVERHEAD_TEXT_BYTES = 280 };

enum { NO_COUNTER = UINT32_MAX };

static const struct {
	const char *name; // in upper case
	const char *sentence;
	size_t figure; // its place in struct stats
	bool is_logged;
	uint32_t of; // on any busy machine some of that counter's are lost; NO_COUNTER: none may be
} counters[STATS_COUNTERS] = {
#define NO_LOSS        false, NO_COUNTER
#define WARNING        true, NO_COUNTER
#define LOSS           true, NO_COUNTER
#define LOSS_WITH_LINE false, NO_COUNTER
#define LOSS_OF(other) true, COUNTER_##other
#define X(name, loss, sentence)                                                             \
	[COUNTER_##name] = { #name, sentence,                                               \
			     offsetof(struct stats, profiler.bpf_counters[COUNTER_##name]), \
			     loss },
	BPF_COUNTERS(X)
#undef X
#undef LOSS_OF
#define LOSS_OF(other) true, COUNTER_COUNT + AGENT_COUNTER_##other
#define X(name, figure, loss, sentence)   \
	[COUNTER_COUNT + AGENT_COUNTER_## \
		name] = { #name, sentence, offsetof(struct stats, figure), loss },
		AGENT_COUNTERS(X)
#undef X
};

void stats_read(struct stats *ret_stats, const struct profiler *profiler,
		const struct stats_sources *sources)
{
	*ret_stats = (struct stats){
		.time_ns = clock_monotonic_ns(),
		.cpu_ns = clock_process_cpu_ns(),
		.rss_bytes = memory_resident(),
	};
	profiler_read_stats(profiler, &ret_stats->profiler);
	sender_read_stats(sources->sender, &ret_stats->sender);
	sender_read_stats(sources->otlp, &ret_stats->otlp);
	ret_stats->has_sender = sources->sender != NULL;
	ret_stats->has_otlp = sources->otlp != NULL;
	ret_stats->calls_refused = restrictions_refused(sources->restrictions);
	ret_stats->launcher_restarts = confined_launcher_restarts(sources->launcher);
	container_records_read_stats(sources->containers, &ret_stats->containers);
	if (sources->boosts) {
		ret_stats->boosts_begun = sources->boosts->begun;
		ret_stats->boosts_refused = sources->boosts->refused;
		ret_stats->boosts = sources->boosts->limits.hz_max ? sources->boosts->count : 0;
	}
	if (!sources->pods)
		return;
	pod_table_read_stats(sources->pods, &ret_stats->pod_table);
	pod_watch_read_stats(sources->pod_watch, &ret_stats->pods);
}

// ---- counters -------------------------------------------------------------------------------

const char *stats_counter_sentence(uint32_t counter)
{
	return counters[counter].sentence;
}

uint64_t stats_counter_value(const struct stats *stats, uint32_t counter)
{
	return *(const uint64_t *)((const char *)stats + counters[counter].figure);
}

static uint64_t counted(const struct stats *before, const struct stats *now, uint32_t counter)
{
	return stats_counter_value(now, counter) - stats_counter_value(before, counter);
}

const char *stats_counter_token(uint32_t counter, char token[STATS_TOKEN_BYTES])
{
	const char *name = counters[counter].name;
	size_t at = 0;

	for (; name[at] && at < STATS_TOKEN_BYTES - 1; at++)
		token[at] = (char)tolower((unsigned char)name[at]);
	token[at] = '\0';
	return token;
}

// "Records dropped" within a line: "records dropped"; but "GPU calls", "On-CPU" as they are.
static char first_letter(const char *text)
{
	return (char)(islower((unsigned char)text[1]) && text[2] != '-'
			      ? tolower((unsigned char)text[0])
			      : text[0]);
}

// "What happened: cause. What to do." with the counter's name and the count between.
static void post_loss(struct event_log *events, uint32_t counter, uint64_t count, double seconds)
{
	const char *sentence = counters[counter].sentence;
	int length = (int)strcspn(sentence, ".");
	const char *advice = sentence + length + strspn(sentence + length, ". ");
	char token[STATS_TOKEN_BYTES];

	stats_counter_token(counter, token);
	if (*advice)
		event_warn(events, "agent", "%c%.*s (%s: %llu in the last %.0f s); %c%.*s",
			   first_letter(sentence), length - 1, sentence + 1, token,
			   (unsigned long long)count, seconds, first_letter(advice),
			   (int)strlen(advice) - 2, advice + 1);
	else
		event_warn(events, "agent", "%c%.*s (%s: %llu in the last %.0f s)",
			   first_letter(sentence), length - 1, sentence + 1, token,
			   (unsigned long long)count, seconds);
}

void stats_post_losses(const struct stats *before, const struct stats *now,
		       struct event_log *events)
{
	double seconds = (double)(now->time_ns - before->time_ns) / NS_PER_SECOND;

	for (uint32_t i = 0; i < STATS_COUNTERS; i++) {
		uint64_t count = counters[i].is_logged ? counted(before, now, i) : 0;
		uint32_t of = counters[i].of;

		if (count > (of == NO_COUNTER ? 0 : counted(before, now, of) / ORDINARY_LOSSES))
			post_loss(events, i, count, seconds);
	}
}

int stats_add_series(const struct stats *before, const struct stats *now,
		     const struct labels *labels, struct export_interval *interval)
{
	const struct profile *profile = interval->profile;
	uint64_t slot = profile->from_ns / profile->slot_ns;
	uint64_t end_slot = clock_realtime_ns() / profile->slot_ns;
	uint64_t last_slot = end_slot > slot ? end_slot - 1 : slot;
	_cleanup_(labels_deinit) struct labels own = { 0 };
	int rc = labels_copy(labels, &own);

	for (uint32_t i = 0; i < STATS_COUNTERS && !rc; i++) {
		uint64_t count = counted(before, now, i);
		char token[STATS_TOKEN_BYTES];

		if (!count)
			continue;
		rc = labels_set(&own, LABEL_COUNTER, stats_counter_token(i, token));
		if (!rc)
			rc = export_interval_add_value(interval, &own, PROFILE_TYPE_EVENTS, slot,
						       last_slot, (int64_t)count);
	}
	return rc;
}

// ---- the log --------------------------------------------------------------------------------

static void format_overhead(const struct profiler_stats *stats, char text[OVERHEAD_TEXT_BYTES])
{
	const struct budget_stats *budget = &stats->budget;

	text[0] = 0;
	if (!stats->budget_known)
		return;
	snprintf(text, OVERHEAD_TEXT_BYTES,
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

static uint64_t sent_batches(const struct stats *stats)
{
	return stats->sender.batches_sent + stats->otlp.batches_sent;
}

static uint64_t sent_bytes(const struct stats *stats)
{
	return stats->sender.bytes_sent + stats->otlp.bytes_sent;
}

void stats_format(const struct stats *before, const struct stats *now, char text[STATS_TEXT_BYTES])
{
	const struct profiler_stats *profiler = &now->profiler;
	uint64_t time_ns = now->time_ns - before->time_ns;
	uint64_t runs = profiler->bpf_run_count - before->profiler.bpf_run_count;
	uint64_t run_ns = profiler->bpf_run_ns - before->profiler.bpf_run_ns;
	char overhead[OVERHEAD_TEXT_BYTES];
	char bpf[64] = "BPF time unknown (sysctl kernel.bpf_stats_enabled=1 shows it)";

	if (runs)
		snprintf(bpf, sizeof(bpf), "%llu ns of BPF each",
			 (unsigned long long)(run_ns / runs));
	format_overhead(profiler, overhead);
	snprintf(text, STATS_TEXT_BYTES,
		 "last %.0f s: %llu samples, %s, agent %.2f %% of a core, RSS %.1f MiB; %s"
		 "%llu batches sent (%.1f KiB), %llu spooled (%.1f KiB); "
		 "%llu processes, %llu files, %llu stacks, %.1f MiB of symbols, drain %.1f ms; "
		 "unwinder: %llu processes, %llu tables (%.1f MiB in the kernel, %llu pending), "
		 "%llu Python functions (%.1f MiB)",
		 time_ns / 1e9, (unsigned long long)counted(before, now, COUNTER_SAMPLES), bpf,
		 time_ns ? 100.0 * (now->cpu_ns - before->cpu_ns) / time_ns : 0,
		 now->rss_bytes / 1048576.0, overhead,
		 (unsigned long long)(sent_batches(now) - sent_batches(before)),
		 (sent_bytes(now) - sent_bytes(before)) / 1024.0,
		 (unsigned long long)(now->sender.spool.count + now->otlp.spool.count),
		 (now->sender.spool.memory_bytes + now->sender.spool.folder_bytes +
		  now->otlp.spool.memory_bytes) /
			 1024.0,
		 (unsigned long long)profiler->processes, (unsigned long long)profiler->files,
		 (unsigned long long)profiler->stacks, profiler->symbols_bytes / 1048576.0,
		 profiler->drain_ns / 1e6, (unsigned long long)profiler->unwind.processes,
		 (unsigned long long)profiler->unwind.tables, profiler->unwind.bytes / 1048576.0,
		 (unsigned long long)profiler->unwind.tables_pending,
		 (unsigned long long)profiler->python.codes, profiler->python.bytes / 1048576.0);
}
