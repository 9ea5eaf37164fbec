// SPDX-License-Identifier: Apache-2.0
// Answers with a merged profile: a flame tree in JSON, or a file.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "collector/http/json_text.h"
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

static void answer_tree(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	_cleanup_(flame_tree_deinit) struct flame_tree tree = { 0 };
	const struct query query = api_query(api, request);
	struct buffer *body = &response->body;
	struct error err = { 0 };
	int64_t cut = 0;

	int rc = query_flame_tree(&query, &tree, &err);
	uint32_t node_count = tree.node_count;
	if (!rc)
		rc = flame_tree_truncate(&tree, request->max_nodes, &cut);
	if (rc) {
		if (!err.code)
			error_set(&err, rc, "out of memory for the tree");
		http_respond_failure(response, &err, api_failed_field(request));
		return;
	}

	buffer_append_byte(body, '{');
	api_append_type(body, request);
	append_field(body, "from_ns", (int64_t)request->range.from_ns);
	append_field(body, "to_ns", (int64_t)request->range.to_ns);
	append_field(body, "total", tree.nodes[0].total);
	append_field(body, "rows", (int64_t)tree.row_count);
	append_field(body, "stacks", (int64_t)tree.stack_count);
	append_field(body, "series", (int64_t)tree.series_count);
	append_field(body, "node_count", node_count);
	append_field(body, "cut", cut);
	tree_json_append_names(body, &tree.strings);
	append_nodes(body, &tree);
	buffer_append_string(body, "}\n");
}

static void answer_file(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	static const struct {
		enum export_format format;
		const char *disposition;
	} files[] = {
		[API_COLLAPSED] = { EXPORT_COLLAPSED, "attachment; filename=\"cairn.collapsed\"" },
		[API_SVG] = { EXPORT_SVG, "attachment; filename=\"cairn.svg\"" },
		[API_PPROF] = { EXPORT_PPROF, "attachment; filename=\"cairn.pb.gz\"" },
	};
	_cleanup_(profile_freep) struct profile *profile = NULL;
	const struct query query = api_query(api, request);
	enum export_format format = files[request->format].format;
	struct error err = { 0 };

	int rc = query_profile(&query, &profile, &err);
	if (!rc)
		rc = export_profile(profile, request->type, format, "cairn", &response->body, &err);
	if (rc) {
		err.code = rc;
		http_respond_failure(response, &err, api_failed_field(request));
		return;
	}
	response->media_type = export_media_type(format);
	response->disposition = files[request->format].disposition;
}

void http_handle_merge(struct http_api *api, const struct api_request *request,
		       struct http_response *response)
{
	if (request->format == API_JSON)
		answer_tree(api, request, response);
	else
		answer_file(api, request, response);
}
