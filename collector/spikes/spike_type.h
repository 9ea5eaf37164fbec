// SPDX-License-Identifier: Apache-2.0
// The profile types that are judged for spikes, and how they compare with each other.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct spike_type {
	const char *type;
	const char *group_label; // judged by the values of this label, too; NULL: none
	// What a unit costs, in seconds of a thread: time its length, a byte of first touch its page fault.
	double unit_s;
	double quantum; // what one sample counts, in units: less is noise
	// For ranking: 1 if it names the cause itself, less if it may be the effect of another spike.
	double weight;
	const char *noun; // "CPU time": goes on after "of the extra"
	const char *rate; // of time per time: "cores"; NULL: none
	bool has_stacks;
	bool is_sampled; // in the on phases of a probe duty cycle, each with a weight
};

/** All of them. */
const struct spike_type *spike_types(uint32_t *ret_count);
/** The one of @type in five parts; NULL: it is not judged. */
const struct spike_type *spike_type_find(const char *type);
/**
 * The weight of @type's series with the value @value of its group_label; 0: not judged, as time that threads
 * wait for work.
 */
double spike_type_weight(const struct spike_type *type, const char *value);
