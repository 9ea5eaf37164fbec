// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_idle_time.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "base/array.h"
#include "base/clock.h"

void gpu_idle_time_deinit(struct gpu_idle_time *time)
{
	free(time->exported);
	*time = (struct gpu_idle_time){ 0 };
}

static struct gpu_idle_exported *find_exported(struct gpu_idle_time *time,
					       const struct process_key *process)
{
	for (uint32_t i = 0; i < time->count; i++) {
		if (memcmp(&time->exported[i].process, process, sizeof(*process)) == 0)
			return &time->exported[i];
	}
	if (array_reserve(&time->exported, sizeof(*time->exported), &time->capacity, time->count, 1,
			  UINT32_MAX))
		return NULL;
	time->exported[time->count] = (struct gpu_idle_exported){ .process = *process };
	return &time->exported[time->count++];
}

static int export_process(struct gpu_idle_time *time, const struct process_key *process,
			  const struct gpu_idle *idle, struct export_interval *interval)
{
	struct gpu_idle_exported *exported = find_exported(time, process);
	const struct profile *profile = interval->profile;
	uint64_t now_ns = clock_monotonic_ns(), sum = gpu_idle_sum(idle, now_ns);
	uint64_t last = clock_realtime_ns() / profile->slot_ns;
	struct count_key key = { .process = *process, .kind = SAMPLE_KIND_GPU_IDLE_TIME };
	struct count count = { .samples = 1 };

	if (!exported)
		return -ENOMEM;
	exported->round = time->round;
	// A sum that was read while a CPU changed it may be too small: the next interval has the rest.
	if (sum <= exported->ns)
		return 0;
	count.value = sum - exported->ns;
	exported->ns = sum;
	memcpy(key.thread_name, idle->thread_name, sizeof(key.thread_name));
	key.slot = profile->from_ns / profile->slot_ns;
	key.more_slots = last > key.slot + 1 ? (uint32_t)(last - key.slot - 1) : 0;
	return export_interval_add(interval, &key, &count, now_ns);
}

static void remove_ended(struct gpu_idle_time *time)
{
	for (uint32_t i = time->count; i-- > 0;) {
		if (time->exported[i].round != time->round)
			time->exported[i] = time->exported[--time->count];
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
			rc = export_process(time, &process, &idle, interval);
	}
	if (!rc)
		remove_ended(time);
	return rc;
}
