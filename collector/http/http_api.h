// SPDX-License-Identifier: Apache-2.0
// Dispatches HTTP requests to handlers: the API under /api/v1 (collector/openapi.yaml), metrics,
// health probes and the web page.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collector/http/http_handlers.h"
#include "collector/http/http_server.h"

/** The functions of struct http_server_options; @context is the struct http_api. */
bool http_api_is_slow(void *context, const struct http_request *request);
bool http_api_admit(void *context, struct http_request *request, struct http_response *response);
void http_api_handle(void *context, const struct http_request *request,
		     struct http_response *response);
size_t http_api_body_max(void *context, const struct http_request *request);
int http_api_begin_upload(void *context, struct http_request *request,
			  struct http_response *response);
void http_api_end_upload(void *context, struct http_request *request);
void http_api_done(void *context, const struct http_request *request,
		   const struct http_response *response, uint64_t duration_ns, uint64_t bytes);
void http_api_limited(void *context, enum http_limit limit);
