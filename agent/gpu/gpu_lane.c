// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_lane.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/overhead/budget.h"
#include "agent/gpu/gpu_calls.h"
#include "agent/gpu/gpu_driver.h"
#include "agent/gpu/gpu_probes.h"
#include "agent/gpu/gpu_programs.h"
#include "agent/gpu/kernel_windows.h"
#include "agent/probes/probe_cost.h"
#include "base/cleanup.h"
#include "base/clock.h"

struct gpu_lane {
	struct gpu_lane_options options;
	struct gpu_drivers *drivers;
	// From the first driver on.
	struct gpu_programs *programs;
	struct gpu_probes *probes; // NULL if they were refused, too
	struct kernel_windows *kernels;
	bool is_tried;
	uint32_t stacks_per_second;
	struct labels labels;  // of the probes' cost
	uint64_t told_cost_ns; // of it, in windows so far
	char failure[ERROR_TEXT_BYTES];
	bool failure_told;
	uint64_t missed;       // gpu_programs_missed() that was told
	bool memory_unknown;   // calls that allocate or free are seen in windows only
	bool is_change_told;   // of that, in a window
	bool is_change_logged; // and as a notice
	bool graphs_full_told;
};

// ---- the first driver -----------------------------------------------------------------------

static int open_probes(struct gpu_lane *lane, enum probe_way way, struct error *err)
{
	struct gpu_probes_options options = {
		.way = way,
		.read_hits = gpu_programs_read_hits,
		.set_window = gpu_programs_set_window,
		.set_generation = gpu_programs_set_generation,
		.read_captures = gpu_programs_read_captures,
		.set_sees_captures = gpu_programs_set_sees_captures,
		.context = lane->programs,
	};

	options.calls = gpu_calls(&options.call_count);
	gpu_programs_by_kind(lane->programs, &options.programs);
	probe_cost_measure(way, &options.cost);
	return gpu_probes_open(&options, &lane->probes, err);
}

static int open_programs(struct gpu_lane *lane, enum probe_way way, struct error *err)
{
	const struct gpu_programs_options options = {
		.slot_ns = lane->options.slot_ns,
		.only_followed = lane->options.only_followed,
		.attach_type = probe_way_attach_type(way),
	};

	return gpu_programs_open(lane->options.loader, &options, &lane->programs, err);
}

// Once: what a kernel refuses it refuses again.
static void try_programs(struct gpu_lane *lane)
{
	struct error err = { 0 };
	enum probe_way way = probe_link_choose(&err);
	int rc = way == PROBE_WAY_NONE ? -EPERM : open_programs(lane, way, &err);

	lane->is_tried = true;
	if (!rc)
		rc = open_probes(lane, way, &err);
	if (rc) {
		snprintf(lane->failure, sizeof(lane->failure),
			 "gpu: calls of the driver are not seen: %.250s", err.text);
		gpu_programs_close(take(lane->programs));
		return;
	}
	const struct kernel_windows_options kernels = {
		.programs = lane->programs,
		.drivers = lane->drivers,
		.processes = lane->options.processes,
		.period_ns = lane->options.kernel_period_ns,
		.request = lane->options.kernel_request,
	};
	lane->kernels = kernel_windows_new(&kernels);
	gpu_programs_set_budget(lane->programs, lane->stacks_per_second);
	if (lane->options.namer)
		*lane->options.namer = (struct gpu_namer){ gpu_programs_name, lane->programs };
}

static void add_driver(void *context, const struct gpu_driver *driver)
{
	struct gpu_lane *lane = context;

	// Who wants kernels only need not pay for the driver's calls.
	if (lane->options.kernel_request && driver->library != GPU_LIBRARY_HELPER)
		return;
	if (!lane->is_tried)
		try_programs(lane);
	if (!lane->probes)
		return;
	gpu_probes_add(lane->probes, driver);
	if (driver->library == GPU_LIBRARY_CUDA)
		gpu_programs_set_attached(lane->programs);
}

