// SPDX-License-Identifier: Apache-2.0
#include "base/contract/thread_states.h"

const struct thread_state_spec thread_states[THREAD_STATE_COUNT] = {
	{ THREAD_STATE_RUNNING, "running", "on a CPU" },
	{ THREAD_STATE_RUN_QUEUE, "run queue", "runnable, without a CPU" },
	{ THREAD_STATE_BLOCKED, "blocked", "off-CPU: neither running nor runnable" },
};
