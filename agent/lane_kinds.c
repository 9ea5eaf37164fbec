// SPDX-License-Identifier: Apache-2.0
#include "agent/lane_kinds.h"

#include <errno.h>

#include "agent/gpu/gpu_lane.h"
#include "agent/gpu/gpu_programs.h"
#include "agent/gpu/gpu_usage.h"
#include "agent/sources/lane_series.h"
#include "agent/sources/page_faults.h"
#include "agent/sources/switches.h"
#include "agent/sources/wakers.h"

// ---- the wall clock -------------------------------------------------------------------------

static int open_switches(const struct lane_setup *setup, void **ret_lane, struct error *err)
{
	const struct switches_options options = {
		.slot_ns = setup->slot_ns,
		.only_followed = setup->only_followed,
		.kallsyms = setup->kallsyms,
	};
	struct switches *switches;
	int rc = switches_open(setup->loader, &options, &switches, err);

	if (!rc)
		*ret_lane = switches;
	return rc;
}

static void close_switches(void *lane)
{
	switches_close(lane);
}

static int sweep_switches(void *lane)
{
	return switches_sweep(lane);
}

static int set_switches_running(void *lane, bool on)
{
	return switches_set_running(lane, on);
}

static void tick_switches(void *lane, uint64_t now_ns)
{
	switches_tick(lane, now_ns);
}

static const char *notice_of_switches(void *lane)
{
	return switches_next_notice(lane);
}

static int set_step_of_switches(void *lane, uint32_t step)
{
	switches_set_step(lane, step);
	return 0;
}

static int set_process_of_switches(void *lane, uint32_t pid, bool on)
{
	return switches_set_process(lane, pid, on);
}

static void cost_of_switches(const void *lane, struct lane_cost *ret_cost)
{
	switches_read_run_time(lane, &ret_cost->bpf_ns, &ret_cost->bpf_count);
}

// ---- who ends waits -------------------------------------------------------------------------

