/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// The registers that unwinding starts from, by architecture.
#pragma once

#include "bpf/kernel.h"
#include "bpf/unwind/unwind.h"

struct interrupted {
	__u64 pc;
	__u64 sp;
	bool user; // user mode, not the kernel
};

/*
 * Registers are copied one by one, by DWARF number. @ctx is volatile: the verifier wants each load to be
 * context + constant, and clang would merge loads.
 */

#if defined(__TARGET_ARCH_x86)

#define X86_CS_RPL_MASK 3    // privilege level of the interrupted code; 0: kernel
#define X86_CS_USER32   0x23 // __USER32_CS

static __always_inline struct interrupted interrupted_by_tick(
	const volatile struct bpf_perf_event_data *ctx)
{
	return (struct interrupted){
		.pc = ctx->regs.rip,
		.sp = ctx->regs.rsp,
		.user = (ctx->regs.cs & X86_CS_RPL_MASK) != 0,
	};
}

/* Returns false for 32-bit code. */
static __always_inline bool registers_of_tick(struct unwind *unwind,
					      const volatile struct bpf_perf_event_data *ctx)
{
	__u64 *to = unwind->registers;

	to[0] = ctx->regs.rax;
	to[1] = ctx->regs.rdx;
	to[2] = ctx->regs.rcx;
	to[3] = ctx->regs.rbx;
	to[4] = ctx->regs.rsi;
	to[5] = ctx->regs.rdi;
	to[6] = ctx->regs.rbp;
	to[7] = ctx->regs.rsp;
	to[8] = ctx->regs.r8;
	to[9] = ctx->regs.r9;
	to[10] = ctx->regs.r10;
	to[11] = ctx->regs.r11;
	to[12] = ctx->regs.r12;
	to[13] = ctx->regs.r13;
	to[14] = ctx->regs.r14;
	to[15] = ctx->regs.r15;
	unwind->pc = ctx->regs.rip;
	unwind->exact_pc = 1;
	return (ctx->regs.cs & 0xffff) != X86_CS_USER32;
}

/* The registers at kernel entry. Returns false for 32-bit code. */
static __always_inline bool registers_of_user(struct unwind *unwind, struct task_struct *task)
{
	const struct pt_regs___saved *regs = (void *)bpf_task_pt_regs(task);
	__u64 *to = unwind->registers;

	to[0] = regs->ax;
	to[1] = regs->dx;
	to[2] = regs->cx;
	to[3] = regs->bx;
	to[4] = regs->si;
	to[5] = regs->di;
	to[6] = regs->bp;
	to[7] = regs->sp;
	to[8] = regs->r8;
	to[9] = regs->r9;
	to[10] = regs->r10;
	to[11] = regs->r11;
	to[12] = regs->r12;
	to[13] = regs->r13;
	to[14] = regs->r14;
	to[15] = regs->r15;
	unwind->pc = regs->ip;
	// A system call that never returns may be its function's last instruction.
	unwind->exact_pc = (__s64)regs->orig_ax < 0;
	return (regs->cs & 0xffff) != X86_CS_USER32;
}

static __always_inline __u64 thread_pointer_of(struct task_struct *task)
{
	return task->thread.fsbase;
}

/* Negative outside of system calls. */
static __always_inline __s64 system_call_of(const struct pt_regs___saved *regs)
{
	return regs->orig_ax;
}

#elif defined(__TARGET_ARCH_arm64)

#define ARM64_PSTATE_MODE_MASK 0xf  // 0: EL0
#define ARM64_PSTATE_COMPAT    0x10 // PSR_MODE32_BIT

static __always_inline struct interrupted interrupted_by_tick(
	const volatile struct bpf_perf_event_data *ctx)
{
	return (struct interrupted){
		.pc = ctx->regs.pc,
		.sp = ctx->regs.sp,
		.user = (ctx->regs.pstate & ARM64_PSTATE_MODE_MASK) == 0,
	};
}

/* Returns false for 32-bit code. */
static __always_inline bool registers_of_tick(struct unwind *unwind,
					      const volatile struct bpf_perf_event_data *ctx)
{
#pragma unroll
	for (__u32 i = 0; i < ARM64_REGISTER_SP; i++)
		unwind->registers[i] = ctx->regs.regs[i];
	unwind->registers[ARM64_REGISTER_SP] = ctx->regs.sp;
	unwind->pc = ctx->regs.pc;
	unwind->exact_pc = 1;
	return !(ctx->regs.pstate & ARM64_PSTATE_COMPAT);
}

/* The registers at kernel entry. Returns false for 32-bit code. */
static __always_inline bool registers_of_user(struct unwind *unwind, struct task_struct *task)
{
	const struct pt_regs___saved *regs = (void *)bpf_task_pt_regs(task);

#pragma unroll
	for (__u32 i = 0; i < ARM64_REGISTER_SP; i++)
		unwind->registers[i] = regs->regs[i];
	unwind->registers[ARM64_REGISTER_SP] = regs->sp;
	unwind->pc = regs->pc;
	// A system call that never returns may be its function's last instruction.
	unwind->exact_pc = regs->syscallno < 0;
	return !(regs->pstate & ARM64_PSTATE_COMPAT);
}

static __always_inline __u64 thread_pointer_of(struct task_struct *task)
{
	return task->thread.uw.tp_value;
}

/* Negative outside of system calls. */
static __always_inline __s64 system_call_of(const struct pt_regs___saved *regs)
{
	return regs->syscallno;
}

#endif
