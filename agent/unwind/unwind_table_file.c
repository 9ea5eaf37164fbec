// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_table_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/cleanup.h"

/* Raise it when the header or the key changes. Other rows show in `builder`. */
enum { UNWIND_TABLE_FILE_VERSION = 11 };

static const char file_magic[8] = "cairnUT";

struct file_header {
	char magic[8];
	uint32_t version;
	uint32_t layout;   // of words and rules, see bpf/unwind/table_layout.h
	uint64_t checksum; // of the header with 0 here, the rules and the words
	uint64_t builder;
	uint64_t marks_hash;
	uint64_t first_address;
	uint32_t block_count;
	uint32_t word_count;
	uint32_t rule_count;
	uint32_t row_count;
	uint32_t unsupported_count;
	uint32_t reserved;
	char id[UNWIND_TABLE_ID_MAX]; // as in the key, the rest zero
};

_Static_assert(sizeof(struct file_header) == 72 + UNWIND_TABLE_ID_MAX, "no padding");

static void unwind_table_freep(struct unwind_table **table)
{
	unwind_table_free(*table);
}

static size_t rules_size(const struct unwind_table *table)
{
	return table->rule_count * sizeof(*table->rules);
}

static size_t words_size(const struct unwind_table *table)
{
	return (size_t)table->word_count * sizeof(*table->words);
}

uint64_t unwind_table_file_bytes(const struct unwind_table *table)
{
	return sizeof(struct file_header) + rules_size(table) + words_size(table);
}

static struct file_header header_of(const struct unwind_table_key *key,
				    const struct unwind_table *table)
{
	struct file_header header = {
		.version = UNWIND_TABLE_FILE_VERSION,
		.layout =
			TABLE_BLOCK_BITS << 16 | TABLE_RULE_BITS << 8 | sizeof(struct unwind_rule),
		.builder = key->builder,
		.marks_hash = key->marks_hash,
		.first_address = table->first_address,
		.block_count = table->block_count,
		.word_count = table->word_count,
		.rule_count = table->rule_count,
		.row_count = table->row_count,
		.unsupported_count = table->unsupported_count,
	};

	memcpy(header.magic, file_magic, sizeof(header.magic));
	memcpy(header.id, key->id, strnlen(key->id, sizeof(header.id)));
	return header;
}

/* Returns 0 and the checksum, or -ENOMEM. */
static int checksum_of(const struct file_header *header, const struct unwind_table *table,
		       uint64_t *ret_checksum)
{
	struct file_header blank = *header;
	XXH3_state_t *state = XXH3_createState();

	if (!state)
		return -ENOMEM;
	blank.checksum = 0;
	XXH3_64bits_reset(state);
	XXH3_64bits_update(state, &blank, sizeof(blank));
	if (table->rule_count)
		XXH3_64bits_update(state, table->rules, rules_size(table));
	if (table->word_count)
		XXH3_64bits_update(state, table->words, words_size(table));
	*ret_checksum = XXH3_64bits_digest(state);
	XXH3_freeState(state);
	return 0;
}

static int write_all(int fd, const void *bytes, size_t size)
{
	const char *at = bytes;

	while (size) {
		ssize_t count = write(fd, at, size);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		at += count;
		size -= (size_t)count;
	}
	return 0;
}

int unwind_table_file_write(int fd, const struct unwind_table_key *key,
			    const struct unwind_table *table)
{
	struct file_header header = header_of(key, table);
	int rc = checksum_of(&header, table, &header.checksum);

	if (!rc)
		rc = write_all(fd, &header, sizeof(header));
	if (!rc)
		rc = write_all(fd, table->rules, rules_size(table));
	if (!rc)
		rc = write_all(fd, table->words, words_size(table));
	return rc;
}

/* Returns 0; -EBADMSG if the file is too short; -errno. */
static int read_all(int fd, void *bytes, size_t size)
{
	char *at = bytes;

	while (size) {
		ssize_t count = read(fd, at, size);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		if (count == 0)
			return -EBADMSG;
		at += count;
		size -= (size_t)count;
	}
	return 0;
}

/* Checks all but the checksum, which covers what is read later. */
static bool header_is_sound(const struct file_header *header, uint64_t size,
			    const struct unwind_table_key *key)
{
	struct unwind_table claimed = {
		.first_address = header->first_address,
		.block_count = header->block_count,
		.word_count = header->word_count,
		.rule_count = header->rule_count,
		.row_count = header->row_count,
		.unsupported_count = header->unsupported_count,
	};
	struct file_header expected = header_of(key, &claimed);

	expected.checksum = header->checksum;
	return memcmp(header, &expected, sizeof(expected)) == 0 &&
	       header->block_count <= UNWIND_TABLE_BLOCKS_MAX &&
	       header->word_count <= UNWIND_TABLE_ROWS_MAX &&
	       header->rule_count <= UNWIND_RULES_MAX && size == unwind_table_file_bytes(&claimed);
}

/* Each block has a row at its start, and each row has a rule. */
static bool words_are_sound(const struct unwind_table *table)
{
	const uint32_t *words = table->words;
	uint32_t index_count = table->block_count + 1;

	if (!table->block_count)
		return table->word_count == 0;
	if (table->word_count < index_count || words[0] != index_count ||
	    words[table->block_count] != table->word_count)
		return false;
	for (uint32_t i = 0; i < table->block_count; i++) {
		if (words[i] >= words[i + 1] || words[i + 1] > table->word_count ||
		    words[words[i]] >> TABLE_RULE_BITS != 0)
			return false;
	}
	for (uint32_t i = index_count; i < table->word_count; i++) {
		if ((words[i] & TABLE_RULE_MASK) >= table->rule_count)
			return false;
	}
	return true;
}

int unwind_table_file_read(int fd, uint64_t size, const struct unwind_table_key *key,
			   struct unwind_table **ret_table)
{
	_cleanup_(unwind_table_freep) struct unwind_table *table = calloc(1, sizeof(*table));
	struct file_header header;
	uint64_t checksum;

	if (!table)
		return -ENOMEM;
	int rc = read_all(fd, &header, sizeof(header));
	if (rc)
		return rc;
	if (!header_is_sound(&header, size, key))
		return -EBADMSG;
	table->first_address = header.first_address;
	table->block_count = header.block_count;
	table->word_count = header.word_count;
	table->rule_count = header.rule_count;
	table->row_count = header.row_count;
	table->unsupported_count = header.unsupported_count;
	table->rules = malloc(rules_size(table) + 1);
	table->words = malloc(words_size(table) + 1);
	if (!table->rules || !table->words)
		return -ENOMEM;
	rc = read_all(fd, table->rules, rules_size(table));
	if (!rc)
		rc = read_all(fd, table->words, words_size(table));
	if (!rc)
		rc = checksum_of(&header, table, &checksum);
	if (rc)
		return rc;
	if (checksum != header.checksum || !words_are_sound(table))
		return -EBADMSG;
	*ret_table = take(table);
	return 0;
}
