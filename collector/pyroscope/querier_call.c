// SPDX-License-Identifier: Apache-2.0
#include "collector/pyroscope/querier_call.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "collector/pyroscope/message_json.h"

#define DEFAULT_RANGE_MS (3600 * 1000)

int querier_respond(const struct querier_call *call, const ProtobufCMessage *message,
		    struct error *err)
{
	if (call->is_json) {
		message_json_append(message, call->answer);
	} else {
		size_t size = protobuf_c_message_get_packed_size(message);
		uint8_t *bytes = size ? buffer_extend(call->answer, size) : NULL;

		if (bytes)
			protobuf_c_message_pack(message, bytes);
	}
	// The server says what the buffer's failure means.
	(void)err;
	return 0;
}

int querier_range(const struct querier_call *call, int64_t start_ms, int64_t end_ms,
		  struct time_range *ret_range, struct error *err)
{
	const int64_t ms_max = INT64_MAX / (int64_t)NS_PER_MS;

	if (!start_ms && !end_ms) {
		end_ms = (int64_t)(call->now_ns / NS_PER_MS) + 1;
		start_ms = end_ms > DEFAULT_RANGE_MS ? end_ms - DEFAULT_RANGE_MS : 0;
	}
	if (start_ms < 0 || end_ms < start_ms || end_ms > ms_max)
		return error_set(err, -EINVAL,
				 "start, end: expected milliseconds since 1970, in order");
	if (end_ms == start_ms)
		end_ms++;
	ret_range->from_ns = (uint64_t)start_ms * NS_PER_MS;
	ret_range->to_ns = (uint64_t)end_ms * NS_PER_MS;
	if (ret_range->to_ns - ret_range->from_ns > QUERY_RANGE_NS_MAX)
		return error_set(err, -EINVAL,
				 "the range is longer than 31 days; choose a later start");
	return tenant_check_range(call->limited, ret_range->to_ns - ret_range->from_ns, err);
}

int querier_query_init(struct querier_query *query, const struct querier_call *call,
		       const char *type, const char *selector, int64_t start_ms, int64_t end_ms,
		       struct error *err)
{
	struct profile_type parts;

	*query = (struct querier_query){
		.query = { .store = call->store, .type = type, .symbolizer = call->symbolizer },
	};
	int rc = profile_type_parse(type, &parts, err);
	if (!rc)
		rc = querier_range(call, start_ms, end_ms, &query->query.range, err);
	if (!rc)
		rc = pyroscope_selector_parse(selector, call->tenant, &query->selector, err);
	if (rc)
		return rc;
	selector_set_deadline(&query->selector.selector, call->deadline);
	query->query.selector = &query->selector.selector;
	return 0;
}

void querier_query_deinit(struct querier_query *query)
{
	pyroscope_selector_deinit(&query->selector);
}
