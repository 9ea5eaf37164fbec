// SPDX-License-Identifier: Apache-2.0
// What tests of queries share: random stores and questions, and what a sample's path is by the names.
#pragma once

#include <errno.h>

#include "tests/test.h"

#include "base/clock.h"
#include "collector/query/query.h"
#include "tests/unit/collector/store/memory_store.h"

enum { ROUNDS = 40, SAMPLES = 300, LOCATIONS = 14, PATH_MAX_LEVELS = 128 };

#define PARTITION_NS 1000000000ULL
#define OFF_CPU      "off_cpu:off_cpu:nanoseconds:off_cpu:nanoseconds"

static uint64_t random_state = 88172645463325252ULL;

static inline uint32_t random_below(uint32_t limit)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return (uint32_t)(random_state >> 16) % limit;
}

/** One of a few locations: two names in three kinds, so that different locations look alike. */
static inline uint32_t add_random_location(struct profile *profile, uint32_t number)
{
	static const char *const names[] = { "f", "g", "run" };
	static const char *const files[] = { "/srv/a.py", "/srv/b.py" };
	struct location location = { .kind = 1 + number % 3, .offset = number };
	struct line lines[3];
	uint32_t line_count = number % 4; // 0: not symbolized
	uint32_t result;

	location.id = id128_of(&number, sizeof(number));
	assert_int_equal(0, profile_add_string(profile, number % 2 ? "/lib/x.so" : "/bin/y",
					       &location.module));
	for (uint32_t i = 0; i < line_count; i++) {
		lines[i].number = 10 + random_below(2);
		assert_int_equal(
			0, profile_add_string(profile, names[random_below(3)], &lines[i].name));
		assert_int_equal(
			0, profile_add_string(profile, files[random_below(2)], &lines[i].file));
	}
	assert_int_equal(0, profile_add_location(profile, &location, lines, line_count, &result));
	return result;
}

static inline struct store *random_store(void)
{
	struct store *store = memory_store_new(PARTITION_NS);

	for (uint32_t i = 0; i < LOCATIONS; i++)
		add_random_location(store->profile, i);
	for (uint32_t i = 0; i < 8; i++) {
		struct labels labels = { 0 };
		char node[8];

		snprintf(node, sizeof(node), "n%u", i / 2 % 3);
		assert_int_equal(0, labels_set(&labels, "service", i % 2 ? "llm" : "web"));
		assert_int_equal(0, labels_set(&labels, "process", i < 4 ? "python3" : "nginx"));
		if (i < 6)
			assert_int_equal(0, labels_set(&labels, "node", node));
		memory_store_add_series(store, &labels, i == 5 ? OFF_CPU : PROFILE_TYPE_CPU);
		labels_deinit(&labels);
	}
	for (uint32_t i = 0; i < SAMPLES; i++) {
		struct memory_sample sample = {
			.series = random_below(8),
			.slot_ns = 20000000,
			.time_ns = PARTITION_NS + random_below(200) * 20000000ULL,
			.location_count = random_below(9),
			.end = random_below(5) ? STACK_END_COMPLETE : random_below(STACK_END_COUNT),
			.value = 1 + random_below(1000),
		};
		for (uint32_t l = 0; l < sample.location_count; l++)
			sample.locations[l] = random_below(LOCATIONS);
		if (random_below(4) == 0) // an interval, within its partition
			sample.more_slots = random_below(
				(uint32_t)(50 - sample.time_ns % PARTITION_NS / sample.slot_ns));
		memory_store_add(store, &sample);
	}
	return store;
}

/** The names and kinds of a sample's levels, root first. */
struct path {
	char names[PATH_MAX_LEVELS][160];
	enum frame_kind kinds[PATH_MAX_LEVELS];
	uint32_t count;
};

static inline void path_add(struct path *path, const char *name, enum frame_kind kind)
{
	snprintf(path->names[path->count], sizeof(path->names[0]), "%s", name);
	path->kinds[path->count++] = kind;
}

static inline void path_of(const struct store *store, const struct memory_sample *sample,
			   const char *group_by, struct path *path)
{
	char name[160];

	path->count = 0;
	if (group_by) {
		const char *value = labels_get(&store->series[sample->series].labels, group_by);

		snprintf(name, sizeof(name), "(no %s)", group_by);
		path_add(path, value ? value : name, FRAME_KIND_UNKNOWN);
	}
	if (sample->end != STACK_END_COMPLETE) {
		snprintf(name, sizeof(name), "[truncated: %s]", stack_end_name(sample->end));
		path_add(path, name, FRAME_KIND_UNKNOWN);
	}
	for (uint32_t i = sample->location_count; i-- > 0;) {
		const struct location *location = &store->profile->locations[sample->locations[i]];
		uint32_t lines = location->line_count ? location->line_count : 1;

		for (uint32_t line = lines; line-- > 0;) {
			location_display_name(store->profile, location, line, name, sizeof(name));
			path_add(path, name, location->kind);
		}
	}
}

static inline bool sample_selected(const struct query *query, const struct memory_sample *sample)
{
	const struct memory_series *series = &query->store->series[sample->series];

	return sample_in_range(sample, query->range) && strcmp(series->type, query->type) == 0 &&
	       selector_matches(query->selector, &series->labels);
}

/** A query at random over @store; the caller deinits the selector. */
static inline struct query random_query(struct store *store, struct selector *selector)
{
	static const char *const selectors[] = { "", "llm", "{node=~\"n[01]\"}", "{node=\"\"}" };
	static const char *const groups[] = { NULL, NULL, "node", "service", "nobody" };
	struct error err;

	assert_int_equal(0, selector_parse(selectors[random_below(4)], SELECTOR_ALL_TENANTS,
					   selector, &err));
	uint64_t from_ns = PARTITION_NS + random_below(100) * 20000000ULL;
	return (struct query){
		.store = store,
		.selector = selector,
		.type = random_below(6) ? PROFILE_TYPE_CPU : OFF_CPU,
		.range = { from_ns, from_ns + (1 + random_below(200)) * 20000000ULL },
		.group_by = groups[random_below(5)],
	};
}
