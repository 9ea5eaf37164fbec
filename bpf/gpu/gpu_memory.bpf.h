/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// GPU memory: what is in use, by the stack that allocated it, and which ranges are pinned host memory or device memory, which
// gives copies their direction and kind.
#pragma once

#include "bpf/gpu/gpu_arguments.bpf.h"
#include "bpf/gpu/gpu_call.h"
#include "bpf/maps.bpf.h"

/* An allocation takes some 200 bytes: 13 MB when full. Caching allocators have some hundreds. */
#define GPU_ALLOCATIONS_MAX 65536
#define GPU_OWNERS_MAX      16384 // stacks with memory in use
#define GPU_RANGES          256   // of a process and kind; caching allocators have tens
#define GPU_RANGE_SETS_MAX  512   // two per process; 4 KiB each

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_ALLOCATIONS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_key);
	__type(value, struct gpu_allocation);
} gpu_allocations SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_OWNERS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_owner);
	__type(value, struct gpu_live);
} gpu_live SEC(".maps");

/* ---- missed calls ------------------------------------------------------------------------------ */

#define GPU_MISSED_MAX 512 // processes; the agent drains them after each export interval

/* Processes with a missed call that allocates or frees: their sums are wrong. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, GPU_MISSED_MAX);
	__type(key, struct process_key);
	__type(value, __u64); // calls
} gpu_missed_memory_calls SEC(".maps");

/* A call of the current process was missed. Finds the process itself: see capture_gpu_stack(). */
__attribute__((noinline)) int note_missed_memory_call(__u32 call)
{
	struct process_key process = gpu_current_process();
	__u64 one = 1;

	if (call >= GPU_CALL_MEMORY_FIRST && call <= GPU_CALL_MEMORY_LAST)
		bpf_map_update_elem(&gpu_missed_memory_calls, &process, &one, BPF_ANY);
	return 0;
}

/* ---- memory in use ---------------------------------------------------------------------------- */

static __always_inline void add_live(const struct gpu_owner *owner, __s64 bytes, __s64 allocations)
{
	struct gpu_live *live = bpf_map_lookup_elem(&gpu_live, owner);
	struct gpu_live none = {};

	if (!live) {
		bpf_map_update_elem(&gpu_live, owner, &none, BPF_NOEXIST);
		live = bpf_map_lookup_elem(&gpu_live, owner);
	}
	if (!live) {
		count(COUNTER_GPU_MAPS_FULL);
		note_missed_memory_call(GPU_CALL_ALLOC);
		return;
	}
	__sync_fetch_and_add(&live->bytes, bytes);
	__sync_fetch_and_add(&live->allocations, allocations);
}

static __always_inline void remove_allocation(const struct gpu_key *key,
					      const struct gpu_allocation *allocation)
{
	add_live(&allocation->owner, -(__s64)allocation->bytes, -1);
	bpf_map_delete_elem(&gpu_allocations, key);
}

/* @allocation's owner is set. */
static __always_inline void add_allocation(const struct gpu_key *key,
					   const struct gpu_allocation *allocation)
{
	const struct gpu_allocation *before = bpf_map_lookup_elem(&gpu_allocations, key);

	if (before) // its free was not seen
		remove_allocation(key, before);
	if (bpf_map_update_elem(&gpu_allocations, key, allocation, BPF_ANY)) {
		count(COUNTER_GPU_MAPS_FULL);
		note_missed_memory_call(GPU_CALL_ALLOC);
	} else {
		add_live(&allocation->owner, allocation->bytes, 1);
	}
}

static __always_inline void free_allocation(const struct gpu_key *key)
{
	const struct gpu_allocation *allocation = bpf_map_lookup_elem(&gpu_allocations, key);

	if (allocation)
		remove_allocation(key, allocation);
	else if (key->handle)
		count(COUNTER_GPU_UNKNOWN_FREES);
}

/* ---- physical memory and its mappings --------------------------------------------------------- */

struct gpu_mapping {
	__u64 handle; // of physical memory
	__u64 bytes;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_ALLOCATIONS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_key);
	__type(value, struct gpu_mapping);
} gpu_mappings SEC(".maps");

static __always_inline void map_physical(const struct process_key *process, __u64 address,
					 __u64 bytes, __u64 handle)
{
	struct gpu_key key = { *process, handle, GPU_HANDLE_PHYSICAL };
	struct gpu_key place = { *process, address, GPU_HANDLE_MAPPING };
	struct gpu_allocation *allocation = bpf_map_lookup_elem(&gpu_allocations, &key);
	struct gpu_mapping mapping = { handle, bytes };

	if (bpf_map_update_elem(&gpu_mappings, &place, &mapping, BPF_ANY)) {
		count(COUNTER_GPU_MAPS_FULL);
		note_missed_memory_call(GPU_CALL_MEM_MAP);
	} else if (allocation) {
		__sync_fetch_and_add(&allocation->mappings, 1);
	}
}

