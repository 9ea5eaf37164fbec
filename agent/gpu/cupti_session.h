// SPDX-License-Identifier: Apache-2.0
// Windows in which CUPTI measures how long a process's kernels run: asked for here, made by the helper
// library that the process has loaded (helper/cupti_helper.c). They talk through memory that the helper
// has made and sealed, so that it cannot be cut off under our feet; what it says is copied and bounded, for
// the process may write to it, too. One thread.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "helper/cupti_shared.h"

struct cupti_session_options {
	uint32_t window_ms; // half of it is for comparison; at most CUPTI_SESSION_MS_MAX
	uint32_t records_max;
	uint32_t one_in; // launches told to the probe, and recorded: one of so many
};

/** What a window showed. Sums are of the half in which kernels were measured, unless named otherwise. */
struct cupti_result {
	enum cupti_state state;
	int code; // CUptiResult, of what was refused
	uint64_t compared_ns, compared_launches;
	uint64_t measured_ns, measured_launches;
	uint64_t kernels, kernel_ns, records_dropped;
	uint64_t own_ns, enable_ns, disable_ns;
	uint32_t record_count, name_count;
	struct cupti_record *records; // names are below name_count
	char (*names)[CUPTI_NAME_BYTES];
};

struct cupti_session;

/**
 * The helper of process @pid. Returns 0; -ENOENT if it has none (err says how to get one); -EPROTO if it is
 * of another version, or no helper's memory; -ENOMEM or another negative errno.
 */
int cupti_session_find(pid_t pid, struct cupti_session **ret_window, struct error *err);
/** Takes an open window back. NULL is allowed. */
void cupti_session_free(struct cupti_session *window);
void cupti_session_freep(struct cupti_session **window);

/** Open a window. Returns 0, or -EBUSY if the last one is not over, or somebody else's is open. */
int cupti_session_ask(struct cupti_session *window, const struct cupti_session_options *options);
/** What it showed. Returns 0; -EAGAIN while it is open; -ENOENT if none was asked for; -ENOMEM. */
int cupti_session_read(struct cupti_session *window, struct cupti_result *ret_result);

void cupti_result_deinit(struct cupti_result *result);
/** Share of the window that the helper's own code took, of one CPU. */
double cupti_result_own_share(const struct cupti_result *result);
/** By how much fewer launches there were while kernels were measured: 0.02 is 2 % slower. 0: unknown. */
double cupti_result_slowdown(const struct cupti_result *result);
