// SPDX-License-Identifier: Apache-2.0
// Being scheduled in time on a machine that has more to do than CPUs.
#pragma once

/**
 * Put this thread before ordinary ones. The loop needs little time, but on a busy node it needs it at
 * once: processes that it comes to late have stacks that are cut, and a full ring loses them. Threads
 * and processes that it starts are ordinary again. Whoever has set another priority is obeyed.
 *
 * Returns 0; 1 if somebody had set one; -EPERM without CAP_SYS_NICE.
 */
int thread_priority_raise(void);
