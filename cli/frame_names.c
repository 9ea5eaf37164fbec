// SPDX-License-Identifier: Apache-2.0
#include "cli/frame_names.h"
#include "cli/printable_text.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static uint32_t *new_numbers(uint32_t count)
{
	uint32_t *numbers = malloc(((size_t)count + 1) * sizeof(*numbers));

	for (uint32_t i = 0; numbers && i < count; i++)
		numbers[i] = HASH_TABLE_NONE;
	return numbers;
}

int frame_names_init(const struct profile *profile, struct string_table *strings,
		     struct frame_names *ret_names)
{
	int rc = strings->count ? 0 : string_table_init(strings);

	*ret_names = (struct frame_names){ .profile = profile, .strings = strings };
	if (rc)
		return rc;
	ret_names->of_lines = new_numbers(profile->line_count);
	ret_names->bare = new_numbers(profile->location_count);
	return ret_names->of_lines && ret_names->bare ? 0 : -ENOMEM;
}

void frame_names_deinit(struct frame_names *names)
{
	free(names->of_lines);
	free(names->bare);
	*names = (struct frame_names){ 0 };
}

int frame_names_add(struct frame_names *names, const char *text, uint32_t *ret_number)
{
	char printable[FUNCTION_NAME_BYTES];

	snprintf(printable, sizeof(printable), "%s", text);
	utf8_clean(printable);
	return string_table_add(names->strings, printable, strlen(printable), ret_number);
}

uint32_t frame_names_count(const struct frame_names *names, uint32_t location)
{
	uint32_t lines = names->profile->locations[location].line_count;

	return lines ? lines : 1;
}

int frame_names_get(struct frame_names *names, uint32_t location_number, uint32_t line,
		    uint32_t *ret_number)
{
	const struct location *location = &names->profile->locations[location_number];
	uint32_t *known = location->line_count ? &names->of_lines[location->first_line + line]
					       : &names->bare[location_number];

	if (*known == HASH_TABLE_NONE) {
		char name[FUNCTION_NAME_BYTES];

		location_display_name(names->profile, location, line, name, sizeof(name));
		int rc = frame_names_add(names, name, known);
		if (rc)
			return rc;
	}
	*ret_number = *known;
	return 0;
}

const char *frame_names_missing(const struct stack *stack)
{
	return stack->defined ? "[not sampled]" : "[unknown stack]";
}
