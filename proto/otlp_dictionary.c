// SPDX-License-Identifier: Apache-2.0
#include "proto/otlp_dictionary.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/contract/otlp_table.h"
#include "base/contract/stack_ends.h"
#include "proto/wire_append.h"

enum { PAIRS_MAX = 1 << 24, END_NAME_BYTES = 64 };

// ---- pairs ------------------------------------------------------------------------------------

static bool pair_equal(const void *context, uint32_t item, const void *key)
{
	const struct pair_table *table = context;

	return memcmp(&table->pairs[item], key, sizeof(*table->pairs)) == 0;
}

static void pair_table_deinit(struct pair_table *table)
{
	hash_table_deinit(&table->index);
	free(table->pairs);
	*table = (struct pair_table){ 0 };
}

static void pair_table_clear(struct pair_table *table)
{
	hash_table_clear(&table->index);
	table->count = 0;
}

/** Returns 0 if the pair has an entry, 1 if it is new; -ENOMEM or -E2BIG. *ret_number is the entry's. */
static int pair_table_add(struct pair_table *table, uint32_t first, uint32_t second,
			  uint32_t *ret_number)
{
	const struct number_pair pair = { first, second };
	uint64_t hash = hash64_of(&pair, sizeof(pair));
	uint32_t at = hash_table_find(&table->index, hash, pair_equal, table, &pair);

	*ret_number = at + 1;
	if (at != HASH_TABLE_NONE)
		return 0;
	int rc = array_reserve(&table->pairs, sizeof(pair), &table->capacity, table->count, 1,
			       PAIRS_MAX);
	if (!rc)
		rc = hash_table_add(&table->index, hash, table->count);
	if (rc)
		return rc;
	table->pairs[table->count++] = pair;
	*ret_number = table->count;
	return 1;
}

// ---- life -------------------------------------------------------------------------------------

static int begin(struct otlp_dictionary *dictionary)
{
	int rc = string_table_init(&dictionary->strings);

	for (uint32_t table = 1; table < OTLP_TABLES; table++)
		wire_append_bytes(&dictionary->bytes, table, NULL, 0);
	dictionary->location_count = dictionary->stack_count = 1;
	return rc;
}

int otlp_dictionary_init(struct otlp_dictionary *dictionary, const struct profile *profile)
{
	*dictionary = (struct otlp_dictionary){ .profile = profile };
	int rc = array_allocate(&dictionary->locations, profile->location_count,
				sizeof(*dictionary->locations));
	if (!rc)
		rc = array_allocate(&dictionary->stacks, profile->stack_count,
				    sizeof(*dictionary->stacks));
	return rc ? rc : begin(dictionary);
}

void otlp_dictionary_deinit(struct otlp_dictionary *dictionary)
{
	string_table_deinit(&dictionary->strings);
	pair_table_deinit(&dictionary->mappings);
	pair_table_deinit(&dictionary->functions);
	pair_table_deinit(&dictionary->attributes);
	buffer_deinit(&dictionary->bytes);
	buffer_deinit(&dictionary->entry);
	buffer_deinit(&dictionary->part);
	free(take(dictionary->locations));
	free(take(dictionary->stacks));
}

int otlp_dictionary_clear(struct otlp_dictionary *dictionary)
{
	const struct profile *profile = dictionary->profile;

	string_table_deinit(&dictionary->strings);
	pair_table_clear(&dictionary->mappings);
	pair_table_clear(&dictionary->functions);
	pair_table_clear(&dictionary->attributes);
	buffer_clear(&dictionary->bytes);
	memset(dictionary->locations, 0, profile->location_count * sizeof(*dictionary->locations));
	memset(dictionary->stacks, 0, profile->stack_count * sizeof(*dictionary->stacks));
	memset(dictionary->ends, 0, sizeof(dictionary->ends));
	return begin(dictionary);
}

static void append_entry(struct otlp_dictionary *dictionary, enum otlp_table table)
{
	wire_append_message(&dictionary->bytes, table, &dictionary->entry);
}

// ---- strings and attributes -------------------------------------------------------------------

