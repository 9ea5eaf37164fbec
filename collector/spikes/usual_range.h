// SPDX-License-Identifier: Apache-2.0
// Finds when a series of values left its usual range. Pure: values in, excursions out.
//
// The series is judged at several time scales. At each it is cut into blocks; the usual range of a block
// is what the maxima of the blocks before it say, by their quartiles: a quarter of them may be spikes
// themselves. Maxima of many values are distributed as Gumbel found, whose tail tells how surprising a
// value is. What has happened twice before, apart, is usual.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collector/spikes/sorted_window.h"

enum {
	USUAL_BLOCKS = SORTED_WINDOW_MAX, // that a block is compared with, those before it
	USUAL_BLOCKS_MIN = 6,             // with fewer it is not judged
	USUAL_BLOCK_S_MIN = 10,           // of a block
	USUAL_BLOCK_S_MAX = 60,           //
	USUAL_START_S = 30, // after the start of a service, not judged: starting is not usual
	USUAL_EXCURSIONS_MAX = 256, // of a series; the largest stay
};

struct usual_series {
	const int64_t *values; // by slot
	uint32_t count;
	uint64_t slot_ns;  // divides block_ns
	uint64_t block_ns; // usual_block_ns()
	// By unit of unit_ns, which divides block_ns: did the service run?
	const bool *present;
	uint32_t present_count;
	uint64_t unit_ns;
	uint32_t judged_from;  // slot: before it is history only
	double quantum;        // what one sample counts: less is noise
	double rise_min;       // over the level, in a second: less troubles nobody
	uint64_t scale_min_ns; // not judged at finer scales
};

struct excursion {
	uint32_t first, end; // slots
	uint64_t scale_ns;   // at which it is found
	double value;        // of the interval
	double extra;        // over the usual level
	double surprise;     // decimal digits: 6 is once in a million blocks
	bool goes_on;        // to the end of the series
};

struct excursions {
	struct excursion items[USUAL_EXCURSIONS_MAX];
	uint32_t count;
	uint32_t dropped; // smaller ones: items full
};

#define USUAL_SURPRISE_MAX 99.0

/** The length of a block for a series of @span_ns: whole multiples of 10 s. */
uint64_t usual_block_ns(uint64_t span_ns);

/**
 * Find the excursions of @series with at least @extra_min over the usual level, in order of time and apart.
 * Returns 0 or -ENOMEM.
 */
int usual_range_judge(const struct usual_series *series, double extra_min,
		      struct excursions *ret_excursions);
