// SPDX-License-Identifier: Apache-2.0
// The unwind tables in the kernel: which file's table has which number, what is still to be built,
// and what was used least recently when there is no room. One thread; another builds.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/symbols/executable.h"
#include "agent/publish/unwind_builder.h"
#include "base/error.h"

enum {
	UNWIND_FILES_MAX = EXECUTABLES_MAX, // files remembered, with a table or without
};

struct unwind_tables;

enum unwind_file_state {
	UNWIND_FILE_PENDING,  // its table is being built, or waits for that
	UNWIND_FILE_READY,    // its table is in the kernel
	UNWIND_FILE_NONE,     // it has no unwind information, or none that can be used
	UNWIND_FILE_NO_SPACE, // its table does not fit, or no number is left: wanted again later
	UNWIND_FILE_UNOPENED, // its file was not open when it was wanted: wanted again later
	UNWIND_FILE_IDLE,     // there is no room for what no stack is known to need
};

enum { UNWIND_FILE_STATES = UNWIND_FILE_IDLE + 1 };

/** A file whose table was wanted. Valid until the next call on the tables. */
struct unwind_file {
	enum unwind_file_state state;
	uint32_t number; // READY: of its table
	struct unwind_extent extent;
	uint64_t bytes;    // kernel memory of the table, or what it would be for NO_ROOM
	uint64_t changed;  // unwind_tables_read() number so many changed the state last
	uint64_t replaced; // and this one took another table into use
};

struct unwind_tables_stats {
	uint64_t ready;
	uint64_t pending;
	uint64_t failed; // since the opening; the last one's reason:
	struct error last_failure;
	uint64_t from_disk; // were not built
	uint64_t evicted;
	uint64_t refused; // had no room
	uint64_t bytes;   // kernel memory of tables now
	uint64_t rules;
	uint64_t rows; // built since the opening
	uint64_t build_ns;
};

/** @cache is the tables' from now on, on failure too; NULL: built tables are not kept. */
int unwind_tables_open(const struct unwind_maps *maps, struct unwind_table_cache *cache,
		       uint64_t bytes_max, struct unwind_tables **ret_tables, struct error *err);
void unwind_tables_close(struct unwind_tables *tables);

/**
 * The number of @executable among the files, for the other calls. Its table is built if that was not
 * begun yet, unless it would be too large for a guess: by half of the room at most are tables that no
 * stack is known to need, CUDA's libraries alone could fill it. @size is how many bytes of it are
 * mapped; of what waits the smallest comes first, for it makes most files ready soonest.
 * HASH_TABLE_NONE: out of memory, or too many files are in use.
 */
uint32_t unwind_tables_want(struct unwind_tables *tables, const struct executable *executable,
			    uint64_t size);
const struct unwind_file *unwind_tables_file(const struct unwind_tables *tables, uint32_t file);

/**
 * A stack ended for want of this table: it goes before all of which fewer stacks did, and is built if
 * it was not because of its size.
 */
void unwind_tables_miss(struct unwind_tables *tables, uint32_t file,
			const struct executable *executable);

/**
 * A stack ended in a function of the file, @size bytes at @offset, of which its table knows nothing.
 * Its code is to be followed: unwind_tables_renew() builds the table again with what that gives.
 */
void unwind_tables_analyze(struct unwind_tables *tables, uint32_t file,
			   const struct executable *executable, uint64_t offset, uint64_t size);

/** Begin with the tables that are to be built again, each less and less often. Costs nothing mostly. */
void unwind_tables_renew(struct unwind_tables *tables);

/** Take out the tables that others have replaced. All who held their files are published again. */
void unwind_tables_retire(struct unwind_tables *tables);

/** Each process that is published with the file holds it. */
void unwind_tables_hold(struct unwind_tables *tables, uint32_t file);
void unwind_tables_release(struct unwind_tables *tables, uint32_t file);
/** It was of use at @time_ns, if not later. */
void unwind_tables_use(struct unwind_tables *tables, uint32_t file, uint64_t time_ns);

/** Readable when tables are ready, or have failed. */
int unwind_tables_fd(const struct unwind_tables *tables);
/**
 * Take over what was built. Returns the number of this call if any file changed, else 0. *ret_wanting
 * is a file with NO_ROOM that could be made room for, else HASH_TABLE_NONE.
 */
uint64_t unwind_tables_read(struct unwind_tables *tables, uint32_t *ret_wanting);

/**
 * The table to give up first so that @wanting has room: of those that no stack was seen to need the
 * largest, then the one whose use (unwind_tables_use()) is longest ago, more than @kept_ns; of those
 * that no process maps any more, for a twelfth of that time, the same; then the one that fewest stacks
 * were seen to need, if that are far fewer than need @wanting. HASH_TABLE_NONE: none.
 */
uint32_t unwind_tables_victim(const struct unwind_tables *tables, uint64_t now_ns, uint64_t kept_ns,
			      uint32_t wanting);
/** Kernel memory of all that could be given up so. */
uint64_t unwind_tables_spare_bytes(const struct unwind_tables *tables, uint64_t now_ns,
				   uint64_t kept_ns, uint32_t wanting);
/** How much must be given up for a file with NO_ROOM. */
uint64_t unwind_tables_shortage(const struct unwind_tables *tables, uint32_t wanting);
/**
 * Give up a table, in two steps: from the first on the file is IDLE; at the second no process may refer
 * to the table's number any more. Returns 0, or -ENOMEM and nothing has changed.
 */
int unwind_tables_withdraw(struct unwind_tables *tables, uint32_t file);
void unwind_tables_remove(struct unwind_tables *tables, uint32_t file);
/**
 * Give up tables that no process has mapped for more than @kept_ns, while all take more than half of the
 * room or of the numbers, so that they are there for what new processes map. Some in one call.
 */
void unwind_tables_trim(struct unwind_tables *tables, uint64_t now_ns, uint64_t kept_ns);
/** Build again what had no room. */
void unwind_tables_retry(struct unwind_tables *tables, uint32_t file);

/** Kernel memory that tables may take from now on. */
void unwind_tables_limit(struct unwind_tables *tables, uint64_t bytes_max);

void unwind_tables_read_stats(const struct unwind_tables *tables,
			      struct unwind_tables_stats *ret_stats);
