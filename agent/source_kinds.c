// SPDX-License-Identifier: Apache-2.0
#include "agent/source_kinds.h"

#include <errno.h>

#include "agent/gpu/gpu_source.h"
#include "agent/gpu/gpu_programs.h"
#include "agent/gpu/gpu_usage.h"
#include "agent/sources/stackless_series.h"
#include "agent/sources/page_faults.h"
#include "agent/sources/switches.h"
#include "agent/sources/wakers.h"

// ---- the wall clock -------------------------------------------------------------------------

static int open_switches(const struct source_setup *setup, void **ret_lane, struct error *err)
{
	const struct switches_options options = {
		.events = setup->events,
		.slot_ns = setup->slot_ns,
		.only_targets = setup->only_targets,
		.kallsyms = setup->kallsyms,
	};
	struct switches *switches;
	int rc = switches_open(setup->loader, &options, &switches, err);

	if (!rc)
		*ret_lane = switches;
	return rc;
}

static void close_switches(void *source)
{
	switches_close(source);
}

static int sweep_switches(void *source)
{
	return switches_sweep(source);
}

static int set_switches_running(void *source, bool on)
{
	return switches_set_running(source, on);
}

static void tick_switches(void *source, uint64_t now_ns)
{
	switches_tick(source, now_ns);
}

static int set_step_of_switches(void *source, uint32_t step)
{
	switches_set_step(source, step);
	return 0;
}

static int set_process_of_switches(void *source, uint32_t pid, bool on)
{
	return switches_set_process(source, pid, on);
}

static void cost_of_switches(const void *source, struct source_cost *ret_cost)
{
	switches_read_run_time(source, &ret_cost->bpf_ns, &ret_cost->bpf_count);
}

// ---- who ends waits -------------------------------------------------------------------------

static int open_wakers(const struct source_setup *setup, void **ret_lane, struct error *err)
{
	const struct wakers_options options = {
		.events = setup->events,
		.slot_ns = setup->slot_ns,
		.switches = sources_find(setup->sources, SOURCE_WALL),
		.processes = setup->processes,
		.kallsyms = setup->kallsyms,
		.only_targets = setup->only_targets,
		.services = setup->wakers,
	};
	struct wakers *wakers;

	if (!options.switches)
		return error_set(err, -EOPNOTSUPP, "the wall lane does not run, and it needs that");
	int rc = wakers_open(setup->loader, &options, &wakers, err);
	if (!rc)
		*ret_lane = wakers;
	return rc;
}

static void close_wakers(void *source)
{
	wakers_close(source);
}

// The services of processes are known when their counts have been drained.
static int follow_wakers(void *source, struct export_interval *interval)
{
	(void)interval;
	wakers_follow(source);
	return 0;
}

static void cost_of_wakers(const void *source, struct source_cost *ret_cost)
{
	wakers_read_run_time(source, &ret_cost->bpf_ns, &ret_cost->bpf_count);
}

// ---- GPUs -----------------------------------------------------------------------------------

static int open_gpu_usage(const struct source_setup *setup, void **ret_lane, struct error *err)
{
	const struct gpu_usage_options options = {
		.events = setup->events,
		.slot_ns = setup->slot_ns,
		.processes = setup->processes,
		.labels = setup->labels,
	};
	struct gpu_usage *usage;
	int rc = gpu_usage_open(&options, &usage, err);

	if (!rc)
		*ret_lane = usage;
	return rc;
}

static void close_gpu_usage(void *source)
{
	gpu_usage_close(source);
}

static int add_gpu_usage(void *source, struct export_interval *interval)
{
	return gpu_usage_add(source, interval);
}

static int open_gpu_calls(const struct source_setup *setup, void **ret_lane, struct error *err)
{
	const struct gpu_source_options options = {
		.events = setup->events,
		.loader = setup->loader,
		.processes = setup->processes,
		.namer = setup->gpu_namer,
		.slot_ns = setup->slot_ns,
		.only_targets = setup->only_targets,
		.kernel_period_ns = setup->kernel_period_ns,
		.gpu_kernel_request = setup->gpu_kernel_request,
		.labels = setup->labels,
	};
	struct gpu_source *source;
	int rc = gpu_source_open(&options, &source, err);

	if (!rc)
		*ret_lane = source;
	return rc;
}

