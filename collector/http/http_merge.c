// SPDX-License-Identifier: Apache-2.0
// Answers with a merged profile: a flame tree in JSON, or a file.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json_text.h"
#include "collector/http/tree_json.h"
#include "proto/export.h"

const char *api_failed_field(const struct api_request *request)
{
	return profile_type_is_gauge(request->type) ? "type" : "query";
}

void api_append_type(struct buffer *body, const struct api_request *request)
{
	buffer_append_string(body, "\"type\":");
	json_append_string(body, request->type);
	buffer_append_string(body, ",\"unit\":");
	json_append_string(body, request->unit);
}

static void append_field(struct buffer *body, const char *name, int64_t value)
{
	buffer_append_string(body, ",\"");
	buffer_append_string(body, name);
	buffer_append_string(body, "\":");
	json_append_int(body, value);
}

static void append_nodes(struct buffer *body, const struct flame_tree *tree)
{
	buffer_append_string(body, ",\"nodes\":{");
	tree_json_append_frames(body, tree);
	TREE_JSON_COLUMN(body, tree, ",\"self\"", node->self);
	TREE_JSON_COLUMN(body, tree, ",\"total\"", node->total);
	buffer_append_byte(body, '}');
}

/** Append an object of the tree, cut to what the request allows. */
static int append_tree(struct buffer *body, const struct api_request *request,
		       struct flame_tree *tree)
{
	uint32_t node_count = tree->node_count;
	int64_t cut = 0;
	int rc = flame_tree_truncate(tree, request->max_nodes, &cut);

	if (rc)
		return rc;
	buffer_append_byte(body, '{');
	api_append_type(body, request);
	append_field(body, "from_ns", (int64_t)request->range.from_ns);
	append_field(body, "to_ns", (int64_t)request->range.to_ns);
	append_field(body, "total", tree->nodes[0].total);
	append_field(body, "rows", (int64_t)tree->row_count);
	append_field(body, "stacks", (int64_t)tree->stack_count);
	append_field(body, "series", (int64_t)tree->series_count);
	append_field(body, "node_count", node_count);
	append_field(body, "cut", cut);
	tree_json_append_names(body, &tree->strings);
	append_nodes(body, tree);
	buffer_append_byte(body, '}');
	return 0;
}

static void fail(struct http_response *response, const struct api_request *request, int rc,
		 struct error *err)
{
	if (!err->code)
		error_set(err, rc, "out of memory for the tree");
	http_respond_failure(response, err, api_failed_field(request));
}

static void answer_tree(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	const struct query query = api_query(api, request);
	struct error err = { 0 };

	int rc = query_flame_tree(&query, &tree, &err);
	if (!rc)
		rc = append_tree(&response->body, request, &tree);
	if (rc)
		fail(response, request, rc, &err);
	else
		buffer_append_byte(&response->body, '\n');
}

void http_handle_callers(struct http_api *api, const struct api_request *request,
			 struct http_response *response)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 }, callers = { 0 },
						       callees = { 0 };
	const struct query query = api_query(api, request);
	struct buffer *body = &response->body;
	struct error err = { 0 };

	if (!*request->function) {
		error_set(&err, -EINVAL,
			  "is missing; name the function whose callers and callees you want, as "
			  "/api/v1/top does");
		http_respond_failure(response, &err, "function");
		return;
	}
	int rc = query_flame_tree(&query, &tree, &err);
	if (!rc)
		rc = flame_tree_callers(&tree, request->function, request->http->deadline, &callers,
					&callees, &err);
	buffer_append_string(body, "{\"callers\":");
	if (!rc)
		rc = append_tree(body, request, &callers);
	buffer_append_string(body, ",\"callees\":");
	if (!rc)
		rc = append_tree(body, request, &callees);
	buffer_append_string(body, "}\n");
	if (rc)
		fail(response, request, rc, &err);
}

/** A profile with time for a timeline, a merged one for the others. */
static int read_profile(const struct query *query, enum export_format format,
			struct profile **ret_profile, struct error *err)
{
	return export_format_spec(format)->needs_time ? query_timeline(query, ret_profile, err)
						      : query_profile(query, ret_profile, err);
}

static void answer_file(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	const struct query query = api_query(api, request);
	struct error err = { 0 };
	bool is_read = false;

	int rc = read_profile(&query, request->format, &profile, &err);
	if (!rc) {
		is_read = true;
		rc = export_profile(profile, request->type, request->format, "cairn",
				    &response->body, &err);
	}
	if (rc && rc == response->body.rc)
		return; // the server refuses it
	if (rc) {
		err.code = rc;
		http_respond_failure(response, &err,
				     is_read && rc == -EINVAL ? "format"
							      : api_failed_field(request));
		return;
	}
	response->media_type = export_format_spec(request->format)->media_type;
	response->disposition = export_format_spec(request->format)->disposition;
}

void http_handle_merge(struct http_api *api, const struct api_request *request,
		       struct http_response *response)
{
	if (request->is_file)
		answer_file(api, request, response);
	else
		answer_tree(api, request, response);
}
