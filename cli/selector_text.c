// SPDX-License-Identifier: Apache-2.0
#include "cli/selector_text.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/contract/label_names.h"

static bool is_name_character(char c)
{
	return isalnum((unsigned char)c) || c == '_';
}

// After the quoted text that begins at @at; the end if its quote never comes.
static const char *after_quotes(const char *at)
{
	for (at++; *at && *at != '"'; at++)
		if (*at == '\\' && at[1])
			at++;
	return *at ? at + 1 : at;
}

const char *selector_text_matchers(const char *selector)
{
	const char *brace = strchr(selector, '{');

	return brace ? brace : "";
}

const char *selector_text_next_label(const char *at, char ret_label[SELECTOR_LABEL_BYTES])
{
	while (*at && !is_name_character(*at))
		at = *at == '"' ? after_quotes(at) : at + 1;
	const char *begin = at;

	while (is_name_character(*at))
		at++;
	snprintf(ret_label, SELECTOR_LABEL_BYTES, "%.*s", (int)(at - begin), begin);
	return at == begin ? NULL : at;
}

bool selector_text_names(const char *selector, const char *name)
{
	char label[SELECTOR_LABEL_BYTES];

	for (const char *at = selector_text_matchers(selector);
	     (at = selector_text_next_label(at, label));)
		if (strcmp(label, name) == 0)
			return true;
	return false;
}

// Without the spaces around it; @ret_length of them are left.
static const char *trimmed(const char *text, size_t *ret_length)
{
	size_t length;

	text += strspn(text, " \t\n");
	length = strlen(text);
	while (length && strchr(" \t\n", text[length - 1]))
		length--;
	*ret_length = length;
	return text;
}

void selector_text_service(const char *selector, char ret_service[SELECTOR_VALUE_BYTES])
{
	char label[SELECTOR_LABEL_BYTES];
	const char *value = "";
	size_t length = 0;

	if (!strchr(selector, '{'))
		value = trimmed(selector, &length);
	for (const char *at = selector_text_matchers(selector);
	     !length && (at = selector_text_next_label(at, label));) {
		value = at + strcspn(at, "\"");
		if (strcmp(label, LABEL_SERVICE) == 0 && *value)
			length = strcspn(++value, "\"");
	}
	snprintf(ret_service, SELECTOR_VALUE_BYTES, "%.*s", (int)length, value);
}

char *selector_text_with(const char *selector, const char *matcher)
{
	size_t length;
	const char *text = trimmed(selector, &length);
	bool is_in_braces = length >= 2 && text[0] == '{' && text[length - 1] == '}';
	char *with = NULL;
	int rc;

	if (is_in_braces) {
		const char *inner = text + 1 + strspn(text + 1, " \t\n");
		bool is_empty = inner == text + length - 1;

		rc = asprintf(&with, "%.*s%s%s}", (int)length - 1, text, is_empty ? "" : ", ",
			      matcher);
	} else if (memchr(text, '{', length) || memchr(text, '"', length) ||
		   memchr(text, '\\', length)) {
		return NULL;
	} else if (length) {
		rc = asprintf(&with, "{service=\"%.*s\", %s}", (int)length, text, matcher);
	} else {
		rc = asprintf(&with, "{%s}", matcher);
	}
	return rc < 0 ? NULL : with;
}
