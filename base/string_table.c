// SPDX-License-Identifier: Apache-2.0
#include "base/string_table.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/id128.h"
#include "base/utf8.h"

enum { STRINGS_MIN = 64, STRING_BYTES_MIN = 1024 };

struct string_key {
	const char *bytes;
	size_t size;
};

static bool string_equal(const void *context, uint32_t item, const void *key)
{
	const struct string_table *table = context;
	const struct string_key *wanted = key;
	const char *string = table->bytes + table->offsets[item];

	return strncmp(string, wanted->bytes, wanted->size) == 0 && string[wanted->size] == 0;
}

// The key to look for: up to a NUL, cut to STRING_BYTES_MAX, and valid UTF-8. Most strings are their
// own key; others are repaired in @room.
static struct string_key key_of(const char *string, size_t size, char room[STRING_BYTES_MAX])
{
	if (size == 0)
		return (struct string_key){ .bytes = "" }; // @string may be NULL
	// Not the rest of the string: a caller may hand over megabytes.
	size = strnlen(string, size > STRING_BYTES_MAX ? STRING_BYTES_MAX + 1 : size);
	size = utf8_cut(string, size, STRING_BYTES_MAX);
	if (utf8_is_valid(string, size))
		return (struct string_key){ .bytes = string, .size = size };

	memcpy(room, string, size);
	utf8_repair(room, size);
	return (struct string_key){ .bytes = room, .size = size };
}

static int reserve_bytes(struct string_table *table, size_t size)
{
	size_t capacity = table->bytes_capacity ? table->bytes_capacity : STRING_BYTES_MIN;

	if (table->bytes_size + size > UINT32_MAX) // an offset has 32 bits
		return -E2BIG;
	while (capacity < table->bytes_size + size)
		capacity *= 2;
	if (capacity == table->bytes_capacity)
		return 0;

	char *bytes = realloc(table->bytes, capacity);
	if (!bytes)
		return -ENOMEM;
	table->bytes = bytes;
	table->bytes_capacity = capacity;
	return 0;
}

static int reserve_offset(struct string_table *table)
{
	if (table->count >= STRING_TABLE_COUNT_MAX)
		return -E2BIG;
	if (table->count < table->capacity)
		return 0;

	uint32_t capacity = table->capacity ? table->capacity * 2 : STRINGS_MIN;
	uint32_t *offsets = reallocarray(table->offsets, capacity, sizeof(*offsets));
	if (!offsets)
		return -ENOMEM;
	table->offsets = offsets;
	table->capacity = capacity;
	return 0;
}

int string_table_init(struct string_table *table)
{
	uint32_t number;

	*table = (struct string_table){ 0 };
	int rc = string_table_add(table, "", 0, &number);
	if (rc < 0)
		string_table_deinit(table);
	return rc;
}

void string_table_deinit(struct string_table *table)
{
	free(table->bytes);
	free(table->offsets);
	hash_table_deinit(&table->index);
	*table = (struct string_table){ 0 };
}

int string_table_add(struct string_table *table, const char *string, size_t size,
		     uint32_t *ret_number)
{
	char room[STRING_BYTES_MAX];
	struct string_key key = key_of(string, size, room);
	uint64_t hash = hash64_of(key.bytes, key.size);
	uint32_t number = hash_table_find(&table->index, hash, string_equal, table, &key);

	if (number != HASH_TABLE_NONE) {
		*ret_number = number;
		return 0;
	}

	int rc = reserve_bytes(table, key.size + 1);
	if (rc == 0)
		rc = reserve_offset(table);
	if (rc == 0)
		rc = hash_table_add(&table->index, hash, table->count);
	if (rc < 0)
		return rc;

	char *place = table->bytes + table->bytes_size;
	memcpy(place, key.bytes, key.size);
	place[key.size] = 0;
	table->offsets[table->count] = (uint32_t)table->bytes_size;
	table->bytes_size += key.size + 1;
	*ret_number = table->count++;
	return 0;
}

const char *string_table_get(const struct string_table *table, uint32_t number)
{
	return number < table->count ? table->bytes + table->offsets[number] : "";
}

uint32_t string_table_find(const struct string_table *table, const char *string)
{
	char room[STRING_BYTES_MAX];
	struct string_key key = key_of(string, SIZE_MAX, room);

	return hash_table_find(&table->index, hash64_of(key.bytes, key.size), string_equal, table,
			       &key);
}
