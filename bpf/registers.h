/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Where a thread stands: the registers that unwinding begins with, by processor.
#pragma once

#include "kernel.h"

struct registers {
	__u64 pc;
	__u64 sp;
	__u64 fp;
	bool user;   // user mode, not the kernel
	bool compat; // 32-bit code
};

#if defined(__TARGET_ARCH_x86)

#define X86_CS_RPL_MASK 3    // privilege level of the interrupted code, 0: kernel
#define X86_CS_USER32   0x23 // __USER32_CS

/* Volatile, or clang joins these loads with those of the saved registers: the verifier wants ctx + constant. */
static __always_inline struct registers registers_of_tick(
	const volatile struct bpf_perf_event_data *ctx)
{
	return (struct registers){
		.pc = ctx->regs.rip,
		.sp = ctx->regs.rsp,
		.fp = ctx->regs.rbp,
		.user = (ctx->regs.cs & X86_CS_RPL_MASK) != 0,
		.compat = (ctx->regs.cs & 0xffff) == X86_CS_USER32,
	};
}

static __always_inline struct registers registers_of_user(struct task_struct *task)
{
	struct pt_regs___saved *regs = (void *)bpf_task_pt_regs(task);

	return (struct registers){
		.pc = regs->ip,
		.sp = regs->sp,
		.fp = regs->bp,
		.user = true,
		.compat = (regs->cs & 0xffff) == X86_CS_USER32,
	};
}

#elif defined(__TARGET_ARCH_arm64)

#define ARM64_PSTATE_MODE_MASK 0xf  // 0: EL0
#define ARM64_PSTATE_COMPAT    0x10 // PSR_MODE32_BIT
#define ARM64_FP               29

/* Volatile, or clang joins these loads with those of the saved registers: the verifier wants ctx + constant. */
static __always_inline struct registers registers_of_tick(
	const volatile struct bpf_perf_event_data *ctx)
{
	return (struct registers){
		.pc = ctx->regs.pc,
		.sp = ctx->regs.sp,
		.fp = ctx->regs.regs[ARM64_FP],
		.user = (ctx->regs.pstate & ARM64_PSTATE_MODE_MASK) == 0,
		.compat = (ctx->regs.pstate & ARM64_PSTATE_COMPAT) != 0,
	};
}

static __always_inline struct registers registers_of_user(struct task_struct *task)
{
	struct pt_regs___saved *regs = (void *)bpf_task_pt_regs(task);

	return (struct registers){
		.pc = regs->pc,
		.sp = regs->sp,
		.fp = regs->regs[ARM64_FP],
		.user = true,
		.compat = (regs->pstate & ARM64_PSTATE_COMPAT) != 0,
	};
}

#endif
