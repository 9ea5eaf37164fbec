// SPDX-License-Identifier: Apache-2.0
// Lists the threads that run, with the exact keys of their processes: /proc has start times in ticks only and no
// exec count, and what is published by such a key is not found.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "bpf/process/running_thread.h"

enum {
	RUNNING_THREADS_MAX = 1 << 17, // listed; the others are published when they are sampled
};

struct running_threads;

/** Load the program that lists them. Returns 0, or -errno and @err. */
int running_threads_open(struct running_threads **ret_threads, struct error *err);
/** NULL is allowed. */
void running_threads_close(struct running_threads *threads);

/**
 * List the threads of all processes, those of one process together, into memory that the caller frees. Returns 0,
 * -ENOMEM or -errno.
 */
int running_threads_list(struct running_threads *threads, struct running_thread **ret_list,
			 uint32_t *ret_count);
