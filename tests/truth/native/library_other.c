// SPDX-License-Identifier: Apache-2.0
// As library.c in size, with other functions and frames at the same places.
#include "tests/truth/native/walk.h"

void library_step(struct walk *walk);
void other_inner(struct walk *walk);
void other_more(struct walk *walk);

NOINLINE void other_more(struct walk *walk)
{
	volatile char block[800];

	block[walk->at] = 1;
	GO_ON(walk);
	walk->sink = (uint64_t)block[0];
}

NOINLINE void other_inner(struct walk *walk)
{
	volatile char block[1600];

	block[walk->at] = 1;
	other_more(walk);
	walk->sink = (uint64_t)block[0];
}

NOINLINE void library_step(struct walk *walk)
{
	other_inner(walk);
	KEEP_FRAME();
}
