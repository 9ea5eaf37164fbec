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
	RPC_UNIMPLEMENTED = 12,
	RPC_INTERNAL = 13,
	RPC_UNAVAILABLE = 14,
	RPC_UNAUTHENTICATED = 16,
};

/** A server of ours sends it with each status but OK: gRPC makes up others, as when a connection breaks. */
#define RPC_ANSWERED_HEADER "cairn-answered"

const char *rpc_status_name(enum rpc_status status);
