/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The life of processes: exec, fork and exit, told to the agent's process table. The programs read
// by helpers only, so that the same code serves raw tracepoints where BTF-typed ones are refused.
#pragma once

#include "maps.bpf.h"

/* Nobody waits for these: the agent reads them when it wakes for a stack, or at its next tick. */
static __always_inline int send_process(struct task_struct *task, enum process_event event,
					__u32 parent_pid)
{
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	struct process_record *record =
		bpf_ringbuf_reserve(&records, sizeof(struct process_record), 0);

	if (!record)
		return count(COUNTER_RING_FULL);
	record->kind = RECORD_PROCESS;
	record->event = event;
	record->process.pid = BPF_CORE_READ(task, tgid);
	record->process.exec_id = BPF_CORE_READ(leader, self_exec_id);
	record->process.start_ns = BPF_CORE_READ(leader, start_boottime);
	record->parent_pid = parent_pid;
	record->pad = 0;
	bpf_probe_read_kernel_str(record->name, sizeof(record->name), &leader->comm);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int exec_of(struct task_struct *task)
{
	return send_process(task, PROCESS_EXEC, 0);
}

static __always_inline int fork_of(struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_pid = BPF_CORE_READ(parent, tgid);
	__u32 child_pid = BPF_CORE_READ(child, tgid);
	__u32 yes = 1;

	if (BPF_CORE_READ(child, pid) != child_pid) // a thread
		return 0;
	if (only_followed && bpf_map_lookup_elem(&followed, &parent_pid) &&
	    bpf_map_update_elem(&followed, &child_pid, &yes, BPF_ANY))
		count(COUNTER_FOLLOWED_FULL);
	return send_process(child, PROCESS_FORK, parent_pid);
}

static __always_inline int exit_of(struct task_struct *task)
{
	__u32 pid = BPF_CORE_READ(task, tgid);

	if (BPF_CORE_READ(task, signal, live.counter) > 0) // other threads go on
		return 0;
	if (only_followed)
		bpf_map_delete_elem(&followed, &pid);
	return send_process(task, PROCESS_EXIT, 0);
}

/*
 * The agent loads one set or the other. Arguments, by TP_PROTO of include/trace/events/sched.h:
 *	exec: struct task_struct *p, pid_t old_pid, struct linux_binprm *bprm
 *	fork: struct task_struct *parent, struct task_struct *child
 *	exit: struct task_struct *p, and since 6.16 bool group_dead
 */
SEC("tp_btf/sched_process_exec")
int process_exec(__u64 *ctx)
{
	return exec_of((void *)ctx[0]);
}

SEC("tp_btf/sched_process_fork")
int process_fork(__u64 *ctx)
{
	return fork_of((void *)ctx[0], (void *)ctx[1]);
}

SEC("tp_btf/sched_process_exit")
int process_exit(__u64 *ctx)
{
	return exit_of((void *)ctx[0]);
}

SEC("raw_tp/sched_process_exec")
int process_exec_raw(__u64 *ctx)
{
	return exec_of((void *)ctx[0]);
}

SEC("raw_tp/sched_process_fork")
int process_fork_raw(__u64 *ctx)
{
	return fork_of((void *)ctx[0], (void *)ctx[1]);
}

SEC("raw_tp/sched_process_exit")
int process_exit_raw(__u64 *ctx)
{
	return exit_of((void *)ctx[0]);
}
