// SPDX-License-Identifier: Apache-2.0
// A small store for fuzzers of queries: services of the tenant shop with each kind of profile, one with values as large as they
// get, and one service of another tenant, whose name no answer to shop may have. Its time is from FUZZED_STORE_FROM_S on.
#pragma once

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/contract/profile_types.h"
#include "tests/unit/collector/store/memory_store.h"

#define FUZZED_STORE_TENANT "shop"
#define FUZZED_STORE_SECRET "secret" // a word of the other tenant

enum { FUZZED_STORE_FROM_S = 1000, FUZZED_STORE_SAMPLES = 8, FUZZED_STORE_FUNCTIONS = 3 };

struct fuzzed_series {
	const char *tenant, *service, *type, *wait;
	int64_t value;
};

static const struct fuzzed_series fuzzed_series[] = {
	{ FUZZED_STORE_TENANT, "web", PROFILE_TYPE_CPU, NULL, 10000000 },
	{ FUZZED_STORE_TENANT, "web", PROFILE_TYPE_OFF_CPU, "lock", 7000000 },
	{ FUZZED_STORE_TENANT, "web", PROFILE_TYPE_OFF_CPU, "idle", 3 },
	{ FUZZED_STORE_TENANT, "web", PROFILE_TYPE_SCHED_DELAY, NULL, 1000000 },
	{ FUZZED_STORE_TENANT, "web", PROFILE_TYPE_WALL, NULL, 20000000 },
	{ FUZZED_STORE_TENANT, "web", PROFILE_TYPE_RSS, NULL, 1 << 30 },
	{ FUZZED_STORE_TENANT, "web", PROFILE_TYPE_GPU_IDLE, NULL, 5000000 },
	{ FUZZED_STORE_TENANT, "web", PROFILE_TYPE_PAGE_FAULT, NULL, -4096 },
	// Sums of a thousand values of EXPORT_VALUE_MAX.
	{ FUZZED_STORE_TENANT, "huge", PROFILE_TYPE_CPU, NULL, INT64_MAX },
	{ FUZZED_STORE_TENANT, "huge", PROFILE_TYPE_WALL, NULL, INT64_MAX },
	{ FUZZED_STORE_TENANT, "huge", PROFILE_TYPE_SCHED_DELAY, NULL, INT64_MAX },
	{ FUZZED_STORE_TENANT, "huge", PROFILE_TYPE_OFF_CPU, "io", INT64_MIN },
	{ FUZZED_STORE_TENANT, "huge", PROFILE_TYPE_PAGE_FAULT, NULL, INT64_MIN },
	{ "other", FUZZED_STORE_SECRET, PROFILE_TYPE_CPU, NULL, 10000000 },
	{ "other", FUZZED_STORE_SECRET, PROFILE_TYPE_OFF_CPU, "lock", 10000000 },
};

static inline void fuzzed_store_check(bool holds)
{
	if (!holds)
		abort();
}

static inline void fuzzed_store_add_function(struct store *store, const char *name)
{
	struct location location = { .kind = FRAME_KIND_NATIVE, .id = { 1, strlen(name) } };
	struct line line = { .number = 3 };
	uint32_t number;

	fuzzed_store_check(!profile_add_string(store->profile, "/bin/web", &location.module) &&
			   !profile_add_string(store->profile, name, &line.name) &&
			   !profile_add_location(store->profile, &location, &line, 1, &number));
}

static inline uint32_t fuzzed_store_add_series(struct store *store,
					       const struct fuzzed_series *series)
{
	struct labels labels = { 0 };

	fuzzed_store_check(!labels_set(&labels, LABEL_TENANT, series->tenant) &&
			   !labels_set(&labels, LABEL_SERVICE, series->service) &&
			   !labels_set(&labels, LABEL_NODE, "a") &&
			   !labels_set(&labels, LABEL_PROCESS, series->service) &&
			   !labels_set(&labels, LABEL_THREAD, "main") &&
			   (!series->wait || !labels_set(&labels, LABEL_WAIT, series->wait)));
	uint32_t number = memory_store_add_series(store, &labels, series->type);
	labels_deinit(&labels);
	return number;
}

static inline struct store *fuzzed_store_new(void)
{
	static const char *const functions[FUZZED_STORE_FUNCTIONS] = { "main", "work\"<i>",
								       "\xe2\x82\xac" };
	struct store *store = memory_store_new(3600 * NS_PER_SECOND);

	fuzzed_store_check(store != NULL);
	for (size_t i = 0; i < ARRAY_SIZE(functions); i++)
		fuzzed_store_add_function(store, functions[i]);
	for (size_t s = 0; s < ARRAY_SIZE(fuzzed_series); s++) {
		uint32_t series = fuzzed_store_add_series(store, &fuzzed_series[s]);

		for (uint32_t i = 0; i < FUZZED_STORE_SAMPLES; i++) {
			const struct memory_sample sample = {
				.series = series,
				.slot_ns = 20 * NS_PER_MS,
				.time_ns =
					FUZZED_STORE_FROM_S * NS_PER_SECOND + i * 260 * NS_PER_MS,
				.locations = { i % 3, 1, 1, 0 },
				.location_count = 4,
				.more_slots = i % 4 == 1 ? 5 : 0,
				.value = fuzzed_series[s].value,
			};
			memory_store_add(store, &sample);
		}
	}
	return store;
}
