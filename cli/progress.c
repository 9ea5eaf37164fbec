// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"

enum { BAR_COLUMNS = 30 };

#define CLEAR_TO_END "\x1b[K"

bool progress_is_shown(void)
{
	return isatty(STDERR_FILENO);
}

static unsigned seconds_of(uint64_t ns)
{
	return (unsigned)((ns + NS_PER_SECOND - 1) / NS_PER_SECOND);
}

void progress_draw(const char *what, uint64_t done_ns, uint64_t total_ns, const char *detail)
{
	char bar[BAR_COLUMNS + 1] = "";

	if (!progress_is_shown())
		return;
	if (!total_ns) {
		fprintf(stderr, "\r%s, %u s, %s" CLEAR_TO_END, what,
			(unsigned)(done_ns / NS_PER_SECOND), detail);
		fflush(stderr);
		return;
	}
	if (done_ns > total_ns)
		done_ns = total_ns;
	int filled = (int)((double)done_ns / (double)total_ns * BAR_COLUMNS);
	for (int i = 0; i < BAR_COLUMNS; i++)
		bar[i] = i < filled ? '#' : '.';
	fprintf(stderr, "\r%s [%s] %u s left, %s" CLEAR_TO_END, what, bar,
		seconds_of(total_ns - done_ns), detail);
	fflush(stderr);
}

void progress_clear(void)
{
	if (progress_is_shown()) {
		fputs("\r" CLEAR_TO_END, stderr);
		fflush(stderr);
	}
}
