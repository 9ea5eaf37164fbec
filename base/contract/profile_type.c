// SPDX-License-Identifier: Apache-2.0
#include "base/contract/profile_type.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/profile_types.h"

static const char *const part_names[] = {
	"name", "sample type", "sample unit", "period type", "period unit",
};

static int copy_part(const char *text, const char *part, size_t size, const char *part_name,
		     char *ret_part, struct error *err)
{
	if (size == 0)
		return error_set(err, -EINVAL, "profile type \"%.80s\": the %s is empty", text,
				 part_name);
	if (size >= PROFILE_TYPE_PART_BYTES)
		return error_set(err, -EINVAL,
				 "profile type \"%.80s\": the %s is longer than %d bytes", text,
				 part_name, PROFILE_TYPE_PART_BYTES - 1);
	for (size_t i = 0; i < size; i++) {
		if (part[i] <= ' ' || part[i] > '~')
			return error_set(err, -EINVAL,
					 "profile type \"%.80s\": the %s has a character that is "
					 "not printable ASCII",
					 text, part_name);
	}
	memcpy(ret_part, part, size);
	ret_part[size] = 0;
	return 0;
}

int profile_type_parse(const char *text, struct profile_type *ret_type, struct error *err)
{
	struct profile_type type = { 0 };
	char *const parts[] = { type.name, type.sample_type, type.sample_unit, type.period_type,
				type.period_unit };
	const char *at = text;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		size_t size = strcspn(at, ":");
		bool is_last = i == ARRAY_SIZE(parts) - 1;

		if ((at[size] == ':') == is_last)
			return error_set(err, -EINVAL,
					 "profile type \"%.80s\": expected five parts, as in "
					 "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
					 text);
		int rc = copy_part(text, at, size, part_names[i], parts[i], err);
		if (rc < 0)
			return rc;
		at += size + 1;
	}
	*ret_type = type;
	return 0;
}

bool profile_type_is_gauge(const char *text)
{
	struct profile_type type;

	return profile_type_parse(text, &type, NULL) == 0 &&
	       strcmp(type.period_type, "gauge") == 0 && strcmp(type.period_unit, "second") == 0;
}

void profile_type_words(char *text, size_t size, uint32_t columns)
{
	uint32_t count, column = 0;
	const struct profile_type_spec *specs = profile_type_specs(&count);
	size_t used = 0;

	text[0] = 0;
	for (uint32_t i = 0; i < count && used < size; i++) {
		if (!specs[i].word)
			continue;
		uint32_t length = (uint32_t)strlen(specs[i].word) + 2; // with ", "
		bool is_wrapped = columns && column + length > columns;

		used += (size_t)snprintf(text + used, size - used, "%s%s%s", used ? "," : "",
					 is_wrapped ? "\n"
					 : used     ? " "
						    : "",
					 specs[i].word);
		column = is_wrapped ? length : column + length;
	}
}

int profile_type_of_text(const char *text, const char **ret_type, struct error *err)
{
	uint32_t count;
	const struct profile_type_spec *specs = profile_type_specs(&count);
	struct profile_type parsed;

	for (uint32_t i = 0; i < count; i++) {
		if (specs[i].word && strcmp(specs[i].word, text) == 0) {
			*ret_type = specs[i].type;
			return 0;
		}
	}
	if (!strchr(text, ':')) {
		char words[PROFILE_TYPE_WORDS_BYTES];

		profile_type_words(words, sizeof(words), 0);
		return error_set(
			err, -EINVAL,
			"unknown profile type \"%.40s\"; known: %s, or a type in five parts", text,
			words);
	}
	*ret_type = text;
	return profile_type_parse(text, &parsed, err);
}
