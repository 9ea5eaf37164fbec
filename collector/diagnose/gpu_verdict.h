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
	double share; // by which classes are compared
	double threshold;
	bool judged;  // false: figures that it needs are unknown
	bool reached; // the share reaches the threshold, and the class's other conditions hold
};

struct gpu_verdict {
	enum gpu_class class;
	enum verdict_confidence confidence;
	bool is_intermittent; // one half of the range lacks it
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
/** One half of the range lacks it: confidence becomes low. */
void gpu_verdict_set_intermittent(struct gpu_verdict *verdict);
/** Does @class name a bottleneck? Then it takes precedence over the threads' verdict. */
bool gpu_class_is_bottleneck(enum gpu_class class);
