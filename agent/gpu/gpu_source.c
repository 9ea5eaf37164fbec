// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "agent/gpu/gpu_calls.h"
#include "agent/gpu/gpu_driver.h"
#include "agent/gpu/gpu_graphs.h"
#include "agent/gpu/gpu_probes.h"
#include "agent/gpu/gpu_programs.h"
#include "agent/gpu/gpu_kernel_sessions.h"
#include "agent/probes/probe_cost.h"
#include "agent/sources/own_labels.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/knobs.h"
#include "base/contract/label_values.h"
#include "base/contract/profile_types.h"
#include "base/contract/label_names.h"

struct gpu_source {
	struct gpu_source_options options;
	struct gpu_drivers *drivers;
	// NULL until the first driver library, and where the kernel refuses them.
	struct gpu_programs *programs;
	struct gpu_probes *probes;
	struct gpu_kernel_sessions *kernels;
	bool is_tried;
	uint32_t stacks_per_second;
	struct labels labels;      // of the probes' overhead
	uint64_t exported_cost_ns; // of the probes, in export intervals so far
	uint64_t missed;           // gpu_programs_missed() as last logged
	bool memory_unknown;       // calls that allocate or free are not all seen
	bool is_change_exported;   // of memory_unknown
	bool is_drop_logged, graphs_full_logged;
};

// ---- the first driver -----------------------------------------------------------------------

static int open_probes(struct gpu_source *source, enum probe_way way, struct error *err)
{
	struct gpu_probes_options options = {
		.files.way = way,
		.read_hits = gpu_programs_read_hits,
		.set_on_phase = gpu_programs_set_on_phase,
		.set_generation = gpu_programs_set_generation,
		.read_captures = gpu_programs_read_captures,
		.set_sees_captures = gpu_programs_set_sees_captures,
		.context = source->programs,
		.events = source->options.events,
	};

	options.files.calls = gpu_calls(&options.files.call_count);
	gpu_programs_by_kind(source->programs, &options.files.programs);
	probe_cost_measure(way, &options.files.cost);
	return gpu_probes_open(&options, &source->probes, err);
}

static int open_programs(struct gpu_source *source, enum probe_way way, struct error *err)
{
	const struct gpu_programs_options options = {
		.slot_ns = source->options.slot_ns,
		.only_targets = source->options.only_targets,
		.attach_type = probe_way_attach_type(way),
	};

	return gpu_programs_open(source->options.loader, &options, &source->programs, err);
}

// Once: what a kernel refuses it refuses again.
static void try_programs(struct gpu_source *source)
{
	struct error err = { 0 };
	enum probe_way way = probe_link_choose(&err);
	int rc = way == PROBE_WAY_NONE ? -EPERM : open_programs(source, way, &err);

	source->is_tried = true;
	if (!rc)
		rc = open_probes(source, way, &err);
	if (rc) {
		event_warn(source->options.events, "gpu", "driver calls not recorded: %.250s",
			   err.text);
		gpu_programs_close(take(source->programs));
		return;
	}
	const struct gpu_kernel_sessions_options kernels = {
		.programs = source->programs,
		.drivers = source->drivers,
		.processes = source->options.processes,
		.events = source->options.events,
		.period_ns = source->options.cupti_interval_ns,
		.request = source->options.gpu_kernel_request,
	};
	source->kernels = gpu_kernel_sessions_new(&kernels);
	gpu_programs_set_budget(source->programs, source->stacks_per_second);
	if (source->options.namer)
		*source->options.namer = (struct gpu_namer){ gpu_programs_name, source->programs };
}

static void add_driver(void *context, const struct gpu_driver *driver)
{
	struct gpu_source *source = context;

	// A single CUPTI session needs the helper's probe only.
	if (source->options.gpu_kernel_request && driver->library != GPU_LIBRARY_HELPER)
		return;
	if (!source->is_tried)
		try_programs(source);
	if (!source->probes)
		return;
	gpu_probes_add(source->probes, driver);
	if (driver->library == GPU_LIBRARY_CUDA)
		gpu_programs_set_attached(source->programs);
}

