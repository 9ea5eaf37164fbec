// SPDX-License-Identifier: Apache-2.0
// Names of a profile's frames for a terminal, as numbers of a string table: each is made once.
#pragma once

#include <stdint.h>

#include "base/profile/profile.h"
#include "base/string_table.h"
#include "cli/printable_text.h"

struct frame_names {
	const struct profile *profile;
	struct string_table *strings;
	uint32_t *of_lines; // by position in profile->lines, HASH_TABLE_NONE: not yet
	uint32_t *bare;     // by location, for those without lines
};

/** Zeroed @strings become a table. @profile and @strings must outlive @ret_names. Returns 0 or -ENOMEM. */
int frame_names_init(const struct profile *profile, struct string_table *strings,
		     struct frame_names *ret_names);
void frame_names_deinit(struct frame_names *names);

/** The number of @text as a terminal may see it, cut to FUNCTION_NAME_BYTES. Returns 0, -ENOMEM or -E2BIG. */
int frame_names_add(struct frame_names *names, const char *text, uint32_t *ret_number);

/** Functions at a location, innermost first: inlined calls, too. At least one. */
uint32_t frame_names_count(const struct frame_names *names, uint32_t location);
/** The name of one of them. Errors as above. */
int frame_names_get(struct frame_names *names, uint32_t location, uint32_t line,
		    uint32_t *ret_number);
/** What stands for the frames of @stack, which has none or is not known. */
const char *frame_names_missing(const struct stack *stack);
