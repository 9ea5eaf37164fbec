// SPDX-License-Identifier: Apache-2.0
// Which profile types, labels and series there are: methods of the querier.
// @request is of the message that the method's name says; the answer is appended. Errors are those of queries.
#pragma once

#include "collector/pyroscope/querier_call.h"

int querier_profile_types(const struct querier_call *call, const ProtobufCMessage *request,
			  struct error *err);
int querier_label_names(const struct querier_call *call, const ProtobufCMessage *request,
			struct error *err);
int querier_label_values(const struct querier_call *call, const ProtobufCMessage *request,
			 struct error *err);
int querier_series(const struct querier_call *call, const ProtobufCMessage *request,
		   struct error *err);
