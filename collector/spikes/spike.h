// SPDX-License-Identifier: Apache-2.0
// A spike: an interval in which a profile type of a service left its usual range, and what explains it.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collector/spikes/spike_type.h"
#include "collector/store/store.h"

enum {
	CAUSE_TEXT_BYTES = 256, // of a frame's name: longer ones are cut
	CAUSE_VALUES_MAX = 3,   // of a label that are named
	CAUSE_LABELS_MAX = 6,
	CAUSE_VALUE_BYTES = 128,
};

/** Values of one label that carry most of the extra. */
struct cause_label {
	const char *name;
	char values[CAUSE_VALUES_MAX][CAUSE_VALUE_BYTES]; // the largest first
	double shares[CAUSE_VALUES_MAX];                  // of the extra
	uint32_t count; // of values that carry nine tenths of it together
	uint32_t of;    // of values that have any
};

/** A function, and what it is part of. */
struct cause_code {
	bool is_users;               // it, or its leaf, is a function of the user's
	double share;                // of the extra, 0 to 1; 0: none is known
	char leaf[CAUSE_TEXT_BYTES]; // "futex"; "" if no leaf has half of the share
	char caller
		[CAUSE_TEXT_BYTES]; // "TokenizerPool.encode (pool.py:23)": the user's function; "": none, or main()
};

struct spike_cause {
	struct cause_code code;
	struct cause_label labels[CAUSE_LABELS_MAX];
	uint32_t label_count;
	// Of waits and run queue: what took CPU time meanwhile, more than usual; of throttled time all that did.
	struct cause_code meanwhile;
	double meanwhile_cores;
	char meanwhile_service[CAUSE_VALUE_BYTES]; // another one, on the same nodes; "": the same
};

struct spike {
	char *service;
	const struct spike_type *type;
	char *group; // value of the type's group_label; "" if it has none
	struct time_range interval;
	bool goes_on; // to the end of the range
	uint64_t scale_ns;
	double value, extra; // of the interval, in the type's unit
	double usual;        // of an interval of this length
	double surprise;     // decimal digits: 6 is once in a million blocks
	double score;        // size times surprise: what spikes are ranked by
	// Rank of the first spike of the same incident: of the same service at the same time, or of services that the same one
	// kept from running.
	uint32_t incident;
	bool explained;
	struct spike_cause cause;
};
