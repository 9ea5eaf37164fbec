// SPDX-License-Identifier: Apache-2.0
// Durations, sizes and moments as users write them, to numbers.
#pragma once

#include <stdint.h>

#include "base/error.h"

/** "1h30m", "20ms", "7d" to nanoseconds. A bare number is refused (no unit). 0 or -EINVAL. */
int duration_parse(const char *text, uint64_t *ret_ns);
/** "64MiB", "1GB", "512" (bytes). 0, -EINVAL, -ERANGE. */
int size_parse(const char *text, uint64_t *ret_bytes);
/**
 * A moment as users type it: RFC 3339 ("2026-11-21T10:00:00Z", with offset or fraction), Unix
 * seconds, milliseconds or nanoseconds (distinguished by magnitude), "now", "now-5m".
 * Returns 0; -EINVAL with @err showing the accepted forms.
 */
int time_parse(const char *text, uint64_t now_ns, uint64_t *ret_ns, struct error *err);
