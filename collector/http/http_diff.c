// SPDX-License-Identifier: Apache-2.0
// Answers with what changed between two profiles: a tree and a table in JSON, or folded stacks of both.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "collector/compare/comparison.h"
#include "collector/compare/exposure.h"
#include "collector/compare/significance.h"
#include "base/json_text.h"
#include "collector/http/tree_json.h"

static const char *const side_names[COMPARISON_SIDES] = { "a", "b" };

static void append_ranges(struct buffer *body, const struct query *query)
{
	uint32_t count;
	const struct time_range *ranges = query_parts(query, &count);

	buffer_append_string(body, "\"ranges_ns\":[");
	for (uint32_t i = 0; i < count; i++)
		buffer_printf(body, i ? ",[%llu,%llu]" : "[%llu,%llu]",
			      (unsigned long long)ranges[i].from_ns,
			      (unsigned long long)ranges[i].to_ns);
	buffer_append_byte(body, ']');
}

static void append_side(struct buffer *body, const struct api_request *request,
			const struct query *query, const struct compared_side *side, int number)
{
	buffer_printf(body, ",\"%s\":{\"query\":", side_names[number]);
	json_append_string(body, request->diff.query_texts[number]);
	buffer_append_byte(body, ',');
	append_ranges(body, query);
	buffer_printf(body,
		      ",\"total\":%lld,\"divisor\":%.9g,\"instance_seconds\":%.6f,\"instances\":%u,"
		      "\"blocks\":%u,\"rows\":%llu,\"series\":%llu}",
		      (long long)side->total, side->divisor, side->exposure_ns / NS_PER_SECOND,
		      side->instances, side->blocks, (unsigned long long)side->row_count,
		      (unsigned long long)side->series_count);
}

static void append_value(struct buffer *body, const char *name, const struct compared_value *value)
{
	buffer_printf(body, ",\"%s\":{\"a\":%lld,\"b\":%lld,\"p\":%.3g,\"enough\":%s,", name,
		      (long long)value->values[0], (long long)value->values[1], value->p,
		      value->enough ? "true" : "false");
	buffer_printf(body, "\"significant\":%s}", value->significant ? "true" : "false");
}

static void append_functions(struct buffer *body, const struct comparison *comparison,
			     uint32_t limit)
{
	const struct string_table *strings = &comparison->tree.strings;

	buffer_printf(body, ",\"function_count\":%u,\"functions\":[", comparison->function_count);
	for (uint32_t i = 0; i < comparison->function_count && i < limit; i++) {
		const struct compared_function *function = &comparison->functions[i];

		buffer_append_string(body, i ? ",{\"name\":" : "{\"name\":");
		json_append_string(body, string_table_get(strings, function->name));
		buffer_append_string(body, ",\"module\":");
		json_append_string(body, string_table_get(strings, function->module));
		buffer_append_string(body, ",\"kind\":");
		json_append_string(body, frame_kind_name(function->kind < FRAME_KIND_COUNT
								 ? function->kind
								 : FRAME_KIND_UNKNOWN));
		append_value(body, "self", &function->self);
		append_value(body, "total", &function->total);
		buffer_append_byte(body, '}');
	}
	buffer_append_byte(body, ']');
}

/** Append one column of the tree's nodes. @node is its number, @value its total's comparison. */
#define APPEND_COLUMN(body, comparison, title, format, expression)                        \
	do {                                                                              \
		buffer_append_string(body, title ":[");                                   \
		for (uint32_t node = 0; node < (comparison)->tree.node_count; node++) {   \
			const struct compared_value *value = &(comparison)->totals[node]; \
			(void)value;                                                      \
			buffer_printf(body, node ? "," format : format, expression);      \
		}                                                                         \
		buffer_append_byte(body, ']');                                            \
	} while (0)

/** How sure a node's change is: 0 too few samples, 1 may be chance, 2 significant. */
static int certainty_of(const struct compared_value *value)
{
	return value->significant ? 2 : value->enough ? 1 : 0;
}

