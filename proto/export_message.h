// SPDX-License-Identifier: Apache-2.0
// Encodes a profile as an ExportRequest (proto/cairn/v1/collector.proto), and decodes it. Bytes
// from the wire are hostile: each length, number and position is checked, and an error names the
// field.
#pragma once

#include "base/buffer.h"
#include "base/contract/boosts.h"
#include "base/error.h"
#include "base/id128.h"
#include "base/profile/profile.h"

enum {
	EXPORT_VERSION_BYTES = 65,           // of an agent's version, with its NUL
	EXPORT_CONTRACT_VERSION = 2,         // docs/format.md
	EXPORT_MESSAGE_BYTES_MAX = 64 << 20, // OTLP's recommended limit
	EXPORT_LIMITED_BYTES = 400,          // of what limits of the tenant changed, with its NUL
};

/**
 * What a collector answers to an empty request, as INVALID_ARGUMENT, after the login: it takes batches. `cairn doctor` asks so.
 */
#define EXPORT_EMPTY          "empty request: batches of this login are taken"
#define EXPORT_EMPTY_NO_LOGIN "empty request: batches are taken without a login"

/** Identifies a batch: makes its export idempotent. */
struct batch_id {
	struct id128 agent;
	struct id128 boot;
	uint64_t sequence;                        // 1, 2, 3 ...
	char agent_version[EXPORT_VERSION_BYTES]; // of a decoded one: for people
};

/** Limit of a sample's magnitude: exact as a double, and a thousand of them add up. */
#define EXPORT_VALUE_MAX ((int64_t)1 << 53)

/** Must the message define this stack? */
typedef bool (*export_define_fn)(void *context, const struct profile *profile,
				 const struct stack *stack);

/**
 * Encode @profile, with definitions of the stacks that @define chooses. Samples need not be sorted.
 * Series and stacks without samples are left out. Returns 0; -ENOMEM; -EFBIG above
 * EXPORT_MESSAGE_BYTES_MAX; -ERANGE for slots too far apart.
 */
int export_request_encode(const struct batch_id *batch, const struct profile *profile,
			  export_define_fn define, void *context, struct buffer *buffer,
			  struct error *err);

/** Append the states of the agent's boosts to an encoded message. Returns 0 or -ENOMEM. */
int export_request_add_boosts(const struct boost_report *report, struct buffer *buffer,
			      struct error *err);

/**
 * Decode and check a message. @ret_report may be NULL. Stacks that it does not define are `defined == false` in the profile. The
 * samples are distinct and sorted by (series, slot, stack, more_slots); strings are UTF-8; slots lie within
 * a minute of the range, and those of an interval in one minute of Unix time. Memory is bounded by a
 * multiple of @size. Returns 0; -EBADMSG with the field in @err; -EPROTONOSUPPORT for a newer contract
 * version; -ENOMEM; -E2BIG.
 */
int export_request_decode(const void *bytes, size_t size, struct batch_id *ret_batch,
			  struct profile **ret_profile, struct boost_report *ret_report,
			  struct error *err);

/** Samples of a stored batch that were not stored as they came, by reason. */
struct export_refused {
	uint64_t late, future;   // outside of the accepted range of time
	uint64_t series;         // dropped: too many series
	uint64_t other;          // stored, but in a series of the excess
	uint64_t from_ns, to_ns; // the accepted range
};

struct export_response {
	struct id128 *unknown_stacks;
	uint32_t unknown_stack_count;
	bool duplicate;
	struct export_refused refused;
	struct boost boosts[BOOSTS_OF_AGENT_MAX]; // all that apply to the agent
	uint32_t boost_count;
	char limited
		[EXPORT_LIMITED_BYTES]; // what the tenant's limits changed in the batch; "": nothing
};

void export_response_deinit(struct export_response *response);
int export_response_encode(const struct export_response *response, struct buffer *buffer,
			   struct error *err);
/** Boosts that make no sense, or are too many, are left out: an acknowledgement is never lost for them. */
int export_response_decode(const void *bytes, size_t size, struct export_response *ret_response,
			   struct error *err);
