// SPDX-License-Identifier: Apache-2.0
// "What is the bottleneck?" as a function over figures: where the time of a service's threads went,
// to one class of bottleneck with the evidence for it, or to the admission that there is none or
// that two are as likely. Pure: figures in, verdict out.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/contract/wait_classes.h"
#include "base/profile.h"

/** Whose instructions ran: of a sample's innermost frame. */
enum cpu_use {
	CPU_USE_PYTHON, // the interpreter's own code counts as Python, too
	CPU_USE_NATIVE,
	CPU_USE_KERNEL,
	CPU_USE_COUNT,
};

/** Where the time of the selected threads went, in nanoseconds, summed over threads. */
struct verdict_figures {
	uint64_t range_ns;
	bool has_waits; // agents kept the wall clock: without it there is on-CPU time only
	int64_t running_ns;
	int64_t cpu_ns[CPU_USE_COUNT]; // how sampled CPU time divides
	int64_t queued_ns;             // runnable without a CPU
	int64_t wait_ns[WAIT_CLASS_COUNT];
	// By CPU quotas, on the node where it was the largest part of the time that threads ran or wanted to there; both
	// are sums over CPUs. 0 of the second: nobody knows, it is compared with the range.
	int64_t throttled_ns, throttled_of_ns;
};

/** Names are in the API: append only. */
enum verdict_class {
	VERDICT_NO_DATA,
	VERDICT_NO_DEMAND,
	VERDICT_NONE, // there is work, but nothing stands out
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
	VERDICT_OTHER_WAIT, // blocked on what no agent has a name for
	VERDICT_CLASS_COUNT,
};

enum verdict_confidence { CONFIDENCE_LOW, CONFIDENCE_MEDIUM, CONFIDENCE_HIGH };

/** One class, measured. */
struct verdict_share {
	enum verdict_class class;
	double share; // of the time that threads had something to do; throttling: that they ran or wanted to
	double threshold; // from which it counts
};

enum { VERDICT_SHARES_MAX = VERDICT_CLASS_COUNT };

struct verdict {
	enum verdict_class class;
	enum verdict_confidence confidence;
	int64_t active_ns; // time that threads had something to do: what shares are of
	// Largest first: all that reach their threshold, then those that do not.
	struct verdict_share shares[VERDICT_SHARES_MAX];
	uint32_t share_count, passed_count;
};

/** The verdict on @figures. */
struct verdict verdict_of(const struct verdict_figures *figures);

/** "gil": for machines. */
const char *verdict_class_name(enum verdict_class class);
/** "Threads wait for Python's global interpreter lock": for people. */
const char *verdict_class_title(enum verdict_class class);
/** What to try next, sentences in a NULL-terminated array. */
const char *const *verdict_class_advice(enum verdict_class class);
/** "low", "medium", "high". */
const char *verdict_confidence_name(enum verdict_confidence confidence);
/**
 * Which profile shows where: its type, and in *ret_wait what the label "wait" is there, or NULL for
 * any. NULL if there is nothing to show.
 */
const char *verdict_class_profile(enum verdict_class class, const char **ret_wait);
