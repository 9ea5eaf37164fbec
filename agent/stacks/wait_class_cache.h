// SPDX-License-Identifier: Apache-2.0
// Wait classes of stacks by the stacks' identities, kept over export intervals. One thread.
#pragma once

#include "agent/stacks/wait_class.h"

enum {
	WAIT_CLASSES_MAX = 1 << 16, // 24 bytes each; the cache is emptied when it is full
};

struct wait_class_cache;

/** NULL when out of memory. */
struct wait_class_cache *wait_class_cache_new(void);
/** NULL is allowed. */
void wait_class_cache_free(struct wait_class_cache *cache);

/**
 * The class of a stack of @profile, as wait_class_of_stack() finds it. A stack is classified again
 * once more of its locations have a name.
 */
enum wait_class wait_class_cache_find(struct wait_class_cache *cache, const struct profile *profile,
				      const struct stack *stack);
