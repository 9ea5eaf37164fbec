// SPDX-License-Identifier: Apache-2.0
// A range in whole steps.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "collector/store/store.h"

/**
 * Widen @range to whole steps of @step_ns, which lie at multiples of it. Returns 0; -EINVAL where nothing is in the range,
 * or where it has more than @steps_max steps.
 */
int query_steps_align(struct time_range range, uint64_t step_ns, uint32_t steps_max,
		      struct time_range *ret_range, struct error *err);
