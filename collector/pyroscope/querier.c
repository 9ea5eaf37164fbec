// SPDX-License-Identifier: Apache-2.0
#include "collector/pyroscope/querier.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/pyroscope/message_json.h"
#include "collector/pyroscope/querier_labels.h"
#include "collector/pyroscope/querier_profiles.h"
#include "collector/pyroscope/querier_time.h"

typedef int (*querier_method_fn)(const struct querier_call *call, const ProtobufCMessage *request,
				 struct error *err);

static int profile_stats(const struct querier_call *call, const ProtobufCMessage *request,
			 struct error *err)
{
	Querier__V1__GetProfileStatsResponse response =
		QUERIER__V1__GET_PROFILE_STATS_RESPONSE__INIT;
	struct store_stats stats;

	(void)request;
	store_read_stats(call->store, &stats);
	response.data_ingested = stats.newest_ns != 0;
	response.oldest_profile_time = (int64_t)(stats.oldest_ns / NS_PER_MS);
	response.newest_profile_time = (int64_t)(stats.newest_ns / NS_PER_MS);
	return querier_respond(call, &response.base, err);
}

static const struct {
	const char *name;
	const ProtobufCMessageDescriptor *request;
	querier_method_fn answer;
} methods[] = {
	{ "ProfileTypes", &querier__v1__profile_types_request__descriptor, querier_profile_types },
	{ "LabelNames", &querier__v1__label_names_request__descriptor, querier_label_names },
	{ "LabelValues", &querier__v1__label_values_request__descriptor, querier_label_values },
	{ "Series", &querier__v1__series_request__descriptor, querier_series },
	{ "SelectMergeStacktraces", &querier__v1__select_merge_stacktraces_request__descriptor,
	  querier_stacktraces },
	{ "SelectMergeSpanProfile", &querier__v1__select_merge_span_profile_request__descriptor,
	  querier_span_profile },
	{ "SelectMergeProfile", &querier__v1__select_merge_profile_request__descriptor,
	  querier_profile },
	{ "SelectSeries", &querier__v1__select_series_request__descriptor, querier_select_series },
	{ "SelectHeatmap", &querier__v1__select_heatmap_request__descriptor, querier_heat_map },
	{ "Diff", &querier__v1__diff_request__descriptor, querier_diff },
	{ "GetProfileStats", &querier__v1__get_profile_stats_request__descriptor, profile_stats },
};

static int parse(const struct querier_call *call, const ProtobufCMessageDescriptor *descriptor,
		 const void *body, size_t size, ProtobufCMessage **ret_request, struct error *err)
{
	// An empty message has no bytes in protobuf; in JSON it is {}.
	if (call->is_json)
		return message_json_parse(descriptor, size ? body : "{}", size ? size : 2,
					  ret_request, err);
	*ret_request = protobuf_c_message_unpack(descriptor, NULL, size, size ? body : (void *)"");
	return *ret_request
		       ? 0
		       : error_set(err, -EINVAL, "the body is no %s of protobuf", descriptor->name);
}

int querier_answer(const struct querier_call *call, const char *method, const void *body,
		   size_t size, struct error *err)
{
	for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
		ProtobufCMessage *request = NULL;

		if (strcmp(method, methods[i].name) != 0)
			continue;
		int rc = parse(call, methods[i].request, body, size, &request, err);
		if (rc)
			return rc;
		rc = methods[i].answer(call, request, err);
		protobuf_c_message_free_unpacked(request, NULL);
		return rc;
	}
	return error_set(err, -ENOSYS, "%.60s: no such method of " QUERIER_SERVICE, method);
}
