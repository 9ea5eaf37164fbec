// SPDX-License-Identifier: Apache-2.0
// A profile to an ExportRequest and back (proto/cairn/v1/collector.proto). Bytes from the wire are hostile: every length, number and position is checked, and
// an error names the field.
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/id128.h"
#include "base/profile.h"

/** Where a batch comes from: makes it idempotent. */
struct batch_id {
	struct id128 agent;
	struct id128 boot;
	uint64_t sequence; // 1, 2, 3 ...
};

enum { EXPORT_MESSAGE_BYTES_MAX = 64 << 20 }; // OTLP's recommended limit

/** No sample's value is larger, either way: exact as a double, and a thousand of them add up. */
#define EXPORT_VALUE_MAX ((int64_t)1 << 53)

/** Should this stack's definition travel? */
typedef bool (*export_define_fn)(void *context, const struct profile *profile,
				 const struct stack *stack);

/**
 * Encode @profile; definitions of the stacks for which @define says yes. Samples need not be
 * sorted; series without samples and stacks that no sample has do not travel. Returns 0; -ENOMEM;
 * -EFBIG above EXPORT_MESSAGE_BYTES_MAX; -ERANGE for slots too far apart.
 */
int export_request_encode(const struct batch_id *batch, const struct profile *profile,
			  export_define_fn define, void *context, struct buffer *buffer,
			  struct error *err);

/**
 * Decode and check. Stacks without a definition in the message are `defined == false` in the
 * profile. Its samples are sorted by (series, slot, stack, more_slots), each once; its strings are
 * UTF-8; its slots lie within a minute of its range, and those of an interval in one minute of Unix
 * time (each slot is in the minute that it begins in). Memory is bounded by a multiple of @size.
 * Returns 0; -EBADMSG with @err naming the field; -ENOMEM; -E2BIG.
 */
int export_request_decode(const void *bytes, size_t size, struct batch_id *ret_batch,
			  struct profile **ret_profile, struct error *err);

struct export_response {
	struct id128 *unknown_stacks;
	uint32_t unknown_stack_count;
	bool duplicate;
};

void export_response_deinit(struct export_response *response);
int export_response_encode(const struct export_response *response, struct buffer *buffer,
			   struct error *err);
int export_response_decode(const void *bytes, size_t size, struct export_response *ret_response,
			   struct error *err);
