// SPDX-License-Identifier: Apache-2.0
// Several profile types that one recording measures.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/profile/profile.h"
#include "cli/recorded_type.h"

enum { RECORDED_TYPES_MAX = 8 }; // more than there are

struct recorded_types {
	const struct recorded_type *at[RECORDED_TYPES_MAX];
	uint32_t count;
};

/**
 * The types that --type @text asks for: words or types of five parts, separated by commas. Returns 0, or -EINVAL and @err where one
 * is unknown or given twice, or wall is not alone: it uses up the others' samples.
 */
int recorded_types_find(const char *text, struct recorded_types *ret_types, struct error *err);

/** The sources that they need: enum source_bit. */
uint32_t recorded_types_sources(const struct recorded_types *types);

/** As recorded_type_check_scope() and recorded_type_finish(), of all. */
int recorded_types_check_scope(const struct recorded_types *types, bool is_narrow,
			       struct error *err);
int recorded_types_finish(const struct recorded_types *types, struct profile *profile);

/**
 * Remove other types from @profile, and idle off-CPU time unless @with_idle. Returns the idle time
 * removed, nanoseconds. What recorded_types_finish() needs stays.
 */
int64_t recorded_types_select(const struct recorded_types *types, bool with_idle,
			      struct profile *profile);

/** Has @profile samples of none of them? */
bool recorded_types_are_empty(const struct recorded_types *types, const struct profile *profile);
