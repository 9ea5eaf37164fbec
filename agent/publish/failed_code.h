// SPDX-License-Identifier: Apache-2.0
// JIT mappings of one process whose code was analyzed in vain: another kind of code (V8's, a JVM's), which each sample
// would show anew. They are tried less and less often.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	FAILED_CODE_MAPPINGS_MAX = 16, // those beyond share one entry
	FAILED_CODE_TRIES = 8,         // of a mapping, before it waits
	FAILED_CODE_TRIES_AGAIN = 2,   // after each wait
};

struct failed_mapping {
	uint64_t start;
	uint32_t tries; // left, before it waits again
	uint64_t wait_ns;
	uint64_t due_ns; // no try before
};

/** A zeroed struct has none. */
struct failed_code {
	struct failed_mapping mappings[FAILED_CODE_MAPPINGS_MAX];
	uint32_t count;
};

/** May code of the mapping at @start be analyzed? @now_ns is monotonic. */
bool failed_code_may_try(const struct failed_code *failed, uint64_t start, uint64_t now_ns);
/** It was, in vain. Waits are 10 s first, then twice as long each, ten minutes at most. */
void failed_code_add(struct failed_code *failed, uint64_t start, uint64_t now_ns);
/** It was, with success: its code is of the kind that is looked for. */
void failed_code_remove(struct failed_code *failed, uint64_t start);