static void close_gpu_calls(void *source)
{
	gpu_source_close(source);
}

static int add_gpu_calls(void *source, struct export_interval *interval)
{
	return gpu_source_after_drain(source, interval);
}

static void tick_gpu_calls(void *source, uint64_t now_ns)
{
	gpu_source_tick(source, now_ns);
}

static int set_step_of_gpu_calls(void *source, uint32_t step)
{
	gpu_source_set_budget(source, step < 8 ? GPU_STACKS_PER_SECOND >> (2 * step) : 0);
	return 0;
}

static void cost_of_gpu_calls(const void *source, struct source_cost *ret_cost)
{
	gpu_source_read_run_time(source, &ret_cost->bpf_ns, &ret_cost->bpf_count);
}

// ---- memory growth --------------------------------------------------------------------------

static int open_page_faults(const struct source_setup *setup, void **ret_lane, struct error *err)
{
	const struct page_faults_options options = {
		.events = setup->events,
		.slot_ns = setup->slot_ns,
		.only_targets = setup->only_targets,
	};
	struct page_faults *faults;
	int rc = page_faults_open(setup->loader, &options, &faults, err);

	if (!rc)
		*ret_lane = faults;
	return rc;
}

static void close_page_faults(void *source)
{
	page_faults_close(source);
}

static void tick_page_faults(void *source, uint64_t now_ns)
{
	page_faults_tick(source, now_ns);
}

static int set_page_faults_running(void *source, bool on)
{
	struct error err = { 0 };

	return page_faults_set_running(source, on, &err);
}

static int set_step_of_page_faults(void *source, uint32_t step)
{
	page_faults_set_budget(source, step < 8 ? PAGE_FAULT_STACKS_PER_SECOND >> (2 * step) : 0);
	return 0;
}

static void cost_of_page_faults(const void *source, struct source_cost *ret_cost)
{
	page_faults_read_run_time(source, &ret_cost->bpf_ns, &ret_cost->bpf_count);
}

// ---- numbers without stacks -------------------------------------------------------------------

static int open_series(const struct source_setup *setup, void **ret_lane, struct error *err)
{
	const struct stackless_series_options options = {
		.events = setup->events,
		.processes = setup->processes,
		.throttling = setup->bits & SOURCE_WALL,
		.memory = setup->bits & SOURCE_MEMORY,
	};
	struct stackless_series *series;
	int rc = stackless_series_open(&options, &series, err);

	if (!rc)
		*ret_lane = series;
	return rc;
}

static void close_series(void *source)
{
	stackless_series_close(source);
}

static int read_series(void *source)
{
	stackless_series_before_drain(source);
	return 0;
}

static int add_series(void *source, struct export_interval *interval)
{
	return stackless_series_after_drain(source, interval);
}

static void tick_series(void *source, uint64_t now_ns)
{
	stackless_series_tick(source, now_ns);
}

// ---- the governor ---------------------------------------------------------------------------

static enum source_bit bit_of(enum budget_lane source)
{
	return source == BUDGET_WAITS    ? SOURCE_WALL
	       : source == BUDGET_WAKERS ? SOURCE_WAKERS
					 : SOURCE_MEMORY;
}

static int set_step(void *sources, enum budget_lane source, uint32_t step)
{
	// Stacks of calls of a GPU's driver have no knob of their own: they go with those of waits.
	if (source == BUDGET_WAITS)
		sources_set_step(sources, SOURCE_GPU_CALLS, step);
	return sources_set_step(sources, bit_of(source), step);
}

static int set_process(void *sources, uint32_t pid, bool on)
{
	return sources_set_process(sources, SOURCE_WALL, pid, on);
}

static int set_lane(void *sources, enum budget_lane source, bool on)
{
	return sources_set_running(sources, bit_of(source), on);
}

