// SPDX-License-Identifier: Apache-2.0
// What threads did with their time: the columns beside self and total in `cairn top`.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/labels.h"

enum time_part {
	TIME_PART_RUNNING, // on a CPU
	TIME_PART_QUEUED,  // runnable, without a CPU
	TIME_PART_GIL,     // blocked: waits for the GIL
	TIME_PART_GPU,     // blocked: waits for the GPU
	TIME_PART_BLOCKED, // blocked otherwise
	TIME_PART_COUNT,
};

/** The heading of its column: "run%". */
const char *time_part_heading(enum time_part part);
/** Its key in JSON: "running". */
const char *time_part_key(enum time_part part);

/** Can samples of this profile type be told apart so? */
bool time_parts_has(const char *type);
/** Of a sample whose series has @labels, of a type that can. */
enum time_part time_part_of(const struct labels *labels);
