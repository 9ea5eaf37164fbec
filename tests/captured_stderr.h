// SPDX-License-Identifier: Apache-2.0
// Standard error, as a test of log lines reads it.
#pragma once

#include <unistd.h>

#include "tests/test.h"

/* Standard error goes to a pipe meanwhile: 64 KiB at most. */
struct capture {
	int saved;
	int read_end;
};

static inline struct capture begin_capture(void)
{
	struct capture capture = { .saved = dup(STDERR_FILENO) };
	int ends[2];

	assert_int_equal(pipe(ends), 0);
	dup2(ends[1], STDERR_FILENO);
	close(ends[1]);
	capture.read_end = ends[0];
	return capture;
}

static inline void end_capture(struct capture *capture, char *text, size_t size)
{
	dup2(capture->saved, STDERR_FILENO); // the pipe's last writer goes
	close(capture->saved);
	ssize_t count = read(capture->read_end, text, size - 1);
	text[count > 0 ? count : 0] = 0;
	close(capture->read_end);
}