static void append_tree(struct buffer *body, const struct comparison *comparison)
{
	const struct flame_tree *tree = &comparison->tree;

	tree_json_append_names(body, &tree->strings);
	buffer_append_string(body, ",\"nodes\":{");
	tree_json_append_frames(body, tree);
	APPEND_COLUMN(body, comparison, ",\"a_self\"", "%lld",
		      (long long)comparison->selfs[node][0]);
	APPEND_COLUMN(body, comparison, ",\"b_self\"", "%lld",
		      (long long)comparison->selfs[node][1]);
	APPEND_COLUMN(body, comparison, ",\"a_total\"", "%lld", (long long)value->values[0]);
	APPEND_COLUMN(body, comparison, ",\"b_total\"", "%lld", (long long)value->values[1]);
	APPEND_COLUMN(body, comparison, ",\"p\"", "%.2g", value->p);
	APPEND_COLUMN(body, comparison, ",\"certainty\"", "%d", certainty_of(value));
	buffer_append_byte(body, '}');
}

static int answer_json(const struct api_request *request, const struct comparison_query *query,
		       struct comparison *comparison, struct buffer *body)
{
	uint32_t node_count = comparison->tree.node_count;

	comparison_sort(comparison, request->diff.by_total);
	buffer_append_byte(body, '{');
	api_append_type(body, request);
	buffer_printf(body, ",\"norm\":\"%s\",\"per\":", request->diff.is_share ? "share" : "rate");
	json_append_string(body, request->diff.per);
	buffer_printf(body, ",\"false_discoveries\":%g,\"node_count\":%u",
		      SIGNIFICANCE_FALSE_DISCOVERIES, node_count);
	for (int side = 0; side < COMPARISON_SIDES; side++)
		append_side(body, request, &query->sides[side], &comparison->sides[side], side);
	append_functions(body, comparison, request->limit);

	int rc = comparison_truncate(comparison, request->max_nodes);
	if (rc)
		return rc;
	append_tree(body, comparison);
	buffer_append_string(body, "}\n");
	return 0;
}

/** A's values are scaled to B's, so that the two columns can be compared. */
static int append_folded(const struct comparison *comparison, struct buffer *body)
{
	const struct flame_tree *tree = &comparison->tree;
	double from = comparison->sides[0].divisor, to = comparison->sides[1].divisor;
	double scale = from > 0 && to > 0 ? to / from : 1;
	uint32_t path[STACK_FRAMES_MAX * 2];

	for (uint32_t node = 1; node < tree->node_count; node++) {
		const int64_t *selfs = comparison->selfs[node];
		uint32_t depth = 0;

		if (!selfs[0] && !selfs[1])
			continue;
		for (uint32_t at = node; at && depth < ARRAY_SIZE(path);
		     at = tree->nodes[at].parent)
			path[depth++] = at;
		while (depth-- > 0) {
			buffer_append_string(body, string_table_get(&tree->strings,
								    tree->nodes[path[depth]].name));
			if (depth)
				buffer_append_byte(body, ';');
		}
		buffer_printf(body, " %lld %lld\n", (long long)llround((double)selfs[0] * scale),
			      (long long)selfs[1]);
	}
	return body->rc;
}

/** What damage has left out of the baseline; that of the other side is noted of every answer. */
static void note_damage(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	struct store_damage damage;

	store_read_damage(api->store, request->diff.range, &damage);
	if (damage.partitions)
		snprintf(response->incomplete, sizeof(response->incomplete),
			 "damaged; partitions=%u; first_ns=%llu", damage.partitions,
			 (unsigned long long)damage.first_ns);
}

void http_handle_diff(struct http_api *api, const struct api_request *request,
		      struct http_response *response)
{
	_cleanup_(comparison_deinit) struct comparison comparison = { 0 };
	struct comparison_query query = {
		.sides = { api_query(api, request), api_query(api, request) },
		.per = request->diff.per,
		.norm = request->diff.is_share ? COMPARISON_SHARE : COMPARISON_RATE,
	};
	struct error err = { 0 };

	query.sides[0].selector = &request->diff.baseline;
	query.sides[0].range = request->diff.range;
	query.sides[0].parts = request->diff.ranges;
	if (request->is_file && request->format != EXPORT_COLLAPSED) {
		error_set(&err, -EINVAL, "a diff is given as json or collapsed");
		http_respond_failure(response, &err, "format");
		return;
	}
	int rc = compare(&query, &comparison, &err);
	if (!rc)
		rc = !request->is_file ? answer_json(request, &query, &comparison, &response->body)
				       : append_folded(&comparison, &response->body);
	if (rc) {
		if (!err.code)
			error_set(&err, rc, "out of memory for the comparison");
		http_respond_failure(response, &err, api_failed_field(request));
		return;
	}
	if (request->is_file) {
		response->media_type = "text/plain; charset=utf-8";
		response->disposition = "attachment; filename=\"cairn-diff.collapsed\"";
	}
	note_damage(api, request, response);
}
