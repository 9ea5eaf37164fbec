// SPDX-License-Identifier: Apache-2.0
// Lists profile types, labels and their values.
#include "collector/http/http_handlers.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/contract/profile_type.h"
#include "base/json_text.h"

#define TYPE_LABEL "__type__" // store_label_values() lists the types under this name

static void append_names(struct buffer *body, const char *key, const struct name_list *list)
{
	buffer_append_byte(body, '{');
	json_append_string(body, key);
	buffer_append_string(body, ":[");
	for (uint32_t i = 0; i < list->count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		json_append_string(body, list->names[i]);
	}
	buffer_append_string(body, "]}\n");
}

/** The names are incomplete if the selector exceeded its limits. */
static bool fail_if(int rc, const struct api_request *request, struct http_response *response,
		    struct error *err)
{
	if (!rc)
		rc = selector_check_cost(&request->selector, err);
	if (!rc)
		return false;

	err->code = rc;
	http_respond_failure(response, err, "query");
	return true;
}

static void append_type(struct buffer *body, const char *name)
{
	struct profile_type type;

	if (profile_type_parse(name, &type, NULL))
		return;
	buffer_append_string(body, "{\"type\":");
	json_append_string(body, name);
	buffer_append_string(body, ",\"name\":");
	json_append_string(body, type.name);
	buffer_append_string(body, ",\"sample_type\":");
	json_append_string(body, type.sample_type);
	buffer_append_string(body, ",\"unit\":");
	json_append_string(body, type.sample_unit);
	buffer_append_byte(body, '}');
}

void http_handle_types(struct http_api *api, const struct api_request *request,
		       struct http_response *response)
{
	_cleanup_(name_list_deinit) struct name_list list = { 0 };
	struct buffer *body = &response->body;
	struct error err = { 0 };

	int rc = store_label_values(api->store, TYPE_LABEL, &request->selector, request->range,
				    &list, &err);
	if (fail_if(rc, request, response, &err))
		return;

	buffer_append_string(body, "{\"types\":[");
	for (uint32_t i = 0; i < list.count; i++) {
		size_t before = body->size;

		if (i)
			buffer_append_byte(body, ',');
		append_type(body, list.names[i]);
		if (body->size == before + (i > 0)) // not a five-part type: skip it
			body->size = before;
	}
	buffer_append_string(body, "]}\n");
}

void http_handle_labels(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	_cleanup_(name_list_deinit) struct name_list list = { 0 };
	struct error err = { 0 };

	int rc = store_label_names(api->store, &request->selector, request->range, &list, &err);
	if (!fail_if(rc, request, response, &err))
		append_names(&response->body, "names", &list);
}

void http_handle_label_values(struct http_api *api, const struct api_request *request,
			      struct http_response *response)
{
	_cleanup_(name_list_deinit) struct name_list list = { 0 };
	struct error err = { 0 };

	int rc = store_label_values(api->store, request->label, &request->selector, request->range,
				    &list, &err);
	if (!fail_if(rc, request, response, &err))
		append_names(&response->body, "values", &list);
}
