/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// This CPU's per-CPU offset, to read the kernel's per-CPU counters. The kernel's own table of offsets is
// not a symbol that BPF programs may use on every kernel. A per-CPU map of ours shows the same offset: the
// kernel holds its base pointer, and a lookup returns this CPU's address.
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

/* What every per-CPU array map is inside (include/linux/bpf.h). */
struct bpf_array {
	void *pptrs[1]; // per-CPU base pointer of each element
};

#pragma clang attribute pop

/* Added to a per-CPU base pointer it gives this CPU's address; 0: unknown. */
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
	// Through memory: the verifier lets a number be subtracted, not a pointer.
	*(volatile __u64 *)&offset->own_place = (__u64)offset;
	if (of_no_cpu)
		offset->value = *(volatile __u64 *)&offset->own_place - of_no_cpu;
	return offset->value;
}
