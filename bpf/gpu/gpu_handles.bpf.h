/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Names of GPU kernels by their driver handles.
#pragma once

#include "bpf/gpu/gpu_stack.bpf.h"

#define GPU_FUNCTIONS_MAX 65536 // handles of all processes
#define GPU_NAMES_MAX     16384 // some 560 bytes each: 9 MB when full
#define GPU_MODULES_MAX   16384 // handles of unloaded modules, of all processes

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_FUNCTIONS_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_key);
	__type(value, struct gpu_function);
} gpu_functions SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_NAMES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u64);
	__type(value, struct gpu_name);
} gpu_names SEC(".maps");

/* How often a module handle was unloaded: a function looked up before that is stale. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GPU_MODULES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct gpu_key);
	__type(value, __u64);
} gpu_modules SEC(".maps");

/* ---- functions -------------------------------------------------------------------------------- */

#define GPU_NAME_WORDS (GPU_NAME_BYTES / 8)

struct name_hash {
	struct gpu_name *name;
	__u64 hash;
};

/* As FNV-1a, but a word at a time, with the high bits folded down. */
static long hash_name_word(__u32 index, struct name_hash *walk)
{
	__u64 word;

	if (index >= GPU_NAME_WORDS)
		return 1;
	word = *(__u64 *)&walk->name->text[index * 8];
	walk->hash = (walk->hash ^ word) * 0x100000001b3ULL;
	walk->hash ^= walk->hash >> 29;
	return word >> 56 == 0; // a zero in the last byte: the string ends in this word
}

static long clear_name_word(__u32 index, struct name_hash *walk)
{
	if (index >= GPU_NAME_WORDS)
		return 1;
	*(__u64 *)&walk->name->text[index * 8] = 0;
	return 0;
}

static __always_inline __u64 unloads_of_module(const struct process_key *process, __u64 module)
{
	struct gpu_key key = { *process, module, GPU_HANDLE_MODULE };
	const __u64 *unloads = bpf_map_lookup_elem(&gpu_modules, &key);

	return unloads ? *unloads : 0;
}

static __always_inline void unload_module(const struct process_key *process, __u64 module)
{
	struct gpu_key key = { *process, module, GPU_HANDLE_MODULE };
	__u64 unloads = unloads_of_module(process, module) + 1;

	if (bpf_map_update_elem(&gpu_modules, &key, &unloads, BPF_ANY))
		count(COUNTER_GPU_MAPS_FULL);
}

/* A handle of the function of @module whose name is at @address in the process. */
static __always_inline void name_function(struct gpu_work *work, __u64 handle, __u64 module,
					  __u64 address)
{
	struct gpu_key key = { work->key.process, handle, GPU_HANDLE_FUNCTION };
	struct gpu_function function = { .module = module };
	struct name_hash walk = { .name = &work->name, .hash = 0xcbf29ce484222325ULL };

	bpf_loop(GPU_NAME_WORDS, clear_name_word, &walk, 0);
	if (!handle || bpf_probe_read_user_str(work->name.text, sizeof(work->name.text),
					       (const void *)address) <= 1)
		return;
	bpf_loop(GPU_NAME_WORDS, hash_name_word, &walk, 0);
	function.name = walk.hash;
	function.unloads = unloads_of_module(&work->key.process, module);
	if (bpf_map_update_elem(&gpu_names, &walk.hash, &work->name, BPF_ANY) ||
	    bpf_map_update_elem(&gpu_functions, &key, &function, BPF_ANY))
		count(COUNTER_GPU_MAPS_FULL);
}

/* NULL: unknown, or its module was unloaded. */
static __always_inline const struct gpu_function *find_function(const struct process_key *process,
								__u64 handle)
{
	struct gpu_key key = { *process, handle, GPU_HANDLE_FUNCTION };
	const struct gpu_function *function = bpf_map_lookup_elem(&gpu_functions, &key);

	return function && function->unloads == unloads_of_module(process, function->module)
		       ? function
		       : NULL;
}

/* @handle is another handle of the function of @other. */
static __always_inline void name_function_as(const struct process_key *process, __u64 handle,
					     __u64 other)
{
	const struct gpu_function *known = find_function(process, other);
	struct gpu_key key = { *process, handle, GPU_HANDLE_FUNCTION };
	struct gpu_function copy;

	if (!known) {
		bpf_map_delete_elem(&gpu_functions, &key); // what had this handle before
		return;
	}
	copy = *known;
	if (bpf_map_update_elem(&gpu_functions, &key, &copy, BPF_ANY))
		count(COUNTER_GPU_MAPS_FULL);
}

static __always_inline struct raw_frame frame_of_function(const struct process_key *process,
							  __u64 handle)
{
	const struct gpu_function *function = find_function(process, handle);

	return (struct raw_frame){
		.address = function ? function->name : handle,
		.tag = FRAME_TAG_GPU,
		.detail = !function,
	};
}
