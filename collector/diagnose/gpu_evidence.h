// SPDX-License-Identifier: Apache-2.0
// Which stored stacks show a GPU verdict.
#pragma once

#include "collector/diagnose/gpu_diagnosis.h"

enum { GPU_EVIDENCE_MAX = 3 };

enum gpu_evidence_threads {
	GPU_EVIDENCE_LAUNCHING, // threads that call the driver
	GPU_EVIDENCE_OTHERS,    // all others
	GPU_EVIDENCE_ALL,
};

/** Stacks of one profile type. Its pointers are constants, or the diagnosis's. */
struct gpu_evidence {
	const char *what; // a heading for people; NULL of the first, which shows the class
	const char *type; // NULL: none
	const char *wait; // value of the label "wait", NULL: any
	unsigned int with,
		without; // marks (enum gpu_mark) of which a stack has one, and none; 0: any
	enum gpu_evidence_threads threads;
	bool growth; // of a gauge: the value at the range's end less that at its beginning
};

/**
 * The evidence for @class: first the bottleneck's stacks, then the cause of its waits, if stored. Returns how
 * many there are.
 */
uint32_t gpu_evidence_find(const struct gpu_diagnosis *diagnosis, enum gpu_class class,
			   struct gpu_evidence ret_evidence[GPU_EVIDENCE_MAX]);
