// SPDX-License-Identifier: Apache-2.0
#include "agent/metrics.h"

#include <malloc.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/contract/knobs.h"
#include "base/metric_text.h"
#include "base/version.h"

static void encode_counters(const struct stats *stats, struct buffer *buffer)
{
	for (uint32_t i = 0; i < STATS_COUNTERS; i++) {
		char token[STATS_TOKEN_BYTES], name[STATS_TOKEN_BYTES + 32];

		snprintf(name, sizeof(name), "cairn_agent_%s_total", stats_counter_token(i, token));
		metric_text_add(buffer, name, "counter", stats_counter_sentence(i),
				(double)stats_counter_value(stats, i));
	}
}

static void encode_overhead(const struct budget_stats *budget, struct buffer *buffer)
{
	metric_text_add(buffer, "cairn_agent_overhead_cores", "gauge",
			"CPU time of the agent and its BPF programs a second, in cores.",
			budget->overhead);
	metric_text_add(buffer, "cairn_agent_overhead_budget_cores", "gauge",
			"Above so many cores the agent sheds load (--overhead-budget).",
			budget->budget);
	metric_text_add(buffer, "cairn_agent_sampling_hertz", "gauge",
			"On-CPU samples a second and CPU, as load shedding has them now.",
			budget->frequency_hz);
	metric_text_add(buffer, "cairn_agent_shedding_steps", "gauge",
			"Steps of load shedding that are active; 0: nothing is shed.",
			budget->level);
	metric_text_begin(
		buffer, "cairn_agent_shedding_step", "gauge",
		"How far each knob is turned down; 0: not at all. Of process_off_cpu: how many "
		"processes.");
	for (enum knob knob = 0; knob < KNOB_GOVERNED; knob++)
		buffer_printf(buffer, "cairn_agent_shedding_step{knob=\"%s\"} %u\n",
			      knob_spec(knob)->token, budget->steps[knob]);
}

static void encode_otlp(const struct sender_stats *otlp, struct buffer *buffer)
{
	metric_text_add(buffer, "cairn_agent_otlp_reachable", "gauge",
			"1 if the last try to send the OTLP endpoint a batch got an answer.",
			!otlp->away);
	metric_text_add(buffer, "cairn_agent_otlp_spool_bytes", "gauge",
			"Bytes of batches that wait for the OTLP endpoint (--spool).",
			(double)otlp->spool.memory_bytes);
	metric_text_add(buffer, "cairn_agent_otlp_sent_bytes_total", "counter",
			"Bytes of requests that the OTLP endpoint acknowledged, before "
			"compression.",
			(double)otlp->bytes_sent);
}

/* What else is resident: code, threads' stacks, BPF maps. */
static void encode_heap(struct buffer *buffer)
{
	struct mallinfo2 heap = mallinfo2();

	metric_text_add(buffer, "cairn_agent_heap_used_bytes", "gauge",
			"Memory that the agent has allocated and uses.",
			(double)(heap.uordblks + heap.hblkhd));
	metric_text_add(
		buffer, "cairn_agent_heap_free_bytes", "gauge",
		"Memory that the agent has freed and keeps to use again, in part without pages.",
		(double)heap.fordblks);
}

static void encode_process(struct buffer *buffer)
{
	metric_text_add_process(buffer);
	metric_text_begin(buffer, "cairn_agent_build_info", "gauge", "The agent's version.");
	buffer_printf(buffer, "cairn_agent_build_info{version=\"%s\"} 1\n", CAIRN_VERSION);
}

void metrics_encode(const struct stats *stats, struct buffer *buffer)
{
	const struct profiler_stats *profiler = &stats->profiler;

	encode_counters(stats, buffer);
	if (stats->has_otlp)
		encode_otlp(&stats->otlp, buffer);
	metric_text_add(buffer, "cairn_agent_collector_reachable", "gauge",
			"1 if the last try to send a batch got an answer.", !stats->sender.away);
	metric_text_add(buffer, "cairn_agent_spool_batches", "gauge",
			"Batches that wait for the collector.", (double)stats->sender.spool.count);
	metric_text_add(buffer, "cairn_agent_spool_bytes", "gauge",
			"Bytes of batches that wait in memory (--spool).",
			(double)stats->sender.spool.memory_bytes);
	metric_text_add(buffer, "cairn_agent_spool_disk_bytes", "gauge",
			"Bytes of batches that wait on disk (--spool-disk).",
			(double)stats->sender.spool.folder_bytes);
	metric_text_add(buffer, "cairn_agent_spool_disk_usable", "gauge",
			"1 if --spool-dir can be used; 0 if it is not set, or cannot be used: see "
			"the log for the reason.",
			stats->sender.spool.uses_folder);
	metric_text_add(buffer, "cairn_agent_sent_bytes_total", "counter",
			"Bytes of acknowledged batches, before compression.",
			(double)stats->sender.bytes_sent);
	metric_text_add(buffer, "cairn_agent_processes", "gauge", "Processes that the agent knows.",
			(double)profiler->processes);
	metric_text_add(buffer, "cairn_agent_stacks", "gauge", "Stacks that the agent knows.",
			(double)profiler->stacks);
	metric_text_add(buffer, "cairn_agent_unwind_tables", "gauge",
			"Files whose unwind tables are in the kernel.",
			(double)profiler->unwind.tables);
	metric_text_add(buffer, "cairn_agent_unwind_tables_pending", "gauge",
			"Files whose unwind tables are being built: their stacks are truncated.",
			(double)profiler->unwind.tables_pending);
	metric_text_add(buffer, "cairn_agent_unwind_table_bytes", "gauge",
			"Kernel memory of unwind tables.", (double)profiler->unwind.bytes);
	metric_text_add(buffer, "cairn_agent_symbol_bytes", "gauge", "Memory of symbol tables.",
			(double)profiler->symbols_bytes);
	metric_text_add(buffer, "cairn_agent_drain_seconds", "gauge",
			"Time that the last export interval took to read and symbolize.",
			(double)profiler->drain_ns / NS_PER_SECOND);
	metric_text_add(
		buffer, "cairn_agent_boosts", "gauge",
		"Active boosts: the collector's users raised the rate, added profiles or stopped "
		"sampling for a while.",
		stats->boosts);
	if (profiler->budget_known)
		encode_overhead(&profiler->budget, buffer);
	encode_heap(buffer);
	encode_process(buffer);
}
