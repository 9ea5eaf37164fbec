// SPDX-License-Identifier: Apache-2.0
// When a gRPC server wants to be asked again, written and read: google.rpc.RetryInfo among the details of a status (the header
// grpc-status-details-bin), as OTLP has it.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum {
	RETRY_PAUSE_MS_MAX = 10 * 60 * 1000, // a server that says more is wrong, or hostile
	RETRY_INFO_TEXT_BYTES = 112,
};

/** The header's value for @status and a pause of @pause_ms, of which RETRY_PAUSE_MS_MAX is said at most. */
void retry_info_encode(int status, uint32_t pause_ms, char ret_text[RETRY_INFO_TEXT_BYTES]);

/** The pause of a google.rpc.Status in milliseconds, at least 1; 0: it has none. Bytes may be anything. */
uint32_t retry_info_pause_ms(const void *bytes, size_t size);
