// SPDX-License-Identifier: Apache-2.0
// PromQL-style selectors: {service="llm", pod=~"llm-.*", node!="a17"}. Regular expressions are
// anchored at both ends. They come from users: PCRE2 runs them with match limits.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/labels.h"
#include "collector/store/deadline.h"

enum { SELECTOR_MATCHERS_MAX = 32 /* the tenant's among them */, SELECTOR_BYTES_MAX = 8192 };

enum matcher_op { MATCH_EQUAL, MATCH_NOT_EQUAL, MATCH_REGEX, MATCH_NOT_REGEX };

struct matcher {
	char *name;
	enum matcher_op op;
	char *value;
	void *pattern;  // compiled; private
	bool is_tenant; // not of the user: it holds the selector to its tenant
};

struct regex_budget;

struct selector {
	struct matcher *matchers; // all must hold; none: everything
	uint32_t count;
	bool all_tenants; // false: the first matcher is the tenant's, or the store refuses the selector
	struct regex_budget *budget; // of all patterns together; private
	struct deadline *deadline;   // of what it is used for; NULL: never
};

/** For selector_parse(): the reader may see every tenant's series. */
#define SELECTOR_ALL_TENANTS NULL

/**
 * Parse a selector: "{...}", "{}", "" (everything), or a bare word, short for {service="word"}. It
 * matches series of @tenant only ("": those without one), whatever the text says. Returns 0; -EINVAL with the column (from 1) and what was expected in @err; -ENOMEM.
 */
int selector_parse(const char *text, const char *tenant, struct selector *ret_selector,
		   struct error *err);
/** The tenant that it was parsed with; copies of its matchers keep it. */
const char *selector_tenant(const struct selector *selector);
/**
 * Is @selector held to a tenant, or allowed to see all? One that is made by hand, without selector_parse(), is neither.
 * Returns 0; -EPERM and @err.
 */
int selector_check_tenant(const struct selector *selector, struct error *err);
void selector_deinit(struct selector *selector);

/**
 * @selector with one more matcher, in @matchers; @value NULL: none. A shallow copy, valid as long as all of these: not to be
 * deinitialized.
 */
struct selector selector_with(const struct selector *selector, const char *name, const char *value,
			      struct matcher matchers[SELECTOR_MATCHERS_MAX + 1]);

/** End matching, and all that reads a selection, at @deadline, which must outlive the selector. */
void selector_set_deadline(struct selector *selector, struct deadline *deadline);

/**
 * Does @value satisfy the matcher? As in PromQL, an absent label (NULL) equals "". Thread-safe. A regular
 * expression may take a millisecond, and all matches of a selector REGEX_NS_MAX: hold no lock.
 */
bool matcher_matches(const struct matcher *matcher, const char *value);
bool selector_matches(const struct selector *selector, const struct labels *labels);

/**
 * Check after matching whether a regular expression exceeded its limits, or the deadline has passed.
 * Nothing matches then, so the selection is incomplete. Returns 0; -EINVAL with the label in @err;
 * -ETIMEDOUT, -ECANCELED.
 */
int selector_check_cost(const struct selector *selector, struct error *err);
