// SPDX-License-Identifier: Apache-2.0
// What frames are called in answers: functions, or functions at source lines.
#pragma once

#include <stddef.h>

#include "base/profile/profile.h"
#include "base/symbols/source_lines.h"

/** Which frames are apart for each source line; the others are one for each function. */
enum frame_lines {
	FRAME_LINES_INTERPRETED, // of Python
	FRAME_LINES_NONE,        // "forward (model.py)": all lines of a function are one frame
	FRAME_LINES_ALL, // of native and JIT code, too, where lines are known: "matmul (blas.c:40)"
};

/** As location_display_name(), with the lines that @lines wants. */
void frame_title(const struct profile *profile, const struct location *location, uint32_t line,
		 enum frame_lines lines, char *ret_title, size_t size);
/** Of a line that the symbolizer found in native code. "": it has no name. */
void frame_title_of_source(const struct source_line *source, enum frame_lines lines,
			   char *ret_title, size_t size);
