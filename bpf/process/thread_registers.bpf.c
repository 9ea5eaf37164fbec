// SPDX-License-Identifier: GPL-2.0-only
// Lists the registers that each thread of a process entered the kernel with, without stopping it. Those of a
// blocked thread are current; those of a running one are from its last kernel entry.

#include "bpf/kernel.h"
#include "bpf/process/saved_registers.h"

#include <bpf/bpf_tracing.h>

char LICENSE[] SEC("license") = "GPL";

SEC("iter/task")
int list_thread_registers(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct saved_registers saved;

	if (!task || task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER))
		return 0;
	if (bpf_probe_read_kernel(saved.words, sizeof(saved.words),
				  (const void *)bpf_task_pt_regs(task)))
		return 0;
#if defined(__TARGET_ARCH_x86)
	saved.thread_pointer = task->thread.fsbase;
#else
	saved.thread_pointer = task->thread.uw.tp_value;
#endif
	bpf_seq_write(ctx->meta->seq, &saved, sizeof(saved));
	return 0;
}
