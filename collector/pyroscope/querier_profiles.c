// SPDX-License-Identifier: Apache-2.0
// Merged profiles: flame graphs of one or two selections, and pprof.
#include "collector/pyroscope/querier_profiles.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/saturating.h"
#include "collector/pyroscope/flame_graph.h"
#include "proto/pprof.h"

static int out_of_memory(struct error *err)
{
	return error_set(err, -ENOMEM, "out of memory for the flame graph");
}

/** cairn stores no spans, and no profiles one by one: a selection of them is empty. */
static bool selects_spans(const Querier__V1__SelectMergeStacktracesRequest *request)
{
	return request->n_profile_id_selector || request->n_trace_id_selector ||
	       request->n_span_selector;
}

/** The levels as messages: they refer to @bearer. */
static int levels_of(const struct flamebearer *bearer, Querier__V1__Level **ret_levels,
		     Querier__V1__Level ***ret_pointers)
{
	_cleanup_free_ Querier__V1__Level *levels =
		calloc(bearer->level_count + 1, sizeof(*levels));
	_cleanup_free_ Querier__V1__Level **pointers =
		calloc(bearer->level_count + 1, sizeof(*pointers));

	if (!levels || !pointers)
		return -ENOMEM;
	for (uint32_t i = 0; i < bearer->level_count; i++) {
		querier__v1__level__init(&levels[i]);
		levels[i].n_values = bearer->levels[i].count;
		levels[i].values = bearer->levels[i].values;
		pointers[i] = &levels[i];
	}
	*ret_levels = take(levels);
	*ret_pointers = take(pointers);
	return 0;
}

/** Fill @graph with @bearer, append @response, of which it is a part. */
static int respond_flame_graph(const struct querier_call *call, const struct flamebearer *bearer,
			       Querier__V1__FlameGraph *graph, const ProtobufCMessage *response,
			       struct error *err)
{
	_cleanup_free_ Querier__V1__Level *levels = NULL;
	_cleanup_free_ Querier__V1__Level **pointers = NULL;
	int rc = levels_of(bearer, &levels, &pointers);

	if (rc)
		return out_of_memory(err);
	graph->n_names = bearer->name_count;
	graph->names = bearer->names;
	graph->n_levels = bearer->level_count;
	graph->levels = pointers;
	graph->total = bearer->totals[0];
	graph->max_self = bearer->max_self;
	return querier_respond(call, response, err);
}

// ---- pprof ----------------------------------------------------------------------------------

/** The selection as the bytes of a pprof message, not compressed. */
static int read_pprof(const struct querier_call *call, const char *type, const char *selector,
		      int64_t start, int64_t end, struct buffer *ret_bytes, struct error *err)
{
	_cleanup_(profile_freep) struct profile *profile = NULL;
	struct querier_query query;
	int rc = querier_query_init(&query, call, type, selector, start, end, err);

	if (!rc)
		rc = query_profile(&query.query, &profile, err);
	if (!rc)
		rc = pprof_encode_plain(profile, type, ret_bytes, err);
	querier_query_deinit(&query);
	return rc;
}

static Perftools__Profiles__Profile *unpack_pprof(const struct buffer *bytes)
{
	return perftools__profiles__profile__unpack(NULL, bytes->size, bytes->bytes);
}

static int respond_pprof(const struct querier_call *call,
			 const Querier__V1__SelectMergeStacktracesRequest *request,
			 struct error *err)
{
	Querier__V1__SelectMergeStacktracesResponse response =
		QUERIER__V1__SELECT_MERGE_STACKTRACES_RESPONSE__INIT;
	Querier__V1__PprofProfile pprof = QUERIER__V1__PPROF_PROFILE__INIT;
	_cleanup_(buffer_deinit) struct buffer bytes = { .size_max = QUERIER_PPROF_BYTES_MAX };
	int rc = read_pprof(call, request->profile_typeid, request->label_selector, request->start,
			    request->end, &bytes, err);

	if (rc)
		return rc;
	pprof.profile = unpack_pprof(&bytes);
	if (!pprof.profile)
		return error_set(err, -ENOMEM, "out of memory for the pprof profile");
	response.pprof = &pprof;
	rc = querier_respond(call, &response.base, err);
	perftools__profiles__profile__free_unpacked(pprof.profile, NULL);
	return rc;
}

// ---- methods --------------------------------------------------------------------------------

