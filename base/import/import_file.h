// SPDX-License-Identifier: Apache-2.0
// A file of another profiler: its format by its content, whatever it is called.
#pragma once

#include "base/import/importer.h"

enum import_format {
	IMPORT_PPROF,
	IMPORT_SPEEDSCOPE,
	IMPORT_CHROME_TRACE,
	IMPORT_PERF_SCRIPT,
	IMPORT_AUSTIN,
	IMPORT_COLLAPSED,
};

/** "pprof", "speedscope", "Chrome trace" ... */
const char *import_format_name(enum import_format format);

/** Returns 0, or -ENOTSUP with @err naming the formats that are read, or what to do about one that is not. */
int import_format_of(const void *bytes, size_t size, enum import_format *ret_format,
		     struct error *err);

/**
 * Add the samples of a file, which is not compressed. @hz: a sample of collapsed stacks, or of cycles, is CPU time of 1/@hz s;
 * 0: it is a count. Returns as the formats' own functions.
 */
int import_file(struct importer *importer, const struct import_source *source,
		enum import_format format, uint32_t hz, const void *bytes, size_t size,
		struct error *err);
