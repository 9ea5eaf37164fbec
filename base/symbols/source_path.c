// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/source_path.h"

#include <string.h>

#include "base/text.h"

/** Languages that profilers see. Not those of settings, queries and shells, whose files have passwords in them. */
static const char suffixes[] = " adb ads asm c c++ cc cjs clj cpp cr cs cu cuh cxx d dart erl ex "
			       "exs f f03 f08 f77 f90 f95 fs go groovy h "
			       "h++ hh hpp hrl hs hxx inl ipp ixx java jl js jsx kt kts lua m mjs "
			       "ml mli mm mts nim pas php pl pm pxd pxi py "
			       "pyi pyx r rb rs s scala swift tcc ts tsx vb zig ";

static bool is_of_language(const char *name)
{
	const char *dot = strrchr(name, '.');
	size_t size = dot ? strlen(dot + 1) : 0;
	char word[8] = " ";

	if (dot == name || size == 0 || size > sizeof(word) - 3 || strchr(dot, ' '))
		return false;
	for (size_t i = 0; i < size; i++)
		word[1 + i] = dot[1 + i] >= 'A' && dot[1 + i] <= 'Z' ? (char)(dot[1 + i] | 0x20)
								     : dot[1 + i];
	word[1 + size] = ' ';
	return strstr(suffixes, word);
}

static bool is_plain_name(const char *name, size_t size)
{
	if (size == 0 || name[0] == '.')
		return false;
	for (size_t i = 0; i < size; i++)
		if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
			return false;
	return true;
}

const char *source_path_longest(const char *path)
{
	const char *longest = path;
	size_t left = strlen(path);

	if (!is_of_language(path_base_name(path)))
		return NULL;
	for (const char *name = path; name; name = source_path_shorter(name)) {
		size_t size = strcspn(name, "/");

		if (!is_plain_name(name, size) || left > SOURCE_PATH_BYTES_MAX)
			longest = source_path_shorter(name);
		left -= size + (name[size] == '/');
	}
	return longest;
}

const char *source_path_shorter(const char *path)
{
	const char *slash = strchr(path, '/');

	return slash ? slash + 1 : NULL;
}

bool source_path_is_plain(const char *path)
{
	return source_path_longest(path) == path;
}
