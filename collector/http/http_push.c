// SPDX-License-Identifier: Apache-2.0
// Pushes of other profilers: their bodies go to collector/doors, their answers are in each protocol's way.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json_text.h"
#include "collector/doors/batch_door.h"
#include "collector/doors/json_message.h"
#include "collector/doors/otlp_door.h"
#include "collector/doors/push_door.h"

static const char *read_parameter(const void *context, const char *name)
{
	return http_parameter(context, name);
}

static void each_parameter(const void *context,
			   void (*read)(void *reading, const char *name, const char *value),
			   void *reading)
{
	const struct http_request *request = context;

	for (uint32_t i = 0; i < request->parameter_count; i++)
		read(reading, request->parameters[i].name, request->parameters[i].value);
}

static struct door_request request_of(const struct http_request *http)
{
	return (struct door_request){
		.identity = &http->identity,
		.address = http->credentials.address ? http->credentials.address : "",
		.bytes = http->body ? http->body : "", // parsers add to it
		.size = http->body_size,
		.content_type = http->content_type,
		.parameter = read_parameter,
		.each_parameter = each_parameter,
		.context = http,
	};
}

/** Of a tenant whose rate is used up. */
static void respond_rate(struct tenant *tenant, const struct error *err,
			 struct http_response *response)
{
	uint32_t pause_ms = tenant_ingest_pause_ms(tenant, clock_monotonic_ns());

	http_respond_error(response, 429, "limit_exceeded",
			   tenant_limit_spec(LIMIT_INGEST_RATE)->name, err->text);
	response->retry_after_s = pause_ms / 1000 + 1;
}

bool http_admit_push(struct http_api *api, const struct http_request *request,
		     struct http_response *response)
{
	struct tenant *tenant = doors_tenant(&api->doors, &request->identity);
	struct error err = { 0 };

	if (!tenant_take_ingest(tenant, 0, clock_monotonic_ns(), &err))
		return true;
	respond_rate(tenant, &err, response);
	return false;
}

/** HTTP's status and the API's code of a failed push. */
static void respond_refusal(struct http_api *api, const struct api_request *request,
			    const struct error *err, struct http_response *response)
{
	doors_count_failure(&api->doors, err);
	switch (err->code) {
	case TENANT_LATER:
		respond_rate(doors_tenant(&api->doors, &request->http->identity), err, response);
		break;
	case -EBADMSG:
	case -EINVAL:
		http_respond_error(response, 400, "invalid_argument", "", err->text);
		break;
	case -ENOTSUP:
		http_respond_error(response, 415, "unsupported_format", "format", err->text);
		break;
	case -ERANGE:
		http_respond_error(response, 422, "out_of_range", "", err->text);
		break;
	case -E2BIG:
	case -EFBIG:
		http_respond_error(response, 413, "too_large", "", err->text);
		break;
	default: // memory, the disk, the clock: it may be better soon
		http_respond_error(response, 503, "unavailable", "", err->text);
		response->retry_after_s = 5;
		break;
	}
}

/** {"samples":12,"rows":12,"duplicate":false,"refused":0,"note":"..."} */
static void respond_outcome(const struct door_outcome *outcome, struct http_response *response)
{
	struct buffer *body = &response->body;
	char words[DOOR_WORDS_BYTES];

	door_outcome_words(outcome, words, sizeof(words));
	buffer_append_string(body, "{\"samples\":");
	json_append_uint(body, outcome->samples);
	buffer_append_string(body, ",\"rows\":");
	json_append_uint(body, outcome->rows);
	buffer_append_string(body, ",\"refused\":");
	json_append_uint(body, outcome->late + outcome->future + outcome->series);
	buffer_append_string(body,
			     outcome->duplicate ? ",\"duplicate\":true" : ",\"duplicate\":false");
	buffer_append_string(body, ",\"note\":");
	json_append_string(body, words);
	buffer_append_string(body, "}\n");
}

typedef int (*push_fn)(struct doors *doors, const struct door_request *request,
		       struct door_outcome *ret_outcome, struct error *err);

/** True with the outcome; otherwise the response says why not. */
static bool push(struct http_api *api, const struct api_request *request, push_fn receive,
		 struct door_outcome *ret_outcome, struct http_response *response)
{
	const struct door_request pushed = request_of(request->http);
	struct error err = { 0 };

	if (!receive(&api->doors, &pushed, ret_outcome, &err))
		return true;
	respond_refusal(api, request, &err, response);
	return false;
}

void http_handle_push(struct http_api *api, const struct api_request *request,
		      struct http_response *response)
{
	struct door_outcome outcome;

	if (push(api, request, push_pprof, &outcome, response))
		respond_outcome(&outcome, response);
}

void http_handle_batches(struct http_api *api, const struct api_request *request,
			 struct http_response *response)
{
	struct door_outcome outcome;

	if (push(api, request, batch_push, &outcome, response))
		respond_outcome(&outcome, response);
}

void http_handle_ingest(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	struct door_outcome outcome;

	if (push(api, request, push_ingest, &outcome, response))
		respond_outcome(&outcome, response);
}

/** Connect's codes are gRPC's; its errors are {"code","message"}. */
static void make_connect_error(struct http_response *response, const struct error *err)
{
	const char *code = response->status == 400   ? "invalid_argument"
			   : response->status == 413 ? "resource_exhausted"
			   : response->status == 429 ? "resource_exhausted"
			   : response->status == 422 ? "out_of_range"
						     : "unavailable";

	buffer_clear(&response->body);
	buffer_append_string(&response->body, "{\"code\":");
	json_append_string(&response->body, code);
	buffer_append_string(&response->body, ",\"message\":");
	json_append_string(&response->body, err->text);
	buffer_append_string(&response->body, "}\n");
}

/** PushResponse is empty: so is its protobuf, and its JSON is {}. */
void http_handle_pusher(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	const struct door_request pushed = request_of(request->http);
	bool is_json = json_is_type(request->http->content_type);
	struct door_outcome outcome;
	struct error err = { 0 };

	if (push_series(&api->doors, &pushed, &outcome, &err)) {
		respond_refusal(api, request, &err, response);
		make_connect_error(response, &err);
		return;
	}
	response->media_type = is_json ? "application/json" : "application/proto";
	if (is_json)
		buffer_append_string(&response->body, "{}");
}

/** A google.rpc.Status with the message in field 2, as OTLP answers failures. */
static void make_otlp_error(struct http_response *response, const struct error *err, bool is_json)
{
	buffer_clear(&response->body);
	if (is_json) {
		buffer_append_string(&response->body, "{\"message\":");
		json_append_string(&response->body, err->text);
		buffer_append_string(&response->body, "}\n");
		return;
	}
	response->media_type = "application/x-protobuf";
	buffer_append_byte(&response->body, 2 << 3 | 2);
	buffer_append_varint(&response->body, strlen(err->text));
	buffer_append_string(&response->body, err->text);
}

void http_handle_otlp(struct http_api *api, const struct api_request *request,
		      struct http_response *response)
{
	const struct door_request pushed = request_of(request->http);
	bool is_json = json_is_type(request->http->content_type);
	struct door_outcome outcome;
	struct error err = { 0 };

	if (otlp_push(&api->doors, &pushed, &outcome, &err)) {
		respond_refusal(api, request, &err, response);
		make_otlp_error(response, &err, is_json);
		return;
	}
	response->media_type = is_json ? "application/json" : "application/x-protobuf";
	otlp_respond(&outcome, is_json, &response->body);
}
