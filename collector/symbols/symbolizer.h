// SPDX-License-Identifier: Apache-2.0
// Names, at query time, for frames that agents could not name: from debug files that were uploaded
// or that a debuginfod server has. Answers are remembered; files that were used last stay open.
// Safe for several threads, which take turns.
#pragma once

#include <stdint.h>

#include "base/debuginfod.h"
#include "base/profile.h"
#include "base/source_lines.h"
#include "collector/symbols/debug_files.h"

struct symbolizer;

enum { SYMBOLIZER_FILES_OPEN = 4 }; // their symbols and DWARF stay in memory
/** One query may spend so long on it; what is left is named in a later one. */
#define SYMBOLIZER_NS_MAX (2 * 1000000000ULL)

/** NULL when out of memory. @debuginfod may be NULL. Both are the caller's and outlive it. */
struct symbolizer *symbolizer_new(struct debug_files *files, struct debuginfod *debuginfod);
void symbolizer_free(struct symbolizer *symbolizer);

/** The strings are valid during the call only. */
typedef int (*symbolizer_place_fn)(void *context, const struct source_lines *place);

/**
 * Tell @fn what the location stands for, a native one without names of its own in @locations.
 * *budget_ns is what the query may still spend; it is charged.
 * Returns what @fn returned; -ENOENT: not known, or not now.
 */
int symbolizer_find(struct symbolizer *symbolizer, const struct profile *locations,
		    const struct location *location, uint64_t *budget_ns, symbolizer_place_fn fn,
		    void *context);
