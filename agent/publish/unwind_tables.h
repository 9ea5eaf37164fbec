// SPDX-License-Identifier: Apache-2.0
// The unwind tables in the kernel, one per file: which is built next, which is evicted when there is no space. One
// thread; unwind_builder.c builds in another one.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/publish/unwind_builder.h"
#include "agent/publish/unwind_file.h"
#include "agent/symbols/executable.h"
#include "base/error.h"

enum {
	UNWIND_FILES_MAX = EXECUTABLES_MAX, // files known, with a table or without
};

struct unwind_tables;

/** Takes over @cache, also on failure; NULL: none. */
int unwind_tables_open(const struct unwind_maps *maps, struct unwind_table_cache *cache,
		       uint64_t bytes_max, struct unwind_tables **ret_tables, struct error *err);
void unwind_tables_close(struct unwind_tables *tables);

/**
 * Returns a number for @executable's file, for the other calls; HASH_TABLE_NONE if out of memory or files. Queues
 * its table unless it is too large for a prefetch: tables that no sample needed yet fill half of the space at most,
 * as CUDA's libraries alone could fill all. @size: mapped bytes of the file; the smallest is built first, as that
 * makes most files ready soonest.
 */
uint32_t unwind_tables_want(struct unwind_tables *tables, struct executable *executable,
			    uint64_t size);
const struct unwind_file *unwind_tables_file(const struct unwind_tables *tables, uint32_t file);

/**
 * A stack ended for want of this table: build it before those that fewer stacks needed, and also if it was too large
 * for a prefetch.
 */
void unwind_tables_miss(struct unwind_tables *tables, uint32_t file, struct executable *executable);

/** Build this table, if it is pending, after those that stacks needed and before all others. */
void unwind_tables_prefer(struct unwind_tables *tables, uint32_t file);

/**
 * A stack ended in a function, @size bytes at @offset of the file, that the table does not describe.
 * unwind_tables_renew() builds the table again with what analyzing its code gives.
 */
void unwind_tables_analyze(struct unwind_tables *tables, uint32_t file,
			   struct executable *executable, uint64_t offset, uint64_t size);

/** Is the table there, or being built again, without all functions known to need analysis? Such are V8's at first. */
bool unwind_tables_lacks_analyzed(const struct unwind_tables *tables, uint32_t file);

/** Queue tables to be built again, each less and less often. Mostly costs nothing. */
void unwind_tables_renew(struct unwind_tables *tables);

/** Remove replaced tables. Processes that held their files have been published again. */
void unwind_tables_retire(struct unwind_tables *tables);

/** Each process published with the file holds it. */
void unwind_tables_hold(struct unwind_tables *tables, uint32_t file);
void unwind_tables_release(struct unwind_tables *tables, uint32_t file);
/** It was used at @time_ns, unless later. */
void unwind_tables_use(struct unwind_tables *tables, uint32_t file, uint64_t time_ns);

/** One process is all that is measured: its tables may fill all space before any sample needs them. */
void unwind_tables_prefetch_all(struct unwind_tables *tables);

/** Readable when builds are done. */
int unwind_tables_fd(const struct unwind_tables *tables);
/**
 * Accept what was built. Returns this call's number if any file changed, else 0. *ret_wanting: a NO_SPACE file to
 * evict others for, else HASH_TABLE_NONE.
 */
uint64_t unwind_tables_read(struct unwind_tables *tables, uint32_t *ret_wanting);

/**
 * The table to evict first for @wanting, or HASH_TABLE_NONE. First tables that no sample needed, the largest first;
 * then those unused for @kept_ns, the oldest use first; then those that no process has mapped for a twelfth of that;
 * then those needed by far fewer samples than @wanting; last those of a payer who has more (table_shares.h).
 */
uint32_t unwind_tables_victim(const struct unwind_tables *tables, uint64_t now_ns, uint64_t kept_ns,
			      uint32_t wanting);
/** Kernel memory of all that could be evicted for it. */
uint64_t unwind_tables_spare_bytes(const struct unwind_tables *tables, uint64_t now_ns,
				   uint64_t kept_ns, uint32_t wanting);
/** Kernel memory to free for a file with NO_SPACE. */
uint64_t unwind_tables_shortage(const struct unwind_tables *tables, uint32_t wanting);
/**
 * Evict a table in two steps. After the first the file is IDLE; before the second no process may refer to the table's
 * number any more. Returns 0, or -ENOMEM and nothing changed.
 */
int unwind_tables_withdraw(struct unwind_tables *tables, uint32_t file);
void unwind_tables_remove(struct unwind_tables *tables, uint32_t file);
/**
 * While more than half of the space or of the numbers is used, evict tables that no process has mapped for more than
 * @kept_ns: new processes then find space. Some per call.
 */
void unwind_tables_trim(struct unwind_tables *tables, uint64_t now_ns, uint64_t kept_ns);
/** Retry a file with NO_SPACE at once. */
void unwind_tables_retry(struct unwind_tables *tables, uint32_t file);

/** Limit the kernel memory of tables. */
void unwind_tables_limit(struct unwind_tables *tables, uint64_t bytes_max);

void unwind_tables_read_stats(const struct unwind_tables *tables,
			      struct unwind_tables_stats *ret_stats);
