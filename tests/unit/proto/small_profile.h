// SPDX-License-Identifier: Apache-2.0
// A small profile that has a bit of everything, for the tests of messages.
#pragma once

#include "base/clock.h"
#include "proto/export_message.h"
#include "tests/test.h"
#include "base/contract/label_names.h"

#define NOW_NS  1700000000000000000ULL
#define SLOT_NS (20 * NS_PER_MS)
#define SLOT    (NOW_NS / SLOT_NS)

static const struct batch_id batch
	__attribute__((unused)) = { .agent = { 1, 2 }, .boot = { 3, 4 }, .sequence = 5 };

static inline bool define_all(void *context, const struct profile *profile,
			      const struct stack *stack)
{
	(void)context, (void)profile, (void)stack;
	return true;
}

static inline bool define_none(void *context, const struct profile *profile,
			       const struct stack *stack)
{
	(void)context, (void)profile, (void)stack;
	return false;
}

static inline uint32_t add_location(struct profile *profile, const char *name, uint32_t line_count)
{
	struct location location = { .id = id128_of(name, strlen(name)),
				     .kind = FRAME_KIND_NATIVE,
				     .offset = strlen(name) };
	struct line lines[2] = { { .number = 7 }, { .number = 8 } };
	uint32_t at = 0;

	profile_add_string(profile, "/usr/lib/libx.so", &location.module);
	profile_add_string(profile, "abcdef", &location.build_id);
	profile_add_string(profile, name, &lines[0].name);
	profile_add_string(profile, "main.c", &lines[1].file);
	EXPECT_EQ(0, profile_add_location(profile, &location, lines, line_count, &at), name);
	return at;
}

static inline uint32_t add_series(struct profile *profile, const char *service)
{
	struct labels labels = { 0 };
	uint32_t at = 0;

	labels_set(&labels, LABEL_SERVICE, service);
	labels_set(&labels, LABEL_NODE, "a17");
	EXPECT_EQ(0, profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &at), service);
	labels_deinit(&labels);
	return at;
}

// Two series, two stacks, one location shared, samples not in order, one of them twice.
static inline struct profile *small_profile(void)
{
	struct profile *profile = profile_new(SLOT_NS);
	uint32_t a[3], b[2], first, second;

	profile->from_ns = NOW_NS;
	profile->to_ns = NOW_NS + 5 * NS_PER_SECOND;
	a[0] = add_location(profile, "leaf", 2);
	a[1] = add_location(profile, "middle", 1);
	a[2] = add_location(profile, "root", 1);
	b[0] = add_location(profile, "unnamed", 0);
	b[1] = a[2];
	EXPECT_EQ(0, profile_add_stack(profile, a, 3, STACK_END_COMPLETE, &first), "a");
	EXPECT_EQ(0, profile_add_stack(profile, b, 2, STACK_END_FAULT, &second), "b");
	uint32_t unused = add_series(profile, "nobody");
	uint32_t llm = add_series(profile, "llm");
	uint32_t web = add_series(profile, "web");
	(void)unused;
	profile_add_sample(profile, web, second, SLOT + 200, 30 * 1000);
	profile_add_sample(profile, llm, second, SLOT + 3, 20 * 1000);
	profile_add_sample(profile, llm, first, SLOT + 3, 10 * 1000);
	profile_add_sample(profile, llm, first, SLOT, 20 * 1000);
	profile_add_sample(profile, llm, second, SLOT + 3, 30 * 1000);
	return profile;
}
