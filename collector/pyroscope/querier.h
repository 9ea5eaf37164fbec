// SPDX-License-Identifier: Apache-2.0
// Pyroscope's querier.v1.QuerierService on a store of ours: what Grafana's data source and Profiles Drilldown call.
#pragma once

#include "collector/pyroscope/querier_call.h"

#define QUERIER_SERVICE "querier.v1.QuerierService"

/**
 * Answer a call of @method with the request @body. Returns 0; -ENOSYS: there is no such method, or it cannot do this; the errors of
 * queries.
 */
int querier_answer(const struct querier_call *call, const char *method, const void *body,
		   size_t size, struct error *err);