static void remove_driver(void *context, const struct gpu_driver *driver)
{
	struct gpu_source *source = context;

	if (source->probes)
		gpu_probes_remove(source->probes, driver);
}

// ---- life -----------------------------------------------------------------------------------

static int set_labels(struct gpu_source *source)
{
	int rc = own_labels(source->options.labels, SERVICE_AGENT, &source->labels);

	return rc ? rc : labels_set(&source->labels, LABEL_PROGRAM, PROGRAM_GPU_PROBES);
}

int gpu_source_open(const struct gpu_source_options *options, struct gpu_source **ret_source,
		    struct error *err)
{
	struct gpu_source *source = calloc(1, sizeof(*source));

	if (!source)
		return error_set(err, -ENOMEM, "out of memory");
	const struct gpu_driver_listener listener = { add_driver, remove_driver, source };

	source->options = *options;
	source->stacks_per_second = GPU_STACKS_PER_SECOND;
	source->is_change_exported = true; // none yet
	source->drivers = gpu_drivers_new(&listener);
	if (!source->drivers || set_labels(source)) {
		gpu_source_close(source);
		return error_set(err, -ENOMEM, "out of memory");
	}
	*ret_source = source;
	return 0;
}

void gpu_source_close(void *state)
{
	struct gpu_source *source = state;

	if (!source)
		return;
	if (source->options.namer)
		*source->options.namer = (struct gpu_namer){ 0 };
	gpu_kernel_sessions_free(source->kernels);
	gpu_drivers_free(source->drivers); // removes the probes of each
	gpu_probes_close(source->probes);
	gpu_programs_close(source->programs);
	labels_deinit(&source->labels);
	free(source);
}

static void change_memory(struct gpu_source *source)
{
	struct gpu_probes_stats stats;

	source->is_change_exported = false;
	gpu_probes_read_stats(source->probes, &stats);
	if (source->memory_unknown)
		event_warn(source->options.events, "gpu",
			   "memory in use not recorded: too many allocations and frees to probe "
			   "all (limit %.2f %% of a core)",
			   100 * stats.budget);
	else
		event_warn(source->options.events, "gpu",
			   "memory in use recorded again: earlier allocations missing; restart the "
			   "process to see all");
}

// One missed call that frees would leave its memory in use for ever: either all calls are seen, or none counts.
static void watch_memory(struct gpu_source *source)
{
	bool is_known = gpu_probes_see_all(source->probes, GPU_CALL_INIT, GPU_CALL_MEM_UNMAP);
	uint64_t missed = gpu_programs_missed(source->programs);

	if (missed != source->missed && !source->memory_unknown)
		change_memory(source);
	source->missed = missed;
	if (is_known != source->memory_unknown)
		return;
	gpu_programs_set_memory_known(source->programs, is_known);
	source->memory_unknown = !is_known;
	change_memory(source);
}

void gpu_source_tick(void *state, uint64_t now_ns)
{
	struct gpu_source *source = state;

	gpu_drivers_update(source->drivers, source->options.processes, now_ns);
	if (gpu_drivers_dropped(source->drivers))
		event_warn_once(
			source->options.events, &source->is_drop_logged, "gpu",
			"driver calls of some processes not recorded: too many driver files "
			"(limit %d)",
			GPU_DRIVERS_MAX);
	if (!source->probes)
		return;
	gpu_probes_tick(source->probes, now_ns);
	watch_memory(source);
	if (source->kernels)
		gpu_kernel_sessions_tick(source->kernels, now_ns);
	if (gpu_programs_graphs_full(source->programs))
		event_warn_once(
			source->options.events, &source->graphs_full_logged, "gpu",
			"dropped incomplete CUDA graphs: GPU kernel table full (limit %d stacks)",
			GPU_GRAPH_KERNELS_MAX);
}

