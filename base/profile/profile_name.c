// SPDX-License-Identifier: Apache-2.0
// What frames are called wherever people read them.
#include "base/profile/profile.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "base/utf8.h"

static void format_unresolved(const struct profile *profile, const struct location *location,
			      char *name, size_t size)
{
	const char *module = path_shown_name(profile_string(profile, location->module));

	snprintf(name, size, "%s+0x%llx%s", *module ? module : "[unknown]",
		 (unsigned long long)location->offset,
		 location->kind == FRAME_KIND_KERNEL ? "_[k]" : "");
}

static void format_line(const struct profile *profile, enum frame_kind kind,
			const struct line *line, char *name, size_t size)
{
	const char *function = profile_string(profile, line->name);
	const char *file = path_shown_name(profile_string(profile, line->file));

	if (kind == FRAME_KIND_KERNEL)
		snprintf(name, size, "%s_[k]", function);
	else if (kind != FRAME_KIND_PYTHON || !*file)
		snprintf(name, size, "%s", function);
	else if (line->number == 0)
		snprintf(name, size, "%s (%s)", function, file);
	else
		snprintf(name, size, "%s (%s:%u)", function, file, line->number);
}

void frame_name_clean(char *name)
{
	utf8_repair(name, strlen(name)); // a name may have been cut within a character
	for (; *name; name++) {
		if (*name == ';')
			*name = ':';
		else if ((unsigned char)*name < ' ' || *name == 0x7f)
			*name = ' ';
	}
}

void location_display_name(const struct profile *profile, const struct location *location,
			   uint32_t line, char *ret_name, size_t size)
{
	const struct line *named = NULL;

	if (size == 0)
		return;
	if (line < location->line_count)
		named = &profile->lines[location->first_line + line];
	if (named && named->name)
		format_line(profile, location->kind, named, ret_name, size);
	else
		format_unresolved(profile, location, ret_name, size);
	frame_name_clean(ret_name);
}
