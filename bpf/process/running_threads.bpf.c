// SPDX-License-Identifier: GPL-2.0-only
// Lists all threads of user processes with the exact key of their process, which /proc does not show, and their CPU
// time.

#include "bpf/kernel.h"
#include "bpf/process/running_thread.h"

char LICENSE[] SEC("license") = "GPL";

SEC("iter/task")
int list_running_threads(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_struct *leader;
	struct running_thread thread = {};

	if (!task || !task->mm || task->flags & (PF_KTHREAD | PF_IO_WORKER | PF_USER_WORKER))
		return 0;
	leader = task->group_leader;
	thread.process.pid = task->tgid;
	thread.process.exec_id = leader->self_exec_id;
	thread.process.start_ns = leader->start_boottime;
	thread.exec_ns = task->se.sum_exec_runtime;
	bpf_probe_read_kernel_str(thread.name, sizeof(thread.name), leader->comm);
	bpf_seq_write(ctx->meta->seq, &thread, sizeof(thread));
	return 0;
}
