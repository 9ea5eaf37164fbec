/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The registers of a thread as they cross the border between thread_registers.bpf.c and the agent.
#pragma once

#include <linux/types.h>

/*
 * The kernel's struct pt_regs as it lies in memory. It begins as what ptrace hands out, struct
 * user_regs_struct: on x86-64 up to ss, on aarch64 up to pstate, with x0 as it was and the number of
 * the system call behind it.
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
