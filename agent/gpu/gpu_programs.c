// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_programs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "agent/gpu/gpu_graphs.h"
#include "agent/gpu/gpu_idle_time.h"
#include "agent/gpu/gpu_names.h"
#include "agent/bpf/map_entries.h"
#include "base/array.h"
#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "bpf/shared_variables.h"
#include "gpu.skel.h"

enum {
	SECONDS_MAX =
		120, // of memory in use in one export interval: after a long pause the rest is left out
	INTERVALS_PER_SWEEP = 6, // export intervals between two sweeps of the maps
	OWNERS_MANY = 8192, // in gpu_live: with more, a sweep removes those with no memory in use
	MISSED_PROCESSES_MAX = 512, // drained per export interval: as many as the map holds
};

struct gpu_programs {
	struct gpu_bpf *programs;
	struct gpu_name name;     // returned last by gpu_programs_name()
	uint64_t exported_second; // the last one whose memory in use was exported, Unix time
	uint32_t intervals;       // since the last sweep
	struct gpu_idle_time idle_time;
	bool is_memory_unknown; // calls that allocate or free are missed
	uint64_t missed;        // gpu_programs_missed()
	struct gpu_names names;
	struct gpu_graphs graphs;
	uint64_t captures_seen; // how often probes of captured launches were attached
	struct map_entries entries;
	uint64_t *hits; // scratch: of one kind of call, by possible CPU
	int cpu_count;
};

// ---- life -----------------------------------------------------------------------------------

static void set_options(struct gpu_bpf *programs, const struct loader *loader,
			const struct gpu_programs_options *options)
{
	enum loader_level level = loader_level(loader);
	struct bpf_program *program;

	programs->rodata->unwind_by_tables = level < LOADER_LEVEL_FRAME_POINTER;
	programs->rodata->unwind_python = level < LOADER_LEVEL_NO_PYTHON;
	programs->rodata->send_snapshots = level < LOADER_LEVEL_FRAME_POINTER;
	programs->rodata->slot_ns = options->slot_ns;
	programs->rodata->only_targets = options->only_targets;
	programs->rodata->gpu_keep_calls = options->keep_calls;
	programs->data->gpu_stacks_per_second = GPU_STACKS_PER_SECOND;
	bpf_object__for_each_program(program, programs->obj)
		bpf_program__set_expected_attach_type(program, options->attach_type);
}

static int load(struct gpu_programs *programs, const struct loader *loader,
		const struct gpu_programs_options *options)
{
	programs->programs = gpu_bpf__open();
	if (!programs->programs)
		return -errno;
	int rc = loader_share_maps(loader, programs->programs->obj);
	if (rc)
		return rc;
	set_options(programs->programs, loader, options);
	return gpu_bpf__load(programs->programs);
}

int gpu_programs_open(const struct loader *loader, const struct gpu_programs_options *options,
		      struct gpu_programs **ret_programs, struct error *err)
{
	struct gpu_programs *programs = calloc(1, sizeof(*programs));

	if (!programs)
		return error_set(err, -ENOMEM, "out of memory");
	programs->exported_second = clock_realtime_ns() / NS_PER_SECOND;
	programs->cpu_count = libbpf_num_possible_cpus();
	if (programs->cpu_count > 0)
		programs->hits = calloc(programs->cpu_count, sizeof(*programs->hits));
	int rc = programs->hits
			 ? map_entries_init(&programs->entries,
					    sizeof(struct gpu_graph_kernel)) // the largest key
			 : -ENOMEM;
	if (!rc)
		rc = load(programs, loader, options);
	if (rc) {
		gpu_programs_close(programs);
		return error_errno(err, rc, "the kernel refused the BPF programs of GPU calls");
	}
	*ret_programs = programs;
	return 0;
}

void gpu_programs_close(struct gpu_programs *programs)
{
	if (!programs)
		return;
	gpu_bpf__destroy(programs->programs);
	gpu_idle_time_deinit(&programs->idle_time);
	gpu_names_deinit(&programs->names);
	gpu_graphs_deinit(&programs->graphs);
	map_entries_deinit(&programs->entries);
	free(programs->hits);
	free(programs);
}

// ---- attaching, knobs -----------------------------------------------------------------------

