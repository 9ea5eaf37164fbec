// SPDX-License-Identifier: Apache-2.0
// For tests: this process calls a copy of the double of the driver that the agent's probes are attached to. Needs root, BTF
// and uprobe_multi links.
#pragma once

#include <dlfcn.h>

#include "agent/symbols/executable.h"
#include "agent/gpu/gpu_probes.h"
#include "agent/gpu/gpu_programs.h"
#include "agent/bpf/machine.h"
#include "agent/process/proc.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/gpu/cuda_double.h"
#include "tests/unit/agent/gpu/gpu_children.h"
#include "tests/unit/agent/process/new_process_table.h"

#define MIB (1ULL << 20)

static struct {
	CUresult (*init)(unsigned int);
	CUresult (*context)(CUcontext *, unsigned int, int);
	CUresult (*set_current)(CUcontext);
	CUresult (*alloc)(CUdeviceptr *, size_t);
	CUresult (*free)(CUdeviceptr);
	CUresult (*reserve)(CUdeviceptr *, size_t, size_t, CUdeviceptr, unsigned long long);
	CUresult (*create)(CUmemGenericAllocationHandle *, size_t, const void *,
			   unsigned long long);
	CUresult (*release)(CUmemGenericAllocationHandle);
	CUresult (*map)(CUdeviceptr, size_t, size_t, CUmemGenericAllocationHandle,
			unsigned long long);
	CUresult (*unmap)(CUdeviceptr, size_t);
} cuda;

static CUcontext our_context;
static void *driver_library;

static inline void load_driver(const char *path)
{
	static const struct {
		const char *name;
		void *place;
	} names[] = {
		{ "cuInit", &cuda.init },
		{ "cuCtxCreate_v2", &cuda.context },
		{ "cuCtxSetCurrent", &cuda.set_current },
		{ "cuMemAlloc_v2", &cuda.alloc },
		{ "cuMemFree_v2", &cuda.free },
		{ "cuMemAddressReserve", &cuda.reserve },
		{ "cuMemCreate", &cuda.create },
		{ "cuMemRelease", &cuda.release },
		{ "cuMemMap", &cuda.map },
		{ "cuMemUnmap", &cuda.unmap },
	};

	driver_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	assert_non_null(driver_library);
	for EACH (one, names) {
		void *function = dlsym(driver_library, one->name);

		assert_non_null(function);
		memcpy(one->place, &function, sizeof(function));
	}
	assert_int_equal(0, cuda.init(0));
	assert_int_equal(0, cuda.context(&our_context, 0, 0));
}

/* ---- the agent's side ---------------------------------------------------------------------------- */

struct setting {
	struct loader *loader;
	struct gpu_programs *programs;
	struct gpu_probes *probes;
	struct gpu_drivers *drivers;
	uint64_t hits[GPU_CALL_COUNT]; // injected by the test
	uint64_t now_ns;
	uint32_t generations; // how often always attached probes were replaced
};

static inline int read_hits(void *context, uint64_t ret_hits[GPU_CALL_COUNT])
{
	const struct setting *setting = context;

	memcpy(ret_hits, setting->hits, sizeof(setting->hits));
	return 0;
}

static inline void set_generation(void *context, uint32_t generation)
{
	struct setting *setting = context;

	setting->generations++;
	gpu_programs_set_generation(setting->programs, generation);
}

// Weight 1, and an on phase that does not end while a test is slow.
static inline void open_for_ever(void *context, const struct gpu_on_phase *interval)
{
	const struct setting *setting = context;
	const struct gpu_on_phase always = {
		.begin_ns = interval->begin_ns, .end_ns = UINT64_MAX, .weight = 1, .sees_all = 1
	};

	gpu_programs_set_on_phase(setting->programs, &always);
}

static inline uint64_t read_captures(void *context)
{
	const struct setting *setting = context;

	return gpu_programs_read_captures(setting->programs);
}

static inline void set_sees_captures(void *context, bool sees)
{
	const struct setting *setting = context;

	gpu_programs_set_sees_captures(setting->programs, sees);
}

static inline void open_probes(struct setting *setting, enum probe_way way)
{
	struct gpu_probes_options options = {
		.files.way = way,
		.files.cost = { .cheap_ns = 450, .stepped_ns = 15000, .return_ns = 450 },
		.read_hits = read_hits,
		.set_generation = set_generation,
		.set_on_phase = open_for_ever,
		.read_captures = read_captures,
		.set_sees_captures = set_sees_captures,
		.context = setting,
	};
	struct error err = { 0 };

	options.files.calls = gpu_calls(&options.files.call_count);
	gpu_programs_by_kind(setting->programs, &options.files.programs);
	assert_int_equal(0, gpu_probes_open(&options, &setting->probes, &err));
}

