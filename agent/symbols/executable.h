// SPDX-License-Identifier: Apache-2.0
// The table of executables and shared objects, identified by build id and content: a build id alone is a file's own
// word, and the first file of libc's would name everybody's functions. All processes that map a file, or copies of it,
// share its entry. The files are hostile: what is read from one counts only if it was not written since it was hashed.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "agent/elf/file_version.h"
#include "agent/symbols/known_executable.h"
#include "base/error.h"

enum {
	EXECUTABLES_MAX = 16384,         // files per node; the least recently used are evicted
	EXECUTABLE_FILES_OPEN_MAX = 512, // descriptors kept; half of the usual RLIMIT_NOFILE
};
struct executable_table;

struct identity_cache;

struct executable_table *executable_table_new(void);
void executable_table_free(struct executable_table *table);

/** Look for identities in this cache before a file is hashed. @identities outlives the table. */
void executable_table_use_identities(struct executable_table *table,
				     struct identity_cache *identities);
/**
 * The executable behind an open file. Reads its identity now and keeps a duplicate of @fd for reading
 * symbols later. @path is for display. @fd stays the caller's.
 * Returns 0; -ENOEXEC (not an ELF file of this machine, or broken; @err says what); -EFBIG;
 * -ENOSPC at EXECUTABLES_MAX, or when the payer of the work in progress has its share of them; -EAGAIN if it was written meanwhile: try again; -errno.
 */
int executable_table_open(struct executable_table *table, int fd, const char *path,
			  struct executable **ret_executable, struct error *err);
/**
 * The same for the process with @folder in /proc. If the file is stripped, and a root that is not the host's has its
 * debug file, that is part of the identity: it names nothing of others.
 */
int executable_table_open_of(struct executable_table *table, int fd, int folder, const char *path,
			     struct executable **ret_executable, struct error *err);

/** A process of @payer maps it: with another payer's, it is of several (SHARES_SEVERAL), while these leave room. */
void executable_table_charge(struct executable_table *table, struct executable *executable,
			     uint64_t payer);

/**
 * The executable of the file with this stat(), if executable_table_open() had it; NULL: open it. A file
 * written since (another size, mtime or ctime) is another file.
 */
struct executable *executable_table_find_file(const struct executable_table *table,
					      const struct stat *status);

/**
 * The executable with this build id, if one file of it belongs to root, who alone may write it, and all such have one
 * content; or NULL. For a file that cannot be opened any more.
 */
struct executable *executable_table_find_system_file(const struct executable_table *table,
						     const char *id);
/** A file that cannot be opened, but whose build id the kernel reported: without symbols, named by the collector. */
struct executable *executable_table_add_id(struct executable_table *table, const char *id,
					   const char *path);

/** Its file is closed: call executable_table_open() again before executable_find_symbol(). */
bool executable_wants_file(const struct executable *executable);

/**
 * Duplicate its descriptor for the caller. Returns it, and the version that was hashed: what is read counts only if
 * the file still is of that version afterwards. -ENOENT if the file is closed, or was written; -errno.
 */
int executable_open_file(struct executable *executable, struct file_version *ret_version);

/** Hold a reference, so that executable_table_trim() keeps it. NULL is allowed. */
struct executable *executable_hold(struct executable *executable);
void executable_release(struct executable *executable);

/**
 * Close files without holders (an open file keeps a container's file system busy), free idle symbols, and
 * evict the least recently used executables without holders when there are too many.
 */
void executable_table_trim(struct executable_table *table);

uint64_t executable_table_count(const struct executable_table *table);
