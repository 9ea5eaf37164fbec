// SPDX-License-Identifier: Apache-2.0
// Judges figures: from the time of a service's threads to its bottleneck, or to none, or to two
// that are equally likely. Pure: figures in, verdict out. A new verdict is a row of classes[] and a
// share of add_shares().
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/contract/wait_classes.h"
#include "base/profile/profile.h"

/** Which code ran, by a sample's innermost frame. */
enum cpu_use {
	CPU_USE_PYTHON, // including the interpreter
	CPU_USE_NATIVE,
	CPU_USE_KERNEL,
	CPU_USE_COUNT,
};

/** The time of the selected threads in nanoseconds, summed over threads. */
struct verdict_figures {
	uint64_t range_ns;
	bool has_wall_clock; // false: agents recorded on-CPU time only
	int64_t running_ns;
	int64_t cpu_ns[CPU_USE_COUNT]; // sampled CPU time
	int64_t queued_ns;             // runnable without a CPU
	int64_t wait_ns[WAIT_CLASS_COUNT];
	// Throttled time, and running and runnable time, on the node with the largest quotient;
	// both are sums over CPUs. throttled_of_ns 0: unknown, compared with the range.
	int64_t throttled_ns, throttled_of_ns;
};

/** Names are in the API: append only. */
enum verdict_class {
	VERDICT_NO_DATA,
	VERDICT_NO_DEMAND,
	VERDICT_NONE, // demand, but no share reaches its threshold
	VERDICT_AMBIGUOUS,
	VERDICT_THROTTLED,
	VERDICT_RUN_QUEUE,
	VERDICT_GIL,
	VERDICT_LOCK,
	VERDICT_DISK,
	VERDICT_NETWORK,
	VERDICT_OTHER_PROCESS,
	VERDICT_CPU_PYTHON,
	VERDICT_CPU_NATIVE,
	VERDICT_CPU_KERNEL,
	VERDICT_OTHER_WAIT, // blocked, of no wait class
	VERDICT_CLASS_COUNT,
};

enum verdict_confidence { CONFIDENCE_LOW, CONFIDENCE_MEDIUM, CONFIDENCE_HIGH };

/** One class, measured. */
struct verdict_share {
	enum verdict_class class;
	double share;     // of active_ns; of throttling: of running and runnable time
	double threshold; // reached: the class is a bottleneck
};

enum { VERDICT_SHARES_MAX = VERDICT_CLASS_COUNT };

struct verdict {
	enum verdict_class class;
	enum verdict_confidence confidence;
	int64_t active_ns; // time in which threads had work to do
	// Those that reach their threshold first, then by falling share.
	struct verdict_share shares[VERDICT_SHARES_MAX];
	uint32_t share_count, passed_count;
};

/** Judge @figures. */
struct verdict verdict_of(const struct verdict_figures *figures);

/** "gil": the token in the API. */
const char *verdict_class_name(enum verdict_class class);
/** "GIL: threads wait for Python's global interpreter lock". */
const char *verdict_class_title(enum verdict_class class);
/** What to try next: sentences, NULL-terminated. */
const char *const *verdict_class_advice(enum verdict_class class);
/** "low", "medium", "high". */
const char *verdict_confidence_name(enum verdict_confidence confidence);
/**
 * The type of the profile that shows the class's stacks, NULL if none does. *ret_wait: the value of its label
 * "wait", NULL for any.
 */
const char *verdict_class_profile(enum verdict_class class, const char **ret_wait);
