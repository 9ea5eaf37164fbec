// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_status.h"

#include "base/cleanup.h"

const char *rpc_status_name(enum rpc_status status)
{
	// In the order of https://grpc.github.io/grpc/core/md_doc_statuscodes.html
	static const char *const names[] = {
		"OK",
		"CANCELLED",
		"UNKNOWN",
		"INVALID_ARGUMENT",
		"DEADLINE_EXCEEDED",
		"NOT_FOUND",
		"ALREADY_EXISTS",
		"PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED",
		"FAILED_PRECONDITION",
		"ABORTED",
		"OUT_OF_RANGE",
		"UNIMPLEMENTED",
		"INTERNAL",
		"UNAVAILABLE",
		"DATA_LOSS",
		"UNAUTHENTICATED",
	};

	return (unsigned)status < ARRAY_SIZE(names) ? names[status] : "UNKNOWN";
}
