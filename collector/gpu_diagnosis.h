// SPDX-License-Identifier: Apache-2.0
// The verdict on the GPU of a service with what it is based on, out of stored data, and which stacks
// show it.
#pragma once

#include "collector/gpu_threads.h"
#include "collector/gpu_verdict.h"

struct gpu_diagnosis {
	struct gpu_figures figures;
	struct gpu_verdict verdict;
	struct gpu_threads threads;
	struct name_list types; // that are stored for the selection
};

/** Which stacks show a class: those of launching threads in a profile. */
struct gpu_evidence {
	const char *type; // NULL: none
	const char *wait; // value of the label "wait", NULL: any
	unsigned int with,
		without; // marks (enum gpu_mark) of which a stack has one, and none; 0: any
};

void gpu_diagnosis_deinit(struct gpu_diagnosis *diagnosis);

/**
 * Judge the GPU that the threads use which @query selects. Threads that use none have the class
 * GPU_CLASS_NO_GPU, and cost one look at the types that are stored. @blocked_ns is how long they were
 * blocked for a GPU. Errors are those of all queries.
 */
int gpu_diagnosis_read(const struct query *query, int64_t blocked_ns,
		       struct gpu_diagnosis *ret_diagnosis, struct error *err);

/** Where to look for @class. What it points to is the diagnosis's. */
struct gpu_evidence gpu_diagnosis_evidence(const struct gpu_diagnosis *diagnosis,
					   enum gpu_class class);