int otlp_dictionary_text(struct otlp_dictionary *dictionary, const char *text, uint32_t *ret_number)
{
	uint32_t count = dictionary->strings.count;
	int rc = string_table_add(&dictionary->strings, text, strlen(text), ret_number);

	// As the table has it: cut, and valid UTF-8.
	if (!rc && *ret_number == count)
		wire_append_text(&dictionary->bytes, OTLP_STRINGS,
				 string_table_get(&dictionary->strings, *ret_number));
	return rc;
}

static int add_string(struct otlp_dictionary *dictionary, uint32_t string, uint32_t *ret_number)
{
	return otlp_dictionary_text(dictionary, profile_string(dictionary->profile, string),
				    ret_number);
}

int otlp_dictionary_attribute(struct otlp_dictionary *dictionary, const char *name,
			      const char *value, uint32_t *ret_number)
{
	uint32_t name_number, value_number;
	int rc = otlp_dictionary_text(dictionary, name, &name_number);

	if (!rc)
		rc = otlp_dictionary_text(dictionary, value, &value_number);
	if (!rc)
		rc = pair_table_add(&dictionary->attributes, name_number, value_number, ret_number);
	if (rc <= 0)
		return rc;
	// KeyValueAndUnit {1 key_strindex, 2 AnyValue {1 string_value}}
	buffer_clear(&dictionary->part);
	wire_append_text(&dictionary->part, 1,
			 string_table_get(&dictionary->strings, value_number));
	buffer_clear(&dictionary->entry);
	wire_append_number(&dictionary->entry, 1, name_number);
	wire_append_message(&dictionary->entry, 2, &dictionary->part);
	append_entry(dictionary, OTLP_ATTRIBUTES);
	return 0;
}

// ---- locations --------------------------------------------------------------------------------

static int add_function(struct otlp_dictionary *dictionary, uint32_t name, uint32_t file,
			uint32_t *ret_number)
{
	int rc = pair_table_add(&dictionary->functions, name, file, ret_number);

	if (rc <= 0)
		return rc;
	buffer_clear(&dictionary->entry);
	wire_append_number(&dictionary->entry, 1, name);
	wire_append_number(&dictionary->entry, 3, file);
	append_entry(dictionary, OTLP_FUNCTIONS);
	return 0;
}

/** A file without a GNU build id is known by "h" and a hash of its ends and size. */
static const char *build_id_name(const char *build_id)
{
	return *build_id == 'h' ? "process.executable.build_id.cairn"
				: "process.executable.build_id.gnu";
}

static int add_mapping(struct otlp_dictionary *dictionary, const struct location *location,
		       uint32_t *ret_number)
{
	const char *build_id = profile_string(dictionary->profile, location->build_id);
	uint32_t file, attribute = 0;

	*ret_number = 0;
	if (!location->module && !location->build_id)
		return 0;
	int rc = add_string(dictionary, location->module, &file);
	if (!rc && *build_id)
		rc = otlp_dictionary_attribute(dictionary, build_id_name(build_id), build_id,
					       &attribute);
	if (!rc)
		rc = pair_table_add(&dictionary->mappings, file, attribute, ret_number);
	if (rc <= 0)
		return rc;
	// Where it was in memory is not said: addresses are offsets in the file.
	buffer_clear(&dictionary->entry);
	wire_append_number(&dictionary->entry, 4, file);
	wire_append_index(&dictionary->entry, 5, attribute);
	append_entry(dictionary, OTLP_MAPPINGS);
	return 0;
}

/** profile.frame.type; 0: it has none. */
static int add_frame_type(struct otlp_dictionary *dictionary, enum frame_kind kind,
			  uint32_t *ret_number)
{
	static const char *const types[FRAME_KIND_COUNT] = {
		[FRAME_KIND_NATIVE] = "native",
		[FRAME_KIND_KERNEL] = "kernel",
		[FRAME_KIND_PYTHON] = "cpython",
		[FRAME_KIND_JIT] = "jit",
	};

	*ret_number = 0;
	if (kind >= FRAME_KIND_COUNT || !types[kind])
		return 0;
	return otlp_dictionary_attribute(dictionary, "profile.frame.type", types[kind], ret_number);
}

/** Append lines {1 function_index, 2 line} to @lines as field 3 of a location. */
static int append_lines(struct otlp_dictionary *dictionary, const struct location *location,
			struct buffer *lines)
{
	const struct profile *profile = dictionary->profile;
	int rc = 0;

