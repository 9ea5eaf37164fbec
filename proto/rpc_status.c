// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_status.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

static const struct {
	const char *name;
	int code;
} limits[] = {
	{ "message", -EMSGSIZE }, { "memory", -EDQUOT }, { "memory", -ENOMEM },
	{ "calls", -EBUSY },      { "disk", -ENOSPC },   { "rate", -EUSERS },
};

const char *rpc_limit_name(int code)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (limits[i].code == code)
			return limits[i].name;
	return "other";
}

int rpc_limit_code(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
		if (strcmp(limits[i].name, name) == 0)
			return limits[i].code;
	return 0;
}

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
