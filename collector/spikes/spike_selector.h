// SPDX-License-Identifier: Apache-2.0
// A query's selector, narrowed to one service and what a spike is about.
#pragma once

#include "collector/store/selector.h"

enum { SPIKE_MATCHERS_MORE = 3 };

struct spike_selector {
	struct selector selector; // a shallow copy: do not deinit it
	struct matcher matchers[SELECTOR_MATCHERS_MAX + SPIKE_MATCHERS_MORE];
};

/** Copy @selector; @tenant_only: without what a user wrote, which leaves it held to its tenant. */
void spike_selector_init(struct spike_selector *narrowed, const struct selector *selector,
			 bool tenant_only);
/** One more label that must have @value, which outlives the selector. At most SPIKE_MATCHERS_MORE. */
void spike_selector_add(struct spike_selector *narrowed, const char *name, const char *value);
