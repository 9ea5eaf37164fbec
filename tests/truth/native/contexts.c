// SPDX-License-Identifier: Apache-2.0
// Stacks that are not their thread's own: coroutines of makecontext() and of assembly such as boost's, a
// vfork() child on its parent's stack. In turns, and each prints its chain.
//
//     contexts [--seconds S]
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "tests/truth/native/walk.h"

enum {
	STACK_BYTES = 256 << 10,
	TURN_NS = 10000000,
	TURNS = 4, // of a coroutine, for it is switched to and fro
};

static NOINLINE void burn_a_turn(void)
{
	uint64_t number = 1, end = thread_cpu_ns() + TURN_NS;

	while (thread_cpu_ns() < end)
		for (int i = 0; i < 1000; i++)
			TRIPLE(number);
}

static char *new_stack(void)
{
	return mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

/* ---- makecontext() --------------------------------------------------------------------------- */

static ucontext_t context_caller, context_callee;

static NOINLINE void burn_in_context(int depth)
{
	volatile int level = depth;

	if (depth)
		burn_in_context(depth - 1);
	else
		burn_a_turn();
	level += 1; // equal functions are made one
}

static NOINLINE void context_main(void)
{
	for (int turn = 0; turn < TURNS; turn++) {
		burn_in_context(3);
		swapcontext(&context_callee, &context_caller);
	}
}

static NOINLINE void run_contexts(void)
{
	static char *stack;

	if (!stack)
		stack = new_stack();
	getcontext(&context_callee);
	context_callee.uc_stack.ss_sp = stack;
	context_callee.uc_stack.ss_size = STACK_BYTES;
	context_callee.uc_link = &context_caller;
	makecontext(&context_callee, context_main, 0);
	for (int turn = 0; turn < TURNS; turn++) {
		swapcontext(&context_caller, &context_callee);
		burn_a_turn();
	}
}

/* ---- fibers ---------------------------------------------------------------------------------- */

/* As boost's jump_fcontext: what a callee must keep is on the stack, and the rest is another one's. */
void switch_fiber(void **from, void *to);
__asm__(".text\n"
	".globl switch_fiber\n"
	".type switch_fiber,@function\n"
	"switch_fiber:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	push %r15\n"
	"	push %r14\n"
	"	push %r13\n"
	"	push %r12\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %r12\n"
	"	pop %r13\n"
	"	pop %r14\n"
	"	pop %r15\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	pop %r8\n"
	"	jmp *%r8\n"
	".size switch_fiber, . - switch_fiber\n");

static void *fiber_caller, *fiber_callee;

static NOINLINE void burn_in_fiber(int depth)
{
	volatile int level = depth;

	if (depth)
		burn_in_fiber(depth - 1);
	else
		burn_a_turn();
	level += 2;
}

static NOINLINE void fiber_main(void)
{
	for (;;) {
		burn_in_fiber(3);
		switch_fiber(&fiber_callee, fiber_caller);
	}
}

static NOINLINE void run_fibers(void)
{
	if (!fiber_callee) {
		uint64_t *top = (uint64_t *)(new_stack() + STACK_BYTES);

		top[-1] = 0; // fiber_main's return address
		top[-2] = (uint64_t)fiber_main;
		fiber_callee = top - 8;
	}
	switch_fiber(&fiber_caller, fiber_callee);
	burn_a_turn();
	KEEP_FRAME();
}

/* ---- vfork() --------------------------------------------------------------------------------- */

static NOINLINE void burn_in_child(void)
{
	burn_a_turn();
	KEEP_FRAME();
}

static NOINLINE void run_child(void)
{
	pid_t child = vfork();

	if (!child) {
		burn_in_child();
		_exit(0);
	}
	waitpid(child, NULL, 0);
}

static NOINLINE void run_all(double seconds)
{
	uint64_t end = thread_cpu_ns() + (uint64_t)(seconds * 1e9);

	while (thread_cpu_ns() < end) {
		run_contexts();
		run_fibers();
		run_child();
	}
}

int main(int argc, char **argv)
{
	double seconds = argc == 3 && !strcmp(argv[1], "--seconds") ? atof(argv[2]) : 2;

	printf("chain main run_all run_contexts burn_a_turn\n");
	printf("chain main run_all run_fibers burn_a_turn\n");
	printf("chain main run_all run_child ~? burn_in_child burn_a_turn\n");
	printf("chain context_main burn_in_context*4 burn_a_turn\n");
	printf("chain fiber_main burn_in_fiber*4 burn_a_turn\n");
	fflush(stdout);
	run_all(1);
	prctl(PR_SET_NAME, "truth");
	run_all(seconds);
	prctl(PR_SET_NAME, "done");
	return 0;
}
