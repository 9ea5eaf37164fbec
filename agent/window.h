// SPDX-License-Identifier: Apache-2.0
// One window's profile in the making: each count drained from the kernel becomes a sample of a
// series (whose it is) and a stack (kernel frames on top of user frames). One thread.
#pragma once

#include <stdint.h>

#include "agent/frame_locator.h"
#include "agent/stack_table.h"
#include "base/hash_table.h"
#include "base/profile.h"
#include "bpf/sample.h"

/** What a window reads; the profiler's, which outlive it. */
struct window_sources {
	struct frame_locator frames;
	struct stack_table *stacks;
};

/** A process and one of its threads' names, and their series in the profile. */
struct window_thread {
	struct process_key process;
	char thread_name[THREAD_NAME_BYTES];
	uint32_t series;
};

struct window {
	struct window_sources sources;
	struct profile *profile;
	struct window_thread *threads;
	uint32_t thread_count, thread_capacity;
	struct hash_table thread_index;
	uint32_t positions[STACK_FRAMES_MAX]; // the stack in work, in the profile's locations
	uint32_t position_count;
	uint64_t stacks_lost; // counts whose stack's body never came
};

/** An empty profile from @from_ns on. Returns 0 or -ENOMEM. */
int window_init(struct window *window, const struct window_sources *sources, uint64_t slot_ns,
		uint64_t from_ns);
void window_deinit(struct window *window);

/** Add one count, first seen by the agent @now_ns. Returns 0, or a negative errno: it is not in. */
int window_add(struct window *window, const struct count_key *key, const struct count *count,
	       uint64_t now_ns);

/** The finished profile, sorted; the caller's. The window is empty then and must be deinited. */
struct profile *window_finish(struct window *window, uint64_t to_ns);
