// SPDX-License-Identifier: Apache-2.0
#include "base/export/named_stacks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"

enum { FRAMES_MAX = STACK_FRAMES_MAX * LOCATION_LINES_MAX + 1 };

int named_stacks_init(struct named_stacks *stacks, const struct profile *profile)
{
	*stacks = (struct named_stacks){ .profile = profile };
	int rc = string_table_init(&stacks->strings);

	if (!rc)
		rc = array_allocate(&stacks->line_functions, profile->line_count, sizeof(uint32_t));
	if (!rc)
		rc = array_allocate(&stacks->location_functions, profile->location_count,
				    sizeof(uint32_t));
	if (rc)
		named_stacks_deinit(stacks);
	return rc;
}

void named_stacks_deinit(struct named_stacks *stacks)
{
	string_table_deinit(&stacks->strings);
	hash_table_deinit(&stacks->index);
	free(stacks->functions);
	free(stacks->line_functions);
	free(stacks->location_functions);
	free(stacks->frames);
	*stacks = (struct named_stacks){ 0 };
}

static bool function_equal(const void *context, uint32_t item, const void *key)
{
	const struct named_stacks *stacks = context;
	const struct named_function *function = &stacks->functions[item], *wanted = key;

	return function->name == wanted->name && function->file == wanted->file;
}

/** @file, or if that is "", @module. */
static int add_function(struct named_stacks *stacks, enum frame_kind kind, const char *name,
			const char *file, const char *module, uint32_t *ret_function)
{
	struct named_function key = { .is_module = !*file && *module, .kind = kind };
	int rc = string_table_add(&stacks->strings, name, strlen(name), &key.name);

	if (!rc)
		rc = string_table_add(&stacks->strings, *file ? file : module,
				      strlen(*file ? file : module), &key.file);
	if (rc)
		return rc;

	uint64_t hash = hash64_of((uint32_t[]){ key.name, key.file }, 2 * sizeof(uint32_t));
	uint32_t found = hash_table_find(&stacks->index, hash, function_equal, stacks, &key);
	if (found == HASH_TABLE_NONE) {
		found = stacks->function_count;
		rc = array_reserve(&stacks->functions, sizeof(key), &stacks->function_capacity,
				   found, 1, NAMED_FUNCTIONS_MAX);
		if (!rc)
			rc = hash_table_add(&stacks->index, hash, found);
		if (rc)
			return rc;
		stacks->functions[stacks->function_count++] = key;
	}
	*ret_function = found;
	return 0;
}

/** As location_display_name(), without the line of Python's. */
static void name_line(const struct profile *profile, const struct location *location, uint32_t line,
		      char *name, size_t size)
{
	struct location plain = *location;

	if (plain.kind == FRAME_KIND_PYTHON)
		plain.kind = FRAME_KIND_NATIVE;
	location_display_name(profile, &plain, line, name, size);
}

static int find_function(struct named_stacks *stacks, uint32_t number, uint32_t line,
			 uint32_t *ret_function)
{
	const struct profile *profile = stacks->profile;
	const struct location *location = &profile->locations[number];
	bool is_named = line < location->line_count;
	uint32_t *known = is_named ? &stacks->line_functions[location->first_line + line]
				   : &stacks->location_functions[number];

	if (!*known) {
		const char *file =
			is_named ? profile_string(profile,
						  profile->lines[location->first_line + line].file)
				 : "";
		char name[STRING_BYTES_MAX];
		uint32_t function;

		name_line(profile, location, line, name, sizeof(name));
		int rc = add_function(stacks, location->kind, name, file,
				      profile_string(profile, location->module), &function);
		if (rc)
			return rc;
		*known = function + 1;
	}
	*ret_function = *known - 1;
	return 0;
}

static int add_frame(struct named_stacks *stacks, uint32_t function, uint32_t line)
{
	int rc = array_reserve(&stacks->frames, sizeof(*stacks->frames), &stacks->frame_capacity,
			       stacks->frame_count, 1, FRAMES_MAX);

	if (!rc)
		stacks->frames[stacks->frame_count++] = (struct named_frame){ function, line };
	return rc;
}

static int add_location(struct named_stacks *stacks, uint32_t number)
{
	const struct profile *profile = stacks->profile;
	const struct location *location = &profile->locations[number];
	uint32_t count = location->line_count ? location->line_count : 1;
	int rc = 0;

	for (uint32_t line = count; !rc && line-- > 0;) {
		uint32_t function, source_line = 0;

		if (line < location->line_count)
			source_line = profile->lines[location->first_line + line].number;
		rc = find_function(stacks, number, line, &function);
		if (!rc)
			rc = add_frame(stacks, function, source_line);
	}
	return rc;
}

int named_stacks_add(struct named_stacks *stacks, const char *name, uint32_t *ret_function)
{
	return add_function(stacks, FRAME_KIND_UNKNOWN, name, "", "", ret_function);
}

static int add_note(struct named_stacks *stacks, const char *note)
{
	uint32_t function;

	int rc = named_stacks_add(stacks, note, &function);
	return rc ? rc : add_frame(stacks, function, 0);
}

int named_stacks_read(struct named_stacks *stacks, uint32_t number)
{
	const struct stack *stack = &stacks->profile->stacks[number];
	const uint32_t *locations = stacks->profile->stack_locations + stack->first_location;
	enum stack_end end = stack->defined ? stack->end : STACK_END_LOST;
	char note[64];
	int rc = 0;

	stacks->frame_count = 0;
	if (end != STACK_END_COMPLETE) {
		snprintf(note, sizeof(note), "[truncated: %s]", stack_end_name(end));
		rc = add_note(stacks, note);
	} else if (stack->location_count == 0) {
		rc = add_note(stacks, "[no stack]");
	}
	for (uint32_t i = stack->location_count; !rc && i-- > 0;)
		rc = add_location(stacks, locations[i]);
	return rc;
}

const char *named_function_name(const struct named_stacks *stacks, uint32_t function)
{
	return string_table_get(&stacks->strings, stacks->functions[function].name);
}

const char *named_function_file(const struct named_stacks *stacks, uint32_t function)
{
	return string_table_get(&stacks->strings, stacks->functions[function].file);
}
