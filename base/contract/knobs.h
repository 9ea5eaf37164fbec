// SPDX-License-Identifier: Apache-2.0
// What load shedding turns down: the values of the labels "knob" and "step" of PROFILE_TYPE_SHEDDING and
// PROFILE_TYPE_SHEDDING_CHANGES, and the sentence that shows them.
#pragma once

#include <stddef.h>
#include <stdint.h>

struct labels;

/*
 * Details first, in the order in which the governor sheds them, if each saves enough; the CPU frequency ends them. The last
 * two are the last resorts: it takes the one that saves more.
 */
enum knob {
	KNOB_WAKERS,
	KNOB_OFF_CPU_UNWIND,
	KNOB_PAGE_FAULTS_UNWIND,
	KNOB_PROCESS_OFF_CPU,
	KNOB_CPU_FREQUENCY,
	KNOB_PAGE_FAULTS,
	KNOB_OFF_CPU,
	KNOB_GOVERNED, // the governor turns those above
	// States that are reported in the same series.
	KNOB_GPU_MEMORY = KNOB_GOVERNED,
	KNOB_OVERHEAD_BUDGET,
	KNOB_SAMPLING, // all of it: a boost stops the agent
	KNOB_COUNT,
};

/* In sets of knobs. */
#define KNOB_BIT(knob) (1U << (knob))

#define STEP_ON       "on"
#define STEP_OFF      "off"
#define STEP_EXCEEDED "exceeded" // of KNOB_OVERHEAD_BUDGET: no step would help
#define STEP_MET      "met"

enum {
	KNOB_STEP_BYTES = 16,
	KNOB_SENTENCE_BYTES = 128,
	KNOB_COMM_BYTES = 16, // TASK_COMM_LEN
};

struct knob_spec {
	const char *token; // "off_cpu_unwind"
	const char *title;
	const char *sentence; // with {step}, and {process} where the knob is one process's
	const char *steps;    // what its steps are, for documentation
	const char *meaning;
};

/** One setting of a knob: what the labels of a series say. */
struct knob_setting {
	enum knob knob;
	char step[KNOB_STEP_BYTES]; // "1/16", "19Hz", STEP_OFF ...
	uint32_t pid;               // 0: the knob is no process's
	char comm[KNOB_COMM_BYTES];
};

/** NULL if there is no such knob. */
const struct knob_spec *knob_spec(enum knob knob);

/** Set the labels "knob", "step" and, of one process, "pid" and "comm". Returns 0 or -ENOMEM, -E2BIG. */
int knob_set_labels(const struct knob_setting *setting, struct labels *labels);

/** "off-CPU stacks at 1/16", "off-CPU stacks of nginx (4711) off". Returns @text. */
const char *knob_sentence(const struct knob_setting *setting, char text[KNOB_SENTENCE_BYTES]);
