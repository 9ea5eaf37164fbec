// SPDX-License-Identifier: Apache-2.0
// Leaves: where the CPU time goes. Functions without a frame, libc's and libm's internals, the
// vdso, the kernel, and libcrypto's hand-written assembly.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "tests/truth/native/walk.h"

static NOINLINE void leaf_spin(struct walk *walk)
{
	uint64_t seed = walk->random | 1;

	BURN(
		walk, for (int i = 0; i < 3000; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			__asm__ volatile("" : "+r"(seed));
		});
	walk->sink = seed;
}

/* Called all the time and back at once: samples fall on its first and last instructions. */
static NOINLINE uint64_t tiny(uint64_t number)
{
	__asm__ volatile("" : "+r"(number));
	return number * 3;
}

static NOINLINE uint64_t small(uint64_t number, struct walk *walk)
{
	uint64_t others[4] = { number, walk->random, number ^ 5, 7 };

	__asm__ volatile("" : : "r"(others) : "memory");
	number = tiny(number);
	__asm__ volatile("" : : "r"(others) : "memory");
	return number + others[1];
}

static NOINLINE void leaf_calls(struct walk *walk)
{
	uint64_t number = 1;

	BURN(walk, for (int i = 0; i < 500; i++) number = small(number, walk));
	walk->sink = number;
}

static NOINLINE void leaf_memcpy(struct walk *walk)
{
	static __thread char from[65536], to[65536];
	volatile size_t size = 1 + random_below(&walk->random, sizeof(from));

	BURN(
		walk, for (int i = 0; i < 8; i++) {
			memcpy(to, from, size);
			memmove(from + 1, to, size - 1);
			walk->sink = (uint64_t)(strlen(from) + (size_t)memcmp(from, to, size));
		});
}

static NOINLINE void leaf_clock(struct walk *walk)
{
	struct timespec now;

	BURN(walk, for (int i = 0; i < 200; i++) clock_gettime(CLOCK_MONOTONIC, &now));
	walk->sink = (uint64_t)now.tv_nsec;
}

static NOINLINE void leaf_printf(struct walk *walk)
{
	char text[200];
	double number = (double)walk->random;

	BURN(walk, for (int i = 0; i < 10; i++) walk->sink =
			   (uint64_t)snprintf(text, sizeof(text), "%.17g %s %d %Lf", number += 1.5,
					      "words", i, (long double)i));
}

static NOINLINE void leaf_malloc(struct walk *walk)
{
	void *blocks[32];

	BURN(walk, for (int i = 0; i < 32; i++) blocks[i] =
			   malloc(16 + random_below(&walk->random, 5000));
	     for (int i = 0; i < 32; i++) free(blocks[i]));
}

static NOINLINE int compare_ints(const void *a, const void *b)
{
	return *(const int *)a - *(const int *)b;
}

static NOINLINE void leaf_qsort(struct walk *walk)
{
	int numbers[200];

	BURN(walk,
	     for (int i = 0; i < 200; i++) numbers[i] = (int)random_below(&walk->random, 1000);
	     qsort(numbers, 200, sizeof(int), compare_ints));
}

static NOINLINE void leaf_math(struct walk *walk)
{
	volatile double x = (double)(walk->random & 0xffff);

	BURN(walk, for (int i = 0; i < 50; i++) x = sin(x) + exp(cos(x)) + pow(fabs(x), 0.3));
	walk->sink = (uint64_t)x;
}

static NOINLINE void leaf_regex(struct walk *walk)
{
	regex_t regex;

	BURN(
		walk, if (!regcomp(&regex, "(a|b)*c[0-9]+(x?y?z?)*$", REG_EXTENDED)) {
			walk->sink = (uint64_t)regexec(&regex, "ababababc123xyzxyzq", 0, NULL, 0);
			regfree(&regex);
		});
}

static NOINLINE void leaf_syscalls(struct walk *walk)
{
	BURN(walk, for (int i = 0; i < 50; i++) walk->sink = (uint64_t)getppid());
}

#ifndef STATIC
/* ---- libcrypto, if it is there -------------------------------------------------------------- */

typedef unsigned char *digest_function(const unsigned char *data, size_t size, unsigned char *to);

struct crypto {
	digest_function *digests[3];
	void *(*bn_new)(void);
	void *(*context_new)(void);
	int (*bn_rand)(void *bn, int bits, int top, int bottom);
	int (*bn_mod_exp)(void *to, const void *a, const void *b, const void *m, void *context);
};

static struct crypto crypto;

static int open_crypto(void)
{
	void *library = dlopen("libcrypto.so.3", RTLD_NOW);

	if (!library)
		return 0;
	*(void **)&crypto.digests[0] = dlsym(library, "SHA1");
	*(void **)&crypto.digests[1] = dlsym(library, "SHA256");
	*(void **)&crypto.digests[2] = dlsym(library, "SHA512");
	*(void **)&crypto.bn_new = dlsym(library, "BN_new");
	*(void **)&crypto.context_new = dlsym(library, "BN_CTX_new");
	*(void **)&crypto.bn_rand = dlsym(library, "BN_rand");
	*(void **)&crypto.bn_mod_exp = dlsym(library, "BN_mod_exp");
	return crypto.bn_mod_exp != NULL;
}

int have_crypto(void);
int have_crypto(void)
{
	return open_crypto();
}

static NOINLINE void leaf_digest(struct walk *walk)
{
	static unsigned char data[16384];
	unsigned char digest[64];
	digest_function *function = crypto.digests[random_below(&walk->random, 3)];

	BURN(walk, function(data, sizeof(data), digest));
}

static NOINLINE void leaf_bignum(struct walk *walk)
{
	static __thread void *numbers[4], *context;

	if (!context) {
		context = crypto.context_new();
		for (int i = 0; i < 4; i++) {
			numbers[i] = crypto.bn_new();
			crypto.bn_rand(numbers[i], 1024, 0, 1);
		}
	}
	BURN(walk, crypto.bn_mod_exp(numbers[0], numbers[1], numbers[2], numbers[3], context));
}

#endif

/* Those of libcrypto come last. */
const struct step c_leaves[] = {
	{ leaf_spin, "leaf_spin" },
	{ leaf_calls, "leaf_calls small? tiny?" },
	{ leaf_memcpy, "leaf_memcpy ~?" },
	{ leaf_clock, "leaf_clock ~?" },
	{ leaf_printf, "leaf_printf ~?" },
	{ leaf_malloc, "leaf_malloc ~?" },
	{ leaf_qsort, "leaf_qsort ~? compare_ints?" },
	{ leaf_math, "leaf_math ~?" },
	{ leaf_regex, "leaf_regex ~?" },
	{ leaf_syscalls, "leaf_syscalls ~?" },
#ifndef STATIC
	{ leaf_digest, "leaf_digest ~?" },
	{ leaf_bignum, "leaf_bignum ~?" },
#endif
};
const size_t c_leaf_count = sizeof(c_leaves) / sizeof(c_leaves[0]);
