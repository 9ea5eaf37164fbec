// SPDX-License-Identifier: Apache-2.0
// Calls that are bound lazily: the linker's trampoline saves all vector registers on a stack that it has
// aligned, so its caller is known by rbx alone. One call is bound again and again, another by a resolver
// (STT_GNU_IFUNC) that takes its time. Prints the chains.
//
//     lazy [--seconds S]
#define _GNU_SOURCE
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "tests/truth/native/walk.h"

enum { CALLS = 1000, SLOTS_MAX = 256 };

extern double lazy_seconds; // read by the library's resolver
int bound_again(int number);
int bound_by_resolver(int number);

double lazy_seconds = 2;
static volatile int sink;

/* The places of this program's lazily bound calls, and what they held before any was bound. */
static struct {
	uintptr_t *place;
	uintptr_t unbound;
} slots[SLOTS_MAX];
static size_t slot_count;

static void find_slots(void)
{
	const struct link_map *self = _r_debug.r_map;
	const Elf64_Rela *relocations = NULL;
	size_t bytes = 0;

	for (const Elf64_Dyn *entry = self->l_ld; entry->d_tag != DT_NULL; entry++) {
		if (entry->d_tag == DT_JMPREL)
			relocations = (const Elf64_Rela *)entry->d_un.d_ptr;
		if (entry->d_tag == DT_PLTRELSZ)
			bytes = entry->d_un.d_val;
	}
	for (size_t i = 0; i < bytes / sizeof(*relocations) && slot_count < SLOTS_MAX; i++) {
		slots[slot_count].place = (uintptr_t *)(self->l_addr + relocations[i].r_offset);
		slots[slot_count].unbound = *slots[slot_count].place;
		slot_count++;
	}
}

static NOINLINE void bind_again(void)
{
	for (int call = 0; call < CALLS; call++) {
		sink = bound_again(call);
		for (size_t i = 0; i < slot_count; i++)
			*slots[i].place = slots[i].unbound;
	}
}

static NOINLINE void run_bindings(double seconds)
{
	uint64_t end = thread_cpu_ns() + (uint64_t)(seconds * 1e9);

	while (thread_cpu_ns() < end)
		bind_again();
}

static NOINLINE void call_by_resolver(void)
{
	sink = bound_by_resolver(1);
	KEEP_FRAME();
}

int main(int argc, char **argv)
{
	find_slots(); // before the first call of all
	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], "--seconds"))
			lazy_seconds = atof(argv[i + 1]);
	printf("chain main run_bindings bind_again bound_again?\n");
	// The resolver has two names.
	printf("chain main call_by_resolver ~ /^(resolve|bound_by_resolver)$/ burn_in_resolver\n");
	fflush(stdout);
	run_bindings(1);
	prctl(PR_SET_NAME, "truth");
	run_bindings(lazy_seconds);
	call_by_resolver();
	prctl(PR_SET_NAME, "done");
	return 0;
}
