// SPDX-License-Identifier: Apache-2.0
// How often each process did something since the last look, to find those that did it most. One thread.
#pragma once

#include <stdint.h>

#include "base/hash_table.h"

enum { PROCESS_TALLY_MAX = 16384 }; // processes; more are not told apart, only counted in the sum

struct process_count {
	uint32_t pid;
	uint64_t count;
};

/** A zeroed struct is a valid empty tally. */
struct process_tally {
	struct process_count *counts;
	uint32_t count, capacity;
	struct hash_table index;
	uint64_t sum;
};

void process_tally_deinit(struct process_tally *tally);

/** @pid did it @count times more. Out of memory, only the sum grows. */
void process_tally_add(struct process_tally *tally, uint32_t pid, uint64_t count);

/** As if @pid had done nothing since the last look. */
void process_tally_remove(struct process_tally *tally, uint32_t pid);

/** The @max processes that did it most, most first. Returns how many. */
uint32_t process_tally_most(const struct process_tally *tally, struct process_count *ret_most,
			    uint32_t max);

void process_tally_clear(struct process_tally *tally);
