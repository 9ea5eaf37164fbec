// SPDX-License-Identifier: Apache-2.0
// The functions that a process compiles at run time, as it writes them to a jitdump file
// (jit-PID.dump; Linux: tools/perf/Documentation/jitdump-specification.txt). Its writer maps a page
// of it executable, which is how it is found. The file grows and is read on from where it was; who
// writes it may be hostile. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	JITDUMP_STEP_BYTES = 4 << 20,    // read at a time; machine code in the file is skipped
	JITDUMP_STEP_RECORDS = 64 << 10, // likewise
};
#define JITDUMP_BYTES_MAX (16ULL << 30) // no more of one file is looked at; most of it is skipped

struct jitdump;

struct jitdump *jitdump_new(void);
void jitdump_free(struct jitdump *dump);

/**
 * Read on in the open file. Another file than last time, or one that was cut, is read from its
 * beginning and what was known is forgotten.
 * Returns 1 if there was something new; 0; -EBADMSG for what is no jitdump, or ceased to be one:
 * nothing more is read of it; -errno.
 */
int jitdump_read(struct jitdump *dump, int fd);

/** The function at @address, or NULL. Valid until the next call. */
const char *jitdump_find(struct jitdump *dump, uint64_t address);

/** Is there more in the file than is kept? */
bool jitdump_is_full(const struct jitdump *dump);

/** Memory in use. */
size_t jitdump_bytes(const struct jitdump *dump);
