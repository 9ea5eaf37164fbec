// SPDX-License-Identifier: Apache-2.0
// A CUPTI session: a second in which the helper library of a process (helper/cupti_helper.c) has CUPTI measure how long
// GPU kernels run. The agent requests it through shared memory that the helper creates. The memory is sealed, so that
// the process cannot truncate it under the agent's mapping; its contents are hostile: they are copied, then checked.
// One thread.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "helper/cupti_shared.h"

struct cupti_session_options {
	uint32_t session_ms; // the first half is the baseline; at most CUPTI_SESSION_MS_MAX
	uint32_t records_max;
	uint32_t one_in; // sample and record one launch in this many
};

/** Sums are of the second half, in which GPU kernels are measured, but for the baseline's. */
struct cupti_result {
	enum cupti_state state;
	int code; // CUptiResult of the failed call
	uint64_t baseline_ns, baseline_launches;
	uint64_t measured_ns, measured_launches;
	uint64_t gpu_kernels, gpu_kernel_ns, records_dropped;
	uint64_t overhead_ns, enable_ns, disable_ns;
	uint32_t record_count, name_count;
	struct cupti_record *records; // names are below name_count
	char (*names)[CUPTI_NAME_BYTES];
};

struct cupti_session;

/**
 * Find the helper of process @pid. Returns 0; -ENOENT if it has none (@err has the remedy); -EPROTO if the memory is
 * of another version or not a helper's; -ENOMEM or another negative errno.
 */
int cupti_session_find(pid_t pid, struct cupti_session **ret_session, struct error *err);
/** Cancels the session if it still runs. NULL is allowed. */
void cupti_session_free(struct cupti_session *session);
void cupti_session_freep(struct cupti_session **session);

/** Returns 0, or -EBUSY while a session runs, also another program's. */
int cupti_session_begin(struct cupti_session *session, const struct cupti_session_options *options);
/** Returns 0; -EAGAIN while the session runs; -ENOENT if none was begun; -ENOMEM. */
int cupti_session_read(struct cupti_session *session, struct cupti_result *ret_result);

void cupti_result_deinit(struct cupti_result *result);
/** CPU time of the helper's code as a share of the session. */
double cupti_result_overhead(const struct cupti_result *result);
/** Drop of the launch rate from the baseline while GPU kernels were measured: 0.02 is 2 %. 0: none, or unknown. */
double cupti_result_slowdown(const struct cupti_result *result);
