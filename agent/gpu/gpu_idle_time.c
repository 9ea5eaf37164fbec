// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_idle_time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "base/cleanup.h"
#include "base/clock.h"

void gpu_idle_time_deinit(struct gpu_idle_time *time)
{
	free(time->told);
	*time = (struct gpu_idle_time){ 0 };
}

static struct gpu_idle_told *find_told(struct gpu_idle_time *time,
				       const struct process_key *process)
{
	for (uint32_t i = 0; i < time->count; i++) {
		if (memcmp(&time->told[i].process, process, sizeof(*process)) == 0)
			return &time->told[i];
	}
	if (time->count == time->capacity) {
		uint32_t capacity = time->capacity ? time->capacity * 2 : 16;
		void *told = reallocarray(time->told, capacity, sizeof(*time->told));

		if (!told)
			return NULL;
		time->told = told;
		time->capacity = capacity;
	}
	time->told[time->count] = (struct gpu_idle_told){ .process = *process };
	return &time->told[time->count++];
}

static int tell(struct gpu_idle_time *time, const struct process_key *process,
		const struct gpu_idle *idle, struct export_interval *interval)
{
	struct gpu_idle_told *told = find_told(time, process);
	const struct profile *profile = interval->profile;
	uint64_t now_ns = clock_monotonic_ns(), sum = gpu_idle_sum(idle, now_ns);
	uint64_t last = clock_realtime_ns() / profile->slot_ns;
	struct count_key key = { .process = *process, .kind = SAMPLE_KIND_GPU_IDLE_TIME };
	struct count count = { .samples = 1 };

	if (!told)
		return -ENOMEM;
	told->round = time->round;
	// It was read while it changed: what is missing now comes the next time.
	if (sum <= told->ns)
		return 0;
	count.value = sum - told->ns;
	told->ns = sum;
	memcpy(key.thread_name, idle->thread_name, sizeof(key.thread_name));
	key.slot = profile->from_ns / profile->slot_ns;
	key.more_slots = last > key.slot + 1 ? (uint32_t)(last - key.slot - 1) : 0;
	return export_interval_add(interval, &key, &count, now_ns);
}

static void forget_ended(struct gpu_idle_time *time)
{
	for (uint32_t i = time->count; i-- > 0;) {
		if (time->told[i].round != time->round)
			time->told[i] = time->told[--time->count];
	}
}

int gpu_idle_time_add(struct gpu_idle_time *time, int fd, struct export_interval *interval)
{
	struct process_key process, next;
	struct gpu_idle idle;
	const void *from = NULL;
	int rc = 0;

	time->round++;
	while (!rc && !bpf_map_get_next_key(fd, from, &next)) {
		process = next;
		from = &process;
		if (!bpf_map_lookup_elem(fd, &process, &idle))
			rc = tell(time, &process, &idle, interval);
	}
	if (!rc)
		forget_ended(time);
	return rc;
}
