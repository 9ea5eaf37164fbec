// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	BAR_COLUMNS = 30,
	BAR_FROM_COLUMNS = 72, // on a narrower terminal the words need the room
	LINE_BYTES = 512,
};

#define CLEAR_TO_END "\x1b[K"

bool progress_is_shown(void)
{
	return isatty(STDERR_FILENO);
}

static unsigned seconds_of(uint64_t ns)
{
	return (unsigned)((ns + NS_PER_SECOND - 1) / NS_PER_SECOND);
}

/* Of the terminal; 0: it does not say. */
static unsigned int columns_of_terminal(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) ? 0 : size.ws_col;
}

/* A line that is broken cannot be drawn over: it is cut, and no character in two. */
static void draw_line(char *line, unsigned int columns)
{
	size_t length = strlen(line);

	if (columns && length >= columns) {
		length = columns - 1;
		while (length && ((unsigned char)line[length] & 0xc0) == 0x80)
			length--;
		line[length] = 0;
	}
	fprintf(stderr, "\r%s" CLEAR_TO_END, line);
	fflush(stderr);
}

static void draw_bar(double part, char bar[BAR_COLUMNS + 4])
{
	int filled = (int)(part * BAR_COLUMNS);

	*bar++ = '[';
	for (int i = 0; i < BAR_COLUMNS; i++)
		*bar++ = i < filled ? '#' : '.';
	memcpy(bar, "] ", sizeof("] "));
}

void progress_draw(const char *what, uint64_t done_ns, uint64_t total_ns, const char *detail)
{
	char bar[BAR_COLUMNS + 4] = "", line[LINE_BYTES];

	if (!progress_is_shown())
		return;
	unsigned int columns = columns_of_terminal();
	if (!total_ns) {
		snprintf(line, sizeof(line), "%s, %u s, %s", what,
			 (unsigned)(done_ns / NS_PER_SECOND), detail);
		draw_line(line, columns);
		return;
	}
	if (done_ns > total_ns)
		done_ns = total_ns;
	if (!columns || columns >= BAR_FROM_COLUMNS)
		draw_bar((double)done_ns / (double)total_ns, bar);
	snprintf(line, sizeof(line), "%s %s%u s left, %s", what, bar,
		 seconds_of(total_ns - done_ns), detail);
	draw_line(line, columns);
}

void progress_clear(void)
{
	if (progress_is_shown()) {
		fputs("\r" CLEAR_TO_END, stderr);
		fflush(stderr);
	}
}
