/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Exec, fork and exit, reported to the agent's process table. Fields are read by helpers only, so that the
// same code runs on raw tracepoints where BTF-typed ones are refused.
#pragma once

#include "bpf/process/published_process.bpf.h"
#include "bpf/maps.bpf.h"

static __always_inline void read_process_key(struct task_struct *task, struct process_key *key)
{
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);

	key->pid = BPF_CORE_READ(task, tgid);
	key->exec_id = BPF_CORE_READ(leader, self_exec_id);
	key->start_ns = BPF_CORE_READ(leader, start_boottime);
}

/* No wake-up: the agent reads these when a stack wakes it, or at its next poll. */
static __always_inline int send_process(struct task_struct *task, enum process_event event,
					__u32 parent_pid, bool killed_by_oom)
{
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	struct process_record *record =
		bpf_ringbuf_reserve(&records, sizeof(struct process_record), 0);

	if (!record)
		return count(COUNTER_RING_FULL);
	record->kind = RECORD_PROCESS;
	record->event = event;
	read_process_key(task, &record->process);
	record->parent_pid = parent_pid;
	record->killed_by_oom = killed_by_oom;
	bpf_probe_read_kernel_str(record->name, sizeof(record->name), &leader->comm);
	bpf_ringbuf_submit(record, BPF_RB_NO_WAKEUP);
	return 0;
}

static __always_inline int exec_of(struct task_struct *task)
{
	return send_process(task, PROCESS_EXEC, 0, false);
}

/*
 * A child has its parent's mappings, tables and interpreter at the same addresses. Its first samples come
 * before the agent has published it, and snapshots hold no Python frames.
 */
static __always_inline void inherit_process(struct task_struct *parent, struct task_struct *child)
{
	const struct process_unwind *known;
	struct process_unwind inherited;
	struct process_key key = {};

	read_process_key(parent, &key);
	known = find_published_process(&key);
	if (!known)
		return;
	inherited = *known;
	read_process_key(child, &inherited.key);
	// Counts as incomplete: the parent's next mmap frees the shared pages.
	inherited.tables_pending++;
	bpf_map_update_elem(&inherited_processes, &inherited.key.pid, &inherited, BPF_ANY);
}

static __always_inline int fork_of(struct task_struct *parent, struct task_struct *child)
{
	__u32 parent_pid = BPF_CORE_READ(parent, tgid);
	__u32 child_pid = BPF_CORE_READ(child, tgid);
	__u32 yes = 1;

	if (BPF_CORE_READ(child, pid) != child_pid) // a thread
		return 0;
	if (only_targets && bpf_map_lookup_elem(&target_pids, &parent_pid) &&
	    bpf_map_update_elem(&target_pids, &child_pid, &yes, BPF_ANY))
		count(COUNTER_TARGETS_FULL);
	inherit_process(parent, child);
	return send_process(child, PROCESS_FORK, parent_pid, false);
}

/* With `--pid` only targets have a kill. A victim's signal->oom_mm is its memory (mark_oom_victim(), mm/oom_kill.c). */
static __always_inline int exit_of(struct task_struct *task)
{
	__u32 pid = BPF_CORE_READ(task, tgid);
	bool is_measured = true;

	if (BPF_CORE_READ(task, signal, live.counter) > 0) // other threads go on
		return 0;
	if (only_targets)
		is_measured = bpf_map_delete_elem(&target_pids, &pid) == 0;
	return send_process(task, PROCESS_EXIT, 0,
			    is_measured && BPF_CORE_READ(task, signal, oom_mm));
}

/*
 * The agent loads one set or the other. Arguments, from include/trace/events/sched.h:
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
