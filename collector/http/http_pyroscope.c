// SPDX-License-Identifier: Apache-2.0
// Pyroscope's query API for Grafana: calls of collector/pyroscope over Connect's HTTP (connectrpc.com/docs/protocol), unary.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/import/inflated.h"
#include "base/json_text.h"
#include "collector/pyroscope/querier.h"
#include "collector/pyroscope/render.h"

static struct querier_call call_of(struct http_api *api, const struct api_request *request,
				   struct http_response *response)
{
	const struct symbol_space *symbols = api_symbols(api, request->http, NULL);

	return (struct querier_call){
		.store = api->store,
		.symbolizer = symbols ? symbols->symbolizer : NULL,
		.tenant = api_tenant(request->http),
		.limited = api_limited(api, request->http),
		.deadline = request->http->deadline,
		.now_ns = clock_realtime_ns(),
		.answer = &response->body,
	};
}

/** Connect's codes are gRPC's, with an HTTP status each. */
void http_pyroscope_respond_failure(struct http_response *response, const struct error *err)
{
	static const struct {
		int rc, status;
		const char *code;
	} codes[] = {
		{ -EINVAL, 400, "invalid_argument" },
		{ -ENOSYS, 501, "unimplemented" },
		{ -E2BIG, 429, "resource_exhausted" },
		{ -EFBIG, 429, "resource_exhausted" },
		{ TENANT_LATER, 429, "resource_exhausted" },
		{ TENANT_NEVER, 422, "out_of_range" },
		{ -EDQUOT, 503, "unavailable" },
		{ -ENOMEM, 503, "unavailable" },
		{ -ETIMEDOUT, 504, "deadline_exceeded" },
		{ -ECANCELED, HTTP_CLIENT_GONE, "canceled" },
		{ 0, 500, "internal" },
	};
	size_t i = 0;

	while (codes[i].rc && codes[i].rc != err->code)
		i++;
	buffer_deinit(&response->body);
	response->body.budget = NULL; // the error itself is small, and must be reported
	response->status = codes[i].status;
	response->media_type = "application/json";
	response->retry_after_s = codes[i].status == 503 || err->code == TENANT_LATER ? 5 : 0;
	buffer_append_string(&response->body, "{\"code\":");
	json_append_string(&response->body, codes[i].code);
	buffer_append_string(&response->body, ",\"message\":");
	json_append_string(&response->body, err->text);
	buffer_append_string(&response->body, "}\n");
}

static bool is_type(const char *content_type, const char *wanted)
{
	size_t size = strlen(wanted);

	return content_type && strncasecmp(content_type, wanted, size) == 0 &&
	       (!content_type[size] || content_type[size] == ';' || content_type[size] == ' ');
}

/** Clients may compress what they send. */
static int answer_call(const struct querier_call *call, const struct api_request *request,
		       struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer plain = { .size_max = QUERIER_BODY_BYTES_MAX };
	const void *body = request->http->body;
	size_t size = request->http->body_size;

	if (size && is_gzip(body, size)) {
		int rc = inflate_bytes(body, size, &plain, err);
		if (rc)
			return rc == -EBADMSG ? -EINVAL : rc;
		body = plain.bytes;
		size = plain.size;
	}
	return querier_answer(call, request->label, body, size, err);
}

void http_handle_querier(struct http_api *api, const struct api_request *request,
			 struct http_response *response)
{
	struct querier_call call = call_of(api, request, response);
	const char *type = request->http->content_type;
	struct error err = { 0 };

	call.is_json = is_type(type, "application/json");
	if (!call.is_json && !is_type(type, "application/proto")) {
		error_set(&err, -EINVAL,
			  "Content-Type: expected application/json or application/proto");
		http_pyroscope_respond_failure(response, &err);
		response->status = 415;
		return;
	}
	int rc = answer_call(&call, request, &err);
	if (rc) {
		err.code = rc;
		http_pyroscope_respond_failure(response, &err);
		return;
	}
	response->media_type = call.is_json ? "application/json" : "application/proto";
}

static const char *read_parameter(const void *context, const char *name)
{
	return http_parameter(context, name);
}

typedef int (*render_fn)(const struct querier_call *call, render_parameter_fn parameter,
			 const void *context, struct error *err);

static void render(struct http_api *api, const struct api_request *request, render_fn answer,
		   struct http_response *response)
{
	struct querier_call call = call_of(api, request, response);
	struct error err = { 0 };
	int rc = answer(&call, read_parameter, request->http, &err);

	if (!rc)
		return;
	err.code = rc;
	http_pyroscope_respond_failure(response, &err);
}

void http_handle_render(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	render(api, request, pyroscope_render, response);
}

void http_handle_render_diff(struct http_api *api, const struct api_request *request,
			     struct http_response *response)
{
	render(api, request, pyroscope_render_diff, response);
}
