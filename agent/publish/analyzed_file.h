// SPDX-License-Identifier: Apache-2.0
// A file with functions that its unwind information does not describe: which ones are analyzed, and when its
// table is built again with their rules. Private to unwind_tables.c.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/elf/file_version.h"
#include "agent/unwind/analyzed_functions.h"

struct analyzed_file {
	struct analyzed_functions all;
	uint32_t built; // given to the last job
	int fd;         // of the file, while there is something to build; else -1
	struct file_version version;
	char name[64];
	uint64_t due_ns; // when to build again
	uint64_t wait_ns;
};

/** Open descriptors of all analyzed files. */
struct analyzed_fds {
	uint32_t open;
};

/** NULL when out of memory. */
struct analyzed_file *analyzed_file_new(const char *name);
/** NULL is allowed, also in the next one. */
void analyzed_file_free(struct analyzed_file *file, struct analyzed_fds *descriptors);
void analyzed_file_close(struct analyzed_file *file, struct analyzed_fds *descriptors);

/** Are there functions that no job was given yet? @file may be NULL. */
bool analyzed_file_has_more(const struct analyzed_file *file);

/** Is it not open, and may it be? */
bool analyzed_file_lacks_fd(const struct analyzed_file *file,
			    const struct analyzed_fds *descriptors);
/** Takes over @fd; negative: not open. */
void analyzed_file_keep_fd(struct analyzed_file *file, int fd, const struct file_version *version,
			   struct analyzed_fds *descriptors);
/** The caller owns the descriptor from now on. */
int analyzed_file_take_fd(struct analyzed_file *file, struct analyzed_fds *descriptors);

/** Is it time to build its table again, and is it open? */
bool analyzed_file_is_due(const struct analyzed_file *file, uint64_t now);
/** The table was built, or failed to: the next time comes later each time. */
void analyzed_file_postpone(struct analyzed_file *file, uint64_t now);
