// SPDX-License-Identifier: Apache-2.0
// Series and heat maps: methods of the querier.
// @request is of the message that the method's name says; the answer is appended. Errors are those of queries.
#pragma once

#include "collector/pyroscope/querier_call.h"

int querier_select_series(const struct querier_call *call, const ProtobufCMessage *request,
			  struct error *err);
int querier_heat_map(const struct querier_call *call, const ProtobufCMessage *request,
		     struct error *err);
