// SPDX-License-Identifier: Apache-2.0
// What the agent's BPF programs cost: run time and runs of each, by name. The kernel's statistics
// cost time at each run themselves, so they are on for a part of the time only and what they say is
// scaled. One thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	BPF_COST_PROGRAMS_MAX = 64, // the agent has some 20
	PROGRAM_NAME_BYTES = 32,    // functions' names: BPF_OBJ_NAME_LEN cuts them at 15
	BPF_COST_ONE_IN = 8,        // ticks during which statistics are on
};

/** Estimates since the programs were first seen. */
struct program_cost {
	char name[PROGRAM_NAME_BYTES];
	bool in_own_cpu; // runs in the agent's own system calls: its time is in the agent's CPU time, too
	uint64_t run_ns;
	uint64_t runs;
	double ns_per_second;   // when it was last looked at
	double runs_per_second; // likewise
};

struct bpf_cost;

/** Is it a program that the agent runs itself? @name may be cut as the kernel's is. */
bool bpf_cost_is_in_own_cpu(const char *name);

/**
 * Statistics are on for one of @one_in ticks, chosen at random. Returns NULL when out of memory. What
 * it costs is reported from the second tick on.
 */
struct bpf_cost *bpf_cost_new(uint32_t one_in);
/** Statistics are off afterwards, unless somebody else has them on. NULL is allowed. */
void bpf_cost_free(struct bpf_cost *cost);

/**
 * Begin or end a measurement when it is time; to be called twice a second or so. All programs of
 * which this process has a descriptor are measured. While they run very often the measurement is
 * a short one within this call: BPF_COST_SHORT_NS. Returns 0; -EPERM and the like where the kernel
 * has no statistics for us: nothing is known then.
 */
int bpf_cost_tick(struct bpf_cost *cost);

/** Something was changed: the next tick measures, whatever was chosen. */
void bpf_cost_measure_soon(struct bpf_cost *cost);

/**
 * The programs by name, of all times; those of the same name are one. Valid until the next call of
 * bpf_cost_tick(). Each measurement is taken to hold until the next one.
 */
const struct program_cost *bpf_cost_read(struct bpf_cost *cost, uint32_t *ret_count);

/** Programs that measurements have left out, counted at each: they are beyond BPF_COST_PROGRAMS_MAX. */
uint64_t bpf_cost_unmeasured(const struct bpf_cost *cost);
