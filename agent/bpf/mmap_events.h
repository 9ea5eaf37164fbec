// SPDX-License-Identifier: Apache-2.0
// Executable mappings and execs of all processes, as they happen: a dummy perf event with a small ring on each
// CPU. So the mappings of short-lived processes are known, and libraries that replace others are noticed. One
// thread.
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
	MMAP_EVENT_MAP = 1,  // a new executable range
	MMAP_EVENT_EXEC = 2, // exec: all former mappings are gone, later ones are new
	MMAP_EVENT_LOST = 3, // events were lost: what is known may be outdated
};

struct mmap_event {
	enum mmap_event_kind kind;
	uint32_t pid; // 0 with LOST
	uint64_t start;
	uint64_t limit;
	uint64_t file_offset; // of start
	uint64_t inode;       // 0: no file, or there is a build id
	uint32_t device_major;
	uint32_t device_minor;
	uint64_t lost; // events, with LOST
	uint8_t build_id[MMAP_EVENT_BUILD_ID_BYTES];
	uint8_t build_id_size; // 0: none
	const char *path;      // as the process sees it, see mapping_list_put(); valid in the call
};

/**
 * Parse a record of a perf ring with sample_id_all and PERF_SAMPLE_TIME. Returns 1; 0 for other kinds;
 * -EBADMSG.
 */
int mmap_event_parse(const void *record, size_t size, struct mmap_event *ret_event);

struct mmap_events;

/** Start on all online CPUs. Needs the permissions of the sampler's perf events. */
int mmap_events_open(struct mmap_events **ret_events, struct error *err);
void mmap_events_close(struct mmap_events *events);

/** Readable when a ring is half full. mmap_events_read() may be called at any time. */
int mmap_events_fd(const struct mmap_events *events);

/**
 * Call it when the descriptor is readable: should mmap_events_read() be called now? Limits the rate for a
 * process that maps without end; its events get lost.
 */
bool mmap_events_woken(struct mmap_events *events, uint64_t now_ns);

typedef void (*mmap_event_fn)(void *context, const struct mmap_event *event);

/** Pass all events so far to @fn, in order of time. Does not block; checks each CPU's ring at least. */
void mmap_events_read(struct mmap_events *events, mmap_event_fn fn, void *context);

/** Events lost since the start: ring full. */
uint64_t mmap_events_lost(const struct mmap_events *events);
