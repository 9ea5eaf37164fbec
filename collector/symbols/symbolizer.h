// SPDX-License-Identifier: Apache-2.0
// Names frames at query time that agents could not name, from uploaded debug files and from
// debuginfod servers, which only confined processes read. Answers are cached; the most recently used files stay
// open. Safe for several threads, which take turns.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/confined/confined_process.h"
#include "base/error.h"
#include "base/symbols/debuginfod.h"
#include "base/profile/profile.h"
#include "base/symbols/source_lines.h"
#include "collector/symbols/debug_files.h"

struct symbolizer;

enum { SYMBOLIZER_FILES_OPEN = 4 }; // two confined processes have their symbols and DWARF in memory
/** One query's time for symbols; the remaining frames are named in a later query. */
#define SYMBOLIZER_NS_MAX (2 * 1000000000ULL)

/** NULL when out of memory. @debuginfod may be NULL; without a @launcher it names nothing. All outlive it. */
struct symbolizer *symbolizer_new(struct debug_files *files, struct debuginfod *debuginfod,
				  struct confined_launcher *launcher);
void symbolizer_free(struct symbolizer *symbolizer);

/**
 * So many debug files could not be read since the last call, because the process that reads them died or was not started:
 * @ret_err says which file the last was and why. Does not block.
 */
uint32_t symbolizer_take_failures(struct symbolizer *symbolizer, struct error *ret_err);
/** Drop all cached answers: a file that gave some was deleted. */
void symbolizer_clear_cache(struct symbolizer *symbolizer);

/** The strings are valid during the call only. */
typedef int (*symbolizer_lines_fn)(void *context, const struct source_lines *lines);

/**
 * Call @fn with the source lines of @location, which has no names in @locations. *budget_ns: the query's
 * time left; the time spent is subtracted. Returns what @fn returned; -ENOENT (not known, or not yet).
 */
int symbolizer_find(struct symbolizer *symbolizer, const struct profile *locations,
		    const struct location *location, uint64_t *budget_ns, symbolizer_lines_fn fn,
		    void *context);
