// SPDX-License-Identifier: Apache-2.0
// "What keeps the GPU from doing more?" as a function over figures of a service that uses one: to one
// class of bottleneck, or to the admission that there is none, that two are as likely, or that the figures
// that would tell were not recorded: a class that needs an unknown one is not judged. Pure: figures
// in, verdict out.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collector/diagnose/gpu_class.h"
#include "collector/diagnose/gpu_figure.h"
#include "collector/diagnose/verdict.h"

/** One class, judged. */
struct gpu_share {
	enum gpu_class class;
	double share; // of what it holds up; what classes are compared by
	double threshold;
	bool judged;  // false: figures that it needs are unknown
	bool reached; // share is enough, and all else that the class asks for holds
};

struct gpu_verdict {
	enum gpu_class class;
	enum verdict_confidence confidence;
	bool is_passing; // it was so in a part of the range only
	// Those reached first, largest first; then the other judged ones, then those that were not.
	struct gpu_share shares[GPU_CLASS_COUNT];
	uint32_t share_count, reached_count;
	uint32_t
		missing; // bits of enum gpu_figure: unknown, and a class that was not judged needs it
};

/** The verdict on @figures. */
struct gpu_verdict gpu_verdict_of(const struct gpu_figures *figures);
/** Has all that @class asks for been found? */
bool gpu_verdict_has_reached(const struct gpu_verdict *verdict, enum gpu_class class);
/** It was not so in all parts of the range: that is said, and confidence is low. */
void gpu_verdict_set_passing(struct gpu_verdict *verdict);
/** Does @class say what holds the GPU up? Then it outdoes what the CPU's figures say. */
bool gpu_class_is_bottleneck(enum gpu_class class);
