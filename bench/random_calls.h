// SPDX-License-Identifier: Apache-2.0
// What random_calls.c and the functions that bench/generate_calls writes share.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct work {
	uint64_t random;
	uint64_t *done;
	char *arena; // of pages that come and go
	int file;
};

typedef void call_function(struct work *work, unsigned left);

/* One more call of @left, or the end of the path. */
void call_next(struct work *work, unsigned left);

// Generated: thousands of functions, each with a frame of its own shape.
extern call_function *const cold_calls[];
extern const size_t cold_count;
