// SPDX-License-Identifier: Apache-2.0
// Copies stacks of the store's forests to a profile, with names.
#pragma once

#include <stdint.h>

#include "collector/query/query_select.h"

/** Zeroed but for the first four, which are borrowed, and the symbolizer's time. */
struct profile_builder {
	struct profile *profile;
	const struct query *query;
	struct error *err;
	uint64_t symbolizer_ns; // the symbolizer's time left
	// Of the partition: its locations' positions in the profile, UINT32_MAX: not yet.
	uint32_t *location_of;
};

void profile_builder_deinit(struct profile_builder *builder);

/** A partition begins: its stacks follow. All return 0; -ENOMEM, -E2BIG, -EIO with the builder's err. */
int profile_builder_begin(struct profile_builder *builder, const struct store_forest *forest);
/** Add the stack that ends in forest node @node. */
int profile_builder_add_stack(struct profile_builder *builder, const struct store_forest *forest,
			      uint32_t node, uint32_t *ret_stack);
/** The error of an @rc of the profile's functions. Returns it. */
int profile_builder_fail(struct profile_builder *builder, int rc);
