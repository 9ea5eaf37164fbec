// SPDX-License-Identifier: Apache-2.0
// gRPC's status codes.
#pragma once

/** gRPC's status codes that callers distinguish. */
enum rpc_status {
	RPC_OK = 0,
	RPC_CANCELLED = 1,
	RPC_UNKNOWN = 2,
	RPC_INVALID_ARGUMENT = 3,
	RPC_DEADLINE_EXCEEDED = 4,
	RPC_PERMISSION_DENIED = 7,
	RPC_RESOURCE_EXHAUSTED = 8,
	RPC_FAILED_PRECONDITION = 9,
	RPC_ABORTED = 10,
	RPC_OUT_OF_RANGE = 11,
	RPC_UNIMPLEMENTED = 12,
	RPC_INTERNAL = 13,
	RPC_UNAVAILABLE = 14,
	RPC_DATA_LOSS = 15,
	RPC_UNAUTHENTICATED = 16,
};

/** A server of ours sends it with each status but OK: gRPC makes up others, as when a connection breaks. */
#define RPC_ANSWERED_HEADER "cairn-answered"

/**
 * A server of ours sends it with RPC_RESOURCE_EXHAUSTED: which limit it was, so that the client knows whether
 * trying again may help. rpc_client_call() makes it the code of its error: -EMSGSIZE for "message", which stays;
 * -EDQUOT for "memory", -EBUSY for "calls", -ENOSPC for "disk", -EUSERS for "rate" (the tenant's), which pass.
 */
#define RPC_LIMIT_HEADER "cairn-limit"

/** The header's value for an error's code; "other" for one that has none. */
const char *rpc_limit_name(int code);
/** The other way around; 0: not known. */
int rpc_limit_code(const char *name);

const char *rpc_status_name(enum rpc_status status);
