// SPDX-License-Identifier: Apache-2.0
// The error of a collector's HTTP answer, as one sentence.
#pragma once

#include "base/error.h"
#include "cli/http_client.h"

/** {"error":{"code":..,"field":..,"message":..}} to @err's text. Returns -EIO. */
int api_error_read(const struct http_response *response, struct error *err);
