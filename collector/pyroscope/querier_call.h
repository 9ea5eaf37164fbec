// SPDX-License-Identifier: Apache-2.0
// A call of the querier, and what its methods share.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "collector/limits/tenant_limits.h"
#include "collector/pyroscope/label_map.h"
#include "collector/query/query.h"
#include "querier/v1/querier.pb-c.h"

enum {
	QUERIER_BODY_BYTES_MAX = 1 << 20,   // of a request
	QUERIER_PPROF_BYTES_MAX = 64 << 20, // of a pprof message
	QUERIER_LABEL_SETS_MAX = 1 << 16,   // of an answer
	QUERIER_HEAT_MAP_SLOTS_MAX = 64,
	QUERIER_HEAT_MAP_ROWS = 20,
};

/** A call, and who asks. All is borrowed. */
struct querier_call {
	struct store *store;
	struct symbolizer *symbolizer; // NULL: none
	const char *tenant;            // of selector_parse()
	struct tenant *limited;        // whose limits it has; NULL: none
	struct deadline *deadline;
	uint64_t now_ns;
	bool is_json;          // request and answer; else protobuf
	struct buffer *answer; // the message is appended
};

/** Append the answer. Returns 0 or the buffer's error. */
int querier_respond(const struct querier_call *call, const ProtobufCMessage *message,
		    struct error *err);

/** Milliseconds, both 0: the last hour. Returns 0; -EINVAL; TENANT_NEVER. */
int querier_range(const struct querier_call *call, int64_t start_ms, int64_t end_ms,
		  struct time_range *ret_range, struct error *err);

/** A query and its selector, which it refers to: not to be moved. */
struct querier_query {
	struct pyroscope_selector selector;
	struct query query;
};

/** Parse a profile type (checked), a selector and a range. Returns 0, -EINVAL, -ENOMEM, TENANT_NEVER. */
int querier_query_init(struct querier_query *query, const struct querier_call *call,
		       const char *type, const char *selector, int64_t start_ms, int64_t end_ms,
		       struct error *err);
void querier_query_deinit(struct querier_query *query);
