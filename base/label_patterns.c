// SPDX-License-Identifier: Apache-2.0
#include "base/label_patterns.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/labels.h"

enum { PATTERN_BYTES_MAX = LABEL_NAME_BYTES_MAX };

static int check_pattern(const char *pattern, size_t size, struct error *err)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789._-/";
	size_t plain = strspn(pattern, allowed);
	bool is_good = size && size < PATTERN_BYTES_MAX &&
		       (plain >= size || (plain == size - 1 && pattern[plain] == '*'));

	return is_good ? 0
		       : error_set(err, -EINVAL,
				   "\"%.*s\" is neither a name (team.name) nor the begin of names "
				   "(team.*)",
				   (int)(size < 40 ? size : 40), pattern);
}

int label_patterns_check(const char *patterns, struct error *err)
{
	while (patterns) {
		size_t size = strcspn(patterns, ",");
		int rc = check_pattern(patterns, size, err);

		if (rc)
			return rc;
		patterns = patterns[size] ? patterns + size + 1 : NULL;
	}
	return 0;
}

static bool pattern_matches(const char *pattern, size_t size, const char *name)
{
	if (size && pattern[size - 1] == '*')
		return strncmp(pattern, name, size - 1) == 0;
	return strlen(name) == size && memcmp(pattern, name, size) == 0;
}

bool label_patterns_match(const char *patterns, const char *name)
{
	while (patterns) {
		size_t size = strcspn(patterns, ",");

		if (pattern_matches(patterns, size, name))
			return true;
		patterns = patterns[size] ? patterns + size + 1 : NULL;
	}
	return false;
}

void label_name_from(char *name, size_t size)
{
	for (char *at = name; *at; at++)
		if (!isalnum((unsigned char)*at) || (unsigned char)*at >= 0x80)
			*at = '_';
	if (!isdigit((unsigned char)name[0]))
		return;
	memmove(name + 1, name, size - 2);
	name[0] = '_';
	name[size - 1] = '\0';
}
