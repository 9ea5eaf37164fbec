// SPDX-License-Identifier: Apache-2.0
// Reads Chrome's trace events (the JSON of chrome://tracing and Perfetto), as torch.profiler and py-spy write them.
#pragma once

#include "base/import/importer.h"

enum { TRACE_EVENTS_MAX = 1 << 26 };

/** Is it one: an array of events, or an object with traceEvents? */
bool chrome_trace_is_likely(const char *text, size_t size);

/**
 * Add the events with a duration ("X", "B" and "E"), each with the time that it had itself, without those inside of it. Those of a thread are
 * wall-clock time; those that ran on a GPU (categories kernel, gpu_memcpy, gpu_memset) are GPU kernel time. Returns 0; -EBADMSG
 * with the member in @err; -EINVAL; -E2BIG; -ENOMEM.
 */
int chrome_trace_import(struct importer *importer, const struct import_source *source,
			const char *text, size_t size, struct error *err);
