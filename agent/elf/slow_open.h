// SPDX-License-Identifier: Apache-2.0
// Opening files of other processes that may lie on a server which does not answer any more: such a
// call cannot be interrupted. It is made in a thread of its own, which is left behind if it takes
// too long. Costs some 50 us more than opening directly.
#pragma once

#include <stdint.h>

enum {
	SLOW_OPEN_WAIT_MS = 200,
	SLOW_OPENS_MAX = 8, // left behind at a time; beyond them nothing is opened this way
};

/** What to do with a duplicate of @folder, in another thread. Returns a descriptor or -errno. */
typedef int (*slow_open_fn)(int folder, const char *path, uint64_t flags, uint64_t inode);

/**
 * Call @fn. Returns what it returns; -ETIMEDOUT if it did not in SLOW_OPEN_WAIT_MS; -EBUSY while
 * SLOW_OPENS_MAX wait; -ENAMETOOLONG; -errno. One thread may call it at a time.
 */
int slow_open(slow_open_fn fn, int folder, const char *path, uint64_t flags, uint64_t inode);
