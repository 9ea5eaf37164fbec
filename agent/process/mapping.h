// SPDX-License-Identifier: Apache-2.0
// Where a process has code: the executable ranges of /proc/PID/maps, kept current by the kernel's
// events, sorted, shared by a process and the children that it forks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "agent/symbols/executable.h"

enum {
	MAPPINGS_MAX = 65536,          // per process; vm.max_map_count's default is 65530
	MAPPING_PATH_BYTES_MAX = 4096, // PATH_MAX; longer ones (newlines count four) are cut
	MAPS_BYTES_MAX = 64 << 20, // of one maps file, in which data ranges are most of the lines
};

/** What is known of the file behind a mapping. */
enum mapping_file {
	MAPPING_FILE_NONE,    // anonymous, or a name in brackets: nothing to open
	MAPPING_FILE_UNKNOWN, // not opened yet
	MAPPING_FILE_OPENED,  // executable is set
	MAPPING_FILE_REFUSED, // cannot be opened, or is no ELF file
};

/** One executable range: addresses from start up to, not including, limit. */
struct mapping {
	uint64_t start;
	uint64_t limit;
	uint64_t file_offset; // of start
	uint64_t inode;
	struct executable *executable; // held
	uint32_t device_major;
	uint32_t device_minor;
	uint32_t path;     // into the list's texts
	uint32_t build_id; // likewise, in hex, if the kernel told it instead of device and inode
	enum mapping_file file;
};

/** All of one process, sorted by start. Counted: each holder releases it. One thread. */
struct mapping_list {
	uint32_t holders;
	uint32_t count;
	uint32_t capacity;
	uint64_t generation; // its owner's: see process_mappings_generation()
	struct mapping *mappings;
	char *texts; // paths and build ids, each with its NUL; the first is ""
	uint32_t texts_size;
	uint32_t texts_capacity;
	uint32_t put_count; // since texts were last cleared of what no mapping uses any more
};

/** An empty list with one holder, or NULL when out of memory. */
struct mapping_list *mapping_list_new(void);
/** NULL is allowed, for both. */
struct mapping_list *mapping_list_hold(struct mapping_list *list);
void mapping_list_release(struct mapping_list *list);

/**
 * Add the executable ranges of one line (without its newline), which may be anything.
 * Returns 0, also for a line that is not one of /proc/PID/maps; -ENOMEM; -E2BIG at MAPPINGS_MAX.
 */
int mapping_list_add_line(struct mapping_list *list, const char *line, size_t size);

/**
 * Read an open maps file. Returns 0 (also for an empty one); -ESRCH if the process has gone;
 * -ENOMEM; -errno. Past MAPPINGS_MAX the rest is left out.
 */
int mapping_list_read(int fd, struct mapping_list **ret_list);

/** Another list of the same. Returns NULL when out of memory. */
struct mapping_list *mapping_list_copy(const struct mapping_list *list);

/**
 * Put a range that was mapped just now over what was there before: @mapping has all but path,
 * build_id, executable and file. @path is the kernel's (" (deleted)" at its end and all), @build_id
 * in hex or "". A list that others hold too must be copied first.
 * Returns 1; 0 if the same was there already; -ENOMEM; -E2BIG at MAPPINGS_MAX.
 */
int mapping_list_put(struct mapping_list *list, const struct mapping *mapping, const char *path,
		     const char *build_id);

/** The mapping that holds @address, or NULL. */
struct mapping *mapping_list_find(struct mapping_list *list, uint64_t address);

/**
 * Is its code made at run time, or put in place by no loader that we know? True of anonymous ranges
 * and of what only looks like a file: memfd, /dev/zero, and the marker of a jitdump, unless it was
 * opened as an executable. Such code has no unwind table; its frames are found by frame pointer.
 */
bool mapping_is_jit(const struct mapping_list *list, const struct mapping *mapping);

/** The executable page of a jitdump file, by which its writer makes it known; NULL: there is none. */
const struct mapping *mapping_list_find_jitdump(const struct mapping_list *list);

/** The same ranges of the same files? @other may be NULL. */
bool mapping_list_equals(const struct mapping_list *list, const struct mapping_list *other);

/** Take over from @old what is known of the files of the same mappings. */
void mapping_list_inherit(struct mapping_list *list, const struct mapping_list *old);

/**
 * The path as the process sees it: without " (deleted)" and with newlines put back; "[vdso]" and
 * its like as they are, "memfd:NAME" for those.
 */
const char *mapping_path(const struct mapping_list *list, const struct mapping *mapping);

/** The build id that the kernel told, in hex; "" if it did not. */
const char *mapping_build_id(const struct mapping_list *list, const struct mapping *mapping);
