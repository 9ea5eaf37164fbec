// SPDX-License-Identifier: Apache-2.0
// The audit log: one JSON line for each query, upload and act of administration, also for refused ones.
// Thread-safe.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "collector/http/http_exchange.h"
#include "collector/metrics/metrics.h"

enum {
	AUDIT_FILE_BYTES_MAX =
		64 << 20, // some 250,000 lines; then FILE becomes FILE.1, which is replaced
	AUDIT_LINE_BYTES_MAX = 16 << 10, // a selector has at most 8 KiB
};

struct audit;

/** Append to the file at @path ("stderr": to standard error). @metrics counts failures; borrowed. */
int audit_open(const char *path, struct metrics *metrics, struct audit **ret_audit,
	       struct error *err);
void audit_close(struct audit *audit);

/** Write the line of a request that was answered with @status. */
void audit_write(struct audit *audit, const struct http_request *request,
		 const struct http_response *response);
