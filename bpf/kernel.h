/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The kernel's structures, only the fields that cairn reads. libbpf relocates each access to the running
// kernel (CO-RE): names and types matter, order does not.
#pragma once

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* include/linux/sched.h: __state of a task that runs for the last time. */
#define TASK_DEAD 0x00000080

/* include/linux/sched.h: flags of tasks without user registers. */
#define PF_IO_WORKER   0x00000010
#define PF_USER_WORKER 0x00004000 // since 6.4; unused before
#define PF_KTHREAD     0x00200000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct;
struct cfs_rq;

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;            // threads that have not exited
	struct mm_struct *oom_mm; // memory of a victim of the out-of-memory killer
};

struct sched_entity {
	__u64 sum_exec_runtime;      // CPU time so far
	__u64 prev_sum_exec_runtime; // the same when the task last got a CPU
	__u64 exec_start;            // of rq->clock_task: sum_exec_runtime is as of then
	struct cfs_rq *cfs_rq;       // of its CPU
	unsigned char sched_delayed; // since 6.12: sleeps, though still queued
};

/* Nanoseconds of the scheduler's clock, whose zero is not the monotonic clock's. */
struct sched_info {
	__u64 run_delay; // run-queue time so far; updated when the task gets a CPU
};

struct thread_info {
	__u32 cpu; // the present or last CPU
};

#if defined(__TARGET_ARCH_x86)
struct thread_struct {
	unsigned long fsbase;
};
#else
struct thread_struct {
	struct {
		unsigned long tp_value;
	} uw;
};
#endif

struct task_struct {
	struct thread_info thread_info;
	unsigned int __state; // 0: runnable
	struct thread_struct thread;
	unsigned int flags;
	int on_cpu; // set from before it gets a CPU until after it has left
	int on_rq;
	struct sched_entity se;
	struct sched_info sched_info;
	int exit_state;
	struct mm_struct *mm;
	__u32 pid; // pid_t in the kernel
	__u32 tgid;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	__u64 self_exec_id;
	__u64 start_time;     // monotonic
	__u64 start_boottime; // 5.5 and newer
	char comm[16];
};

/*
 * User registers saved at kernel entry, by the kernel's names. The compiler knows another pt_regs from the
 * user-space headers; libbpf ignores the suffix "___saved".
 */
#if defined(__TARGET_ARCH_x86)
struct pt_regs___saved {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax; // system call number, else -1
	unsigned long ip;
	unsigned long cs; // shorter since 6.9: libbpf adapts the load
	unsigned long sp;
};
#elif defined(__TARGET_ARCH_arm64)
struct pt_regs___saved {
	__u64 regs[31];
	__u64 sp;
	__u64 pc;
	__u64 pstate;
	__s32 syscallno; // -1 outside of system calls
};
#else
#error "cairn knows the registers of x86-64 and aarch64"
#endif

/* What iterators over tasks get. */
struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__task {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
};

#pragma clang attribute pop
