// SPDX-License-Identifier: Apache-2.0
// Reading a profile type (base/contract/profile_types.h) or its word.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { PROFILE_TYPE_BYTES = 160, PROFILE_TYPE_PART_BYTES = 32, PROFILE_TYPE_WORDS_BYTES = 512 };

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

/** "cpu, off-cpu, ...": the words of all types, in lines of @columns; 0: in one line. */
void profile_type_words(char *text, size_t size, uint32_t columns);

/**
 * The type in five parts that @text means: a word's, or @text itself if it has five parts.
 * Returns 0, or -EINVAL with @err naming the words.
 */
int profile_type_of_text(const char *text, const char **ret_type, struct error *err);
