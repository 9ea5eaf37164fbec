// SPDX-License-Identifier: Apache-2.0
// A profile as a timeline for Perfetto and chrome://tracing: the threads' stacks as nested slices.
#pragma once

#include "base/buffer.h"
#include "base/profile/profile.h"

enum {
	TRACE_LANES_MAX = 256, // threads of one name that run at once
	TRACE_LATE_MS = 50,    // a sample begins so much after its slot at most: ticks are not even
	// The same where all threads of the row have their lane: waits of one thread that are sampled overlap.
	TRACE_OVERLAP_MS = 1000,
};

/**
 * Append the samples of @type, which have to be times with slots, as JSON in the Trace Event Format. The slices of
 * a thread are as long as its samples' values, and begin with their slots, or when the samples before them
 * end. Where the series have thread states, the stacks lie below these. Threads of one name that run at once are
 * rows "name", "name 2" and so on; of wall-clock time as many as there are threads.
 *
 * Returns 0; -EINVAL (the unit is not nanoseconds); -ENODATA (samples without time); -ENOMEM; -E2BIG (too many
 * threads or functions); -EFBIG when the buffer's limit is hit.
 */
int chrome_trace_encode(const struct profile *profile, const char *type, struct buffer *buffer);