static __always_inline void release_physical(const struct process_key *process, __u64 handle)
{
	struct gpu_key key = { *process, handle, GPU_HANDLE_PHYSICAL };
	struct gpu_allocation *allocation = bpf_map_lookup_elem(&gpu_allocations, &key);

	if (!allocation) {
		count(COUNTER_GPU_UNKNOWN_FREES);
		return;
	}
	allocation->released = 1;
	if (!allocation->mappings)
		remove_allocation(&key, allocation);
}

/* ---- ranges ----------------------------------------------------------------------------------- */

enum gpu_range_kind {
	GPU_RANGE_HOST = 1, // pinned host memory
	GPU_RANGE_DEVICE = 2,
};

struct gpu_range_key {
	struct process_key process;
	__u64 kind; // enum gpu_range_kind
};

struct gpu_range {
	__u64 start; // 0: unused
	__u64 bytes;
};

struct gpu_ranges {
	__u64 is_complete; // the process was seen from its cuInit() on, and no range was dropped
	struct gpu_range at[GPU_RANGES];
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_RANGE_SETS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_range_key);
	__type(value, struct gpu_ranges);
} gpu_ranges SEC(".maps");

/* The initial ranges of a process: all zero, and too large for a program's stack. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct gpu_ranges);
} gpu_ranges_initial SEC(".maps");

static __always_inline struct gpu_ranges *find_ranges(const struct process_key *process, __u64 kind)
{
	struct gpu_range_key key = { *process, kind };

	return bpf_map_lookup_elem(&gpu_ranges, &key);
}

static __always_inline struct gpu_ranges *make_ranges(const struct process_key *process, __u64 kind)
{
	struct gpu_range_key key = { *process, kind };
	struct gpu_ranges *ranges = bpf_map_lookup_elem(&gpu_ranges, &key), *none;
	__u32 zero = 0;

	if (ranges)
		return ranges;
	none = bpf_map_lookup_elem(&gpu_ranges_initial, &zero);
	if (!none)
		return NULL;
	bpf_map_update_elem(&gpu_ranges, &key, none, BPF_NOEXIST);
	ranges = bpf_map_lookup_elem(&gpu_ranges, &key);
	if (!ranges)
		count(COUNTER_GPU_MAPS_FULL);
	return ranges;
}

struct range_search {
	struct gpu_ranges *ranges;
	__u64 address;
	__u64 bytes;
	__u64 is_found;
};

/* Threads of one process may run this at the same time: the exchange claims the place. */
static long put_range(__u32 index, struct range_search *search)
{
	struct gpu_range *range;

	if (index >= GPU_RANGES)
		return 1;
	range = &search->ranges->at[index];
	if (range->start || __sync_val_compare_and_swap(&range->start, 0, search->address))
		return 0;
	range->bytes = search->bytes;
	search->is_found = 1;
	return 1;
}

static long clear_range(__u32 index, struct range_search *search)
{
	struct gpu_range *range;

	if (index >= GPU_RANGES)
		return 1;
	range = &search->ranges->at[index];
	if (range->start != search->address)
		return 0;
	range->bytes = 0;
	range->start = 0;
	return 1;
}

static long find_range(__u32 index, struct range_search *search)
{
	const struct gpu_range *range;

	if (index >= GPU_RANGES)
		return 1;
	range = &search->ranges->at[index];
	search->is_found = range->start && search->address - range->start < range->bytes;
	return search->is_found;
}

static __always_inline void add_range(const struct process_key *process, __u64 kind, __u64 address,
				      __u64 bytes)
{
	struct range_search search = { .address = address, .bytes = bytes };

	search.ranges = make_ranges(process, kind);
	if (!search.ranges || !address)
		return;
	bpf_loop(GPU_RANGES, put_range, &search, 0);
	if (search.is_found)
		return;
	search.ranges->is_complete = 0;
	count(COUNTER_GPU_MAPS_FULL);
}

static __always_inline void remove_range(const struct process_key *process, __u64 kind,
					 __u64 address)
{
	struct range_search search = { .address = address };

	search.ranges = find_ranges(process, kind);
	if (search.ranges && address)
		bpf_loop(GPU_RANGES, clear_range, &search, 0);
}

/* ---- unmapping --------------------------------------------------------------------------------- */

#define GPU_UNMAPPED_MAX \
	1024 // mappings in one call; a caching allocator maps 2 to 20 MiB at a time

struct gpu_unmapping {
	struct process_key process;
	__u64 address, end; // the rest of the range
};

/* Returns the bytes that were mapped there; 0: no mapping is known. */
static __always_inline __u64 drop_mapping(const struct process_key *process, __u64 address)
{
	struct gpu_key key = { *process, address, GPU_HANDLE_MAPPING };
	struct gpu_mapping *mapping = bpf_map_lookup_elem(&gpu_mappings, &key);
	struct gpu_allocation *allocation;
	__u64 bytes, handle;

	if (!mapping)
		return 0;
	bytes = mapping->bytes;
	handle = mapping->handle;
	bpf_map_delete_elem(&gpu_mappings, &key);
	key.handle = handle;
	key.kind = GPU_HANDLE_PHYSICAL;
	allocation = bpf_map_lookup_elem(&gpu_allocations, &key);
	if (!allocation)
		return bytes;
	__sync_fetch_and_add(&allocation->mappings, -1);
	if (allocation->released && !allocation->mappings)
		remove_allocation(&key, allocation);
	return bytes;
}

