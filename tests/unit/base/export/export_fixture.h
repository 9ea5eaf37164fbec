// SPDX-License-Identifier: Apache-2.0
// What tests of exporters share: profiles made of names.
#pragma once

#include "tests/test.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/profile/profile.h"

static inline uint32_t frame(struct profile *profile, enum frame_kind kind, const char *name,
			     const char *file, uint32_t number)
{
	struct location location = { .id = location_id_of_line(kind, name, file, number),
				     .kind = kind };
	struct line line = { .number = number };
	uint32_t at = HASH_TABLE_NONE;

	profile_add_string(profile, name, &line.name);
	profile_add_string(profile, file, &line.file);
	assert_int_equal(profile_add_location(profile, &location, &line, 1, &at), 0);
	return at;
}

/** Of thread "process"/"thread"; without time @slot is 0. Frames leaf first. */
static inline void sample(struct profile *profile, const char *process, const char *thread,
			  const char *type, const uint32_t *locations, uint32_t count,
			  uint64_t slot, int64_t value)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	uint32_t series, stack;

	labels_set(&labels, LABEL_PROCESS, process);
	labels_set(&labels, LABEL_THREAD, thread);
	assert_int_equal(profile_add_series(profile, &labels, type, &series), 0);
	assert_int_equal(profile_add_stack(profile, locations, count, STACK_END_COMPLETE, &stack),
			 0);
	assert_int_equal(profile_add_sample(profile, series, stack, slot, value), 0);
}

/** The same without a thread and without time. */
static inline void merged(struct profile *profile, const uint32_t *locations, uint32_t count,
			  int64_t value)
{
	sample(profile, "app", "", PROFILE_TYPE_CPU, locations, count, 0, value);
}
