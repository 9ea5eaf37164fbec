// SPDX-License-Identifier: Apache-2.0
// Regular expressions that match whole texts, with bounds on what a pattern or a text can cost. The only user of PCRE2.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	REGEX_DEPTH_MAX = 5000,
	REGEX_HEAP_KIB_MAX = 4096,
	REGEX_NESTING_MAX = 50,
	REGEX_GROUPS_MAX = 32, // that a caller gets, with the whole match
};

/** A compiled pattern. Matching is thread-safe. */
struct regex;

/** Where its groups matched; group 0 is the whole text. */
struct regex_match {
	size_t count; // REGEX_GROUPS_MAX at most
	struct {
		size_t begin, end; // equal: empty, or it took no part
	} groups[REGEX_GROUPS_MAX];
};

/**
 * Compile @pattern, of @bytes_max at most; each match may take @steps_max: a thousand are 10 to 100 us. Returns 0; -EINVAL and
 * @err with PCRE2's words and the character; -ENOMEM.
 */
int regex_compile(const char *pattern, size_t bytes_max, uint32_t steps_max,
		  struct regex **ret_regex, struct error *err);
/** NULL is allowed. */
void regex_free(struct regex *regex);

static inline void regex_freep(struct regex **regex)
{
	regex_free(*regex);
}

/**
 * Match all of @text. Returns 1; 0: it does not match; -E2BIG: a limit of steps, depth or memory ended it; -ENOMEM.
 * @ret_match may be NULL.
 */
int regex_find(const struct regex *regex, const char *text, size_t size,
	       struct regex_match *ret_match);

/** The pattern's groups, without group 0. */
size_t regex_group_count(const struct regex *regex);
/** The number of the group (?P<name>…), or -ENOENT. */
int regex_group_of_name(const struct regex *regex, const char *name);