static void remove_driver(void *context, const struct gpu_driver *driver)
{
	struct gpu_lane *lane = context;

	if (lane->probes)
		gpu_probes_remove(lane->probes, driver);
}

// ---- life -----------------------------------------------------------------------------------

static int set_labels(struct gpu_lane *lane)
{
	char node[256] = "";
	int rc = lane->options.labels ? labels_copy(lane->options.labels, &lane->labels) : 0;

	if (!rc && gethostname(node, sizeof(node) - 1) == 0 &&
	    !labels_get(&lane->labels, LABEL_NODE))
		rc = labels_set(&lane->labels, LABEL_NODE, node);
	if (!rc)
		rc = labels_set(&lane->labels, LABEL_SERVICE, "cairn-agent");
	return rc ? rc : labels_set(&lane->labels, LABEL_PROGRAM, "gpu probes");
}

int gpu_lane_open(const struct gpu_lane_options *options, struct gpu_lane **ret_lane,
		  struct error *err)
{
	struct gpu_lane *lane = calloc(1, sizeof(*lane));

	if (!lane)
		return error_set(err, -ENOMEM, "out of memory");
	const struct gpu_driver_listener listener = { add_driver, remove_driver, lane };

	lane->options = *options;
	lane->stacks_per_second = GPU_STACKS_PER_SECOND;
	lane->is_change_told = lane->is_change_logged = true; // there is none yet
	lane->drivers = gpu_drivers_new(&listener);
	if (!lane->drivers || set_labels(lane)) {
		gpu_lane_close(lane);
		return error_set(err, -ENOMEM, "out of memory");
	}
	*ret_lane = lane;
	return 0;
}

void gpu_lane_close(struct gpu_lane *lane)
{
	if (!lane)
		return;
	if (lane->options.namer)
		*lane->options.namer = (struct gpu_namer){ 0 };
	kernel_windows_free(lane->kernels);
	gpu_drivers_free(lane->drivers); // tells the probes
	gpu_probes_close(lane->probes);
	gpu_programs_close(lane->programs);
	labels_deinit(&lane->labels);
	free(lane);
}

// What is allocated is known only as long as nothing is missed: else what was freed would stay for ever.
static void follow_memory(struct gpu_lane *lane)
{
	bool is_known = gpu_probes_see_all(lane->probes, GPU_CALL_INIT, GPU_CALL_MEM_UNMAP);
	uint64_t missed = gpu_programs_missed(lane->programs);

	if (missed != lane->missed && !lane->memory_unknown)
		lane->is_change_told = lane->is_change_logged = false;
	lane->missed = missed;
	if (is_known != lane->memory_unknown)
		return;
	gpu_programs_set_memory_known(lane->programs, is_known);
	lane->memory_unknown = !is_known;
	lane->is_change_told = lane->is_change_logged = false;
}

void gpu_lane_tick(struct gpu_lane *lane, uint64_t now_ns)
{
	gpu_drivers_follow(lane->drivers, lane->options.processes, now_ns);
	if (!lane->probes)
		return;
	gpu_probes_tick(lane->probes, now_ns);
	follow_memory(lane);
	if (lane->kernels)
		kernel_windows_tick(lane->kernels, now_ns);
}

#define MEMORY_NOT_TOLD "GPU memory in use not told"

static const char *change_of_memory(const struct gpu_lane *lane)
{
	return lane->memory_unknown
		       ? MEMORY_NOT_TOLD
		       : "GPU memory in use told again, of what is allocated from now on";
}

/* Beside the data that are missing, as the governor's changes are. */
static int add_with_change(const struct gpu_lane *lane, struct window *window, const char *change,
			   const char *type, uint64_t slot, uint64_t last_slot, uint64_t value)
{
	struct labels labels = { 0 };
	int rc = labels_copy(&lane->labels, &labels);

	if (!rc)
		rc = labels_set(&labels, LABEL_PROGRAM, "");
	if (!rc)
		rc = labels_set(&labels, LABEL_CHANGE, change);
	if (!rc)
		rc = window_add_value(window, &labels, type, slot, last_slot, (int64_t)value);
	labels_deinit(&labels);
	return rc;
}

