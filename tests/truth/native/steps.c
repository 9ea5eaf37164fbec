// SPDX-License-Identifier: Apache-2.0
// Steps in C: every kind of frame that compilers make, callbacks out of libc, and signals.
#define _GNU_SOURCE
#include <alloca.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "tests/truth/native/walk.h"

__thread struct walk *current_walk;

static NOINLINE void step_plain(struct walk *walk)
{
	GO_ON(walk);
}

/* Locals that live across the call, more than a callee may leave in registers. */
static NOINLINE void step_saved_registers(struct walk *walk)
{
	uint64_t a = walk->random, b = a * 3, c = b ^ a, d = c + 5, e = d * b, f = e ^ c, g = f + a;

	__asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f), "+r"(g));
	GO_ON(walk);
	walk->sink = a + b + c + d + e + f + g;
}

static NOINLINE void step_big_frame(struct walk *walk)
{
	volatile char block[20000];

	block[walk->at] = 1;
	GO_ON(walk);
	walk->sink = (uint64_t)block[walk->at % 100];
}

/* More than a page: compilers may probe the stack as they take it. */
static NOINLINE void step_huge_frame(struct walk *walk)
{
	volatile char block[300000];

	block[walk->at] = 1;
	GO_ON(walk);
	walk->sink = (uint64_t)block[walk->at % 100];
}

static NOINLINE void step_alloca(struct walk *walk)
{
	volatile char *block = alloca(16 + random_below(&walk->random, 4000));

	block[0] = 1;
	GO_ON(walk);
	walk->sink = (uint64_t)block[0];
}

static NOINLINE void step_array_of_variable_size(struct walk *walk)
{
	size_t size = 16 + random_below(&walk->random, 3000);
	volatile char block[size];

	block[size - 1] = 1;
	GO_ON(walk);
	walk->sink = (uint64_t)block[size - 1];
}

/* Realigns the stack: the CFA hangs on the frame pointer. */
static NOINLINE void step_aligned(struct walk *walk)
{
	_Alignas(128) volatile char block[256];

	block[walk->at] = 1;
	GO_ON(walk);
	walk->sink = (uint64_t)block[walk->at % 100];
}

static NOINLINE void on_aligned_stack(struct walk *walk, long b, long c, long d, long e, long f,
				      long g, long h)
{
	_Alignas(64) volatile char block[128];
	volatile char *more = alloca(16 + random_below(&walk->random, 500));

	// Arguments on the stack and a frame of unknown size: gcc keeps the argument pointer in memory.
	block[walk->at % 100] = more[0] = 1;
	GO_ON(walk);
	walk->sink = (uint64_t)block[1] + (uint64_t)more[0] + (uint64_t)(b + c + d + e + f + g + h);
}

static NOINLINE void step_argument_pointer(struct walk *walk)
{
	on_aligned_stack(walk, 1, 2, 3, 4, 5, 6, walk->at);
	KEEP_FRAME();
}

static NOINLINE void with_many_arguments(struct walk *walk, long b, long c, long d, long e, long f,
					 long g, long h, long i, long j, long k)
{
	GO_ON(walk);
	walk->sink = (uint64_t)(b + c + d + e + f + g + h + i + j + k);
}

static NOINLINE void step_many_arguments(struct walk *walk)
{
	with_many_arguments(walk, 1, 2, 3, 4, 5, 6, 7, 8, 9, walk->at);
	KEEP_FRAME();
}

static NOINLINE void recurse(struct walk *walk, int depth)
{
	volatile int level = depth; // needs the frame after the call

	if (depth > 1)
		recurse(walk, depth - 1);
	else
		GO_ON(walk);
	walk->sink += (uint64_t)level;
}

static NOINLINE void step_recursion(struct walk *walk)
{
	recurse(walk, walk->recursion);
	KEEP_FRAME();
}

static NOINLINE void after_tail_call(struct walk *walk)
{
	walk->sink += 2; // equal functions are made one
	GO_ON(walk);
}

static NOINLINE void step_tail_call(struct walk *walk)
{
	walk->sink++;
	after_tail_call(walk);
}

// The call is the last instruction: the return address lies in the next function.
static NOINLINE __attribute__((noreturn)) void never_returns(struct walk *walk)
{
	GO_ON(walk);
	longjmp(walk->home, 1);
}

static NOINLINE void step_noreturn(struct walk *walk)
{
	walk->sink = 1;
	never_returns(walk);
}

static NOINLINE __attribute__((noreturn)) void jump_back(jmp_buf there)
{
	longjmp(there, 1);
}

static NOINLINE void step_after_longjmp(struct walk *walk)
{
	jmp_buf here;

	if (!setjmp(here))
		jump_back(here);
	GO_ON(walk);
}

static __thread int called_back;

static NOINLINE int from_qsort(const void *a, const void *b)
{
	if (!called_back++) {
		GO_ON(current_walk);
	}
	return *(const int *)a - *(const int *)b;
}

static NOINLINE void step_qsort(struct walk *walk)
{
	int numbers[5] = { 5, 2, 4, 1, 3 };

	called_back = 0;
	qsort(numbers, 5, sizeof(int), from_qsort);
	walk->sink = (uint64_t)numbers[0];
}

static NOINLINE int from_lsearch(const void *a, const void *b)
{
	(void)a;
	(void)b;
	GO_ON(current_walk);
	return 0;
}

static NOINLINE void step_lfind(struct walk *walk)
{
	int number = 1;
	size_t count = 1;

	walk->sink = lfind(&number, &number, &count, sizeof(int), from_lsearch) != NULL;
}

static NOINLINE void on_signal(int number)
{
	(void)number;
	GO_ON(current_walk);
}

static NOINLINE void on_signal_stack(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	(void)context;
	GO_ON(current_walk);
}

static NOINLINE void step_signal(struct walk *walk)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_NODEFER };

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	walk->sink++;
}

static NOINLINE void step_signal_stack(struct walk *walk)
{
	struct sigaction action = { .sa_sigaction = on_signal_stack,
				    .sa_flags = SA_NODEFER | SA_ONSTACK | SA_SIGINFO };

	sigaction(SIGUSR2, &action, NULL);
	// Delivered as this very call returns: the interrupted instruction is ours.
	walk->sink = (uint64_t)bare_call(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGUSR2);
}

const struct step c_steps[] = {
	{ step_plain, "step_plain" },
	{ step_saved_registers, "step_saved_registers" },
	{ step_big_frame, "step_big_frame" },
	{ step_huge_frame, "step_huge_frame" },
	{ step_alloca, "step_alloca" },
	{ step_array_of_variable_size, "step_array_of_variable_size" },
	{ step_aligned, "step_aligned" },
	{ step_argument_pointer, "step_argument_pointer on_aligned_stack" },
	{ step_many_arguments, "step_many_arguments with_many_arguments" },
	{ step_recursion, "step_recursion recurse*" },
	{ step_tail_call, "step_tail_call? after_tail_call" },
	{ step_noreturn, "step_noreturn never_returns" },
	{ step_after_longjmp, "step_after_longjmp" },
	{ step_qsort, "step_qsort ~ from_qsort" },
	{ step_lfind, "step_lfind ~ from_lsearch" },
	{ step_signal, "step_signal ~ on_signal" },
	{ step_signal_stack, "step_signal_stack ~ on_signal_stack" },
};
const size_t c_step_count = sizeof(c_steps) / sizeof(c_steps[0]);
