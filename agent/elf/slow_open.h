// SPDX-License-Identifier: Apache-2.0
// Opens files that may be on a server that does not answer: such a call cannot be interrupted. A thread makes it, and is
// abandoned if it takes too long. Costs some 50 us.
#pragma once

#include <stdint.h>

enum {
	SLOW_OPEN_WAIT_MS = 200,
	SLOW_OPENS_MAX = 8, // abandoned threads; with so many nothing is opened
};

/** Runs in another thread, with a duplicate of @folder. Returns a descriptor or -errno. */
typedef int (*slow_open_fn)(int folder, const char *path, uint64_t flags, uint64_t inode);

/**
 * Call @fn. Returns its result; -ETIMEDOUT after SLOW_OPEN_WAIT_MS; -EBUSY while SLOW_OPENS_MAX threads are abandoned;
 * -ENAMETOOLONG; -errno. One thread at a time.
 */
int slow_open(slow_open_fn fn, int folder, const char *path, uint64_t flags, uint64_t inode);
