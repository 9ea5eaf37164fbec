// SPDX-License-Identifier: Apache-2.0
// Functions written without unwind information, as MKL's kernels are, far apart. Each comes when those before
// are known.
//
//     undescribed [--seconds S]
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { ROUNDS = 1000000, WARM_UP_SECONDS = 3 };

void spin_first(long rounds);
void spin_second(long rounds);
void spin_third(long rounds);

#define SPIN(name)                                      \
	__asm__(".text\n"                               \
		".globl " name "\n"                     \
		".type " name ",@function\n" name ":\n" \
		"	push %rbx\n"                          \
		"	mov %rdi, %rbx\n"                     \
		"1:	dec %rbx\n"                         \
		"	jnz 1b\n"                             \
		"	pop %rbx\n"                           \
		"	ret\n"                                \
		".size " name ", . - " name "\n")

SPIN("spin_first");
// More than is analyzed around a function, and together more than is analyzed of a file at once.
#define GAP() __asm__(".skip 0x280000, 0x90\n")
GAP();
SPIN("spin_second");
GAP();
SPIN("spin_third");

static __attribute__((noinline)) void burn(void (*spin)(long), double seconds)
{
	struct timespec now;
	double end;

	clock_gettime(CLOCK_MONOTONIC, &now);
	end = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec + seconds;
	while ((double)now.tv_sec + 1e-9 * (double)now.tv_nsec < end) {
		spin(ROUNDS);
		clock_gettime(CLOCK_MONOTONIC, &now);
	}
}

int main(int argc, char **argv)
{
	double seconds = argc == 3 && !strcmp(argv[1], "--seconds") ? atof(argv[2]) : 2;

	burn(spin_first, WARM_UP_SECONDS);
	burn(spin_second, WARM_UP_SECONDS);
	burn(spin_third, WARM_UP_SECONDS);
	prctl(PR_SET_NAME, "truth");
	burn(spin_first, seconds);
	burn(spin_second, seconds);
	burn(spin_third, seconds);
	prctl(PR_SET_NAME, "done");
}