static long unmap_piece(__u32 index, struct gpu_unmapping *unmapping)
{
	__u64 bytes = drop_mapping(&unmapping->process, unmapping->address);

	remove_range(&unmapping->process, GPU_RANGE_DEVICE, unmapping->address);
	unmapping->address += bytes;
	return !bytes || unmapping->address >= unmapping->end;
}

/* One call may unmap several adjacent mappings. */
static __always_inline void unmap_physical(const struct process_key *process, __u64 address,
					   __u64 bytes)
{
	struct gpu_unmapping unmapping = { *process, address, address + bytes };

	bpf_loop(GPU_UNMAPPED_MAX, unmap_piece, &unmapping, 0);
}

enum range_answer { RANGE_UNKNOWN, RANGE_YES, RANGE_NO };

static __always_inline enum range_answer is_in_range(const struct process_key *process, __u64 kind,
						     __u64 address)
{
	struct range_search search = { .address = address };

	search.ranges = find_ranges(process, kind);
	if (!search.ranges)
		return RANGE_UNKNOWN;
	bpf_loop(GPU_RANGES, find_range, &search, 0);
	if (search.is_found)
		return RANGE_YES;
	return search.ranges->is_complete ? RANGE_NO : RANGE_UNKNOWN;
}

/* When probes were last attached to a file, in CLOCK_BOOTTIME: processes that start later are seen from their beginning. */
__u64 gpu_attached_ns = ~0ULL;

static __always_inline bool is_watched(const struct process_key *process)
{
	return process->start_ns > *(const volatile __u64 *)&gpu_attached_ns;
}

/* The process calls cuInit: from here on all of its allocations are seen. */
static __always_inline void begin_ranges(const struct process_key *process)
{
	struct gpu_ranges *host = make_ranges(process, GPU_RANGE_HOST);
	struct gpu_ranges *device = make_ranges(process, GPU_RANGE_DEVICE);

	if (host)
		host->is_complete = 1;
	if (device)
		device->is_complete = 1;
}

/* ---- copies ----------------------------------------------------------------------------------- */

/* @plain: the kind of that direction with unknown memory; those of pinned and of pageable memory follow it. */
static __always_inline __u32 kind_of_host(const struct process_key *process, __u32 plain,
					  __u64 address)
{
	enum range_answer answer = is_in_range(process, GPU_RANGE_HOST, address);

	return plain + (answer == RANGE_YES ? 1 : answer == RANGE_NO ? 2 : 0);
}

/* The direction of a copy, from its two addresses. */
static __always_inline __u32 call_of_addresses(const struct process_key *process, __u64 to,
					       __u64 from)
{
	enum range_answer to_device = is_in_range(process, GPU_RANGE_DEVICE, to);
	enum range_answer from_device = is_in_range(process, GPU_RANGE_DEVICE, from);

	if (to_device == RANGE_YES && from_device == RANGE_YES)
		return GPU_CALL_COPY_DTOD;
	if (to_device == RANGE_YES && from_device == RANGE_NO)
		return GPU_CALL_COPY_HTOD;
	if (to_device == RANGE_NO && from_device == RANGE_YES)
		return GPU_CALL_COPY_DTOH;
	return GPU_CALL_COPY_ANY;
}

/* Returns an enum sample_kind. */
static __always_inline __u32 kind_of_copy(const struct process_key *process,
					  const struct gpu_call_record *record)
{
	__u32 call = record->call;

	if (call == GPU_CALL_COPY_ANY)
		call = call_of_addresses(process, record->to, record->from);
	if (call == GPU_CALL_COPY_HTOD)
		return kind_of_host(process, SAMPLE_KIND_GPU_COPY_HTOD, record->from);
	if (call == GPU_CALL_COPY_DTOH)
		return kind_of_host(process, SAMPLE_KIND_GPU_COPY_DTOH, record->to);
	if (call == GPU_CALL_COPY_DTOD || call == GPU_CALL_COPY_PEER)
		return SAMPLE_KIND_GPU_COPY_DTOD;
	return call == GPU_CALL_MEMSET ? SAMPLE_KIND_GPU_SET : SAMPLE_KIND_GPU_COPY_UNKNOWN;
}

/* An "Async" copy may block, too: the driver stages pageable memory through a buffer of its own. */
static __always_inline bool may_wait(__u32 kind)
{
	return kind == SAMPLE_KIND_GPU_COPY_HTOD || kind == SAMPLE_KIND_GPU_COPY_HTOD_PAGEABLE ||
	       kind == SAMPLE_KIND_GPU_COPY_DTOH || kind == SAMPLE_KIND_GPU_COPY_DTOH_PAGEABLE ||
	       kind == SAMPLE_KIND_GPU_COPY_UNKNOWN;
}
