// SPDX-License-Identifier: Apache-2.0
// What processes map as code, told by the kernel when they do it: a perf event on each CPU that
// counts nothing and only reports executable mappings and execs, in rings of a few pages. So the
// mappings of a process that lives a millisecond are known, and a library that is put where another
// one was is noticed. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	MMAP_EVENT_PATH_BYTES = 4097,   // PATH_MAX and a NUL
	MMAP_EVENT_BUILD_ID_BYTES = 20, // of PERF_RECORD_MMAP2
};

enum mmap_event_kind {
	MMAP_EVENT_MAP = 1, // an executable range is new, or has become executable
	MMAP_EVENT_EXEC =
		2, // exec has begun: all former mappings have gone, those that follow are new
	MMAP_EVENT_LOST = 3, // events of some processes were lost: what is known may be outdated
};

struct mmap_event {
	enum mmap_event_kind kind;
	uint32_t pid; // the kernel's tgid; 0 of LOST
	uint64_t start;
	uint64_t limit;
	uint64_t file_offset; // of start
	uint64_t inode;       // 0: no file, or a build id is told instead
	uint32_t device_major;
	uint32_t device_minor;
	uint64_t lost; // how many events, of LOST
	uint8_t build_id[MMAP_EVENT_BUILD_ID_BYTES];
	uint8_t build_id_size; // 0: none
	const char *path;      // as the process sees it, see mapping_list_put(); valid in the call
};

/**
 * Read one record of a perf ring, which has only its time behind the fields that perf_event_open(2)
 * gives it. Returns 1; 0 for a record that is none of ours; -EBADMSG.
 */
int mmap_event_parse(const void *record, size_t size, struct mmap_event *ret_event);

struct mmap_events;

/** Start reporting on all online CPUs. Needs what the sampler's perf events need. */
int mmap_events_open(struct mmap_events **ret_events, struct error *err);
void mmap_events_close(struct mmap_events *events);

/** Readable when rings fill up. They are to be read before that too: whenever one wants to know. */
int mmap_events_fd(const struct mmap_events *events);

/**
 * To be called before mmap_events_read() when the descriptor is readable: says whether to read now.
 * A process that maps without end is then read at a bounded rate, and loses events.
 */
bool mmap_events_woken(struct mmap_events *events, uint64_t now_ns);

typedef void (*mmap_event_fn)(void *context, const struct mmap_event *event);

/**
 * Hand all that happened until now to @fn, in the order in which it happened. Does not block; costs
 * a look at each CPU's ring when there is nothing.
 */
void mmap_events_read(struct mmap_events *events, mmap_event_fn fn, void *context);

/** Events that the rings had no room for, since the start. */
uint64_t mmap_events_lost(const struct mmap_events *events);
