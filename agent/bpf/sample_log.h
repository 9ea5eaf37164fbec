// SPDX-License-Identifier: Apache-2.0
// Reads the sampler's log of samples from memory shared with BPF.
#pragma once

#include <stdint.h>

#include "bpf/cpu/sample_log_layout.h"

/** Used by the loader's thread. */
struct sample_log {
	const struct logged_sample *samples; // mapped; NULL: none
	uint32_t cpu_count;                  // possible CPUs
};

/** Entries of the log's map. */
uint32_t sample_log_size(uint32_t cpu_count);

/** Call sample_log_close() in any case. Returns 0 or -errno. */
int sample_log_open(struct sample_log *log, int map_fd, uint32_t cpu_count);
void sample_log_close(struct sample_log *log);

/**
 * Pass each sample of this generation of the counts maps to @fn; no program writes it any more. Returns 0, or
 * what @fn returned if that was not 0: the rest is dropped then.
 */
int sample_log_read(const struct sample_log *log, uint32_t generation,
		    int (*fn)(void *context, const struct count_key *key,
			      const struct count *count),
		    void *context);
