// SPDX-License-Identifier: Apache-2.0
// Test equipment: the interface of the double of libcupti.so.12 for tests, beside CUPTI's.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** An application's launch by the call @cbid: @kernels kernels of @duration_ns. Returns its correlation id. */
typedef uint32_t (*cupti_double_launch_fn)(uint32_t cbid, const char *name, uint32_t kernels,
					   uint64_t duration_ns);

struct cupti_double_state {
	bool is_subscribed, is_enabled; // now
	uint32_t callbacks_enabled;     // now
	uint32_t subscribed;            // times
	uint32_t refused;               // calls that the real one would refuse
	uint32_t callbacks, records;    // made
	uint32_t buffers;               // that CUPTI holds
};

typedef struct cupti_double_state (*cupti_double_state_fn)(void);
