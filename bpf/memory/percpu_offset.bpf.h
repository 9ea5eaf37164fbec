/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Where this CPU's variables lie, for what the kernel keeps by CPU and hands out as an address in the
// area of no CPU. The kernel's own table of offsets is no symbol that a program may use on every
// kernel; a per-CPU map of ours shows both sides of the sum.
#pragma once

#include "bpf/kernel.h"

#define ARRAY_BYTES_MAX 1024 // struct bpf_array has some 300

struct percpu_offset {
	__u64 value;     // 0: not known yet
	__u64 own_place; // of this element
	__u8 array[ARRAY_BYTES_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct percpu_offset);
} percpu_offsets SEC(".maps");

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* Behind every map of this kind (include/linux/bpf.h). */
struct bpf_array {
	void *pptrs[1]; // of each element, the address in the area of no CPU
};

#pragma clang attribute pop

/* To be added to such an address; 0 if it cannot be had. */
static __always_inline __u64 percpu_offset(void)
{
	const __u32 at = bpf_core_field_offset(struct bpf_array, pptrs);
	__u64 of_no_cpu = 0;
	__u32 zero = 0;
	struct percpu_offset *offset = bpf_map_lookup_elem(&percpu_offsets, &zero);

	if (!offset)
		return 0;
	if (offset->value)
		return offset->value;
	if (at > sizeof(offset->array) - sizeof(of_no_cpu) ||
	    bpf_probe_read_kernel(offset->array, at + sizeof(of_no_cpu), &percpu_offsets))
		return 0;
	bpf_probe_read_kernel(&of_no_cpu, sizeof(of_no_cpu), offset->array + at);
	// By way of memory: what is read from there is a number, which may be calculated with.
	*(volatile __u64 *)&offset->own_place = (__u64)offset;
	if (of_no_cpu)
		offset->value = *(volatile __u64 *)&offset->own_place - of_no_cpu;
	return offset->value;
}