int gpu_programs_entry_fd(const struct gpu_programs *programs, const struct gpu_call_symbol *symbol)
{
	const struct gpu_bpf *all = programs->programs;

	if (symbol->library == GPU_LIBRARY_NCCL)
		return bpf_program__fd(all->progs.nccl_call_begins);
	return bpf_program__fd(symbol->tier == GPU_TIER_LAUNCHES ? all->progs.gpu_launch_begins
								 : all->progs.gpu_call_begins);
}

static int return_fd(const struct gpu_programs *programs, const struct gpu_call_symbol *symbol)
{
	const struct gpu_bpf *all = programs->programs;

	return bpf_program__fd(symbol->library == GPU_LIBRARY_NCCL ? all->progs.nccl_call_returns
								   : all->progs.gpu_call_returns);
}

void gpu_programs_by_kind(const struct gpu_programs *programs,
			  struct gpu_call_programs *ret_programs)
{
	size_t count;
	const struct gpu_call_symbol *calls = gpu_calls(&count);

	for (uint32_t call = 0; call < GPU_CALL_COUNT; call++)
		ret_programs->entry_fds[call] = ret_programs->return_fds[call] = -1;
	for (size_t i = 0; i < count; i++) {
		uint32_t call = gpu_cookie_call(calls[i].cookie);

		ret_programs->entry_fds[call] = gpu_programs_entry_fd(programs, &calls[i]);
		if (calls[i].wants_exit)
			ret_programs->return_fds[call] = return_fd(programs, &calls[i]);
	}
}

void gpu_programs_set_on_phase(void *context, const struct gpu_on_phase *phase)
{
	struct gpu_programs *programs = context;
	struct gpu_on_phase *to = (struct gpu_on_phase *)&programs->programs->bss->gpu_on_phase;

	// Empty while it is written: calls meanwhile are outside of any on phase.
	__atomic_store_n(&to->end_ns, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->begin_ns, phase->begin_ns, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->weight, phase->weight, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->sees_all, phase->sees_all, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->end_ns, phase->end_ns, __ATOMIC_SEQ_CST);
}

void gpu_programs_set_generation(void *context, uint32_t generation)
{
	struct gpu_programs *programs = context;

	__atomic_store_n(&programs->programs->bss->gpu_generation, generation, __ATOMIC_SEQ_CST);
}

