// SPDX-License-Identifier: Apache-2.0
// A time as people read it in logs and on terminals.
#pragma once

#include <stdint.h>

enum { UTC_TEXT_BYTES = 32 };

/** Write "2026-11-28 04:05 UTC" for @unix_s, or "?" if no calendar has it. Returns @text. */
const char *utc_text(uint64_t unix_s, char text[UTC_TEXT_BYTES]);
