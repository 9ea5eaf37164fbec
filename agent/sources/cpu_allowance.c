// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/cpu_allowance.h"

#include "base/clock.h"

void cpu_allowance_begin(struct cpu_allowance *allowance, uint64_t now_ns)
{
	uint64_t since_ns = now_ns - allowance->granted_ns;
	int64_t most_ns = (int64_t)allowance->ns_per_second;

	if (since_ns > NS_PER_SECOND)
		since_ns = NS_PER_SECOND;
	allowance->left_ns += (int64_t)(allowance->ns_per_second * since_ns / NS_PER_SECOND);
	if (allowance->left_ns > most_ns)
		allowance->left_ns = most_ns;
	allowance->granted_ns = now_ns;
	allowance->counted_ns = clock_thread_cpu_ns();
}

bool cpu_allowance_is_left(struct cpu_allowance *allowance)
{
	uint64_t cpu_ns = clock_thread_cpu_ns();

	allowance->left_ns -= (int64_t)(cpu_ns - allowance->counted_ns);
	allowance->counted_ns = cpu_ns;
	return allowance->left_ns > 0;
}
