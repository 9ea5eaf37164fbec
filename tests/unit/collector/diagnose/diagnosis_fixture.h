// SPDX-License-Identifier: Apache-2.0
// What tests of verdicts share: a store of its own, rows of threads' time, and the question.
#pragma once

#include "collector/diagnose/diagnosis.h"
#include "collector/store/rocksdb/rocksdb.h"

#include "tests/unit/collector/store/store_fixture.h"

struct fixture {
	char path[64];
	struct store *store;
	uint64_t begin_ns;
	uint64_t sequence;
};

static inline void set_up(struct fixture *fixture)
{
	struct error err = { 0 };

	directory_new(fixture->path);
	const struct store_options options = { .path = fixture->path };
	if (rocksdb_store_open(&options, &fixture->store, &err) < 0)
		fail_msg("%s", err.text);
	fixture->begin_ns = hour_ns(0);
	fixture->sequence = 0;
}

static inline void tear_down(struct fixture *fixture)
{
	store_close(fixture->store);
	directory_remove(fixture->path);
}

/** @seconds of threads' time at second @at of the hour; @stack "" for none. */
static inline void add(struct fixture *fixture, unsigned int at, const char *labels,
		       const char *type, const char *stack_text, double seconds)
{
	struct profile *profile = test_profile();
	uint32_t stack;

	if (*stack_text)
		stack = stack_of_text(profile, stack_text, STACK_END_COMPLETE);
	else
		EXPECT_EQ(0, profile_add_stack(profile, NULL, 0, STACK_END_COMPLETE, &stack), type);
	EXPECT_EQ(0,
		  profile_add_sample(profile, series_of_text(profile, labels, type), stack,
				     (fixture->begin_ns + at * NS_PER_SECOND) / TEST_SLOT_NS,
				     (int64_t)(seconds * 1e9)),
		  type);
	append_profile(fixture->store, 1, ++fixture->sequence, profile);
}

static inline struct diagnosis diagnose_as(const struct fixture *fixture, const char *tenant,
					   const char *selector_text, unsigned int from,
					   unsigned int to)
{
	struct selector selector = { 0 };
	const struct query query = {
		.store = fixture->store,
		.selector = &selector,
		.range = { fixture->begin_ns + from * NS_PER_SECOND,
			   fixture->begin_ns + to * NS_PER_SECOND },
	};
	struct diagnosis diagnosis = { 0 };
	struct error err = { 0 };

	if (selector_parse(selector_text, tenant, &selector, &err))
		fail_msg("%s", err.text);
	if (query_diagnosis(&query, &diagnosis, &err) < 0)
		fail_msg("%s", err.text);
	selector_deinit(&selector);
	return diagnosis;
}

static inline struct diagnosis diagnose(const struct fixture *fixture, const char *selector_text,
					unsigned int from, unsigned int to)
{
	return diagnose_as(fixture, SELECTOR_ALL_TENANTS, selector_text, from, to);
}

/** A name in a stack of the @evidence-th profile; leaf first. */
static inline const char *frame_of(const struct diagnosis *diagnosis, uint32_t evidence,
				   uint32_t stack, uint32_t at)
{
	return string_table_get(&diagnosis->strings,
				diagnosis->evidence[evidence].stacks[stack].frames[at]);
}

/** A name in a stack of what shows the verdict. */
static inline const char *frame(const struct diagnosis *diagnosis, uint32_t stack, uint32_t at)
{
	return frame_of(diagnosis, 0, stack, at);
}
