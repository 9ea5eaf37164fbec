// SPDX-License-Identifier: Apache-2.0
// The verdict on the GPU of a service with what it is based on, out of stored data.
#pragma once

#include "collector/diagnose/gpu_threads.h"
#include "collector/diagnose/gpu_verdict.h"

enum { GPU_LATE_BYTES = 64 };

struct gpu_diagnosis {
	struct gpu_figures figures;
	struct gpu_verdict verdict;
	struct gpu_threads threads;
	// Of the launching threads' CPU time: launches that waited for room in a GPU's queue.
	int64_t queued_ns;
	// The rank that had others of its node wait longest; "": none is known.
	char late_communicator[GPU_LATE_BYTES], late_rank[GPU_LATE_BYTES],
		late_node[GPU_LATE_BYTES];
	struct name_list types; // that are stored for the selection
};

void gpu_diagnosis_deinit(struct gpu_diagnosis *diagnosis);

/**
 * Judge the GPU that the threads use which @query selects. Threads that use none have the class
 * GPU_CLASS_NO_GPU, and cost one look at the types that are stored. @blocked_ns is how long they were
 * blocked for a GPU. Errors are those of all queries.
 */
int gpu_diagnosis_read(const struct query *query, int64_t blocked_ns,
		       struct gpu_diagnosis *ret_diagnosis, struct error *err);
