// SPDX-License-Identifier: Apache-2.0
// Sums of values that may be anything: at most what fits.
#pragma once

#include <stdint.h>

static inline int64_t add_saturating(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}