// Reports that this process maps the driver.
static inline void see_ourselves(struct setting *setting)
{
	const struct gpu_driver_listener listener = { gpu_probes_add, gpu_probes_remove,
						      setting->probes };
	const struct process_key key = { .pid = (uint32_t)getpid(), .start_ns = 1 };
	struct mapping_list *list;
	struct proc proc;

	setting->drivers = gpu_drivers_new(&listener);
	assert_non_null(setting->drivers);
	gpu_drivers_begin(setting->drivers);
	assert_int_equal(0, proc_open(getpid(), &proc));
	_cleanup_close_ int maps = openat(proc.files, "maps", O_RDONLY | O_CLOEXEC);
	assert_int_equal(0, mapping_list_read(maps, &list));
	gpu_drivers_note(setting->drivers, &key, 1, proc.files, list);
	mapping_list_release(list);
	proc_close(&proc);
	gpu_drivers_end(setting->drivers, 0);
}

// Opens for this process only, or for all.
static inline void open_programs(struct setting *setting, bool only_ourselves)
{
	const struct gpu_programs_options options = {
		.slot_ns = 20 * NS_PER_MS,
		.only_targets = only_ourselves,
		.attach_type = probe_way_attach_type(PROBE_WAY_MULTI),
	};
	struct error err = { 0 };

	if (gpu_programs_open(setting->loader, &options, &setting->programs, &err))
		fail_msg("%s: %s", err.text, loader_take_error());
	open_probes(setting, PROBE_WAY_MULTI);
	see_ourselves(setting);
}

static inline bool open_setting_at(struct setting *setting, enum loader_level level)
{
	const struct loader_options loader_options = {
		.slot_ns = 20 * NS_PER_MS,
		.counts_max = 65536,
		.pid = getpid(),
		.level = level,
	};
	struct error err = { 0 };
	char path[PATH_MAX];

	*setting = (struct setting){ .now_ns = clock_monotonic_ns() };
	if (machine_check(&err) ||
	    probe_link_choose(&err) !=
		    PROBE_WAY_MULTI) // each perf event takes 20 ms and more to close
		return false;
	if (loader_open(&loader_options, &setting->loader, &err))
		fail_msg("%s: %s", err.text, loader_take_error());
	copy_double("libcuda.so.1", in_folder("libcuda.so.1", path));
	load_driver(path);
	open_programs(setting, true);
	return true;
}

static inline bool open_setting(struct setting *setting)
{
	return open_setting_at(setting, LOADER_LEVEL_FULL);
}

static inline void close_setting(struct setting *setting)
{
	gpu_drivers_free(setting->drivers);
	gpu_probes_close(setting->probes);
	gpu_programs_close(setting->programs);
	loader_close(setting->loader);
}

// Ticks until an on phase begins.
static inline void begin_on_phase(struct setting *setting)
{
	struct gpu_probes_stats stats = { 0 };

	while (!stats.on_phases) {
		setting->now_ns += 10 * NS_PER_MS;
		gpu_probes_tick(setting->probes, setting->now_ns);
		gpu_probes_read_stats(setting->probes, &stats);
	}
}

static inline void stop_looking(struct setting *setting)
{
	gpu_drivers_free(take(setting->drivers)); // detaches its probes
	probe_link_settle();
}

// A running on phase has probes in this file, too.
static inline void look_again(struct setting *setting)
{
	see_ourselves(setting);
}

struct draining {
	struct executable_table *executables;
	struct export_interval_sources sources;
	struct export_interval interval;
};

static inline void begin_draining(struct draining *draining)
{
	static const struct labels no_labels;

	draining->executables = executable_table_new();
	draining->sources = (struct export_interval_sources){
		.frames.processes = new_process_table(draining->executables, &no_labels),
		.frames.locations = location_table_new(draining->executables, NULL),
		.stacks = stack_table_new(),
	};
	assert_int_equal(0, export_interval_init(&draining->interval, &draining->sources,
						 20 * NS_PER_MS, 1));
}

static inline void end_draining(struct draining *draining)
{
	export_interval_deinit(&draining->interval);
	stack_table_free(draining->sources.stacks);
	location_table_free(draining->sources.frames.locations);
	process_table_free(draining->sources.frames.processes);
	executable_table_free(draining->executables);
}

// Several export intervals: not each one has a sweep.
static inline void drain(const struct setting *setting, struct draining *draining)
{
	for (int i = 0; i < 6; i++)
		assert_int_equal(0, gpu_programs_after_drain(setting->programs,
							     draining->sources.frames.processes,
							     &draining->interval));
}