static int open_wakers(const struct lane_setup *setup, void **ret_lane, struct error *err)
{
	const struct wakers_options options = {
		.slot_ns = setup->slot_ns,
		.switches = lanes_find(setup->lanes, LANE_WALL),
		.processes = setup->processes,
		.kallsyms = setup->kallsyms,
		.only_followed = setup->only_followed,
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

static void close_wakers(void *lane)
{
	wakers_close(lane);
}

// The services of processes are known when their counts have been drained.
static int follow_wakers(void *lane, struct window *window)
{
	(void)window;
	wakers_follow(lane);
	return 0;
}

static const char *notice_of_wakers(void *lane)
{
	return wakers_next_notice(lane);
}

static void cost_of_wakers(const void *lane, struct lane_cost *ret_cost)
{
	wakers_read_run_time(lane, &ret_cost->bpf_ns, &ret_cost->bpf_count);
}

// ---- GPUs -----------------------------------------------------------------------------------

static int open_gpu_usage(const struct lane_setup *setup, void **ret_lane, struct error *err)
{
	const struct gpu_usage_options options = {
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

static void close_gpu_usage(void *lane)
{
	gpu_usage_close(lane);
}

static int add_gpu_usage(void *lane, struct window *window)
{
	return gpu_usage_add(lane, window);
}

static const char *notice_of_gpu_usage(void *lane)
{
	return gpu_usage_next_notice(lane);
}

static int open_gpu_calls(const struct lane_setup *setup, void **ret_lane, struct error *err)
{
	const struct gpu_lane_options options = {
		.loader = setup->loader,
		.processes = setup->processes,
		.namer = setup->gpu_namer,
		.slot_ns = setup->slot_ns,
		.only_followed = setup->only_followed,
		.kernel_period_ns = setup->kernel_period_ns,
		.kernel_request = setup->kernel_request,
		.labels = setup->labels,
	};
	struct gpu_lane *lane;
	int rc = gpu_lane_open(&options, &lane, err);

	if (!rc)
		*ret_lane = lane;
	return rc;
}

static void close_gpu_calls(void *lane)
{
	gpu_lane_close(lane);
}

static int add_gpu_calls(void *lane, struct window *window)
{
	return gpu_lane_after_drain(lane, window);
}

static void tick_gpu_calls(void *lane, uint64_t now_ns)
{
	gpu_lane_tick(lane, now_ns);
}

static const char *notice_of_gpu_calls(void *lane)
{
	return gpu_lane_next_notice(lane);
}

static int set_step_of_gpu_calls(void *lane, uint32_t step)
{
	gpu_lane_set_budget(lane, step < 8 ? GPU_STACKS_PER_SECOND >> (2 * step) : 0);
	return 0;
}

static void cost_of_gpu_calls(const void *lane, struct lane_cost *ret_cost)
{
	gpu_lane_read_run_time(lane, &ret_cost->bpf_ns, &ret_cost->bpf_count);
}

// ---- memory growth --------------------------------------------------------------------------

static int open_page_faults(const struct lane_setup *setup, void **ret_lane, struct error *err)
{
	const struct page_faults_options options = {
		.slot_ns = setup->slot_ns,
		.only_followed = setup->only_followed,
	};
	struct page_faults *faults;
	int rc = page_faults_open(setup->loader, &options, &faults, err);

	if (!rc)
		*ret_lane = faults;
	return rc;
}

static void close_page_faults(void *lane)
{
	page_faults_close(lane);
}

static void tick_page_faults(void *lane, uint64_t now_ns)
{
	page_faults_tick(lane, now_ns);
}

static int set_page_faults_running(void *lane, bool on)
{
	struct error err = { 0 };

	return page_faults_set_running(lane, on, &err);
}

static int set_step_of_page_faults(void *lane, uint32_t step)
{
	page_faults_set_budget(lane, step < 8 ? PAGE_FAULT_STACKS_PER_SECOND >> (2 * step) : 0);
	return 0;
}

static const char *notice_of_page_faults(void *lane)
{
	return page_faults_next_notice(lane);
}

static void cost_of_page_faults(const void *lane, struct lane_cost *ret_cost)
{
	page_faults_read_run_time(lane, &ret_cost->bpf_ns, &ret_cost->bpf_count);
}

// ---- numbers without stacks -------------------------------------------------------------------

static int open_series(const struct lane_setup *setup, void **ret_lane, struct error *err)
{
	const struct lane_series_options options = {
		.processes = setup->processes,
		.throttling = setup->bits & LANE_WALL,
		.memory = setup->bits & LANE_MEMORY,
	};
	struct lane_series *series;
	int rc = lane_series_open(&options, &series, err);

	if (!rc)
		*ret_lane = series;
	return rc;
}

static void close_series(void *lane)
{
	lane_series_close(lane);
}

static int read_series(void *lane)
{
	lane_series_before_drain(lane);
	return 0;
}

static int add_series(void *lane, struct window *window)
{
	return lane_series_after_drain(lane, window);
}

static void tick_series(void *lane, uint64_t now_ns)
{
	lane_series_tick(lane, now_ns);
}

static const char *notice_of_series(void *lane)
{
	return lane_series_next_notice(lane);
}

// ---- the governor ---------------------------------------------------------------------------

static enum lane_bit bit_of(enum budget_lane lane)
{
	return lane == BUDGET_WAITS ? LANE_WALL : lane == BUDGET_WAKERS ? LANE_WAKERS : LANE_MEMORY;
}

static int set_step(void *lanes, enum budget_lane lane, uint32_t step)
{
	// Stacks of calls of a GPU's driver have no knob of their own: they go with those of waits.
	if (lane == BUDGET_WAITS)
		lanes_set_step(lanes, LANE_GPU_CALLS, step);
	return lanes_set_step(lanes, bit_of(lane), step);
}

static int set_process(void *lanes, uint32_t pid, bool on)
{
	return lanes_set_process(lanes, LANE_WALL, pid, on);
}

static int set_lane(void *lanes, enum budget_lane lane, bool on)
{
	return lanes_set_running(lanes, bit_of(lane), on);
}

static int set_frequency(void *lanes, uint32_t frequency_hz)
{
	const struct lane_setup *setup = lanes_setup(lanes);

	return setup->set_frequency ? setup->set_frequency(setup->context, frequency_hz)
				    : -EOPNOTSUPP;
}

static void read_counters(void *lanes, uint64_t ret_counters[COUNTER_COUNT])
{
	loader_read_counters(lanes_setup(lanes)->loader, ret_counters);
}

static int open_budget(const struct lane_setup *setup, void **ret_lane, struct error *err)
{
	const struct lanes *lanes = setup->lanes;
	const struct budget_options options = {
		.percent = setup->budget_percent,
		.frequency_hz = setup->frequency_hz,
		.wakers = lanes_running(lanes) & LANE_WAKERS,
		.stacks = lanes_can_step(lanes, LANE_WALL),
		.faults = lanes_can_step(lanes, LANE_MEMORY),
		.processes = lanes_can_set_process(lanes, LANE_WALL),
		.waits = lanes_running(lanes) & LANE_WALL,
		.interval_ns = setup->governor_interval_ns,
		.labels = setup->labels,
		.controls = { .set_step = set_step,
			      .set_process = set_process,
			      .set_lane = set_lane,
			      .set_frequency = set_frequency,
			      .read_counters = read_counters,
			      .context = setup->lanes },
	};
	struct budget *budget;
	int rc = budget_open(&options, &budget, err);

	if (!rc)
		*ret_lane = budget;
	return rc;
}

static void close_budget(void *lane)
{
	budget_close(lane);
}

static int end_window_of_budget(void *lane)
{
	budget_before_drain(lane);
	return 0;
}

static int add_budget(void *lane, struct window *window)
{
	return budget_after_drain(lane, window);
}

static void count_for_budget(void *lane, const struct count_key *key, const struct count *count)
{
	budget_take_count(lane, key, count);
}

static void tick_budget(void *lane, uint64_t now_ns)
{
	budget_tick(lane, now_ns);
}

static const char *notice_of_budget(void *lane)
{
	return budget_next_notice(lane);
}

// ---- all of them ----------------------------------------------------------------------------

const struct lane_kind lane_kinds[LANE_KINDS] = {
	{
		.name = "wall",
		.bit = LANE_WALL,
		.open = open_switches,
		.close = close_switches,
		.set_running = set_switches_running,
		.before_drain = sweep_switches,
		.tick = tick_switches,
		.next_notice = notice_of_switches,
		.set_step = set_step_of_switches,
		.set_process = set_process_of_switches,
		.read_cost = cost_of_switches,
	},
	{
		.name = "wakers",
		.bit = LANE_WAKERS,
		.needs = LANE_WALL,
		.open = open_wakers,
		.close = close_wakers,
		.after_drain = follow_wakers,
		.next_notice = notice_of_wakers,
		.read_cost = cost_of_wakers,
	},
	{
		.name = "gpu",
		.bit = LANE_GPU,
		.open = open_gpu_usage,
		.close = close_gpu_usage,
		.after_drain = add_gpu_usage,
		.next_notice = notice_of_gpu_usage,
	},
	{
		.name = "GPU calls",
		.bit = LANE_GPU_CALLS,
		.open = open_gpu_calls,
		.close = close_gpu_calls,
		.after_drain = add_gpu_calls,
		.tick = tick_gpu_calls,
		.next_notice = notice_of_gpu_calls,
		.set_step = set_step_of_gpu_calls,
		.read_cost = cost_of_gpu_calls,
	},
	{
		.name = "memory",
		.bit = LANE_MEMORY,
		.open = open_page_faults,
		.close = close_page_faults,
		.set_running = set_page_faults_running,
		.set_step = set_step_of_page_faults,
		.tick = tick_page_faults,
		.next_notice = notice_of_page_faults,
		.read_cost = cost_of_page_faults,
	},
	{
		.name = "series",
		.bit = LANE_SERIES,
		.open = open_series,
		.close = close_series,
		.before_drain = read_series,
		.after_drain = add_series,
		.tick = tick_series,
		.next_notice = notice_of_series,
	},
	// The last one: when it is opened, it is known which of the others run.
	{
		.name = "governor",
		.bit = LANE_GOVERNOR,
		.open = open_budget,
		.close = close_budget,
		.before_drain = end_window_of_budget,
		.after_drain = add_budget,
		.take_count = count_for_budget,
		.tick = tick_budget,
		.next_notice = notice_of_budget,
	},
};
