// SPDX-License-Identifier: Apache-2.0
// A library that is loaded while the program runs; its own calls go through its PLT.
#include "tests/truth/native/walk.h"

void library_step(struct walk *walk);
void library_inner(struct walk *walk);

NOINLINE void library_inner(struct walk *walk)
{
	GO_ON(walk);
}

NOINLINE void library_step(struct walk *walk)
{
	library_inner(walk);
	KEEP_FRAME();
}
