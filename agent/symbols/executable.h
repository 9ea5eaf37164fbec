// SPDX-License-Identifier: Apache-2.0
// The table of executables and shared objects, identified by build id and content: a build id alone is a file's own
// word, and the first file of libc's would name everybody's functions. All processes that map a file, or copies of it,
// share its entry. Symbols are read when first needed. The files are hostile: every offset, count and size is checked
// and bounded, and what is read from a file counts only if it was not written since it was hashed.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "agent/symbols/file_identity.h"
#include "base/error.h"

enum {
	EXECUTABLES_MAX = 16384,         // files per node; the least recently used are evicted
	EXECUTABLE_FILES_OPEN_MAX = 512, // descriptors kept; half of the usual RLIMIT_NOFILE
	NO_LINES_S = 60,                 // so long no debug file is looked for again where none was
};
#define EXECUTABLE_SYMBOL_MEMORY_MAX \
	(64ULL << 20) // of all symbol tables; the least recently used are evicted, and read again

/** CPU time for reading symbols per export interval; the rest is read in the next. A payer leaves others half of it. */
#define EXECUTABLE_SYMBOLS_NS_MAX (2ULL * 1000000000)

struct executable_table;

/** One file. Valid until the next executable_table_trim(), or while it is held. */
struct executable {
	char *id; // GNU build id in hex, or "h" and the file's hash in hex: for others, who know builds by it
	char *key; // "ID:CONTENT" (file_content.h): what is known of the file is kept by it; ID if it was never open
	char *path; // as the process sees it: /usr/lib/libfoo.so.1, "[vdso]", "memfd:x"
	bool has_build_id;
	uint64_t payer; // who pays for what reading it costs (agent/guard/shares.h); 0: nobody
	uint32_t symbols_version; // changes when more names may be found
				  // the rest is private to executable.c
};

/** A symbol that covers an offset. Strings are valid until the next call on the table. */
struct symbol {
	const char *name;      // demangled
	uint64_t start_offset; // in the file: where the function begins
	uint64_t size;         // bytes, 0: unknown
};

struct debuginfod;
struct identity_cache;

struct executable_table *executable_table_new(void);
void executable_table_free(struct executable_table *table);

/** Look for identities in this cache before a file is hashed. @identities outlives the table. */
void executable_table_use_identities(struct executable_table *table,
				     struct identity_cache *identities);
/** Fetch the symbols of stripped files from these servers. @debuginfod outlives the table. */
void executable_table_use_debuginfod(struct executable_table *table, struct debuginfod *debuginfod);
/** An export interval begins: use servers' answers, and let symbols be read that there was no time for. */
void executable_table_poll(struct executable_table *table);

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

/** Whether more names may come: symbols_version changes when they do. */
bool executable_may_learn_names(const struct executable *executable);

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

/**
 * The function at @offset in the file. Reads the symbols on first use (file_symbols.h).
 * Returns 0; -ENOENT if no symbol covers it; -EAGAIN past EXECUTABLE_SYMBOLS_NS_MAX, or its payer's share of that: in a
 * later interval.
 */
int executable_find_symbol(struct executable_table *table, struct executable *executable,
			   uint64_t offset, struct symbol *ret_symbol);

/** The files that an executable's source lines are read from. -1: none. */
struct line_files {
	int fd;       // the file itself, always open
	int debug_fd; // its separate debug file, if that has the lines
	int alt_fd;   // DWARF shared with other files (debug_file_open_alt())
};

/**
 * Open them for the caller. Returns 0; -ENOENT if the executable's file is closed; -ENODATA if neither it nor a debug
 * file has lines, which is looked for again after NO_LINES_S seconds; -errno.
 */
int executable_open_lines(struct executable_table *table, struct executable *executable,
			  struct line_files *ret_files);
void line_files_close(struct line_files *files);

uint64_t executable_table_count(const struct executable_table *table);
/** Memory of symbol tables and cached names, bytes. */
uint64_t executable_table_symbol_bytes(const struct executable_table *table);
