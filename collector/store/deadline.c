// SPDX-License-Identifier: Apache-2.0
#include "collector/store/deadline.h"

#include <errno.h>

#include "base/clock.h"

static bool is_gone(struct deadline *deadline, uint64_t now_ns)
{
	if (!deadline->is_gone || atomic_load_explicit(&deadline->gone, memory_order_relaxed))
		return atomic_load(&deadline->gone);
	uint64_t polled_ns = atomic_load_explicit(&deadline->polled_ns, memory_order_relaxed);
	if (polled_ns && now_ns - polled_ns < deadline->poll_ns)
		return false;
	atomic_store_explicit(&deadline->polled_ns, now_ns, memory_order_relaxed);
	if (!deadline->is_gone(deadline->context))
		return false;
	atomic_store(&deadline->gone, true);
	return true;
}

int deadline_check(struct deadline *deadline, struct error *err)
{
	if (!deadline)
		return 0;
	uint64_t now_ns = clock_monotonic_ns();
	if (deadline->at_ns && now_ns >= deadline->at_ns)
		return error_set(
			err, -ETIMEDOUT,
			"the query takes too long; choose a shorter range or fewer series");
	if (is_gone(deadline, now_ns))
		return error_set(err, -ECANCELED, "the client closed its connection");
	return 0;
}
