// SPDX-License-Identifier: Apache-2.0
// Makes off-CPU time by stack add up to the exact sums that the BPF programs keep. Of the threads of one
// name of a process: sampled intervals stand in for those without a stack (post-stratification). Their
// weighted values are scaled so that they, and what is known exactly, are the sum. Pure; one thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "bpf/sample.h"

/** What is calibrated, each by itself. */
enum calibrated_time {
	CALIBRATED_BLOCKED,
	CALIBRATED_RUN_QUEUE,
	CALIBRATED_TIMES,
};

/** Values are scaled one after the other; what rounding leaves of one goes to the next. */
struct calibration_scale {
	uint64_t from, to;           // the values' sum, and what it becomes
	uint64_t from_done, to_done; // of the values so far
};

/** Of the threads of one name, in an export interval. Sums saturate. */
struct calibration_sum {
	uint64_t total;   // the exact sum
	uint64_t exact;   // of values whose weight is 1
	uint64_t sampled; // of weighted values
	struct calibration_scale exact_scale, sampled_scale;
	uint64_t missing;               // of the total: no stack is known
	uint64_t first_slot, last_slot; // that the totals cover
};

struct calibration_threads {
	struct process_key process;
	char name[THREAD_NAME_BYTES];
	struct calibration_sum sums[CALIBRATED_TIMES];
};

/** Zero-initialized. */
struct calibration {
	struct calibration_threads *threads;
	uint32_t count, capacity;
	struct hash_table index;
};

void calibration_deinit(struct calibration *calibration);

/** The number of @key's threads, added if they are new. Returns 0, -ENOMEM or -E2BIG. */
int calibration_find(struct calibration *calibration, const struct count_key *key,
		     uint32_t *ret_threads);

/** Add a value by stack; @is_sampled: it is weighted. */
void calibration_add_stack(struct calibration_sum *sum, uint64_t value, bool is_sampled);
/** Add to the exact sum; @key says which slots it covers. */
void calibration_add_total(struct calibration_sum *sum, const struct count_key *key,
			   uint64_t value);

/** All is added: compute the scales. */
void calibration_fit(struct calibration_sum *sum);
/** What @value becomes; each value that was added is scaled once. */
uint64_t calibration_scale(struct calibration_sum *sum, uint64_t value, bool is_sampled);
