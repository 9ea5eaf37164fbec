// SPDX-License-Identifier: Apache-2.0
// Diagnoses a service from stored data: reads the figures, judges them, and finds the stacks that
// show the verdict.
#pragma once

#include "base/string_table.h"
#include "collector/diagnose/gpu_evidence.h"
#include "collector/query/query.h"
#include "collector/diagnose/hot_spot.h"
#include "collector/diagnose/verdict.h"

enum {
	DIAGNOSIS_STACKS_MAX = HOT_SPOTS_MAX,
	DIAGNOSIS_FRAMES_MAX = 16, // the innermost frames
	// If the user's own code lies further out, fewer frames of libraries are kept to show it.
	DIAGNOSIS_LIBRARY_FRAMES_MAX = 7,
	DIAGNOSIS_KERNEL_FRAMES_MAX = 2,
	DIAGNOSIS_ADVICE_MAX = 9,   // sentences
	DIAGNOSIS_NAME_BYTES = 120, // of a function in a sentence: longer names are cut
	DIAGNOSIS_SENTENCE_BYTES = 2 * DIAGNOSIS_NAME_BYTES + 200,
};

/** One stack that shows the bottleneck. */
struct diagnosis_stack {
	int64_t value; // of all stacks with the same function and caller (hot_spot.h)
	double share;  // of the profile's shown values
	uint32_t frames[DIAGNOSIS_FRAMES_MAX]; // in strings, leaf first
	uint32_t frame_count;
	bool cut; // there are more callers
};

/** Stacks of one profile. */
struct diagnosis_evidence {
	const char *what; // a heading; NULL of the first: the stacks of the verdict
	const char *type; // of the profile
	const char *wait; // its label, NULL: any
	struct diagnosis_stack stacks[DIAGNOSIS_STACKS_MAX]; // largest first
	uint32_t stack_count;
	// "`matmul` takes 83 % of CPU time, called by `forward (serve.py:40)`."; "": no stacks
	char finding[DIAGNOSIS_SENTENCE_BYTES];
};

struct diagnosis {
	struct verdict_figures figures;
	struct verdict verdict;
	struct gpu_diagnosis gpu;
	bool is_of_gpu; // the GPU's verdict is the diagnosis, not the threads'
	struct string_table strings;
	struct diagnosis_evidence evidence[GPU_EVIDENCE_MAX];
	uint32_t evidence_count;
	char action
		[DIAGNOSIS_SENTENCE_BYTES]; // the first advice, with the function's name; "": none
};

void diagnosis_deinit(struct diagnosis *diagnosis);

/** The token ("gpu_starved", "gil") and the title of the verdict. */
const char *diagnosis_class_name(const struct diagnosis *diagnosis);
const char *diagnosis_title(const struct diagnosis *diagnosis);
/** What to try next: sentences, NULL at the end; for both of two bottlenecks. */
void diagnosis_advice(const struct diagnosis *diagnosis,
		      const char *ret_advice[DIAGNOSIS_ADVICE_MAX + 1]);
enum verdict_confidence diagnosis_confidence(const struct diagnosis *diagnosis);

/**
 * Diagnose the threads that @query selects in its range; its type and group_by are ignored. Errors are those
 * of all queries. No data is a verdict.
 */
int query_diagnosis(const struct query *query, struct diagnosis *ret_diagnosis, struct error *err);
