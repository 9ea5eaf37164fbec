// SPDX-License-Identifier: Apache-2.0
// A window of the CUPTI helper that somebody wants of one process, with the stacks that launched its kernels. Made
// by who wants it, and his for as long as the profiler runs that was opened with it. One thread.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "agent/gpu/cupti_session.h"

struct gpu_kernel_request {
	pid_t pid;
	struct cupti_session_options window;
	bool may_open; // set when stacks can be taken: it is opened from then on
	// The answer's.
	bool is_open; // it was opened
	bool is_over; // and there is an answer: the drain after this brings the stacks, and fills in the result
	int rc; // why there is none; -EBUSY before it is over: somebody else's is open, it is tried again
	struct cupti_result result; // to be deinitialized by who asked
};
