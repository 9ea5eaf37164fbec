// SPDX-License-Identifier: Apache-2.0
// The last values of a sequence, sorted: quartiles over a window that moves, without sorting it at each step.
#pragma once

#include <stdint.h>

enum { SORTED_WINDOW_MAX = 60 };

/** Zeroed, it is empty. */
struct sorted_window {
	double sorted[SORTED_WINDOW_MAX];  // ascending
	double arrived[SORTED_WINDOW_MAX]; // a ring
	uint32_t count;
	uint32_t oldest; // in the ring, once it is full
};

/** Add @value, which is not NaN; of more than SORTED_WINDOW_MAX the oldest goes. */
void sorted_window_add(struct sorted_window *window, double value);
