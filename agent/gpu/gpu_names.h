// SPDX-License-Identifier: Apache-2.0
// GPU kernel names, which the BPF programs keep by hash: removes those that no handle refers to any more, so that the
// map has room for new ones. Uses libbpf. One thread.
#pragma once

#include <stdint.h>

#include "agent/bpf/map_entries.h"

struct gpu_names {
	uint64_t *used;   // hashes that some handle has, sorted
	uint64_t *unused; // hashes that none had at the last sweep, sorted
	uint32_t used_count, used_capacity, unused_count, unused_capacity;
};

void gpu_names_deinit(struct gpu_names *names);

/**
 * Remove from the map @texts the names that no handle in @functions has, at this sweep and at the last one: launches
 * of the last export interval may still need their name. Returns 0 or a negative errno.
 */
int gpu_names_sweep(struct gpu_names *names, struct map_entries *entries,
		    const struct bpf_map *functions, const struct bpf_map *texts);
