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
#include "base/cleanup.h"
#include "base/clock.h"
#include "bpf/shared_variables.h"
#include "gpu.skel.h"

enum {
	SECONDS_TOLD_MAX = 120, // of live memory in one window: no more are told after a long pause
	// Ended processes are looked for among what is kept once in so many windows.
	WINDOWS_PER_SWEEP = 6,
	// Stacks that have allocated memory, in the kernel's map: with more, those that have none left are let go.
	OWNERS_MANY = 8192,
	PROCESSES_TAKEN =
		512, // of which calls were missed, in a window: as many as the kernel keeps
};

struct gpu_programs {
	struct gpu_bpf *programs;
	struct gpu_name name; // that was asked for last
	uint64_t told_second; // the last one that a window has, of Unix time
	uint32_t windows;     // since ended processes were looked for
	struct gpu_idle_time idle_time;
	bool tells_no_memory; // calls that allocate or free are missed
	uint64_t missed;      // processes whose memory was forgotten because a call was missed
	struct gpu_names names;
	struct gpu_graphs graphs;
	uint64_t captures_seen; // times that probes of captured launches were attached
	struct map_entries entries;
	uint64_t *hits; // of a kind of call, on each possible CPU
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
	programs->told_second = clock_realtime_ns() / NS_PER_SECOND;
	programs->cpu_count = libbpf_num_possible_cpus();
	if (programs->cpu_count > 0)
		programs->hits = calloc(programs->cpu_count, sizeof(*programs->hits));
	int rc = programs->hits
			 ? map_entries_init(&programs->entries,
					    sizeof(struct gpu_graph_kernel)) // the longest key
			 : -ENOMEM;
	if (!rc)
		rc = load(programs, loader, options);
	if (rc) {
		gpu_programs_close(programs);
		return error_errno(err, rc,
				   "the programs of GPU drivers' calls were refused by the kernel");
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
			  struct gpu_probe_programs *ret_programs)
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

void gpu_programs_set_window(void *context, const struct gpu_window *interval)
{
	struct gpu_programs *programs = context;
	struct gpu_window *to = (struct gpu_window *)&programs->programs->bss->gpu_window;

	// Closed while it is written: what comes meanwhile is in none.
	__atomic_store_n(&to->end_ns, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->begin_ns, interval->begin_ns, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->weight, interval->weight, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->sees_all, interval->sees_all, __ATOMIC_SEQ_CST);
	__atomic_store_n(&to->end_ns, interval->end_ns, __ATOMIC_SEQ_CST);
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

// ---- reading what is kept -------------------------------------------------------------------

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

// ---- live memory ----------------------------------------------------------------------------

struct telling {
	struct gpu_programs *programs;
	struct process_table *processes;
	struct export_interval *interval;
	uint64_t first_second, second_end; // of Unix time
	uint64_t now_ns;
	struct process_key asked; // who was asked for last, and the answer: /proc may have to say
	bool has_asked_ended;
	uint32_t owners; // of live memory
};

static bool has_ended(struct telling *telling, const struct process_key *key)
{
	if (memcmp(&telling->asked, key, sizeof(*key)) != 0) {
		telling->asked = *key;
		telling->has_asked_ended = process_table_has_ended(telling->processes, key);
	}
	return telling->has_asked_ended;
}

static int tell_owner(void *context, const void *key, const void *value)
{
	struct telling *telling = context;
	const struct gpu_owner *owner = key;
	const struct gpu_live *live = value;
	uint64_t slot_ns = telling->interval->profile->slot_ns;
	struct count_key counted = {
		.process = owner->process,
		.user = owner->user,
		.user_leaf = owner->leaf,
		.kind = SAMPLE_KIND_GPU_MEMORY,
	};
	struct count count = { .value = live->bytes, .samples = live->allocations };
	int rc = 0;

	telling->owners++;
	if ((int64_t)live->bytes <= 0 || has_ended(telling, &owner->process))
		return 0;
	memcpy(counted.thread_name, owner->thread_name, sizeof(counted.thread_name));
	for (uint64_t second = telling->first_second; second < telling->second_end && !rc;
	     second++) {
		counted.slot = second * NS_PER_SECOND / slot_ns;
		rc = export_interval_add(telling->interval, &counted, &count, telling->now_ns);
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

// ---- launches that were told of ---------------------------------------------------------------

struct taking {
	const struct process_key *process;
	struct gpu_told *told;
	uint32_t count, capacity;
};

static int take_told(void *context, const void *key, const void *value)
{
	struct taking *taking = context;
	const struct gpu_key *of = key;

	if (memcmp(&of->process, taking->process, sizeof(of->process)) != 0)
		return 0;
	if (taking->count == taking->capacity) {
		uint32_t capacity = taking->capacity ? taking->capacity * 2 : 1024;
		void *told = reallocarray(taking->told, capacity, sizeof(*taking->told));

		if (!told)
			return -ENOMEM;
		taking->told = told;
		taking->capacity = capacity;
	}
	taking->told[taking->count].number = (uint32_t)of->handle;
	memcpy(&taking->told[taking->count++].launch, value, sizeof(taking->told->launch));
	return 0;
}

static int by_number(const void *a, const void *b)
{
	uint32_t x = ((const struct gpu_told *)a)->number, y = ((const struct gpu_told *)b)->number;

	return (x > y) - (x < y);
}

int gpu_programs_take_told(struct gpu_programs *programs, const struct process_key *process,
			   struct gpu_told **ret_told, uint32_t *ret_count)
{
	const struct bpf_map *map = programs->programs->maps.gpu_told_launches;
	struct taking taking = { .process = process };
	int rc = map_entries_each(&programs->entries, map, take_told, &taking);

	for (uint32_t i = 0; i < taking.count; i++) {
		struct gpu_key key = { *process, taking.told[i].number, GPU_HANDLE_TOLD };

		bpf_map_delete_elem(bpf_map__fd(map), &key);
	}
	if (rc) {
		free(taking.told);
		return rc;
	}
	if (taking.count)
		qsort(taking.told, taking.count, sizeof(*taking.told), by_number);
	*ret_told = taking.told;
	*ret_count = taking.count;
	return 0;
}

// As the kernel programs do (bpf/gpu/gpu_handles.bpf.h), so that a kernel is the same to both.
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
	// Refused where there is no room: it is shown as a number then.
	bpf_map_update_elem(bpf_map__fd(programs->programs->maps.gpu_names), &hash, &known,
			    BPF_ANY);
	return (struct raw_frame){ .address = hash, .tag = FRAME_TAG_GPU };
}

// ---- stacks that are kept ---------------------------------------------------------------------

// Its stack must not be forgotten while the graph may be launched.
static int use_stack(void *context, const void *key, const void *value)
{
	const struct telling *telling = context;
	const struct gpu_graph *graph = value;

	(void)key;
	stack_table_find(telling->interval->sources.stacks, &graph->owner.user, telling->now_ns);
	return 0;
}

// ---- letting go -----------------------------------------------------------------------------

// All keys begin with the process.
static bool is_of_ended(void *context, const void *key, const void *value)
{
	(void)value;
	return has_ended(context, key);
}

// A capture that never ended.
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

static void sweep_ended(struct telling *telling)
{
	const struct gpu_bpf *all = telling->programs->programs;
	const struct bpf_map *const maps[] = {
		all->maps.gpu_allocations,    all->maps.gpu_mappings, all->maps.gpu_live,
		all->maps.gpu_functions,      all->maps.gpu_modules,  all->maps.gpu_graphs,
		all->maps.gpu_captures,       all->maps.gpu_events,   all->maps.gpu_ranges,
		all->maps.nccl_communicators, all->maps.gpu_idle,
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(maps); i++)
		map_entries_remove(&telling->programs->entries, maps[i], is_of_ended, telling);
}

// Of a module that was unloaded since.
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

// What is known of a process's memory is wrong: it is as if nobody had looked until now.
static void forget_memory(struct gpu_programs *programs, struct process_key *process)
{
	const struct gpu_bpf *all = programs->programs;
	const struct bpf_map *const maps[] = { all->maps.gpu_mappings, all->maps.gpu_allocations,
					       all->maps.gpu_live, all->maps.gpu_ranges };

	for (uint32_t i = 0; i < ARRAY_SIZE(maps); i++)
		map_entries_remove(&programs->entries, maps[i], is_of_process, process);
	programs->missed++;
}

static void take_missed(struct gpu_programs *programs)
{
	int fd = bpf_map__fd(programs->programs->maps.gpu_missed);
	struct process_key process;

	for (uint32_t i = 0; i < PROCESSES_TAKEN && !bpf_map_get_next_key(fd, NULL, &process);
	     i++) {
		bpf_map_delete_elem(fd, &process); // first: it may be missed again
		forget_memory(programs, &process);
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

static int take_empty(void *context, const void *key, const void *value)
{
	struct gpu_programs *programs = context;
	const struct gpu_live *live = value;
	int fd = bpf_map__fd(programs->programs->maps.gpu_live);
	struct gpu_owner owner = *(const struct gpu_owner *)key;
	struct gpu_live now;

	if (live->bytes || live->allocations || bpf_map_lookup_and_delete_elem(fd, &owner, &now))
		return 0;
	// It has allocated something since it was read.
	if ((now.bytes || now.allocations) && bpf_map_update_elem(fd, &owner, &now, BPF_NOEXIST))
		forget_memory(programs, &owner.process);
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

	programs->tells_no_memory = !is_known;
	clear(programs, all->maps.gpu_mappings);
	clear(programs, all->maps.gpu_allocations);
	clear(programs, all->maps.gpu_live);
	clear(programs, all->maps.gpu_ranges);
}

int gpu_programs_after_drain(struct gpu_programs *programs, struct process_table *processes,
			     struct export_interval *interval)
{
	const struct gpu_bpf *all = programs->programs;
	struct telling telling = {
		.programs = programs,
		.processes = processes,
		.interval = interval,
		.first_second = programs->told_second + 1,
		.second_end = clock_realtime_ns() / NS_PER_SECOND,
		.now_ns = clock_monotonic_ns(),
	};

	if (telling.second_end > telling.first_second + SECONDS_TOLD_MAX)
		telling.first_second = telling.second_end - SECONDS_TOLD_MAX;
	take_missed(programs);
	int rc = programs->tells_no_memory
			 ? 0
			 : map_entries_each(&programs->entries, all->maps.gpu_live, tell_owner,
					    &telling);
	if (telling.second_end)
		programs->told_second = telling.second_end - 1;
	if (!rc)
		rc = map_entries_each(&programs->entries, all->maps.gpu_graphs, use_stack,
				      &telling);
	const struct gpu_graph_maps graphs = {
		.graphs = all->maps.gpu_graphs,
		.launches = all->maps.gpu_graph_launches,
		.kernels = all->maps.gpu_graph_kernels,
		.parts = all->maps.gpu_graph_parts,
	};
	if (!rc)
		rc = gpu_graphs_tell(&programs->graphs, &programs->entries, &graphs, interval,
				     telling.now_ns);
	if (!rc)
		rc = gpu_idle_time_add(&programs->idle_time, bpf_map__fd(all->maps.gpu_idle),
				       interval);
	if (++programs->windows < WINDOWS_PER_SWEEP)
		return rc;
	programs->windows = 0;
	sweep_ended(&telling);
	if (telling.owners > OWNERS_MANY)
		map_entries_each(&programs->entries, all->maps.gpu_live, take_empty, programs);
	map_entries_remove(&programs->entries, all->maps.gpu_functions, is_unloaded, programs);
	map_entries_remove(&programs->entries, graphs.kernels, is_captured_of_ended, &telling);
	if (!rc)
		rc = gpu_graphs_sweep(&programs->graphs, &programs->entries, &graphs);
	if (!rc)
		rc = gpu_names_sweep(&programs->names, &programs->entries, all->maps.gpu_functions,
				     all->maps.gpu_names);
	return rc;
}
