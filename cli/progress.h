// SPDX-License-Identifier: Apache-2.0
// A progress line on standard error. Silent unless standard error is a terminal.
#pragma once

#include <stdbool.h>
#include <stdint.h>

bool progress_is_shown(void);

/** "recording [####......] 7 s left, 1234 samples". @total_ns 0: no end is known. */
void progress_draw(const char *what, uint64_t done_ns, uint64_t total_ns, const char *detail);

/** Clear the line. */
void progress_clear(void);
