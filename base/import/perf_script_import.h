// SPDX-License-Identifier: Apache-2.0
// Reads what `perf script` prints of a perf.data: an event with its header line, frames leaf first, a blank line.
#pragma once

#include "base/import/importer.h"

/** Does a line near the beginning look like an event's header? */
bool perf_script_is_likely(const char *text, size_t size);

/**
 * Add the events. Each has its time, the last of them at the end of @source's time. CPU and task clocks are CPU time by their
 * period; cycles are samples of a CPU, of which each stands for `value_scale` if @source has a type; all other events are counted under
 * their names, "perf:NAME:count:event:count". Threads' names become labels. Returns 0; -EBADMSG with the line in @err; -E2BIG; -ENOMEM.
 */
int perf_script_import(struct importer *importer, const struct import_source *source,
		       const char *text, size_t size, struct error *err);
