// SPDX-License-Identifier: Apache-2.0
// Names of kernels that the kernel's programs keep by their hashes, and that no handle stands for any more: they
// are let go, or new ones would find no room. Uses libbpf. One thread.
#pragma once

#include <stdint.h>

#include "agent/bpf/map_entries.h"

struct gpu_names {
	uint64_t *used,
		*unused; // hashes, in order: by some handle now; by none when it was looked the last time
	uint32_t used_count, used_capacity, unused_count, unused_capacity;
};

void gpu_names_deinit(struct gpu_names *names);

/**
 * Remove from the map @texts what none of @functions has now, and had not the last time either: a launch of
 * before may still be about to be named. Returns 0 or a negative errno.
 */
int gpu_names_sweep(struct gpu_names *names, struct map_entries *entries,
		    const struct bpf_map *functions, const struct bpf_map *texts);
