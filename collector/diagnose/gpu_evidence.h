// SPDX-License-Identifier: Apache-2.0
// Which stacks show what holds a GPU up: where to look for those of a class, in what is stored.
#pragma once

#include "collector/diagnose/gpu_diagnosis.h"

enum { GPU_EVIDENCE_MAX = 3 };

enum gpu_evidence_threads {
	GPU_EVIDENCE_LAUNCHING, // those that call the driver
	GPU_EVIDENCE_OTHERS,    // all that do not
	GPU_EVIDENCE_ALL,
};

/** Stacks of a profile. What it points to are constants, or the diagnosis's. */
struct gpu_evidence {
	const char
		*what; // a sentence's beginning, for people; NULL of the first: it shows the class
	const char *type; // NULL: none
	const char *wait; // value of the label "wait", NULL: any
	unsigned int with,
		without; // marks (enum gpu_mark) of which a stack has one, and none; 0: any
	enum gpu_evidence_threads threads;
	bool growth; // of a level: what it is at the range's end, less what it was at its beginning
};

/**
 * What shows @class: first what holds the GPU up, then what that waits for, if it is stored. Returns how
 * many there are.
 */
uint32_t gpu_evidence_find(const struct gpu_diagnosis *diagnosis, enum gpu_class class,
			   struct gpu_evidence ret_evidence[GPU_EVIDENCE_MAX]);
