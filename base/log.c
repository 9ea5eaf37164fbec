// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf8.h"

// A line is one write() of at most this, so that lines of several threads never mix.
enum { LOG_LINE_BYTES = 2048 };

static const struct {
	const char *name;
	const char *colour; // ANSI, on a terminal only
} levels[] = {
	[LOG_LEVEL_ERROR] = { "error", "\033[31m" },
	[LOG_LEVEL_WARN] = { "warn", "\033[33m" },
	[LOG_LEVEL_INFO] = { "info", "\033[32m" },
	[LOG_LEVEL_DEBUG] = { "debug", "\033[2m" },
};

static enum log_level level_max = LOG_LEVEL_INFO;

void log_set_level(enum log_level level)
{
	level_max = level;
}

int log_level_parse(const char *name, enum log_level *ret_level)
{
	for (size_t i = 0; i < ARRAY_SIZE(levels); i++) {
		if (strcmp(name, levels[i].name) == 0) {
			*ret_level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

static size_t format_head(char *line, size_t size, enum log_level level)
{
	bool is_terminal = isatty(STDERR_FILENO);
	struct timespec now;
	struct tm utc;
	char date[32];

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
	int used = snprintf(line, size, "%s.%03ldZ %s%-5s%s ", date, now.tv_nsec / 1000000,
			    is_terminal ? levels[level].colour : "", levels[level].name,
			    is_terminal ? "\033[0m" : "");
	return used > 0 ? (size_t)used : 0;
}

void log_line(enum log_level level, const char *format, ...)
{
	char line[LOG_LINE_BYTES];
	int saved_errno = errno; // callers log and then return -errno
	va_list args;

	if (level > level_max)
		return;

	size_t head = format_head(line, sizeof(line), level);
	va_start(args, format);
	vsnprintf(line + head, sizeof(line) - head - 1, format, args);
	va_end(args);
	// A name from a profiled process must not be able to start a line of its own or steer a terminal.
	utf8_clean(line + head);

	size_t size = strlen(line);
	line[size++] = '\n';
	// There is nowhere to report that standard error is gone.
	ssize_t written = write(STDERR_FILENO, line, size);
	(void)written;
	errno = saved_errno;
}
