/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// A thread's saved registers, as thread_registers.bpf.c writes them and the agent reads them.
#pragma once

#include <linux/types.h>

/*
 * The kernel's struct pt_regs as it lies in memory. It begins like struct user_regs_struct of ptrace: up to ss
 * on x86-64, up to pstate on aarch64. There the original x0 and the system call number follow.
 */
#if defined(__TARGET_ARCH_arm64) || defined(__aarch64__)
#define SAVED_REGISTER_WORDS 36
#else
#define SAVED_REGISTER_WORDS 21
#endif

struct saved_registers {
	__u64 words[SAVED_REGISTER_WORDS];
	__u64 thread_pointer;
};
