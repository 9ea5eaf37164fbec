// SPDX-License-Identifier: Apache-2.0
#include "cli/profiler_wait.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "bpf/bpf_counters.h"

enum { TICK_MS = 250 }; // profiler_tick() wants a call at least once a second

static int timeout_ms_until(uint64_t deadline_ns)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (now_ns >= deadline_ns)
		return 0;

	uint64_t left_ms = (deadline_ns - now_ns + NS_PER_MS - 1) / NS_PER_MS;
	return left_ms < TICK_MS ? (int)left_ms : TICK_MS;
}

static bool any_event(const struct pollfd *fds, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (fds[i].revents)
			return true;
	return false;
}

int profiler_wait(struct profiler *profiler, uint64_t deadline_ns, struct pollfd *others,
		  uint32_t other_count, struct error *err)
{
	struct pollfd fds[1 + PROFILER_WAIT_OTHERS_MAX];
	int ready = 0;

	assert(other_count <= PROFILER_WAIT_OTHERS_MAX);
	fds[0] = (struct pollfd){ .fd = profiler_fd(profiler), .events = POLLIN };
	do {
		if (other_count)
			memcpy(fds + 1, others, other_count * sizeof(*others));
		ready = poll(fds, 1 + other_count, timeout_ms_until(deadline_ns));
		if (ready < 0 && errno != EINTR)
			return error_errno(err, -errno, "poll");
		if (ready > 0 && fds[0].revents) {
			int rc = profiler_read(profiler, err);

			if (rc)
				return rc;
		}
		profiler_tick(profiler);
	} while (ready >= 0 && !any_event(fds + 1, other_count) &&
		 clock_monotonic_ns() < deadline_ns);

	for (uint32_t i = 0; i < other_count; i++)
		others[i].revents = ready > 0 ? fds[1 + i].revents : 0;
	return 0;
}

uint64_t profiler_stats_dropped(const struct profiler_stats *stats)
{
	return stats->bpf_counters[COUNTER_COUNTS_FULL] + stats->bpf_counters[COUNTER_COUNTS_BUSY] +
	       stats->bpf_counters[COUNTER_RING_FULL];
}

uint64_t profiler_stats_samples(const struct profiler_stats *stats)
{
	return stats->bpf_counters[COUNTER_SAMPLES];
}
