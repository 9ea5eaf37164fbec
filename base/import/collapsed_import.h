// SPDX-License-Identifier: Apache-2.0
// Reads collapsed stacks, "main;parse;read 12" a line, root first (Brendan Gregg's stackcollapse-*.pl, py-spy's and Pyroscope's).
#pragma once

#include "base/import/importer.h"

enum collapsed_counts {
	COLLAPSED_COUNTED,   // the last word of a line is a count
	COLLAPSED_UNCOUNTED, // each line is a sample: Pyroscope's format "lines"
	COLLAPSED_AUSTIN,    // "P12;T0:34;mod.py:func:8;... 9980": Austin's, in microseconds
};

/** Is it what Austin writes as text? */
bool austin_is_likely(const char *text, size_t size);

/** Do the first lines look like collapsed stacks? */
bool collapsed_is_likely(const char *text, size_t size);

/**
 * Add the stacks of @text, for the time of @source, with its type. Blank lines and comments ("#") are skipped. Returns 0; -EBADMSG
 * with the line's number in @err; -EINVAL; -E2BIG; -ENOMEM.
 */
int collapsed_import(struct importer *importer, const struct import_source *source,
		     const char *text, size_t size, enum collapsed_counts counts,
		     struct error *err);
