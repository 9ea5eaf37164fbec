/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// A running thread, as running_threads.bpf.c writes it and the agent reads it.
#pragma once

#include "bpf/sample.h"

struct running_thread {
	struct process_key process;
	__u64 exec_ns;                // CPU time so far
	char name[THREAD_NAME_BYTES]; // comm of the main thread
};

_Static_assert(sizeof(struct running_thread) == 40, "no padding: it is copied out of the kernel");
