// SPDX-License-Identifier: Apache-2.0
// What the GPUs did that the selected processes use, out of the gauges that agents read once a second.
// GPUs are found by the processes' own gauges, for a GPU belongs to its node and not to a service.
#pragma once

#include "collector/diagnose/gpu_figure.h"
#include "collector/query/query.h"

enum { GPU_GAUGES_MAX = 64 }; // GPUs looked at: a service on more is judged by these

/**
 * Set the figures of the management library that are known for the GPUs of @query's processes in its
 * range. Means are over the seconds in which a GPU answered, and over GPUs. Errors are those of all
 * queries; no GPU is none.
 */
int gpu_gauges_read(const struct query *query, struct gpu_figures *figures, struct error *err);