int querier_stacktraces(const struct querier_call *call, const ProtobufCMessage *message,
			struct error *err)
{
	const Querier__V1__SelectMergeStacktracesRequest *request = (const void *)message;
	Querier__V1__SelectMergeStacktracesResponse response =
		QUERIER__V1__SELECT_MERGE_STACKTRACES_RESPONSE__INIT;
	Querier__V1__FlameGraph graph = QUERIER__V1__FLAME_GRAPH__INIT;
	_cleanup_(flamebearer_deinit) struct flamebearer bearer = { 0 };

	if (request->format == QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_PPROF)
		return respond_pprof(call, request, err);
	if (request->format > QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_FLAMEGRAPH)
		return error_set(
			err, -ENOSYS,
			"format: only flame graphs and pprof are given, not trees and DOT");
	response.flamegraph = &graph;
	if (selects_spans(request))
		return querier_respond(call, &response.base, err);
	int rc = pyroscope_flame_graph(call, request, &bearer, err);
	return rc ? rc : respond_flame_graph(call, &bearer, &graph, &response.base, err);
}

/** Deprecated by span_selector of the method above, and still called. */
int querier_span_profile(const struct querier_call *call, const ProtobufCMessage *message,
			 struct error *err)
{
	const Querier__V1__SelectMergeSpanProfileRequest *request = (const void *)message;
	Querier__V1__SelectMergeStacktracesRequest merge =
		QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST__INIT;

	merge.profile_typeid = request->profile_typeid;
	merge.label_selector = request->label_selector;
	merge.start = request->start;
	merge.end = request->end;
	merge.max_nodes = request->max_nodes;
	merge.n_span_selector = request->n_span_selector;
	merge.span_selector = request->span_selector;
	// The answers have the same field.
	return querier_stacktraces(call, &merge.base, err);
}

int querier_profile(const struct querier_call *call, const ProtobufCMessage *message,
		    struct error *err)
{
	const Querier__V1__SelectMergeProfileRequest *request = (const void *)message;
	_cleanup_(buffer_deinit) struct buffer bytes = { .size_max = QUERIER_PPROF_BYTES_MAX };

	if (request->stack_trace_selector && request->stack_trace_selector->n_call_site)
		return error_set(err, -ENOSYS, "stack_trace_selector: only of flame graphs");
	int rc = read_pprof(call, request->profile_typeid, request->label_selector, request->start,
			    request->end, &bytes, err);
	if (rc)
		return rc;
	if (!call->is_json) {
		buffer_append(call->answer, bytes.bytes, bytes.size);
		return 0;
	}
	Perftools__Profiles__Profile *profile = unpack_pprof(&bytes);
	if (!profile)
		return error_set(err, -ENOMEM, "out of memory for the pprof profile");
	rc = querier_respond(call, &profile->base, err);
	perftools__profiles__profile__free_unpacked(profile, NULL);
	return rc;
}

int querier_diff(const struct querier_call *call, const ProtobufCMessage *message,
		 struct error *err)
{
	const Querier__V1__DiffRequest *request = (const void *)message;
	Querier__V1__DiffResponse response = QUERIER__V1__DIFF_RESPONSE__INIT;
	Querier__V1__FlameGraphDiff graph = QUERIER__V1__FLAME_GRAPH_DIFF__INIT;
	_cleanup_(flamebearer_deinit) struct flamebearer bearer = { 0 };
	_cleanup_free_ Querier__V1__Level *levels = NULL;
	_cleanup_free_ Querier__V1__Level **pointers = NULL;

	if (!request->left || !request->right)
		return error_set(err, -EINVAL, "left, right: both are needed");
	if (strcmp(request->left->profile_typeid, request->right->profile_typeid) != 0)
		return error_set(err, -EINVAL, "left, right: profile types differ");
	int rc = pyroscope_flame_graph_diff(call, request->left, request->right, &bearer, err);
	if (!rc && levels_of(&bearer, &levels, &pointers))
		rc = out_of_memory(err);
	if (rc)
		return rc;
	graph.n_names = bearer.name_count;
	graph.names = bearer.names;
	graph.n_levels = bearer.level_count;
	graph.levels = pointers;
	graph.total = add_saturating(bearer.totals[0], bearer.totals[1]);
	graph.max_self = bearer.max_self;
	graph.leftticks = bearer.totals[0];
	graph.rightticks = bearer.totals[1];
	response.flamegraph = &graph;
	return querier_respond(call, &response.base, err);
}
