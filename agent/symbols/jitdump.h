// SPDX-License-Identifier: Apache-2.0
// A process's JIT-compiled functions from its jitdump file, jit-PID.dump (Linux:
// tools/perf/Documentation/jitdump-specification.txt). It is found by the executable page that its writer maps
// of it. The file grows: each read goes on where the last one ended. Its writer may be hostile. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	JITDUMP_STEP_BYTES = 4 << 20,    // per jitdump_read(); machine code in the file is skipped
	JITDUMP_STEP_RECORDS = 64 << 10, // likewise
};
#define JITDUMP_BYTES_MAX (16ULL << 30) // of one file; most of it is skipped

struct jitdump;

struct jitdump *jitdump_new(void);
void jitdump_free(struct jitdump *dump);

/**
 * Read what was added to the open file. A file other than last time's, or a truncated one, is read from its
 * beginning, and its functions replace the known ones.
 * Returns 1 if there was something new; 0; -EBADMSG at bytes that are no jitdump: the file is read no further;
 * -errno.
 */
int jitdump_read(struct jitdump *dump, int fd);

/** The function at @address, or NULL. Valid until the next call. */
const char *jitdump_find(struct jitdump *dump, uint64_t address);

/** Was a limit hit? Then later functions have no names. */
bool jitdump_is_full(const struct jitdump *dump);

/** Memory in use. */
size_t jitdump_bytes(const struct jitdump *dump);
