// SPDX-License-Identifier: Apache-2.0
#include "collector/http/http_admin.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/http/http_api.h"

static const struct {
	const char *path;
	api_handler_fn handle; // must not wait for anything
} routes[] = {
	{ "/metrics", http_handle_metrics },
	{ "/metrics/profiles", http_handle_profile_metrics },
	{ "/healthz", http_handle_healthz },
	{ "/readyz", http_handle_readyz },
};

bool http_admin_is_slow(void *context, const struct http_request *request)
{
	(void)context;
	return request->method != HTTP_GET; // checks or deletes a file
}

void http_admin_handle(void *context, const struct http_request *request,
		       struct http_response *response)
{
	struct http_api *api = context;
	const struct api_request parsed = { .now_ns = clock_realtime_ns() };

	if (request->method != HTTP_GET) { // uploads, and their deletion
		http_api_handle(api, request, response);
		return;
	}
	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		if (strcmp(request->path, routes[i].path) != 0)
			continue;
		response->endpoint = routes[i].path;
		routes[i].handle(api, &parsed, response);
		return;
	}
	response->endpoint = "unknown";
	http_respond_error(
		response, 404, "not_found", "",
		"no such path; this listener has /metrics, /metrics/profiles, /healthz and "
		"/readyz, and what "
		"changes the store, as at --http: PUT and DELETE "
		"/api/v1/debug-files/ID, POST and DELETE /api/v1/boosts, DELETE "
		"/api/v1/series");
}

bool http_admin_admit(void *context, struct http_request *request, struct http_response *response)
{
	(void)context, (void)response;
	request->identity = access_local();
	snprintf(request->identity.key, sizeof(request->identity.key), "admin");
	return true;
}
