// SPDX-License-Identifier: Apache-2.0
// The administrator's listener: probes and metrics, answered by threads of their own, however many
// queries run; and what only the operator may do, at a Unix socket.
#pragma once

#include "collector/http/http_handlers.h"

/** The functions of struct http_server_options; @context is the struct http_api. */
bool http_admin_is_slow(void *context, const struct http_request *request);
void http_admin_handle(void *context, const struct http_request *request,
		       struct http_response *response);

/** At a Unix socket, whose mode admits one user: it may do everything. */
bool http_admin_admit(void *context, struct http_request *request, struct http_response *response);
