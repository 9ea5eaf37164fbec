// SPDX-License-Identifier: Apache-2.0
// PromQL-style selectors: {service="llm", pod=~"llm-.*", node!="a17"}. Regular expressions are
// anchored at both ends and run on PCRE2 with match limits (they come from users).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/labels.h"

enum { SELECTOR_MATCHERS_MAX = 32, SELECTOR_BYTES_MAX = 8192 };

enum matcher_op { MATCH_EQUAL, MATCH_NOT_EQUAL, MATCH_REGEX, MATCH_NOT_REGEX };

struct matcher {
	char *name;
	enum matcher_op op;
	char *value;
	void *regex; // compiled; private
};

struct selector {
	struct matcher *matchers; // all must hold; none: everything
	uint32_t count;
};

/**
 * Read a selector: "{...}", "{}", "" (everything), or a bare word as short for
 * {service="word"}. Returns 0; -EINVAL with @err telling the position (1-based column) and what was
 * expected; -ENOMEM.
 */
int selector_parse(const char *text, struct selector *ret_selector, struct error *err);
void selector_deinit(struct selector *selector);

/**
 * Does @value (NULL or "": absent) satisfy the matcher? As in PromQL, absent equals "". Thread-safe.
 */
bool matcher_matches(const struct matcher *matcher, const char *value);
bool selector_matches(const struct selector *selector, const struct labels *labels);

/**
 * Was a regular expression given up because it costs too much? It then stops matching, and what was
 * selected with it is not to be trusted. Ask after matching. Returns 0; -EINVAL with @err naming
 * the label.
 */
int selector_check_cost(const struct selector *selector, struct error *err);
