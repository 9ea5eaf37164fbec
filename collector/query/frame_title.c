// SPDX-License-Identifier: Apache-2.0
#include "collector/query/frame_title.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static const struct line *line_of(const struct profile *profile, const struct location *location,
				  uint32_t line)
{
	return line < location->line_count ? &profile->lines[location->first_line + line] : NULL;
}

void frame_title(const struct profile *profile, const struct location *location, uint32_t line,
		 enum frame_lines lines, char *ret_title, size_t size)
{
	const struct line *named = line_of(profile, location, line);
	bool is_python = location->kind == FRAME_KIND_PYTHON;
	bool is_binary = location->kind == FRAME_KIND_NATIVE || location->kind == FRAME_KIND_JIT;

	if (!named || !named->name || !named->file || !named->number ||
	    !(lines == FRAME_LINES_NONE ? is_python : lines == FRAME_LINES_ALL && is_binary)) {
		location_display_name(profile, location, line, ret_title, size);
		return;
	}
	const char *file = path_shown_name(profile_string(profile, named->file));
	const char *function = profile_string(profile, named->name);

	if (lines == FRAME_LINES_NONE)
		snprintf(ret_title, size, "%s (%s)", function, file);
	else
		snprintf(ret_title, size, "%s (%s:%u)", function, file, named->number);
	frame_name_clean(ret_title);
}

void frame_title_of_source(const struct source_line *source, enum frame_lines lines,
			   char *ret_title, size_t size)
{
	if (lines == FRAME_LINES_ALL && *source->name && *source->file && source->number)
		snprintf(ret_title, size, "%s (%s:%u)", source->name, path_shown_name(source->file),
			 source->number);
	else
		snprintf(ret_title, size, "%s", source->name);
	frame_name_clean(ret_title);
}
