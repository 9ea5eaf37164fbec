// SPDX-License-Identifier: GPL-2.0-only
// Unwinds a snapshot. The agent runs it when the process's tables are loaded: the same unwinder then reads
// the stack as it was.

#include "bpf/kernel.h"
#include "bpf/maps.bpf.h"
#include "bpf/stacks/stack_work.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* The agent runs one at a time. */
struct snapshot {
	struct snapshot_record record;
	struct stack_work work;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct snapshot);
} snapshot SEC(".maps");

/* Only stack memory was copied. Everything else has changed since, interpreter frames included. */
static __always_inline long read_user(void *to, __u32 size, __u64 address)
{
	__u32 zero = 0;
	const struct snapshot *from = bpf_map_lookup_elem(&snapshot, &zero);
	__u64 begin, offset, stack_bytes;

	if (!from)
		return -EFAULT;
	begin = from->record.registers[REGISTER_SP] & ~(__u64)(SNAPSHOT_PAGE_BYTES - 1);
	stack_bytes = (__u64)from->record.page_count * SNAPSHOT_PAGE_BYTES;
	offset = address - begin;
	if (stack_bytes > sizeof(from->record.stack) || size > stack_bytes ||
	    offset > stack_bytes - size)
		return -EFAULT;
	HIDE_FROM_COMPILER(offset); // keep the bound: older verifiers need it
	if (offset > sizeof(from->record.stack) - size)
		return -EFAULT;
	return bpf_probe_read_kernel(to, size, from->record.stack + offset);
}

static __always_inline void restore_registers(struct unwind *unwind,
					      const struct snapshot_record *record)
{
	unwind->pc = record->pc;
	unwind->exact_pc = record->exact_pc != 0;
	unwind->thread_pointer = record->thread_pointer;
	unwind->pending_count = 0; // unknown by now: a uretprobe's return address ends the stack
	__builtin_memcpy(unwind->registers, record->registers, sizeof(unwind->registers));
}

SEC("raw_tp")
int unwind_snapshot(void *ctx)
{
	__u32 zero = 0;
	struct snapshot *snap = bpf_map_lookup_elem(&snapshot, &zero);
	struct count_key key;

	if (!snap)
		return 0;
	key = snap->record.key;
	find_unwind_process(&snap->work.unwind, &key.process);
	restore_registers(&snap->work.unwind, &snap->record);
	unwind_user_stack(&snap->work, true);
	record_user_stack(&snap->work, bpf_ktime_get_ns(), snap->record.process_name, &key);
	return add_count(&key, snap->record.count.value, snap->record.count.samples);
}