/* Whether GPU memory in use is recorded, as a load-shedding setting: it explains gaps. */
static int add_memory_setting(const struct gpu_source *source, struct export_interval *interval,
			      const char *type, uint64_t slot, uint64_t last_slot, uint64_t value)
{
	struct knob_setting setting = { .knob = KNOB_GPU_MEMORY };
	struct labels labels = { 0 };
	int rc = labels_copy(&source->labels, &labels);

	snprintf(setting.step, sizeof(setting.step), "%s",
		 source->memory_unknown ? STEP_OFF : STEP_ON);
	if (!rc)
		rc = labels_set(&labels, LABEL_PROGRAM, "");
	if (!rc)
		rc = knob_set_labels(&setting, &labels);
	if (!rc)
		rc = export_interval_add_value(interval, &labels, type, slot, last_slot,
					       (int64_t)value);
	labels_deinit(&labels);
	return rc;
}

static int add_change(struct gpu_source *source, struct export_interval *interval)
{
	uint64_t slot = clock_realtime_ns() / interval->profile->slot_ns;

	source->is_change_exported = true;
	return add_memory_setting(source, interval, PROFILE_TYPE_SHEDDING_CHANGES, slot, slot, 1);
}

static int add_shedding(const struct gpu_source *source, struct export_interval *interval)
{
	const struct profile *profile = interval->profile;
	uint64_t slot = profile->from_ns / profile->slot_ns;
	uint64_t end_slot = clock_realtime_ns() / profile->slot_ns;

	if (!source->memory_unknown || end_slot <= slot)
		return 0;
	return add_memory_setting(source, interval, PROFILE_TYPE_SHEDDING, slot, end_slot - 1,
				  (end_slot - slot) * profile->slot_ns);
}

/* Measured every few seconds for the time before, so it is spread over the whole export interval. */
static int add_probe_cost(struct gpu_source *source, struct export_interval *interval)
{
	const struct profile *profile = interval->profile;
	uint64_t slot = profile->from_ns / profile->slot_ns;
	uint64_t end_slot = clock_realtime_ns() / profile->slot_ns;
	struct gpu_probes_stats stats;

	gpu_probes_read_stats(source->probes, &stats);
	uint64_t all_ns = stats.cost_ns;
	if (source->kernels)
		all_ns += gpu_kernel_sessions_cost_ns(source->kernels);
	uint64_t ns = all_ns - source->exported_cost_ns;
	if (!ns)
		return 0;
	source->exported_cost_ns = all_ns;
	return export_interval_add_value(interval, &source->labels, PROFILE_TYPE_OVERHEAD, slot,
					 end_slot > slot ? end_slot - 1 : slot, (int64_t)ns);
}

int gpu_source_after_drain(void *state, struct export_interval *interval)
{
	struct gpu_source *source = state;
	int rc = 0;

	if (source->programs)
		rc = gpu_programs_after_drain(source->programs, source->options.processes,
					      interval);
	if (!rc && source->kernels)
		rc = gpu_kernel_sessions_after_drain(source->kernels, interval);
	if (!rc && source->probes)
		rc = add_probe_cost(source, interval);
	if (!rc && source->probes && !source->is_change_exported)
		rc = add_change(source, interval);
	return rc ? rc : add_shedding(source, interval);
}

// ---- the source -----------------------------------------------------------------------------

static int open_source(const struct source_setup *setup, void **ret_state, struct error *err)
{
	const struct gpu_source_options options = {
		.loader = setup->loader,
		.processes = setup->processes,
		.namer = setup->gpu_namer,
		.slot_ns = setup->slot_ns,
		.only_targets = setup->only_targets,
		.cupti_interval_ns = setup->cupti_interval_ns,
		.gpu_kernel_request = setup->gpu_kernel_request,
		.labels = setup->labels,
		.events = setup->events,
	};
	struct gpu_source *source;
	int rc = gpu_source_open(&options, &source, err);

	if (!rc)
		*ret_state = source;
	return rc;
}

static void set_step(void *state, uint32_t step)
{
	struct gpu_source *source = state;

	source->stacks_per_second = step < 8 ? GPU_STACKS_PER_SECOND >> (2 * step) : 0;
	if (source->programs)
		gpu_programs_set_budget(source->programs, source->stacks_per_second);
}

const struct source gpu_calls_source = {
	.name = "gpu calls",
	.bit = SOURCE_GPU_CALLS,
	.open = open_source,
	.close = gpu_source_close,
	.after_drain = gpu_source_after_drain,
	.tick = gpu_source_tick,
	.set_step = set_step,
};