static int add_change(struct gpu_lane *lane, struct window *window)
{
	uint64_t slot = clock_realtime_ns() / window->profile->slot_ns;

	lane->is_change_told = true;
	return add_with_change(lane, window, change_of_memory(lane), PROFILE_TYPE_GOVERNOR, slot,
			       slot, 1);
}

static int add_in_force(const struct gpu_lane *lane, struct window *window)
{
	const struct profile *profile = window->profile;
	uint64_t slot = profile->from_ns / profile->slot_ns;
	uint64_t end_slot = clock_realtime_ns() / profile->slot_ns;

	if (!lane->memory_unknown || end_slot <= slot)
		return 0;
	return add_with_change(lane, window, MEMORY_NOT_TOLD, PROFILE_TYPE_IN_FORCE, slot,
			       end_slot - 1, (end_slot - slot) * profile->slot_ns);
}

/* It is known every few seconds, and of the time before: so it is spread over the whole window. */
static int add_probe_cost(struct gpu_lane *lane, struct window *window)
{
	const struct profile *profile = window->profile;
	uint64_t slot = profile->from_ns / profile->slot_ns;
	uint64_t end_slot = clock_realtime_ns() / profile->slot_ns;
	struct gpu_probes_stats stats;

	gpu_probes_read_stats(lane->probes, &stats);
	uint64_t all_ns = stats.cost_ns;
	if (lane->kernels)
		all_ns += kernel_windows_cost_ns(lane->kernels);
	uint64_t ns = all_ns - lane->told_cost_ns;
	if (!ns)
		return 0;
	lane->told_cost_ns = all_ns;
	return window_add_value(window, &lane->labels, PROFILE_TYPE_COST, slot,
				end_slot > slot ? end_slot - 1 : slot, (int64_t)ns);
}

int gpu_lane_after_drain(struct gpu_lane *lane, struct window *window)
{
	int rc = 0;

	if (lane->programs)
		rc = gpu_programs_after_drain(lane->programs, lane->options.processes, window);
	if (!rc && lane->kernels)
		rc = kernel_windows_after_drain(lane->kernels, window);
	if (!rc && lane->probes)
		rc = add_probe_cost(lane, window);
	if (!rc && lane->probes && !lane->is_change_told)
		rc = add_change(lane, window);
	return rc ? rc : add_in_force(lane, window);
}

void gpu_lane_set_budget(struct gpu_lane *lane, uint32_t stacks_per_second)
{
	lane->stacks_per_second = stacks_per_second;
	if (lane->programs)
		gpu_programs_set_budget(lane->programs, stacks_per_second);
}

const char *gpu_lane_next_notice(struct gpu_lane *lane)
{
	if (lane->failure[0] && !lane->failure_told) {
		lane->failure_told = true;
		return lane->failure;
	}
	if (!lane->probes)
		return NULL;
	const char *of_kernels = lane->kernels ? kernel_windows_next_notice(lane->kernels) : NULL;
	if (of_kernels)
		return of_kernels;
	if (!lane->graphs_full_told && gpu_programs_graphs_full(lane->programs)) {
		lane->graphs_full_told = true;
		return "gpu: graphs have more kernels than are kept: of those that lack some "
		       "none are told";
	}
	if (lane->is_change_logged)
		return gpu_probes_next_notice(lane->probes);
	lane->is_change_logged = true;
	return lane->memory_unknown
		       ? "gpu: what memory is in use is not told from now on: calls that "
			 "allocate or free are too many to see all of them"
		       : "gpu: what memory is in use is told again, as far as it is "
			 "allocated from now on";
}

void gpu_lane_read_run_time(const struct gpu_lane *lane, uint64_t *ret_ns, uint64_t *ret_count)
{
	*ret_ns = *ret_count = 0;
	if (lane->programs)
		gpu_programs_read_run_time(lane->programs, ret_ns, ret_count);
}
