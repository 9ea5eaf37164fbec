// SPDX-License-Identifier: Apache-2.0
// Test equipment: exports in the shape of the real driver's: a compare, a branch, a jump through a slot to a function that begins
// with a push. SHAPE selects two other shapes.
#pragma once

/* The state word that real stubs compare with; never this value here. */
extern unsigned int driver_state __attribute__((visibility("hidden")));

/*
 * The bytes of a real export (535): 81 3d disp32 imm32, je +12 (over two jumps), jmp *slot. The slot holds the function by
 * a relative relocation. SHAPE 1 is a build with endbr64, 2 one without stubs' compare.
 */
#ifndef SHAPE
#define SHAPE 0
#endif
#if SHAPE == 0
#define STUB_BEGIN "cmpl $0x321cba00, driver_state(%rip)\n je 1f\n"
#define STUB_END   "jmp *2f(%rip)\n 1: jmp *2f(%rip)\n"
#elif SHAPE == 1
#define STUB_BEGIN "endbr64\n cmpl $0x321cba00, driver_state(%rip)\n je 1f\n"
#define STUB_END   "jmp *2f(%rip)\n 1: jmp *2f(%rip)\n"
#else
#define STUB_BEGIN "push %rbp\n pop %rbp\n"
#define STUB_END   ""
#endif

#define EXPORT(name)                                                                               \
	__asm__(".pushsection .text\n .p2align 4\n .globl " #name "\n .type " #name                \
		", @function\n" #name ":\n .cfi_startproc\n" STUB_BEGIN "jmp *2f(%rip)\n" STUB_END \
		".cfi_endproc\n .size " #name ", . - " #name "\n .popsection\n"                    \
		".pushsection .data.rel.slots, \"aw\"\n .p2align 3\n2: .quad impl_" #name          \
		"\n .popsection\n");                                                               \
	__attribute__((used, noinline, visibility("hidden"), optimize("no-omit-frame-pointer")))   \
	CUresult impl_##name

/* A function that real drivers export under two names, with addresses of their own. */
#define ALIAS(name, of)                                                                            \
	__asm__(".pushsection .text\n .p2align 4\n .globl " #name "\n .type " #name                \
		", @function\n" #name ":\n .cfi_startproc\n" STUB_BEGIN "jmp *2f(%rip)\n" STUB_END \
		".cfi_endproc\n .size " #name ", . - " #name "\n .popsection\n"                    \
		".pushsection .data.rel.slots, \"aw\"\n .p2align 3\n2: .quad impl_" #of            \
		"\n .popsection\n")
