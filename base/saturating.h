// SPDX-License-Identifier: Apache-2.0
// Sums and differences of values that may be anything: at most what fits.
#pragma once

#include <stdint.h>

static inline int64_t add_saturating(int64_t a, int64_t b)
{
	int64_t sum;

	if (__builtin_add_overflow(a, b, &sum))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

static inline int64_t subtract_saturating(int64_t a, int64_t b)
{
	int64_t difference;

	if (__builtin_sub_overflow(a, b, &difference))
		return a < 0 ? INT64_MIN : INT64_MAX;
	return difference;
}

static inline void add_to_saturating(int64_t *sum, int64_t value)
{
	*sum = add_saturating(*sum, value);
}
