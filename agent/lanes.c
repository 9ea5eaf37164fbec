// SPDX-License-Identifier: Apache-2.0
#include "agent/lanes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "agent/gpu_lane.h"
#include "agent/gpu_programs.h"
#include "agent/gpu_usage.h"
#include "agent/lane_series.h"
#include "agent/page_faults.h"
#include "agent/switches.h"
#include "agent/wakers.h"
#include "base/cleanup.h"

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

static void *find_lane(const struct lanes *lanes, enum lane_bit bit);

static int open_wakers(const struct lane_setup *setup, void **ret_lane, struct error *err)
{
	const struct wakers_options options = {
		.slot_ns = setup->slot_ns,
		.switches = find_lane(setup->lanes, LANE_WALL),
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

static int set_frequency(void *lanes, uint32_t frequency_hz);
static void read_counters(void *lanes, uint64_t ret_counters[COUNTER_COUNT]);
static bool can_step(const struct lanes *lanes, enum lane_bit bit);
static bool can_leave_out(const struct lanes *lanes, enum lane_bit bit);

static int open_budget(const struct lane_setup *setup, void **ret_lane, struct error *err)
{
	const struct lanes *lanes = setup->lanes;
	const struct budget_options options = {
		.percent = setup->budget_percent,
		.frequency_hz = setup->frequency_hz,
		.wakers = lanes_running(lanes) & LANE_WAKERS,
		.stacks = can_step(lanes, LANE_WALL),
		.faults = can_step(lanes, LANE_MEMORY),
		.processes = can_leave_out(lanes, LANE_WALL),
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

static const struct lane_kind kinds[] = {
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

struct lane {
	void *lane;      // NULL: it does not run
	uint32_t paused; // it ran, and was stopped to cost nothing: for lanes of these bits
	char failure[ERROR_TEXT_BYTES];
	bool failure_told;
};

struct lanes {
	struct lane_setup setup; // of those that are opened later
	struct labels labels;    // its own copy
	struct lane lanes[ARRAY_SIZE(kinds)];
};

static bool runs(const struct lane *lane)
{
	return lane->lane && !lane->paused;
}

static int set_frequency(void *context, uint32_t frequency_hz)
{
	const struct lane_setup *setup = &((struct lanes *)context)->setup;

	return setup->set_frequency ? setup->set_frequency(setup->context, frequency_hz)
				    : -EOPNOTSUPP;
}

static void *find_lane(const struct lanes *lanes, enum lane_bit bit)
{
	void *lane = NULL;

	for (uint32_t i = 0; i < ARRAY_SIZE(kinds) && !lane; i++)
		lane = kinds[i].bit == bit ? lanes->lanes[i].lane : NULL;
	return lane;
}

static void read_counters(void *context, uint64_t ret_counters[COUNTER_COUNT])
{
	loader_read_counters(((struct lanes *)context)->setup.loader, ret_counters);
}

static void open_lane(const struct lane_kind *kind, struct lane *lane,
		      const struct lane_setup *setup)
{
	struct error err = { 0 };

	if (!kind->open(setup, &lane->lane, &err))
		return;
	lane->lane = NULL;
	snprintf(lane->failure, sizeof(lane->failure), "the %s lane does not run: %.260s",
		 kind->name, err.text);
}

int lanes_open(uint32_t bits, const struct lane_setup *setup, struct lanes **ret_lanes,
	       struct error *err)
{
	struct lanes *lanes = calloc(1, sizeof(*lanes));

	if (!lanes)
		return error_set(err, -ENOMEM, "out of memory");
	lanes->setup = *setup;
	lanes->setup.lanes = lanes;
	lanes->setup.labels = &lanes->labels;
	if (bits & (LANE_WALL | LANE_MEMORY))
		bits |= LANE_SERIES;
	lanes->setup.bits = bits;
	if (setup->labels && labels_copy(setup->labels, &lanes->labels)) {
		free(lanes);
		return error_set(err, -ENOMEM, "out of memory");
	}
	for (uint32_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (bits & kinds[i].bit)
			open_lane(&kinds[i], &lanes->lanes[i], &lanes->setup);
	}
	*ret_lanes = lanes;
	return 0;
}

void lanes_close(struct lanes *lanes)
{
	if (!lanes)
		return;
	// The last one first: the governor looks at the others.
	for (uint32_t i = ARRAY_SIZE(kinds); i-- > 0;) {
		if (lanes->lanes[i].lane)
			kinds[i].close(take(lanes->lanes[i].lane));
	}
	labels_deinit(&lanes->labels);
	free(lanes);
}

uint32_t lanes_running(const struct lanes *lanes)
{
	uint32_t bits = 0;

	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds); i++) {
		if (runs(&lanes->lanes[i]))
			bits |= kinds[i].bit;
	}
	return bits;
}

int lanes_before_drain(struct lanes *lanes)
{
	int rc = 0;

	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds); i++) {
		int failed = 0;

		if (runs(&lanes->lanes[i]) && kinds[i].before_drain)
			failed = kinds[i].before_drain(lanes->lanes[i].lane);
		if (!rc)
			rc = failed;
	}
	return rc;
}

int lanes_after_drain(struct lanes *lanes, struct window *window)
{
	int rc = 0;

	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds); i++) {
		int failed = 0;

		if (runs(&lanes->lanes[i]) && kinds[i].after_drain)
			failed = kinds[i].after_drain(lanes->lanes[i].lane, window);
		if (!rc)
			rc = failed;
	}
	return rc;
}

