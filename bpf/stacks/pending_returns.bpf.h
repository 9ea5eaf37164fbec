/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Return addresses that uretprobes have replaced on the stack. The kernel keeps the original ones, and the
// unwinder uses those.
#pragma once

#include "bpf/kernel.h"
#include "bpf/unwind/unwind.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

/* kernel/events/uprobes.c: a probed function that has yet to return, innermost first. */
struct return_instance {
	unsigned long stack; // address of the return address; on aarch64 sp at the function's entry
	unsigned long orig_ret_vaddr;
	struct return_instance *next;
};

struct uprobe_task {
	struct return_instance *return_instances;
};

struct task_struct___probed {
	struct uprobe_task *utask; // NULL: never probed
};

#pragma clang attribute pop

/* Of the current thread, the only one that changes the list. */
static __always_inline void note_pending_returns(struct unwind *unwind, struct task_struct *task)
{
	const struct task_struct___probed *probed = (void *)task;
	const struct return_instance *instance;
	__u32 count = 0;

	unwind->pending_count = 0;
	if (!bpf_core_field_exists(probed->utask) || !probed->utask)
		return;
	instance = probed->utask->return_instances;
	for (; instance && count < PENDING_RETURNS_MAX; count++) {
		unwind->pending[count].address_at = instance->stack;
		unwind->pending[count].address = instance->orig_ret_vaddr;
		instance = instance->next;
	}
	unwind->pending_count = count;
}
