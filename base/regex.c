// SPDX-License-Identifier: Apache-2.0
#include "base/regex.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/cleanup.h"

struct regex {
	pcre2_code *code;
	pcre2_match_context *limits;
};

void regex_free(struct regex *regex)
{
	if (!regex)
		return;

	pcre2_code_free(regex->code);
	pcre2_match_context_free(regex->limits);
	free(regex);
}

static void compile_context_freep(pcre2_compile_context **context)
{
	pcre2_compile_context_free(*context);
}

static pcre2_match_context *limits_new(uint32_t steps_max)
{
	pcre2_match_context *limits = pcre2_match_context_create(NULL);

	if (!limits)
		return NULL;

	pcre2_set_match_limit(limits, steps_max);
	pcre2_set_depth_limit(limits, REGEX_DEPTH_MAX);
	pcre2_set_heap_limit(limits, REGEX_HEAP_KIB_MAX);
	return limits;
}

int regex_compile(const char *pattern, size_t bytes_max, uint32_t steps_max,
		  struct regex **ret_regex, struct error *err)
{
	// labels_set() makes values UTF-8; MATCH_INVALID_UTF keeps PCRE2 safe should one not be.
	const uint32_t options = PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL |
				 PCRE2_DOLLAR_ENDONLY | PCRE2_NEVER_BACKSLASH_C | PCRE2_UTF |
				 PCRE2_MATCH_INVALID_UTF;
	_cleanup_(compile_context_freep) pcre2_compile_context *context =
		pcre2_compile_context_create(NULL);
	_cleanup_(regex_freep) struct regex *regex = calloc(1, sizeof(*regex));

	if (!regex || !context)
		return error_set(err, -ENOMEM, "out of memory");
	pcre2_set_parens_nest_limit(context, REGEX_NESTING_MAX);
	pcre2_set_max_pattern_length(context, bytes_max);

	int code;
	size_t offset;
	regex->code = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED, options, &code,
				    &offset, context);
	if (!regex->code) {
		char words[160];

		pcre2_get_error_message(code, (PCRE2_UCHAR *)words, sizeof(words));
		return error_set(err, -EINVAL, "regular expression: %s (at its character %zu)",
				 words, offset + 1);
	}
	regex->limits = limits_new(steps_max);
	if (!regex->limits)
		return error_set(err, -ENOMEM, "out of memory");

	*ret_regex = take(regex);
	return 0;
}

static void copy_groups(pcre2_match_data *data, uint32_t count, struct regex_match *ret_match)
{
	const size_t *offsets = pcre2_get_ovector_pointer(data);

	ret_match->count = count < REGEX_GROUPS_MAX ? count : REGEX_GROUPS_MAX;
	for (size_t i = 0; i < ret_match->count; i++) {
		// "\K" moves the begin, even behind the end.
		size_t begin = offsets[2 * i], end = offsets[2 * i + 1];
		bool is_empty = begin == PCRE2_UNSET || begin > end;

		ret_match->groups[i].begin = is_empty ? 0 : begin;
		ret_match->groups[i].end = is_empty ? 0 : end;
	}
}

int regex_find(const struct regex *regex, const char *text, size_t size,
	       struct regex_match *ret_match)
{
	uint32_t groups = ret_match ? REGEX_GROUPS_MAX : 1;
	pcre2_match_data *data = pcre2_match_data_create(groups, NULL);

	if (!data)
		return -ENOMEM;
	int rc = pcre2_match(regex->code, (PCRE2_SPTR)text, size, 0, 0, data, regex->limits);
	// 0: there are more groups than were asked for.
	if (rc >= 0 && ret_match)
		copy_groups(data, rc ? (uint32_t)rc : groups, ret_match);
	pcre2_match_data_free(data);
	if (rc >= 0)
		return 1;
	if (rc == PCRE2_ERROR_NOMEMORY)
		return -ENOMEM;
	return rc == PCRE2_ERROR_NOMATCH ? 0 : -E2BIG;
}

size_t regex_group_count(const struct regex *regex)
{
	uint32_t count = 0;

	pcre2_pattern_info(regex->code, PCRE2_INFO_CAPTURECOUNT, &count);
	return count;
}

int regex_group_of_name(const struct regex *regex, const char *name)
{
	int number = pcre2_substring_number_from_name(regex->code, (PCRE2_SPTR)name);

	return number > 0 ? number : -ENOENT;
}
