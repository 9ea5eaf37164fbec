// SPDX-License-Identifier: Apache-2.0
// Merged profiles as flame graphs and pprof: methods of the querier.
// @request is of the message that the method's name says; the answer is appended. Errors are those of queries.
#pragma once

#include "collector/pyroscope/querier_call.h"

int querier_stacktraces(const struct querier_call *call, const ProtobufCMessage *request,
			struct error *err);
int querier_span_profile(const struct querier_call *call, const ProtobufCMessage *request,
			 struct error *err);
int querier_profile(const struct querier_call *call, const ProtobufCMessage *request,
		    struct error *err);
int querier_diff(const struct querier_call *call, const ProtobufCMessage *request,
		 struct error *err);
