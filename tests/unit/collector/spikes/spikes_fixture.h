// SPDX-License-Identifier: Apache-2.0
// What tests of spikes share: a store of its own, services that run in it, and a lock convoy.
#pragma once

#include "base/contract/profile_types.h"
#include "collector/spikes/spikes.h"
#include "collector/store/rocksdb/rocksdb.h"
#include "tests/unit/collector/store/store_fixture.h"

enum { MINUTES = 15, SPIKE_AT_S = 700 };

struct fixture {
	char path[64];
	struct store *store;
	uint64_t begin_ns;
	uint64_t sequence;
	struct profile *profile; // of what is added
	struct spikes spikes;
};

static inline void set_up(struct fixture *fixture)
{
	struct error err = { 0 };

	*fixture = (struct fixture){ .begin_ns = hour_ns(0), .profile = test_profile() };
	directory_new(fixture->path);
	const struct store_options options = { .path = fixture->path };
	if (rocksdb_store_open(&options, &fixture->store, &err) < 0)
		fail_msg("%s", err.text);
}

static inline void tear_down(struct fixture *fixture)
{
	spikes_deinit(&fixture->spikes);
	profile_free(fixture->profile);
	store_close(fixture->store);
	directory_remove(fixture->path);
}

/** @seconds of @type in the slot at @at_s. */
static inline void add(struct fixture *fixture, double at_s, const char *labels, const char *type,
		       const char *stack_text, double seconds)
{
	uint64_t at_ns = fixture->begin_ns + (uint64_t)(at_s * (double)NS_PER_SECOND);
	uint32_t stack;

	if (*stack_text)
		stack = stack_of_text(fixture->profile, stack_text, STACK_END_COMPLETE);
	else
		EXPECT_EQ(0,
			  profile_add_stack(fixture->profile, NULL, 0, STACK_END_COMPLETE, &stack),
			  type);
	EXPECT_EQ(0,
		  profile_add_sample(fixture->profile,
				     series_of_text(fixture->profile, labels, type), stack,
				     at_ns / TEST_SLOT_NS, (int64_t)(seconds * 1e9)),
		  type);
}

/** A service of two pods that runs for @minutes from @from_s on, a tenth busy. */
static inline void add_service(struct fixture *fixture, const char *service, double from_s,
			       int minutes)
{
	char labels[128];

	for (int i = 0; i < minutes * 60; i++) {
		for (int pod = 0; pod < 2; pod++) {
			snprintf(labels, sizeof(labels), "service=%s,node=n%d,pod=%s-%d", service,
				 pod, service, pod);
			add(fixture, from_s + i, labels, PROFILE_TYPE_CPU, "main;serve;work", 0.1);
			strcat(labels, ",state=running");
			add(fixture, from_s + i, labels, PROFILE_TYPE_WALL, "", 1);
		}
	}
}

static inline void store_all(struct fixture *fixture)
{
	append_profile(fixture->store, 1, ++fixture->sequence, take(fixture->profile));
	fixture->profile = test_profile();
}

/** Four threads of one pod wait for a lock for 3 s. */
static inline void add_lock_convoy(struct fixture *fixture, const char *service)
{
	char labels[128];

	snprintf(labels, sizeof(labels), "service=%s,node=n1,pod=%s-1,wait=lock", service, service);
	for (int i = 0; i < 150; i++)
		add(fixture, SPIKE_AT_S + i * 0.02, labels, PROFILE_TYPE_OFF_CPU,
		    "main;serve;encode;lock_wait", 0.08);
	snprintf(labels, sizeof(labels), "service=%s,node=n0,pod=%s-0,wait=lock", service, service);
	for (int i = 0; i < MINUTES * 60; i++)
		add(fixture, i, labels, PROFILE_TYPE_OFF_CPU, "main;serve;lock_wait", 0.02);
}
