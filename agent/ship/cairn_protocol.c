// SPDX-License-Identifier: Apache-2.0
// cairn's own protocol: a batch is one request with an id, so that a retry counts once. Stack definitions travel until the
// collector acknowledges them, and again when it requests them.
#include "agent/ship/protocol.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/utc_text.h"
#include "proto/rpc.h"
#include "agent/boost/boost_mailbox.h"
#include "agent/ship/sender.h"
#include "agent/ship/stack_set.h"

enum {
	ACKNOWLEDGED_MAX = 1 << 16, // 2 MiB of ids and their table; a busy node has some 20,000
	ORDINARY_MESSAGE_BYTES = 4 << 20, // gRPC's default limit of a message
	REFUSED_LOG_S = 60,               // between lines about refused samples
};

struct cairn_client {
	struct rpc_client *client;
	struct boost_mailbox *boosts; // NULL: none
	struct stack_set acknowledged;
	struct buffer message;
	uint64_t refused_logged_ns; // monotonic; the last line about refused samples
};

static void cairn_close(void *context)
{
	struct cairn_client *cairn = context;

	if (!cairn)
		return;
	rpc_client_close(cairn->client);
	stack_set_deinit(&cairn->acknowledged);
	buffer_deinit(&cairn->message);
	free(cairn);
}

static int cairn_open(const struct sender_options *options, void **ret_context, struct error *err)
{
	struct cairn_client *cairn = calloc(1, sizeof(*cairn));

	if (!cairn)
		return error_set(err, -ENOMEM, "sender: out of memory");
	cairn->boosts = options->boosts;
	cairn->acknowledged.count_max = ACKNOWLEDGED_MAX;
	int rc = rpc_client_open(options->address, EXPORT_MESSAGE_BYTES_MAX, options->security,
				 &cairn->client, err);
	if (rc) {
		cairn_close(cairn);
		return rc;
	}
	*ret_context = cairn;
	return 0;
}

// ---- definitions ------------------------------------------------------------------------------

// Changes when more is known of the stack's locations, so that names that came late are sent, too.
static struct id128 definition_id(const struct profile *profile, const struct stack *stack)
{
	struct {
		struct id128 stack;
		uint64_t detail;
	} definition = { .stack = stack->id };

	for (uint32_t i = 0; i < stack->location_count; i++) {
		uint32_t location = profile->stack_locations[stack->first_location + i];

		definition.detail += location_detail(profile, &profile->locations[location]);
	}
	return id128_of(&definition, sizeof(definition));
}

static bool wants_definition(void *context, const struct profile *profile,
			     const struct stack *stack)
{
	const struct cairn_client *cairn = context;

	return !stack_set_has(&cairn->acknowledged, definition_id(profile, stack));
}

static void acknowledge(struct cairn_client *cairn, const struct profile *profile)
{
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct stack *stack = &profile->stacks[profile->samples[i].stack];

		if (stack->defined)
			stack_set_add(&cairn->acknowledged, definition_id(profile, stack));
	}
}

/** Of one batch a minute: the counters have the sums. */
static void log_refused(const struct export_response *response)
{
	const struct export_refused *refused = &response->refused;
	char time[UTC_TEXT_BYTES];

	if (refused->late)
		log_error("sender: the collector dropped %llu samples of a batch: older than its "
			  "retention (it keeps those since %s; samples_out_of_range counts all); "
			  "check this node's clock, or raise the collector's --retention",
			  (unsigned long long)refused->late,
			  utc_text(refused->from_ns / NS_PER_SECOND, time));
	if (refused->future)
		log_error("sender: the collector dropped %llu samples of a batch: ahead of its "
			  "clock (it accepts those until %s; samples_out_of_range counts all); "
			  "check the clocks of this node and of the collector",
			  (unsigned long long)refused->future,
			  utc_text(refused->to_ns / NS_PER_SECOND, time));
	if (refused->series)
		log_error("sender: the collector dropped %llu samples of a batch: too many series "
			  "(samples_series counts all); remove labels with many values",
			  (unsigned long long)refused->series);
	if (refused->other)
		log_warn("sender: the collector stored %llu samples of a batch under the label "
			 "other, without some of their labels: too many series (samples_other "
			 "counts all); remove labels with many values, such as thread names",
			 (unsigned long long)refused->other);
	if (*response->limited)
		log_warn("sender: the collector changed a batch: %s", response->limited);
}

/** The batch is stored, but not all of it, or not as it came. Sending it again would not help. */
static void note_refused(struct cairn_client *cairn, const struct export_response *response)
{
	const struct export_refused *refused = &response->refused;
	uint64_t now_ns = clock_monotonic_ns();

	if (!refused->late && !refused->future && !refused->series && !refused->other &&
	    !*response->limited)
		return;
	if (cairn->refused_logged_ns &&
	    ns_between(cairn->refused_logged_ns, now_ns) < REFUSED_LOG_S * NS_PER_SECOND)
		return;
	cairn->refused_logged_ns = now_ns;
	log_refused(response);
}

