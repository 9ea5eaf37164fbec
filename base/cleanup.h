// SPDX-License-Identifier: Apache-2.0
// Owners that clean up after themselves: an owning local carries its destructor from birth and
// leaves its function only by take() or take_fd().
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// A use, though clang sees none.
#define _cleanup_(destructor) __attribute__((cleanup(destructor), unused))

static inline void cleanup_freep(void *pointer)
{
	free(*(void **)pointer);
}

static inline void cleanup_closep(const int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void cleanup_fclosep(FILE **file)
{
	if (*file)
		fclose(*file);
}

#define _cleanup_free_   _cleanup_(cleanup_freep)
#define _cleanup_close_  _cleanup_(cleanup_closep)
#define _cleanup_fclose_ _cleanup_(cleanup_fclosep)

/** Hand over the owned pointer: the local is NULL afterwards. */
#define take(pointer)                                   \
	({                                              \
		__typeof__(pointer) taken_ = (pointer); \
		(pointer) = NULL;                       \
		taken_;                                 \
	})

/** Hand over the owned descriptor: the local is -1 afterwards. */
#define take_fd(fd)                \
	({                         \
		int taken_ = (fd); \
		(fd) = -1;         \
		taken_;            \
	})

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
