// SPDX-License-Identifier: Apache-2.0
// A profile type in Pyroscope's five-part form: name:sample_type:sample_unit:period_type:period_unit.
#pragma once

#include <stdbool.h>

#include <stdint.h>

#include "base/error.h"

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

/** A type's short name, for the command line and for links to the page. */
struct profile_type_word {
	const char *word; // "off-cpu"
	const char *type; // in five parts
	const char *meaning;
};

/** All of them, the usual ones first. */
const struct profile_type_word *profile_type_words(uint32_t *ret_count);

/**
 * The type in five parts that @text means: a word's, or @text itself if it has five parts.
 * Returns 0, or -EINVAL with @err naming the words.
 */
int profile_type_of_text(const char *text, const char **ret_type, struct error *err);