	for (uint32_t i = 0; i < location->line_count && !rc; i++) {
		const struct line *line = &profile->lines[location->first_line + i];
		uint32_t name, file, function;

		rc = add_string(dictionary, line->name, &name);
		if (!rc)
			rc = add_string(dictionary, line->file, &file);
		if (!rc)
			rc = add_function(dictionary, name, file, &function);
		if (rc)
			break;
		buffer_clear(&dictionary->part);
		wire_append_number(&dictionary->part, 1, function);
		wire_append_number(&dictionary->part, 2, line->number);
		wire_append_message(lines, 3, &dictionary->part);
	}
	return rc;
}

static int add_location(struct otlp_dictionary *dictionary, uint32_t at)
{
	const struct location *location = &dictionary->profile->locations[at];
	_cleanup_(buffer_deinit) struct buffer lines = { 0 };
	uint32_t mapping, frame_type;
	int rc = append_lines(dictionary, location, &lines);

	if (!rc)
		rc = add_mapping(dictionary, location, &mapping);
	if (!rc)
		rc = add_frame_type(dictionary, location->kind, &frame_type);
	if (rc)
		return rc;
	buffer_clear(&dictionary->entry);
	wire_append_number(&dictionary->entry, 1, mapping);
	wire_append_number(&dictionary->entry, 2, location->offset);
	buffer_append(&dictionary->entry, lines.bytes, lines.size);
	wire_append_index(&dictionary->entry, 4, frame_type);
	append_entry(dictionary, OTLP_LOCATIONS);
	dictionary->locations[at] = dictionary->location_count++;
	return lines.rc;
}

/** The frame above the root of a stack that is not complete, as in all exports. */
static int add_end(struct otlp_dictionary *dictionary, enum stack_end end)
{
	char text[END_NAME_BYTES];
	uint32_t name, function;

	snprintf(text, sizeof(text), "[truncated: %s]", stack_end_name(end));
	int rc = otlp_dictionary_text(dictionary, text, &name);
	if (!rc)
		rc = add_function(dictionary, name, 0, &function);
	if (rc)
		return rc;
	buffer_clear(&dictionary->part);
	wire_append_number(&dictionary->part, 1, function);
	buffer_clear(&dictionary->entry);
	wire_append_message(&dictionary->entry, 3, &dictionary->part);
	append_entry(dictionary, OTLP_LOCATIONS);
	dictionary->ends[end] = dictionary->location_count++;
	return 0;
}

// ---- stacks -----------------------------------------------------------------------------------

static int add_locations_of(struct otlp_dictionary *dictionary, const struct stack *stack,
			    enum stack_end end)
{
	int rc = 0;

	for (uint32_t i = 0; i < stack->location_count && !rc; i++) {
		uint32_t at = dictionary->profile->stack_locations[stack->first_location + i];

		if (!dictionary->locations[at])
			rc = add_location(dictionary, at);
	}
	if (!rc && end != STACK_END_COMPLETE && !dictionary->ends[end])
		rc = add_end(dictionary, end);
	return rc;
}

int otlp_dictionary_stack(struct otlp_dictionary *dictionary, uint32_t position,
			  uint32_t *ret_number)
{
	const struct profile *profile = dictionary->profile;
	const struct stack *stack = &profile->stacks[position];
	enum stack_end end =
		stack->defined && stack->end < STACK_END_COUNT ? stack->end : STACK_END_LOST;

	if (!dictionary->stacks[position]) {
		int rc = add_locations_of(dictionary, stack, end);
		if (rc)
			return rc;
		buffer_clear(&dictionary->part);
		for (uint32_t i = 0; i < stack->location_count; i++)
			buffer_append_varint(
				&dictionary->part,
				dictionary->locations
					[profile->stack_locations[stack->first_location + i]]);
		if (end != STACK_END_COMPLETE)
			buffer_append_varint(&dictionary->part, dictionary->ends[end]);
		buffer_clear(&dictionary->entry);
		wire_append_message(&dictionary->entry, 1, &dictionary->part);
		append_entry(dictionary, OTLP_STACKS);
		dictionary->stacks[position] = dictionary->stack_count++;
	}
	*ret_number = dictionary->stacks[position];
	return 0;
}
