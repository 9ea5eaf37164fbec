// SPDX-License-Identifier: Apache-2.0
// Explains a spike: the code, and the labels, that carry most of what is over the usual.
#pragma once

#include "base/error.h"
#include "collector/query/query_select.h"
#include "collector/spikes/spike.h"

enum { SPIKE_BASELINE_S_MAX = 10 * 60 }; // of history that a spike's stacks are compared with

/**
 * Explain @spike, which has its interval and its service, by @query's selector; @query's range is what may be read.
 * Errors as query_flame_tree().
 */
int spike_explain(const struct query *query, struct spike *spike, struct error *err);
