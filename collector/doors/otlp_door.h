// SPDX-License-Identifier: Apache-2.0
// OTLP profiles, v1development, over gRPC and HTTP.
#pragma once

#include "collector/doors/doors.h"
#include "proto/otlp.h"
#include "proto/rpc.h"

/** An ExportProfilesServiceRequest, protobuf or JSON by its Content-Type. Returns as push_pprof(). */
int otlp_push(struct doors *doors, const struct door_request *request,
	      struct door_outcome *ret_outcome, struct error *err);

/** Append the ExportProfilesServiceResponse: what was refused, in words. */
void otlp_respond(const struct door_outcome *outcome, bool is_json, struct buffer *response);

/** An rpc_handler_fn; @context is a struct doors. */
enum rpc_status otlp_export(void *context, const struct rpc_request *request,
			    struct buffer *response, struct error *err);
