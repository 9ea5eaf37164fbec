// SPDX-License-Identifier: Apache-2.0
// Pyroscope's older calls, GET /pyroscope/render and /pyroscope/render-diff, which Profiles Drilldown and scripts use.
#pragma once

#include "collector/pyroscope/querier_call.h"

/** A parameter's value, "" if it is absent. */
typedef const char *(*render_parameter_fn)(const void *context, const char *name);

/**
 * Append JSON: a flame graph and a timeline. Parameters: query (a profile type and a selector), from, until (Unix seconds or
 * milliseconds, now, now-1h), maxNodes or max-nodes, groupBy. Returns 0 or the errors of queries.
 */
int pyroscope_render(const struct querier_call *call, render_parameter_fn parameter,
		     const void *context, struct error *err);
/** Two flame graphs side by side: leftQuery, leftFrom, leftUntil, rightQuery, rightFrom, rightUntil. */
int pyroscope_render_diff(const struct querier_call *call, render_parameter_fn parameter,
			  const void *context, struct error *err);
