// SPDX-License-Identifier: Apache-2.0
// The file format of an unwind table (docs/format.md): header, rules, words, and a checksum of all. In the machine's own
// byte order, as only that machine reads it.
#pragma once

#include <stdint.h>

#include "agent/unwind/unwind_table.h"

enum { UNWIND_TABLE_ID_MAX = 128 }; // bytes of an executable's id

/** What a table is built from. */
struct unwind_table_key {
	const char *id;   // of the executable, UNWIND_TABLE_ID_MAX bytes at most
	uint64_t builder; // which program built it: another one may make other rows
	uint64_t marks_hash;
};

uint64_t unwind_table_file_bytes(const struct unwind_table *table);

/** Write @table to @fd. Returns 0 or -errno. */
int unwind_table_file_write(int fd, const struct unwind_table_key *key,
			    const struct unwind_table *table);

/**
 * Read the table from @fd, a file of @size bytes. Returns 0; -EBADMSG if it is of another key or version, or altered;
 * -ENOMEM; -errno.
 */
int unwind_table_file_read(int fd, uint64_t size, const struct unwind_table_key *key,
			   struct unwind_table **ret_table);
