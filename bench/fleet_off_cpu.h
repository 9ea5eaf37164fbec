// SPDX-License-Identifier: Apache-2.0
// Off-CPU time of the synthetic fleet: intervals by stack, as agents send them. Half of the
// intervals are shorter than a slot. The others last 0.4 s on average and are cut at the end of the
// export interval, as agents do. Durations are in nanoseconds, so that no two are equal.
#pragma once

#include "base/cleanup.h"
#include "bench/fleet.h"
#include "base/contract/label_names.h"

static inline uint32_t fleet_add_off_cpu_series(struct profile *profile,
						const struct fleet_host *host, uint32_t number)
{
	static const char *const classes[] = { "lock", "network", "poll", "sleep" };
	uint32_t cpu = fleet_add_series(profile, host, number), series;
	struct labels labels = { 0 };

	labels_copy(&profile->series[cpu].labels, &labels);
	labels_set(&labels, LABEL_WAIT, classes[number % ARRAY_SIZE(classes)]);
	profile_add_series(profile, &labels, PROFILE_TYPE_OFF_CPU, &series);
	labels_deinit(&labels);
	return series;
}

/** Add @count off-CPU intervals of @host in [from, to) to its @profile. */
static inline void fleet_add_off_cpu(struct fleet *fleet, struct fleet_host *host,
				     struct profile *profile, uint64_t from_ns, uint64_t to_ns,
				     uint32_t count)
{
	uint32_t series_of[FLEET_HOST_SERIES];

	memset(series_of, 0xff, sizeof(series_of));
	for (uint32_t i = 0; i < count; i++) {
		uint32_t number = fleet_choose_series(fleet);
		uint32_t service = host->services[number / FLEET_THREADS];
		const uint32_t *ranks =
			fleet->popularity[service * FLEET_THREADS + number % FLEET_THREADS];
		uint32_t rank = ranks[fleet_zipf(fleet)];
		uint8_t *acknowledged = &host->acknowledged[service * FLEET_STACKS + rank];
		uint64_t start_ns = from_ns + fleet_random(fleet) % (to_ns - from_ns);
		uint64_t length_ns =
			1 + fleet_exponential(fleet, fleet_random(fleet) % 2 ? 4e6 : 4e8);

		if (length_ns > to_ns - start_ns)
			length_ns = to_ns - start_ns;
		if (series_of[number] == UINT32_MAX)
			series_of[number] = fleet_add_off_cpu_series(profile, host, number);
		uint32_t stack =
			fleet_copy_stack(profile, fleet->stacks[service], rank, !*acknowledged);
		*acknowledged = 1;
		uint64_t slot = start_ns / FLEET_SLOT_NS;
		uint64_t last = (start_ns + length_ns - 1) / FLEET_SLOT_NS;
		profile_add_interval(profile, series_of[number], stack, slot,
				     (uint32_t)(last - slot), (int64_t)length_ns);
	}
}
