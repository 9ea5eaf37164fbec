/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The kernel's structures as far as we read them. libbpf moves each access to where the running
// kernel has the field (CO-RE), so names and types count here, order does not.
#pragma once

#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>
#include <linux/errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stddef.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

/* include/linux/sched.h: flags of a task that has no user registers of its own. */
#define PF_IO_WORKER   0x00000010
#define PF_USER_WORKER 0x00004000 // since 6.4; unused before
#define PF_KTHREAD     0x00200000

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct mm_struct;

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live; // threads that have not exited
};

struct sched_entity {
	__u64 sum_exec_runtime;      // CPU time so far
	__u64 prev_sum_exec_runtime; // the same when the task was last given a CPU
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
	struct thread_struct thread;
	unsigned int flags;
	struct sched_entity se;
	struct mm_struct *mm;
	__u32 pid; // pid_t in the kernel
	__u32 tgid;
	struct task_struct *group_leader;
	struct signal_struct *signal;
	__u64 self_exec_id;
	__u64 start_boottime; // 5.5 and newer
	char comm[16];
};

/*
 * User registers saved at kernel entry, as the kernel names them. "___saved" is for the compiler
 * only, which knows pt_regs by the user space header too; libbpf drops it.
 */
#if defined(__TARGET_ARCH_x86)
struct pt_regs___saved {
	unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	unsigned long orig_ax; // of a system call its number, else -1
	unsigned long ip;
	unsigned long cs; // a shorter field since 6.9: libbpf fits the load
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

#pragma clang attribute pop
