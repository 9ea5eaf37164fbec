// SPDX-License-Identifier: Apache-2.0
// The main loop's priority on a busy machine.
#pragma once

/**
 * Run this thread before normal ones. The loop needs little CPU, but on time: late, it unwinds new processes with
 * truncated stacks and loses records of full rings. Its threads and children have normal priority. A priority set
 * by the operator is kept.
 *
 * Returns 0; 1 if one was set; -EPERM without CAP_SYS_NICE.
 */
int thread_priority_raise(void);
