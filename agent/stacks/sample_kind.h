// SPDX-License-Identifier: Apache-2.0
// What the kernel side counted, in the terms of profiles: each kind of count has its profile type.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct sample_kind_type {
	const char *type;      // five parts (base/contract/profile_types.h)
	const char *state;     // value of LABEL_STATE; NULL: none
	const char *direction; // of LABEL_DIRECTION
	const char *memory;    // of LABEL_MEMORY
	uint32_t
		number_kind; // its counts are also counted by number, as of this kind; 0: they are not
	bool has_stack;      // false: a total, whose stack has no locations
	bool has_wait;       // its series have LABEL_WAIT
	bool has_tools; // between leaf and callers are functions of CUPTI, which nobody asked for
	bool has_grid;  // they have LABEL_GRID
	bool is_of_communicator; // they have the labels of NCCL's calls
};

/** The type of counts of @kind (enum sample_kind), or NULL if there is no such kind. */
const struct sample_kind_type *sample_kind_find(uint32_t kind);
