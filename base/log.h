// SPDX-License-Identifier: Apache-2.0
// Lines for the operator, on standard error. Only the edges log (main, event loops, request
// handlers); below them errors travel up as values. A line has module, what failed, on what, and
// what happens next.
#pragma once

enum log_level {
	LOG_LEVEL_ERROR,
	LOG_LEVEL_WARN,
	LOG_LEVEL_INFO,
	LOG_LEVEL_DEBUG,
};

/** Lines above @level are dropped. The default is LOG_LEVEL_INFO. Not thread-safe: set at start. */
void log_set_level(enum log_level level);

/** "error", "warn", "info", "debug" to a level. Returns 0, or -EINVAL and *ret_level untouched. */
int log_level_parse(const char *name, enum log_level *ret_level);

/** One line, with time and level; coloured only on a terminal. Thread-safe. */
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_line(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_line(LOG_LEVEL_DEBUG, __VA_ARGS__)
