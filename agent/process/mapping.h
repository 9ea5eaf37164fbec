// SPDX-License-Identifier: Apache-2.0
// The executable mappings of a process: read from /proc/PID/maps, kept current by the kernel's mmap events, sorted,
// and shared with the children that it forks.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "agent/symbols/executable.h"

enum {
	MAPPINGS_MAX = 65536, // per process; vm.max_map_count's default is 65530
	MAPPING_PATH_BYTES_MAX =
		4096,              // PATH_MAX; longer paths are cut (a newline takes four bytes)
	MAPS_BYTES_MAX = 64 << 20, // of one maps file; most of its lines are data
};

/** The file behind a mapping. */
enum mapping_file {
	MAPPING_FILE_NONE,    // anonymous, or a name in brackets: nothing to open
	MAPPING_FILE_UNKNOWN, // not opened yet
	MAPPING_FILE_OPENED,  // executable is set
	MAPPING_FILE_REFUSED, // it cannot be opened, or is no ELF file
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
	uint32_t path;     // offset in the list's texts
	uint32_t build_id; // likewise, in hex, if the event had it instead of device and inode
	enum mapping_file file;
};

/** All of one process, sorted by start. Reference-counted. One thread. */
struct mapping_list {
	uint32_t holders;
	uint32_t count;
	uint32_t capacity;
	uint64_t generation; // set by its owner: see process_mappings_generation()
	struct mapping *mappings;
	char *texts; // paths and build ids, each with its NUL; the first is ""
	uint32_t texts_size;
	uint32_t texts_capacity;
	uint32_t put_count; // since unused texts were last removed
};

/** An empty list with one holder; NULL when out of memory. */
struct mapping_list *mapping_list_new(void);
/** Both allow NULL. */
struct mapping_list *mapping_list_hold(struct mapping_list *list);
void mapping_list_release(struct mapping_list *list);

/**
 * Add the mapping of one line (without its newline) if it is executable. The line may hold anything.
 * Returns 0, also for what is no line of /proc/PID/maps; -ENOMEM; -E2BIG at MAPPINGS_MAX.
 */
int mapping_list_add_line(struct mapping_list *list, const char *line, size_t size);

/**
 * Read an open maps file, up to MAPPINGS_MAX. Returns 0, also for an empty one; -ESRCH if the process has
 * exited; -ENOMEM; -errno.
 */
int mapping_list_read(int fd, struct mapping_list **ret_list);

/** NULL when out of memory. */
struct mapping_list *mapping_list_copy(const struct mapping_list *list);

/**
 * Put a new mapping over what was there before. @mapping has all but path, build_id, executable and file. @path
 * is as the kernel writes it, with " (deleted)"; @build_id in hex or "". Copy a list with other holders first.
 * Returns 1; 0 if the same mapping was there already; -ENOMEM; -E2BIG at MAPPINGS_MAX.
 */
int mapping_list_put(struct mapping_list *list, const struct mapping *mapping, const char *path,
		     const char *build_id);

/** The mapping that holds @address, or NULL. */
struct mapping *mapping_list_find(struct mapping_list *list, uint64_t address);

/**
 * Is it JIT code? True of anonymous mappings and of memfd, /dev/zero and a jitdump's marker page, unless it was
 * opened as an executable. JIT code has no unwind table: it is unwound by frame pointers.
 */
bool mapping_is_jit(const struct mapping_list *list, const struct mapping *mapping);

/** The executable page of a jitdump file, by which its writer announces it; NULL: none. */
const struct mapping *mapping_list_find_jitdump(const struct mapping_list *list);

/** The same ranges of the same files? @other may be NULL. */
bool mapping_list_equals(const struct mapping_list *list, const struct mapping_list *other);

/** Copy opened files from the same mappings in @old, which may be NULL. */
void mapping_list_inherit(struct mapping_list *list, const struct mapping_list *old);

/** The path as the process sees it, without " (deleted)" and escapes; "[vdso]" and such as they are; "memfd:NAME". */
const char *mapping_path(const struct mapping_list *list, const struct mapping *mapping);

/** The build id of the mmap event, in hex; "" without one. */
const char *mapping_build_id(const struct mapping_list *list, const struct mapping *mapping);
