// SPDX-License-Identifier: Apache-2.0
// A file of which functions are analyzed, because its unwind information says nothing of them: which they
// are, a descriptor of it, and when its table is to be built again with their rules. Private to
// unwind_tables.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/unwind/analyzed_functions.h"

struct analyzed_file {
	struct analyzed_functions all;
	uint32_t built; // of them: those that the last job was given
	int fd;         // of the file, while there is something to build; or -1
	char name[64];
	uint64_t due_ns; // when to build again
	uint64_t wait_ns;
};

/** Descriptors of all of them. */
struct analyzed_fds {
	uint32_t open;
};

/** NULL when out of memory. */
struct analyzed_file *analyzed_file_new(const char *name);
/** NULL is allowed, as for the next one. */
void analyzed_file_free(struct analyzed_file *file, struct analyzed_fds *descriptors);
void analyzed_file_close(struct analyzed_file *file, struct analyzed_fds *descriptors);

/** Are there functions that the last job was not given? NULL: there are none. */
bool analyzed_file_has_more(const struct analyzed_file *file);

/** Is there no descriptor of it, and may it have one? */
bool analyzed_file_lacks_fd(const struct analyzed_file *file,
			    const struct analyzed_fds *descriptors);
/** @fd is the file's from now on; negative: it could not be opened. */
void analyzed_file_keep_fd(struct analyzed_file *file, int fd, struct analyzed_fds *descriptors);
/** The caller's from now on. */
int analyzed_file_take_fd(struct analyzed_file *file, struct analyzed_fds *descriptors);

/** Is its table to be built again, and can it be? */
bool analyzed_file_is_due(const struct analyzed_file *file, uint64_t now);
/** Its table is, or was tried to be: the next time is later, and each time more so. */
void analyzed_file_postpone(struct analyzed_file *file, uint64_t now);
