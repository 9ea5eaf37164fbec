// SPDX-License-Identifier: Apache-2.0
// OTLP's profiles signal over gRPC: a batch is one request, or several within the 4 MiB that gRPC's servers take by default. Which
// failures are tried again is OTLP's rule (https://opentelemetry.io/docs/specs/otlp/). OTLP has no ids of requests: one whose
// acknowledgement is lost may count twice, except by cairn's own collector, which knows equal requests.
#include "agent/ship/protocol.h"

#include <errno.h>
#include <stdlib.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "proto/otlp.h"
#include "proto/rpc.h"
#include "agent/ship/sender.h"

enum {
	REQUEST_BYTES_MAX = 3 << 20, // with a sample's more
	REJECTED_LOG_S = 60,         // between lines about rejected profiles
};

struct otlp_client {
	struct rpc_client *client;
	struct otlp_encoder *encoder; // of the batch on its way; NULL: none
	struct buffer request;        // of that; acknowledged if empty
	uint64_t bytes, rejected;     // of its acknowledged requests
	uint64_t logged_ns;           // monotonic; the last line about rejected profiles
};

static void otlp_close(void *context)
{
	struct otlp_client *otlp = context;

	if (!otlp)
		return;
	rpc_client_close(otlp->client);
	otlp_encoder_free(otlp->encoder);
	buffer_deinit(&otlp->request);
	free(otlp);
}

static int otlp_open(const struct sender_options *options, void **ret_context, struct error *err)
{
	struct otlp_client *otlp = calloc(1, sizeof(*otlp));

	if (!otlp)
		return error_set(err, -ENOMEM, "sender: out of memory");
	int rc = rpc_client_open(options->address, EXPORT_MESSAGE_BYTES_MAX, options->security,
				 &otlp->client, err);
	if (rc) {
		otlp_close(otlp);
		return rc;
	}
	*ret_context = otlp;
	return 0;
}

/** It took the rest of the request, or all of it and has something to say. */
static void note_answer(struct otlp_client *otlp, const struct otlp_answer *answer)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (answer->rejected_profiles > 0)
		otlp->rejected += (uint64_t)answer->rejected_profiles;
	if (answer->rejected_profiles <= 0 && !*answer->message)
		return;
	if (otlp->logged_ns && ns_between(otlp->logged_ns, now_ns) < REJECTED_LOG_S * NS_PER_SECOND)
		return;
	otlp->logged_ns = now_ns;
	log_warn("sender: the OTLP endpoint rejected %lld profiles: %s",
		 (long long)answer->rejected_profiles,
		 *answer->message ? answer->message : "no reason given");
}

/** cairn's collector names the limit: one that passes. */
static bool is_passing(const struct error *err)
{
	return err->code == -EDQUOT || err->code == -EBUSY || err->code == -ENOSPC;
}

static enum ship_outcome read_failure(struct otlp_client *otlp, struct ship_try *ret_try,
				      const struct error *err)
{
	ret_try->pause_ms = rpc_client_pause_ms(otlp->client);
	switch (ret_try->status) {
	case RPC_CANCELLED:
	case RPC_DEADLINE_EXCEEDED:
	case RPC_ABORTED:
	case RPC_OUT_OF_RANGE:
	case RPC_UNAVAILABLE:
	case RPC_DATA_LOSS:
		return SHIP_LATER;
	case RPC_RESOURCE_EXHAUSTED: // only if the server says when
		return ret_try->pause_ms || is_passing(err) ? SHIP_LATER : SHIP_REFUSED;
	default:
		return SHIP_REFUSED;
	}
}

/** Make the next request, if the last one is acknowledged. *ret_is_done: there is none. */
static int make_request(struct otlp_client *otlp, const struct batch *batch, bool *ret_is_done,
			struct error *err)
{
	uint64_t samples = 0;
	int rc = otlp->encoder ? 0
			       : otlp_encoder_new(&batch->id, batch->profile, &otlp->encoder, err);

	if (!rc && !otlp->request.size)
		rc = otlp_encoder_next(otlp->encoder, REQUEST_BYTES_MAX, &otlp->request, &samples,
				       err);
	*ret_is_done = !otlp->request.size;
	return rc;
}

static enum ship_outcome send_request(struct otlp_client *otlp, struct ship_try *ret_try,
				      struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer response = { 0 };
	struct otlp_answer answer = { 0 };

	ret_try->status = rpc_client_call(otlp->client, OTLP_METHOD, &otlp->request,
					  ret_try->deadline_ms, &response, err);
	if (ret_try->status != RPC_OK)
		return read_failure(otlp, ret_try, err);
	// It took the request, whatever it says.
	if (otlp_answer_read(response.bytes, response.size, &answer, NULL) == 0)
		note_answer(otlp, &answer);
	otlp->bytes += otlp->request.size;
	buffer_clear(&otlp->request);
	return SHIP_DELIVERED;
}

static enum ship_outcome otlp_try_once(void *context, struct delivery *delivery,
				       struct ship_try *ret_try, struct error *err)
{
	enum ship_outcome outcome = SHIP_DELIVERED;
	struct otlp_client *otlp = context;
	bool is_done = false;

	while (outcome == SHIP_DELIVERED) {
		if (make_request(otlp, delivery->batch, &is_done, err)) {
			ret_try->status = RPC_INTERNAL;
			return SHIP_REFUSED;
		}
		if (is_done)
			break;
		outcome = send_request(otlp, ret_try, err);
	}
	ret_try->bytes = otlp->bytes;
	ret_try->rejected = otlp->rejected;
	return outcome;
}

static void otlp_end(void *context)
{
	struct otlp_client *otlp = context;

	otlp_encoder_free(take(otlp->encoder));
	buffer_clear(&otlp->request);
	otlp->bytes = otlp->rejected = 0;
	if (otlp->request.capacity > MESSAGE_KEPT_BYTES)
		buffer_deinit(&otlp->request);
}

static void otlp_cancel(void *context)
{
	struct otlp_client *otlp = context;

	rpc_client_cancel(otlp->client);
}

const struct ship_protocol otlp_protocol = {
	.server = "OTLP endpoint",
	.refused_counter = "otlp_samples_refused",
	.open = otlp_open,
	.close = otlp_close,
	.try_once = otlp_try_once,
	.end = otlp_end,
	.cancel = otlp_cancel,
};
