// SPDX-License-Identifier: Apache-2.0
// The samples that the kernel's sampler has written down, read from memory that it shares with us.
#pragma once

#include <stdint.h>

#include "bpf/cpu/sample_log_layout.h"

/** One of a loader; whose thread reads its counts. */
struct sample_log {
	const struct logged_sample *samples; // mapped; NULL: none are written
	uint32_t cpu_count;                  // possible CPUs
};

/** Samples of which the log has room for, as the entries of its map. */
uint32_t sample_log_size(uint32_t cpu_count);

/** Map the log. Returns 0 or -errno. sample_log_close() may follow in any case. */
int sample_log_open(struct sample_log *log, int map_fd, uint32_t cpu_count);
void sample_log_close(struct sample_log *log);

/**
 * Tell @fn each sample of this generation of the counts maps, which no program uses any more. Returns 0, or
 * what @fn returned that was not; what was not told then is lost.
 */
int sample_log_read(const struct sample_log *log, uint32_t generation,
		    int (*fn)(void *context, const struct count_key *key,
			      const struct count *count),
		    void *context);
