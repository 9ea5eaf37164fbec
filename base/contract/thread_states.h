// SPDX-License-Identifier: Apache-2.0
// What a thread does with its time: the values of the label "state" of PROFILE_TYPE_WALL.
#pragma once

#define THREAD_STATE_RUNNING   "running"
#define THREAD_STATE_RUN_QUEUE "run_queue"
#define THREAD_STATE_BLOCKED   "blocked"

enum { THREAD_STATE_COUNT = 3 };

struct thread_state_spec {
	const char *token;
	const char *title;
	const char *meaning;
};

/** In the order in which a chart stacks them, from the bottom. */
extern const struct thread_state_spec thread_states[THREAD_STATE_COUNT];
