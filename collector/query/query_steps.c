// SPDX-License-Identifier: Apache-2.0
#include "collector/query/query_steps.h"

#include <errno.h>

#include "base/clock.h"

static struct time_range widen(struct time_range range, uint64_t step_ns)
{
	struct time_range wide = {
		.from_ns = range.from_ns / step_ns * step_ns,
		.to_ns = range.to_ns / step_ns * step_ns,
	};

	if (wide.to_ns < range.to_ns && wide.to_ns <= UINT64_MAX - step_ns)
		wide.to_ns += step_ns;
	return wide;
}

int query_steps_align(struct time_range range, uint64_t step_ns, uint32_t steps_max,
		      struct time_range *ret_range, struct error *err)
{
	if (step_ns == 0 || range.from_ns >= range.to_ns)
		return error_set(err, -EINVAL, "the range and the step must be longer than 0");

	struct time_range wide = widen(range, step_ns);
	uint64_t steps = (wide.to_ns - wide.from_ns) / step_ns;
	if (steps > steps_max)
		return error_set(err, -EINVAL,
				 "%llu ms make %llu points in this range (limit %u); "
				 "choose at least %llu ms, or a shorter range",
				 (unsigned long long)(step_ns / NS_PER_MS),
				 (unsigned long long)steps, steps_max,
				 (unsigned long long)((range.to_ns - range.from_ns) /
							      (steps_max - 1) / NS_PER_MS +
						      1));
	*ret_range = wide;
	return 0;
}