void lanes_tick(struct lanes *lanes, uint64_t now_ns)
{
	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds); i++) {
		if (runs(&lanes->lanes[i]) && kinds[i].tick)
			kinds[i].tick(lanes->lanes[i].lane, now_ns);
	}
}

void lanes_take_count(struct lanes *lanes, const struct count_key *key, const struct count *count)
{
	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds); i++) {
		if (runs(&lanes->lanes[i]) && kinds[i].take_count)
			kinds[i].take_count(lanes->lanes[i].lane, key, count);
	}
}

static const char *next_notice(const struct lane_kind *kind, struct lane *lane)
{
	if (lane->failure[0] && !lane->failure_told) {
		lane->failure_told = true;
		return lane->failure;
	}
	return lane->lane && kind->next_notice ? kind->next_notice(lane->lane) : NULL;
}

const char *lanes_next_notice(struct lanes *lanes)
{
	const char *notice = NULL;

	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds) && !notice; i++)
		notice = next_notice(&kinds[i], &lanes->lanes[i]);
	return notice;
}

void lanes_read_cost(const struct lanes *lanes, enum lane_bit bit, struct lane_cost *ret_cost)
{
	*ret_cost = (struct lane_cost){ 0 };
	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].bit == bit && lanes->lanes[i].lane && kinds[i].read_cost)
			kinds[i].read_cost(lanes->lanes[i].lane, ret_cost);
	}
}

// ---- knobs ----------------------------------------------------------------------------------

static bool can_step(const struct lanes *lanes, enum lane_bit bit)
{
	bool can = false;

	for (uint32_t i = 0; i < ARRAY_SIZE(kinds); i++)
		can |= kinds[i].bit == bit && lanes->lanes[i].lane && kinds[i].set_step;
	return can;
}

static bool can_leave_out(const struct lanes *lanes, enum lane_bit bit)
{
	bool can = false;

	for (uint32_t i = 0; i < ARRAY_SIZE(kinds); i++)
		can |= kinds[i].bit == bit && lanes->lanes[i].lane && kinds[i].set_process;
	return can;
}

int lanes_set_step(struct lanes *lanes, enum lane_bit bit, uint32_t step)
{
	int rc = -EOPNOTSUPP;

	for (uint32_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].bit == bit && lanes->lanes[i].lane && kinds[i].set_step)
			rc = kinds[i].set_step(lanes->lanes[i].lane, step);
	}
	return rc;
}

int lanes_set_process(struct lanes *lanes, enum lane_bit bit, uint32_t pid, bool on)
{
	int rc = -EOPNOTSUPP;

	for (uint32_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].bit == bit && lanes->lanes[i].lane && kinds[i].set_process)
			rc = kinds[i].set_process(lanes->lanes[i].lane, pid, on);
	}
	return rc;
}

static int pause_lane(const struct lane_kind *kind, struct lane *lane, enum lane_bit bit)
{
	bool was_running = runs(lane);

	if (!lane->lane && !lane->paused)
		return 0; // it never ran
	lane->paused |= bit;
	if (was_running && kind->set_running)
		return kind->set_running(lane->lane, false);
	if (was_running)
		kind->close(take(lane->lane));
	return 0;
}

static int resume_lane(const struct lane_kind *kind, struct lane *lane, enum lane_bit bit,
		       const struct lane_setup *setup)
{
	if (!(lane->paused & bit))
		return 0;
	lane->paused &= ~bit;
	if (lane->paused)
		return 0;
	if (lane->lane)
		return kind->set_running(lane->lane, true);
	lane->failure_told = false;
	open_lane(kind, lane, setup);
	return lane->lane ? 0 : -EIO; // why is a notice
}

int lanes_set_running(struct lanes *lanes, enum lane_bit bit, bool on)
{
	int rc = 0;

	for (uint32_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		int failed = 0;

		if (!((kinds[i].bit | kinds[i].needs) & bit))
			continue;
		if (on)
			failed = resume_lane(&kinds[i], &lanes->lanes[i], bit, &lanes->setup);
		else
			failed = pause_lane(&kinds[i], &lanes->lanes[i], bit);
		if (!rc)
			rc = failed;
	}
	return rc;
}

bool lanes_read_budget(const struct lanes *lanes, struct budget_stats *ret_stats)
{
	for (uint32_t i = 0; lanes && i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].bit != LANE_GOVERNOR || !lanes->lanes[i].lane)
			continue;
		budget_read_stats(lanes->lanes[i].lane, ret_stats);
		return true;
	}
	return false;
}
