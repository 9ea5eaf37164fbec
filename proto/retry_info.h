// SPDX-License-Identifier: Apache-2.0
// When a gRPC server wants to be asked again: google.rpc.RetryInfo among the details of a status (the header
// grpc-status-details-bin), as OTLP has it.
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { RETRY_PAUSE_MS_MAX = 10 * 60 * 1000 }; // a server that says more is wrong, or hostile

/** The pause of a google.rpc.Status in milliseconds, at least 1; 0: it has none. Bytes may be anything. */
uint32_t retry_info_pause_ms(const void *bytes, size_t size);