static int set_frequency(void *sources, uint32_t frequency_hz)
{
	const struct source_setup *setup = sources_setup(sources);

	return setup->set_frequency ? setup->set_frequency(setup->context, frequency_hz)
				    : -EOPNOTSUPP;
}

static void read_counters(void *sources, uint64_t ret_counters[COUNTER_COUNT])
{
	loader_read_counters(sources_setup(sources)->loader, ret_counters);
}

static int open_budget(const struct source_setup *setup, void **ret_lane, struct error *err)
{
	const struct sources *sources = setup->sources;
	const struct budget_options options = {
		.events = setup->events,
		.percent = setup->budget_percent,
		.frequency_hz = setup->frequency_hz,
		.wakers = sources_running(sources) & SOURCE_WAKERS,
		.stacks = sources_can_step(sources, SOURCE_WALL),
		.faults = sources_can_step(sources, SOURCE_MEMORY),
		.processes = sources_can_set_process(sources, SOURCE_WALL),
		.waits = sources_running(sources) & SOURCE_WALL,
		.interval_ns = setup->governor_interval_ns,
		.labels = setup->labels,
		.controls = { .set_step = set_step,
			      .set_process = set_process,
			      .set_lane = set_lane,
			      .set_frequency = set_frequency,
			      .read_counters = read_counters,
			      .context = setup->sources },
	};
	struct budget *budget;
	int rc = budget_open(&options, &budget, err);

	if (!rc)
		*ret_lane = budget;
	return rc;
}

static void close_budget(void *source)
{
	budget_close(source);
}

static int end_window_of_budget(void *source)
{
	budget_before_drain(source);
	return 0;
}

static int add_budget(void *source, struct export_interval *interval)
{
	return budget_after_drain(source, interval);
}

static void count_for_budget(void *source, const struct count_key *key, const struct count *count)
{
	budget_take_count(source, key, count);
}

static void tick_budget(void *source, uint64_t now_ns)
{
	budget_tick(source, now_ns);
}

// ---- all of them ----------------------------------------------------------------------------

const struct source_kind source_kinds[SOURCE_KINDS] = {
	{
		.name = "wall",
		.bit = SOURCE_WALL,
		.open = open_switches,
		.close = close_switches,
		.set_running = set_switches_running,
		.before_drain = sweep_switches,
		.tick = tick_switches,
		.set_step = set_step_of_switches,
		.set_process = set_process_of_switches,
		.read_cost = cost_of_switches,
	},
	{
		.name = "wakers",
		.bit = SOURCE_WAKERS,
		.needs = SOURCE_WALL,
		.open = open_wakers,
		.close = close_wakers,
		.after_drain = follow_wakers,
		.read_cost = cost_of_wakers,
	},
	{
		.name = "gpu",
		.bit = SOURCE_GPU,
		.open = open_gpu_usage,
		.close = close_gpu_usage,
		.after_drain = add_gpu_usage,
	},
	{
		.name = "GPU calls",
		.bit = SOURCE_GPU_CALLS,
		.open = open_gpu_calls,
		.close = close_gpu_calls,
		.after_drain = add_gpu_calls,
		.tick = tick_gpu_calls,
		.set_step = set_step_of_gpu_calls,
		.read_cost = cost_of_gpu_calls,
	},
	{
		.name = "memory",
		.bit = SOURCE_MEMORY,
		.open = open_page_faults,
		.close = close_page_faults,
		.set_running = set_page_faults_running,
		.set_step = set_step_of_page_faults,
		.tick = tick_page_faults,
		.read_cost = cost_of_page_faults,
	},
	{
		.name = "series",
		.bit = SOURCE_SERIES,
		.open = open_series,
		.close = close_series,
		.before_drain = read_series,
		.after_drain = add_series,
		.tick = tick_series,
	},
	// The last one: when it is opened, it is known which of the others run.
	{
		.name = "governor",
		.bit = SOURCE_GOVERNOR,
		.open = open_budget,
		.close = close_budget,
		.before_drain = end_window_of_budget,
		.after_drain = add_budget,
		.take_count = count_for_budget,
		.tick = tick_budget,
	},
};