// ---- one try --------------------------------------------------------------------------------

static enum ship_outcome read_response(struct cairn_client *cairn, struct delivery *delivery,
				       const struct buffer *bytes, struct ship_try *ret_try,
				       struct error *err)
{
	_cleanup_(export_response_deinit) struct export_response response = { 0 };
	int rc = export_response_decode(bytes->bytes, bytes->size, &response, err);

	if (rc)
		return ++delivery->unexpected_tries < UNEXPECTED_TRIES_MAX ? SHIP_LATER
									   : SHIP_REFUSED;
	if (cairn->boosts)
		boost_mailbox_put(cairn->boosts, response.boosts, response.boost_count,
				  clock_monotonic_ns());
	if (response.unknown_stack_count) {
		// It may have lost all of them.
		stack_set_clear(&cairn->acknowledged);
		error_set(err, -EBADMSG, "the collector requested %u stack definitions again",
			  response.unknown_stack_count);
		return ++delivery->definition_tries < DEFINITION_TRIES_MAX ? SHIP_AGAIN
									   : SHIP_REFUSED;
	}
	acknowledge(cairn, delivery->batch->profile);
	note_refused(cairn, &response);
	ret_try->bytes = cairn->message.size;
	ret_try->is_duplicate = response.duplicate;
	ret_try->refused = response.refused;
	return SHIP_DELIVERED;
}

// Is it this batch that is above a limit, and not the collector that has too little of something for now? A full disk
// is emptied some day: the batch waits for it.
static bool is_too_large(const struct cairn_client *cairn, const struct error *err)
{
	switch (err->code) {
	case -EMSGSIZE:
		return true;
	case -EDQUOT:
	case -EBUSY:
	case -ENOSPC:
	case -EUSERS:
		return false;
	default: // a proxy's word, or an older collector's
		return cairn->message.size > ORDINARY_MESSAGE_BYTES;
	}
}

static enum ship_outcome read_failure(struct cairn_client *cairn, struct delivery *delivery,
				      enum rpc_status status, const struct error *err)
{
	switch (status) {
	case RPC_INVALID_ARGUMENT:
		return SHIP_REFUSED;
	case RPC_CANCELLED:
	case RPC_UNAVAILABLE:
	case RPC_DEADLINE_EXCEEDED:
	case RPC_FAILED_PRECONDITION: // a collector of an older contract: it may be updated
	case RPC_UNIMPLEMENTED:       // not a collector; somebody may put the right one there
	case RPC_UNAUTHENTICATED:     // the token or certificate may be about to be replaced
	case RPC_PERMISSION_DENIED:
		return SHIP_LATER;
	case RPC_RESOURCE_EXHAUSTED:
		if (is_too_large(cairn, err) && ++delivery->too_large_tries >= TOO_LARGE_TRIES_MAX)
			return SHIP_REFUSED;
		return SHIP_LATER;
	default:
		return ++delivery->unexpected_tries < UNEXPECTED_TRIES_MAX ? SHIP_LATER
									   : SHIP_REFUSED;
	}
}

// As they are now, whatever the age of the batch.
static int add_boosts(struct cairn_client *cairn, struct error *err)
{
	struct boost_report report;

	if (!cairn->boosts)
		return 0;
	boost_mailbox_read_report(cairn->boosts, &report);
	return export_request_add_boosts(&report, &cairn->message, err);
}

static enum ship_outcome cairn_try_once(void *context, struct delivery *delivery,
					struct ship_try *ret_try, struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer response = { 0 };
	const struct batch *batch = delivery->batch;
	struct cairn_client *cairn = context;

	buffer_clear(&cairn->message);
	int rc = export_request_encode(&batch->id, batch->profile, wants_definition, cairn,
				       &cairn->message, err);
	if (!rc)
		rc = add_boosts(cairn, err);
	ret_try->status = RPC_INTERNAL;
	if (rc)
		return SHIP_REFUSED;
	ret_try->status = rpc_client_call(cairn->client, SENDER_EXPORT_METHOD, &cairn->message,
					  ret_try->deadline_ms, &response, err);
	if (ret_try->status == RPC_OK)
		return read_response(cairn, delivery, &response, ret_try, err);
	ret_try->pause_ms = rpc_client_pause_ms(cairn->client);
	return read_failure(cairn, delivery, ret_try->status, err);
}

static void cairn_end(void *context)
{
	struct cairn_client *cairn = context;

	if (cairn->message.capacity > MESSAGE_KEPT_BYTES)
		buffer_deinit(&cairn->message);
}

static void cairn_cancel(void *context)
{
	struct cairn_client *cairn = context;

	rpc_client_cancel(cairn->client);
}

const struct ship_protocol cairn_protocol = {
	.server = "collector",
	.refused_counter = "samples_refused",
	.open = cairn_open,
	.close = cairn_close,
	.try_once = cairn_try_once,
	.end = cairn_end,
	.cancel = cairn_cancel,
};
