// SPDX-License-Identifier: Apache-2.0
// Answers with the services of a range, the largest first.
#include "collector/http/http_handlers.h"

#include "base/cleanup.h"
#include "base/json_text.h"

static void append_service(struct buffer *body, const struct query_service *service)
{
	buffer_append_string(body, "{\"service\":");
	json_append_string(body, service->name);
	buffer_append_string(body, ",\"total\":");
	json_append_int(body, service->total);
	buffer_printf(body, ",\"nodes\":%u,\"pods\":%u,\"instances\":%u}", service->node_count,
		      service->pod_count, service->instance_count);
}

void http_handle_services(struct http_api *api, const struct api_request *request,
			  struct http_response *response)
{
	_cleanup_(query_service_set_deinit) struct query_service_set set = { 0 };
	const struct query query = api_query(api, request);
	struct buffer *body = &response->body;
	struct error err = { 0 };

	if (query_services(&query, &set, &err)) {
		http_respond_failure(response, &err, api_failed_field(request));
		return;
	}
	buffer_append_byte(body, '{');
	api_append_type(body, request);
	buffer_append_string(body, ",\"total\":");
	json_append_int(body, set.total);
	buffer_append_string(body, ",\"service_count\":");
	json_append_uint(body, set.count);
	buffer_append_string(body, ",\"services\":[");
	for (uint32_t i = 0; i < set.count && i < request->limit; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_service(body, &set.services[i]);
	}
	buffer_append_string(body, "]}\n");
}