void gpu_programs_set_attached(struct gpu_programs *programs)
{
	struct timespec now;

	clock_gettime(CLOCK_BOOTTIME, &now);
	__atomic_store_n(&programs->programs->data->gpu_attached_ns,
			 (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec,
			 __ATOMIC_SEQ_CST);
}

uint64_t gpu_programs_read_captures(void *context)
{
	struct gpu_programs *programs = context;

	return __atomic_load_n(&programs->programs->bss->gpu_captures_begun, __ATOMIC_RELAXED);
}

void gpu_programs_set_sees_captures(void *context, bool sees)
{
	struct gpu_programs *programs = context;

	__atomic_store_n(&programs->programs->bss->gpu_captures_seen,
			 sees ? ++programs->captures_seen : 0, __ATOMIC_SEQ_CST);
}

int gpu_programs_read_hits(void *context, uint64_t ret_hits[GPU_CALL_COUNT])
{
	struct gpu_programs *programs = context;
	int fd = bpf_map__fd(programs->programs->maps.gpu_hits);

	for (uint32_t call = 0; call < GPU_CALL_COUNT; call++) {
		if (bpf_map_lookup_elem(fd, &call, programs->hits))
			return -errno;
		ret_hits[call] = 0;
		for (int cpu = 0; cpu < programs->cpu_count; cpu++)
			ret_hits[call] += programs->hits[cpu];
	}
	return 0;
}

void gpu_programs_set_budget(struct gpu_programs *programs, uint32_t stacks_per_second)
{
	__atomic_store_n(&programs->programs->data->gpu_stacks_per_second, stacks_per_second,
			 __ATOMIC_RELAXED);
}

// ---- reading maps ---------------------------------------------------------------------------

int gpu_programs_last_call(const struct gpu_programs *programs, struct gpu_call_record *ret_call)
{
	uint32_t zero = 0;

	return bpf_map_lookup_elem(bpf_map__fd(programs->programs->maps.gpu_last_call), &zero,
				   ret_call)
		       ? -errno
		       : 0;
}

const char *gpu_programs_name(void *context, uint64_t hash)
{
	struct gpu_programs *programs = context;

	if (bpf_map_lookup_elem(bpf_map__fd(programs->programs->maps.gpu_names), &hash,
				&programs->name))
		return NULL;
	programs->name.text[sizeof(programs->name.text) - 1] = 0;
	return programs->name.text;
}

// ---- memory in use --------------------------------------------------------------------------

struct drain {
	struct gpu_programs *programs;
	struct process_table *processes;
	struct export_interval *interval;
	uint64_t first_second, second_end; // of Unix time
	uint64_t now_ns;
	struct process_key last_key; // cached answer of has_ended(), which may read /proc
	bool has_last_ended;
	uint32_t owners; // in gpu_live
};

static bool has_ended(struct drain *drain, const struct process_key *key)
{
	if (memcmp(&drain->last_key, key, sizeof(*key)) != 0) {
		drain->last_key = *key;
		drain->has_last_ended = process_table_has_ended(drain->processes, key);
	}
	return drain->has_last_ended;
}

static int export_owner(void *context, const void *key, const void *value)
{
	struct drain *drain = context;
	const struct gpu_owner *owner = key;
	const struct gpu_live *live = value;
	uint64_t slot_ns = drain->interval->profile->slot_ns;
	struct count_key counted = {
		.process = owner->process,
		.user = owner->user,
		.user_leaf = owner->leaf,
		.kind = SAMPLE_KIND_GPU_MEMORY,
	};
	struct count count = { .value = live->bytes, .samples = live->allocations };
	int rc = 0;

	drain->owners++;
	if ((int64_t)live->bytes <= 0 || has_ended(drain, &owner->process))
		return 0;
	memcpy(counted.thread_name, owner->thread_name, sizeof(counted.thread_name));
	for (uint64_t second = drain->first_second; second < drain->second_end && !rc; second++) {
		counted.slot = second * NS_PER_SECOND / slot_ns;
		rc = export_interval_add(drain->interval, &counted, &count, drain->now_ns);
	}
	return rc;
}

static int add_live(void *context, const void *key, const void *value)
{
	struct gpu_live *sum = context;
	const struct gpu_live *live = value;

	(void)key;
	sum->bytes += live->bytes;
	sum->allocations += live->allocations;
	return 0;
}

int gpu_programs_read_memory(struct gpu_programs *programs, struct gpu_live *ret_live)
{
	struct gpu_live sum = { 0 };
	int rc = map_entries_each(&programs->entries, programs->programs->maps.gpu_live, add_live,
				  &sum);

	if (!rc)
		*ret_live = sum;
	return rc;
}

// ---- sampled launches -------------------------------------------------------------------------

struct launch_list {
	const struct process_key *process;
	struct gpu_correlated_launch *launches;
	uint32_t count, capacity;
};

static int collect_launch(void *context, const void *key, const void *value)
{
	struct launch_list *list = context;
	const struct gpu_key *of = key;

	if (memcmp(&of->process, list->process, sizeof(of->process)) != 0)
		return 0;
	int rc = array_reserve(&list->launches, sizeof(*list->launches), &list->capacity,
			       list->count, 1, UINT32_MAX);
	if (rc)
		return rc;
	struct gpu_correlated_launch *added = &list->launches[list->count++];
	added->correlation = (uint32_t)of->handle;
	memcpy(&added->launch, value, sizeof(added->launch));
	return 0;
}

static int by_correlation(const void *a, const void *b)
{
	uint32_t x = ((const struct gpu_correlated_launch *)a)->correlation;
	uint32_t y = ((const struct gpu_correlated_launch *)b)->correlation;

	return (x > y) - (x < y);
}

int gpu_programs_take_sampled_launches(struct gpu_programs *programs,
				       const struct process_key *process,
				       struct gpu_correlated_launch **ret_launches,
				       uint32_t *ret_count)
{
	const struct bpf_map *map = programs->programs->maps.gpu_sampled_launches;
	struct launch_list list = { .process = process };
	int rc = map_entries_each(&programs->entries, map, collect_launch, &list);

	for (uint32_t i = 0; i < list.count; i++) {
		struct gpu_key key = { *process, list.launches[i].correlation,
				       GPU_HANDLE_SAMPLED_LAUNCH };

		bpf_map_delete_elem(bpf_map__fd(map), &key);
	}
	if (rc) {
		free(list.launches);
		return rc;
	}
	if (list.count)
		qsort(list.launches, list.count, sizeof(*list.launches), by_correlation);
	*ret_launches = list.launches;
	*ret_count = list.count;
	return 0;
}

// The hash of bpf/gpu/gpu_handles.bpf.h: a GPU kernel must be one frame, whichever side names it.
static uint64_t hash_of_name(const struct gpu_name *name)
{
	uint64_t hash = 0xcbf29ce484222325ULL, word;

	for (size_t i = 0; i < sizeof(name->text); i += sizeof(word)) {
		memcpy(&word, name->text + i, sizeof(word));
		hash = (hash ^ word) * 0x100000001b3ULL;
		hash ^= hash >> 29;
		if (word >> 56 == 0)
			break;
	}
	return hash;
}

struct raw_frame gpu_programs_frame(struct gpu_programs *programs, const char *name)
{
	struct gpu_name known = { 0 };

	snprintf(known.text, sizeof(known.text), "%s", *name ? name : "(no name)");
	uint64_t hash = hash_of_name(&known);
	// If the map is full, the frame is shown as a number.
	bpf_map_update_elem(bpf_map__fd(programs->programs->maps.gpu_names), &hash, &known,
			    BPF_ANY);
	return (struct raw_frame){ .address = hash, .tag = FRAME_TAG_GPU };
}

// ---- stacks in use ----------------------------------------------------------------------------

// Keeps the stack from being evicted while the graph can still be launched.
static int use_stack(void *context, const void *key, const void *value)
{
	const struct drain *drain = context;
	const struct gpu_graph *graph = value;

	(void)key;
	stack_table_find(drain->interval->sources.stacks, &graph->owner.user, drain->now_ns);
	return 0;
}

// ---- sweeping -------------------------------------------------------------------------------

// For maps whose key begins with the process.
static bool is_of_ended(void *context, const void *key, const void *value)
{
	(void)value;
	return has_ended(context, key);
}

// A capture may never have ended.
static bool is_captured_of_ended(void *context, const void *key, const void *value)
{
	const struct gpu_graph_kernel *kernel = key;

	(void)value;
	return has_ended(context, &kernel->owner.process);
}

static bool is_of_process(void *context, const void *key, const void *value)
{
	(void)value;
	return memcmp(key, context, sizeof(struct process_key)) == 0;
}

static void sweep_ended(struct drain *drain)
{
	const struct gpu_bpf *all = drain->programs->programs;
	const struct bpf_map *const maps[] = {
		all->maps.gpu_allocations,    all->maps.gpu_mappings, all->maps.gpu_live,
		all->maps.gpu_functions,      all->maps.gpu_modules,  all->maps.gpu_graphs,
		all->maps.gpu_captures,       all->maps.gpu_events,   all->maps.gpu_ranges,
		all->maps.nccl_communicators, all->maps.gpu_idle,
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(maps); i++)
		map_entries_remove(&drain->programs->entries, maps[i], is_of_ended, drain);
}

// Was its module unloaded since the handle was got?
static bool is_unloaded(void *context, const void *key, const void *value)
{
	const struct gpu_programs *programs = context;
	const struct gpu_function *function = value;
	const struct gpu_key *of = key;
	struct gpu_key module = { of->process, function->module, GPU_HANDLE_MODULE };
	uint64_t unloads;

	return !bpf_map_lookup_elem(bpf_map__fd(programs->programs->maps.gpu_modules), &module,
				    &unloads) &&
	       unloads != function->unloads;
}

// The process's sums are wrong: restart them at zero.
static void drop_memory(struct gpu_programs *programs, struct process_key *process)
{
	const struct gpu_bpf *all = programs->programs;
	const struct bpf_map *const maps[] = { all->maps.gpu_mappings, all->maps.gpu_allocations,
					       all->maps.gpu_live, all->maps.gpu_ranges };

	for (uint32_t i = 0; i < ARRAY_SIZE(maps); i++)
		map_entries_remove(&programs->entries, maps[i], is_of_process, process);
	programs->missed++;
}

static void drain_missed(struct gpu_programs *programs)
{
	int fd = bpf_map__fd(programs->programs->maps.gpu_missed_memory_calls);
	struct process_key process;

	for (uint32_t i = 0; i < MISSED_PROCESSES_MAX && !bpf_map_get_next_key(fd, NULL, &process);
	     i++) {
		bpf_map_delete_elem(fd, &process); // first: the next call may be missed right now
		drop_memory(programs, &process);
	}
}

uint64_t gpu_programs_missed(const struct gpu_programs *programs)
{
	return programs->missed;
}

bool gpu_programs_graphs_full(const struct gpu_programs *programs)
{
	return programs->graphs.is_full;
}

static int remove_empty(void *context, const void *key, const void *value)
{
	struct gpu_programs *programs = context;
	const struct gpu_live *live = value;
	int fd = bpf_map__fd(programs->programs->maps.gpu_live);
	struct gpu_owner owner = *(const struct gpu_owner *)key;
	struct gpu_live now;

	if (live->bytes || live->allocations || bpf_map_lookup_and_delete_elem(fd, &owner, &now))
		return 0;
	// It allocated something since it was read.
	if ((now.bytes || now.allocations) && bpf_map_update_elem(fd, &owner, &now, BPF_NOEXIST))
		drop_memory(programs, &owner.process);
	return 0;
}

static bool is_any(void *context, const void *key, const void *value)
{
	(void)context, (void)key, (void)value;
	return true;
}

// Of all processes.
static void clear(struct gpu_programs *programs, const struct bpf_map *map)
{
	map_entries_remove(&programs->entries, map, is_any, NULL);
}

void gpu_programs_set_memory_known(struct gpu_programs *programs, bool is_known)
{
	const struct gpu_bpf *all = programs->programs;

	programs->is_memory_unknown = !is_known;
	clear(programs, all->maps.gpu_mappings);
	clear(programs, all->maps.gpu_allocations);
	clear(programs, all->maps.gpu_live);
	clear(programs, all->maps.gpu_ranges);
}

int gpu_programs_after_drain(struct gpu_programs *programs, struct process_table *processes,
			     struct export_interval *interval)
{
	const struct gpu_bpf *all = programs->programs;
	struct drain drain = {
		.programs = programs,
		.processes = processes,
		.interval = interval,
		.first_second = programs->exported_second + 1,
		.second_end = clock_realtime_ns() / NS_PER_SECOND,
		.now_ns = clock_monotonic_ns(),
	};

	if (drain.second_end > drain.first_second + SECONDS_MAX)
		drain.first_second = drain.second_end - SECONDS_MAX;
	drain_missed(programs);
	int rc = programs->is_memory_unknown
			 ? 0
			 : map_entries_each(&programs->entries, all->maps.gpu_live, export_owner,
					    &drain);
	if (drain.second_end)
		programs->exported_second = drain.second_end - 1;
	if (!rc)
		rc = map_entries_each(&programs->entries, all->maps.gpu_graphs, use_stack, &drain);
	const struct gpu_graph_maps graphs = {
		.graphs = all->maps.gpu_graphs,
		.launches = all->maps.gpu_graph_launches,
		.gpu_kernels = all->maps.gpu_graph_kernels,
		.parts = all->maps.gpu_graph_parts,
	};
	if (!rc)
		rc = gpu_graphs_export(&programs->graphs, &programs->entries, &graphs, interval,
				       drain.now_ns);
	if (!rc)
		rc = gpu_idle_time_add(&programs->idle_time, bpf_map__fd(all->maps.gpu_idle),
				       interval);
	if (++programs->intervals < INTERVALS_PER_SWEEP)
		return rc;
	programs->intervals = 0;
	sweep_ended(&drain);
	if (drain.owners > OWNERS_MANY)
		map_entries_each(&programs->entries, all->maps.gpu_live, remove_empty, programs);
	map_entries_remove(&programs->entries, all->maps.gpu_functions, is_unloaded, programs);
	map_entries_remove(&programs->entries, graphs.gpu_kernels, is_captured_of_ended, &drain);
	if (!rc)
		rc = gpu_graphs_sweep(&programs->graphs, &programs->entries, &graphs);
	if (!rc)
		rc = gpu_names_sweep(&programs->names, &programs->entries, all->maps.gpu_functions,
				     all->maps.gpu_names);
	return rc;
}
