// SPDX-License-Identifier: Apache-2.0
// The error of a collector's HTTP answer, as one sentence.
#pragma once

#include "base/error.h"
#include "cli/http_client.h"

/** {"error":{"code":..,"field":..,"message":..}} to @err's text. Returns -EIO. */
int api_error_read(const struct http_response *response, struct error *err);

/**
 * Fill @err with why a request to @collector_http had no answer: @rc and @cause are http_get()'s. A mistake of the
 * command line stands alone. Returns @rc.
 */
int api_error_no_answer(const char *collector_http, int rc, const struct error *cause,
			struct error *err);
