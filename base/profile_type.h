// SPDX-License-Identifier: Apache-2.0
// A profile type in Pyroscope's five-part form: name:sample_type:sample_unit:period_type:period_unit.
#pragma once

#include <stdbool.h>

#include "error.h"

enum { PROFILE_TYPE_BYTES = 160, PROFILE_TYPE_PART_BYTES = 32 };

struct profile_type {
	char name[PROFILE_TYPE_PART_BYTES];
	char sample_type[PROFILE_TYPE_PART_BYTES];
	char sample_unit[PROFILE_TYPE_PART_BYTES];
	char period_type[PROFILE_TYPE_PART_BYTES];
	char period_unit[PROFILE_TYPE_PART_BYTES];
};

/** Returns 0; -EINVAL with @err naming the fault (not five parts, a part empty or too long). */
int profile_type_parse(const char *text, struct profile_type *ret_type, struct error *err);

/**
 * Is it a level that is sampled once a second (period "gauge:second", as in
 * memory:rss:bytes:gauge:second)? Its values of one second add up over series, those of several
 * seconds do not: they are averaged. False if @text is no type.
 */
bool profile_type_is_gauge(const char *text);
