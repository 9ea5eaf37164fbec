// SPDX-License-Identifier: Apache-2.0
// A verdict with its evidence, out of stored data: how much of which time there was, and the stacks
// that it was spent in.
#pragma once

#include "base/string_table.h"
#include "collector/diagnose/gpu_evidence.h"
#include "collector/query/query.h"
#include "collector/diagnose/verdict.h"

enum {
	DIAGNOSIS_STACKS_MAX = 3,  // a reader looks at no more
	DIAGNOSIS_FRAMES_MAX = 16, // innermost ones; what is above is the thread's way in
	// So many of a library's, if there is no Python among those: what called the library is looked for.
	DIAGNOSIS_LIBRARY_FRAMES_MAX = 7,
	DIAGNOSIS_KERNEL_FRAMES_MAX = 2, // and of the kernel, then
	DIAGNOSIS_ADVICE_MAX = 9,        // sentences
};

/** One stack that shows the bottleneck. */
struct diagnosis_stack {
	int64_t value;                         // of its profile's type
	double share;                          // of what the profile shows in all
	uint32_t frames[DIAGNOSIS_FRAMES_MAX]; // in strings, leaf first
	uint32_t frame_count;
	bool cut; // there are callers above the last frame
};

/** Stacks of one profile. */
struct diagnosis_evidence {
	const char *what; // what it shows, for people; NULL of the first: what holds the service up
	const char *type; // of the profile
	const char *wait; // its label, NULL: any
	struct diagnosis_stack stacks[DIAGNOSIS_STACKS_MAX]; // largest first
	uint32_t stack_count;
};

struct diagnosis {
	struct verdict_figures figures;
	struct verdict verdict;
	struct gpu_diagnosis gpu;
	bool is_of_gpu; // what holds it up is the GPU's verdict: then that outdoes the threads'
	struct string_table strings;
	struct diagnosis_evidence evidence[GPU_EVIDENCE_MAX];
	uint32_t evidence_count;
};

void diagnosis_deinit(struct diagnosis *diagnosis);

/** "gpu_starved", "gil": of the verdict that counts; its title. */
const char *diagnosis_class_name(const struct diagnosis *diagnosis);
const char *diagnosis_title(const struct diagnosis *diagnosis);
/** What to try next, NULL at the end; where two things hold it up, for both. */
void diagnosis_advice(const struct diagnosis *diagnosis,
		      const char *ret_advice[DIAGNOSIS_ADVICE_MAX + 1]);
enum verdict_confidence diagnosis_confidence(const struct diagnosis *diagnosis);

/**
 * Judge what @query selects in its range; its type and group_by are not looked at. Errors are those
 * of all queries; nothing stored is a verdict, not an error.
 */
int query_diagnosis(const struct query *query, struct diagnosis *ret_diagnosis, struct error *err);
