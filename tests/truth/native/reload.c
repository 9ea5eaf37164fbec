// SPDX-License-Identifier: Apache-2.0
// Loads two libraries in turns, one after the other to the same address: what was known of the one
// is wrong for the other. Says how often the address was the same, and the chains.
//
//     reload LIBRARY_A LIBRARY_B [--seconds S]
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "tests/truth/native/walk.h"

enum { TURN_NS = 250000000, SECONDS = 8 };

static NOINLINE void burn_turn(struct walk *walk)
{
	uint64_t number = 1;

	BURN(walk, for (int i = 0; i < 1000; i++) TRIPLE(number));
}

static NOINLINE int run_turn(struct walk *walk, const char *path, void **ret_address)
{
	static const struct step burn = { burn_turn, "burn_turn" };
	void *library = dlopen(path, RTLD_NOW);
	step_function *step;
	Dl_info info;

	if (!library)
		return -1;
	*(void **)&step = dlsym(library, "library_step");
	walk->chain[0] = &burn;
	walk->at = 0;
	walk->ns = TURN_NS;
	*ret_address = dladdr((void *)step, &info) ? info.dli_fbase : NULL;
	step(walk);
	dlclose(library);
	return 0;
}

int main(int argc, char **argv)
{
	static struct walk walk;
	void *before = NULL, *address = NULL;
	int turns = 4 * SECONDS, same = 0;

	if (argc < 3)
		return 1;
	for (int i = 0; i < turns; i++) {
		if (i == 4)
			prctl(PR_SET_NAME, "truth");
		if (run_turn(&walk, argv[1 + i % 2], &address))
			return 1;
		same += address == before;
		before = address;
	}
	prctl(PR_SET_NAME, "done");
	printf("chain main run_turn library_step library_inner burn_turn\n");
	printf("chain main run_turn library_step other_inner other_more burn_turn\n");
	printf("same %d of %d\n", same, turns);
	return 0;
}
