// SPDX-License-Identifier: Apache-2.0
// Flame graphs of selections, for the querier's methods and for /pyroscope/render.
#pragma once

#include "collector/pyroscope/flamebearer.h"
#include "collector/pyroscope/querier_call.h"

/** The flame graph that @request selects; its format does not matter. Errors are those of queries. */
int pyroscope_flame_graph(const struct querier_call *call,
			  const Querier__V1__SelectMergeStacktracesRequest *request,
			  struct flamebearer *ret_bearer, struct error *err);
/** Both, side by side. */
int pyroscope_flame_graph_diff(const struct querier_call *call,
			       const Querier__V1__SelectMergeStacktracesRequest *left,
			       const Querier__V1__SelectMergeStacktracesRequest *right,
			       struct flamebearer *ret_bearer, struct error *err);
