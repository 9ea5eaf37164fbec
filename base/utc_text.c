// SPDX-License-Identifier: Apache-2.0
#include "base/utc_text.h"

#include <string.h>
#include <time.h>

const char *utc_text(uint64_t unix_s, char text[UTC_TEXT_BYTES])
{
	time_t time = (time_t)unix_s;
	struct tm utc;

	if (!gmtime_r(&time, &utc) || !strftime(text, UTC_TEXT_BYTES, "%Y-%m-%d %H:%M UTC", &utc))
		strcpy(text, "?");
	return text;
}
