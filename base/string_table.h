// SPDX-License-Identifier: Apache-2.0
// Strings interned to dense 32-bit numbers. Number 0 is always "". All are valid UTF-8: bytes that
// are not are replaced by '?' on the way in.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"

enum {
	STRING_BYTES_MAX =
		4096, // a demangled C++ name may be longer: it is cut, on a character's border
	STRING_TABLE_COUNT_MAX = 1 << 24, // more in one profile or partition means hostile input
};

struct string_table {
	char *bytes; // all strings, each with its NUL
	size_t bytes_size;
	size_t bytes_capacity;
	uint32_t *offsets; // string number to its place in bytes
	uint32_t count;
	uint32_t capacity;
	struct hash_table index;
};

/** Returns 0 or -ENOMEM. */
int string_table_init(struct string_table *table);
void string_table_deinit(struct string_table *table);

/**
 * The number of @string (@size bytes, need not end in NUL; bytes after a NUL are cut off), added
 * if new. Returns 0; -ENOMEM; -E2BIG at STRING_TABLE_COUNT_MAX.
 */
int string_table_add(struct string_table *table, const char *string, size_t size,
		     uint32_t *ret_number);

/** The string; "" for a number that is not there. Valid until the next add. */
const char *string_table_get(const struct string_table *table, uint32_t number);

/** The number of @string, or HASH_TABLE_NONE. */
uint32_t string_table_find(const struct string_table *table, const char *string);
