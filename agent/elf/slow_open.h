// SPDX-License-Identifier: Apache-2.0
// Opens files that may be on a server that does not answer: such a call cannot be interrupted. A thread makes it, and is
// abandoned if it takes too long; its file system is left alone until the thread comes back, and for a while after. Files of
// other file systems are opened as ever. Costs some 50 us.
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum {
	SLOW_OPEN_WAIT_MS = 200,
	SLOW_OPENS_MAX =
		32, // abandoned threads, one for each file system; with so many nothing is opened
	// A file system rests for so many times as long as it hung: a slow one costs its caller a twentieth of its time.
	SLOW_OPEN_REST_FACTOR = 20,
	SLOW_OPEN_REST_S_MAX = 300,
};

struct slow_open;

/** Runs in another thread, with a duplicate of @folder. Returns a descriptor or -errno. */
typedef int (*slow_open_fn)(struct slow_open *open, int folder, const char *path, uint64_t flags,
			    uint64_t inode);

/**
 * For a slow_open_fn, before it asks the file system @device, or that of the absolute @path without symbolic links below
 * the root of its process. Returns 0; -EBUSY: that hangs or rests, leave it alone.
 */
int slow_open_enter(struct slow_open *open, dev_t device);
int slow_open_enter_path(struct slow_open *open, const char *path);

/**
 * Call @fn; @folder is a process's in /proc, or of a file. Returns its result; -ETIMEDOUT after SLOW_OPEN_WAIT_MS (five times that while
 * the thread gets no CPU); -EBUSY
 * while SLOW_OPENS_MAX threads are abandoned; -ENAMETOOLONG; -errno. One thread at a time.
 */
int slow_open(slow_open_fn fn, int folder, const char *path, uint64_t flags, uint64_t inode);

struct slow_open_stats {
	uint64_t hung;    // opens that hung
	uint64_t refused; // opens not tried, since their file system hangs or rests
	uint32_t threads; // abandoned now
	dev_t device;     // of the last that hung; 0: not known
};

/** Of this process, from any thread. */
void slow_open_read_stats(struct slow_open_stats *ret_stats);
