// SPDX-License-Identifier: Apache-2.0
// Debug files from servers that speak the debuginfod protocol (elfutils' debuginfod(8)): asked by
// build id, in a thread of their own, kept on disk within a bound. Nobody waits for them: names
// come with a later export interval.
#pragma once

#include <stdint.h>

#include "base/error.h"

struct debuginfod;

enum {
	DEBUGINFOD_QUEUE_MAX = 256, // files waiting; more are asked for again later
	DEBUGINFOD_URLS_MAX = 8,
};
#define DEBUGINFOD_FILE_BYTES_MAX (2ULL << 30) // larger answers are dropped

struct debuginfod_options {
	const char *urls;     // separated by spaces: http:// or https://
	const char *folder;   // where files are kept; made if it is not there
	uint64_t cache_bytes; // at most, least recently used go first
	uint32_t timeout_s;   // without a byte; 0: 10 s
	// Whether an open file is the one of this build id: 0. Called on the thread.
	int (*check)(void *context, int fd, const char *build_id);
	void *check_context;
};

/**
 * Start the thread. Returns 0; -EINVAL (a URL that is none; @err says which); -errno where the
 * folder cannot be used.
 */
int debuginfod_open(const struct debuginfod_options *options, struct debuginfod **ret_debuginfod,
		    struct error *err);
/** Ends a transfer under way. NULL is allowed. */
void debuginfod_close(struct debuginfod *debuginfod);

/**
 * The debug file of @build_id (hex) for reading, if it has come. Does not block. One thread.
 * Returns a descriptor (the caller's); -EAGAIN: asked for, see debuginfod_answers(); -ENOENT: no
 * server has it, asked again after an hour.
 */
int debuginfod_find(struct debuginfod *debuginfod, const char *build_id);

/** How many requests were answered, either way. Any thread. */
uint64_t debuginfod_answers(const struct debuginfod *debuginfod);
