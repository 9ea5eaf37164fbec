// SPDX-License-Identifier: Apache-2.0
// An interval is a row that covers more than one slot. Its value is spread evenly over them; the
// remainder goes to the first slots, one unit each. The parts of an interval add up to its value
// wherever it is cut, and the cost does not depend on its length.
#pragma once

#include <stdint.h>

/** The part of @value in the first @count slots of an interval; @count <= @more_slots + 1. */
static inline int64_t interval_before(int64_t value, uint32_t more_slots, uint64_t count)
{
	int64_t slots = (int64_t)more_slots + 1, first = (int64_t)count;
	int64_t rest = value % slots;

	if (rest > first)
		rest = first;
	else if (rest < -first)
		rest = -first;
	return value / slots * first + rest;
}

/** The part of @value in slots [from, to). @slot is the interval's first. */
static inline int64_t interval_within(uint64_t slot, uint32_t more_slots, int64_t value,
				      uint64_t from, uint64_t to)
{
	uint64_t end = slot + more_slots + 1;
	uint64_t first = from < slot ? slot : from, last = to > end ? end : to;

	if (first >= last)
		return 0;
	if (first == slot && last == end)
		return value;
	return interval_before(value, more_slots, last - slot) -
	       interval_before(value, more_slots, first - slot);
}
