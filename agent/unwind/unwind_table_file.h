// SPDX-License-Identifier: Apache-2.0
// An unwind table as a file: a header, the rules, the words, and a checksum over all of it. Written
// and read by the same machine, so numbers are as in memory.
#pragma once

#include <stdint.h>

#include "agent/unwind/unwind_table.h"

enum { UNWIND_TABLE_ID_MAX = 128 }; // bytes of an executable's id

/** What the table was built from. */
struct unwind_table_key {
	const char *id;   // of the executable, UNWIND_TABLE_ID_MAX bytes at most
	uint64_t builder; // which program compiled it: another may come to other rows
	uint64_t marks_hash;
};

uint64_t unwind_table_file_bytes(const struct unwind_table *table);

/** Write the table to @fd. Returns 0 or -errno. */
int unwind_table_file_write(int fd, const struct unwind_table_key *key,
			    const struct unwind_table *table);

/**
 * Read the table from @fd, a file of @size bytes. Returns 0; -EBADMSG if it is no table of this
 * kind and key, or has been altered; -ENOMEM; -errno when reading fails.
 */
int unwind_table_file_read(int fd, uint64_t size, const struct unwind_table_key *key,
			   struct unwind_table **ret_table);
