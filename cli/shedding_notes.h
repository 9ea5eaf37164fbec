// SPDX-License-Identifier: Apache-2.0
// Which nodes shed load while a profile was measured: the profile lacks what they dropped.
#pragma once

#include <jansson.h>

#include "cli/api_request.h"

/**
 * "node a17 shed load in this range: off-CPU stacks at 1/16", for each of @nodes (an array of names) in @series, an answer
 * of /api/v1/series with the labels of shedding steps. An array of strings, for the caller to release; NULL when out of memory.
 */
json_t *shedding_notes_of(const json_t *series, const json_t *nodes);

/**
 * Ask the collector which nodes of @request's series shed what reduces @type, in its range. As above; an empty array if
 * it does not answer.
 */
json_t *shedding_notes_ask(const struct api_request *request, const char *type);
