// SPDX-License-Identifier: Apache-2.0
// The profile type and labels of each kind of count that the BPF programs keep.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sample_kind_type {
	const char *type;        // five parts (base/contract/profile_types.h)
	const char *state;       // value of LABEL_STATE; NULL: none
	const char *direction;   // of LABEL_DIRECTION
	const char *memory;      // of LABEL_MEMORY
	uint32_t exact_kind;     // the kind of the same, of which this one is an estimate; 0: none
	uint32_t number_kind;    // the kind that counts the same events by number; 0: none
	bool has_stack;          // false: a total without a stack
	bool has_wait;           // its series have LABEL_WAIT
	bool is_calibrated;      // off-CPU time by stack (agent/stacks/calibration.h)
	bool has_cupti;          // CUPTI's frames lie between leaf and callers: left out
	bool has_grid;           // its series have LABEL_GRID
	bool is_of_communicator; // its series have the labels of NCCL calls
};

/** The type of counts of @kind (enum sample_kind), or NULL if there is no such kind. */
const struct sample_kind_type *sample_kind_find(uint32_t kind);
