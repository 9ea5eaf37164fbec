// SPDX-License-Identifier: Apache-2.0
#include "collector/ingest/receiver.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/log.h"
#include "collector/boost/boost_table.h"
#include "collector/ingest/batch_limits.h"
#include "collector/ingest/ingest_identity.h"
#include "collector/ingest/seen_agents.h"
#include "proto/export_message.h"

struct receiver {
	struct store *store;
	struct metrics *metrics;
	struct tenant_limits *limits; // NULL: none
	struct seen_agents *agents;
	struct boost_table *boosts;
	pthread_mutex_t lock; // guards the field below
	uint64_t logged_ns;   // monotonic time of the last log line about a failing store
};

struct receiver *receiver_new(struct store *store, struct metrics *metrics,
			      struct tenant_limits *limits)
{
	struct receiver *receiver = calloc(1, sizeof(*receiver));

	if (!receiver)
		return NULL;
	receiver->agents = seen_agents_new();
	receiver->boosts = boost_table_new(store, metrics, NULL);
	if (!receiver->agents || !receiver->boosts) {
		seen_agents_free(receiver->agents);
		boost_table_free(receiver->boosts);
		free(receiver);
		return NULL;
	}
	receiver->store = store;
	receiver->metrics = metrics;
	receiver->limits = limits;
	pthread_mutex_init(&receiver->lock, NULL);
	return receiver;
}

void receiver_free(struct receiver *receiver)
{
	if (!receiver)
		return;

	pthread_mutex_destroy(&receiver->lock);
	boost_table_free(receiver->boosts);
	seen_agents_free(receiver->agents);
	free(receiver);
}

struct boost_table *receiver_boosts(struct receiver *receiver)
{
	return receiver->boosts;
}

struct seen_agents *receiver_agents(struct receiver *receiver)
{
	return receiver->agents;
}

/** A failing store fails for each agent: log it once a minute. */
static void log_failure(struct receiver *receiver, const struct error *err)
{
	uint64_t now_ns = clock_monotonic_ns();

	pthread_mutex_lock(&receiver->lock);
	bool due = !receiver->logged_ns ||
		   ns_between(receiver->logged_ns, now_ns) > 60 * NS_PER_SECOND;
	if (due)
		receiver->logged_ns = now_ns;
	pthread_mutex_unlock(&receiver->lock);
	if (due)
		log_error("receiver: cannot store batches: %s; agents keep theirs and retry",
			  err->text);
}

static enum rpc_status fail_decode(struct receiver *receiver, int rc)
{
	bool newer = rc == -EPROTONOSUPPORT;

	metrics_add(receiver->metrics, newer ? METRIC_INGEST_UNSUPPORTED : METRIC_INGEST_MALFORMED,
		    1);
	return newer           ? RPC_FAILED_PRECONDITION
	       : rc == -ENOMEM ? RPC_RESOURCE_EXHAUSTED
			       : RPC_INVALID_ARGUMENT;
}

static enum rpc_status fail_identity(struct receiver *receiver, int rc)
{
	metrics_add(receiver->metrics,
		    rc == -ENOMEM ? METRIC_INGEST_ERRORS : METRIC_INGEST_MALFORMED, 1);
	return rc == -ENOMEM ? RPC_RESOURCE_EXHAUSTED : RPC_INVALID_ARGUMENT;
}

static enum rpc_status fail_append(struct receiver *receiver, int rc, struct error *err)
{
	switch (rc) {
	case -EINVAL:
		metrics_add(receiver->metrics, METRIC_INGEST_MALFORMED, 1);
		return RPC_INVALID_ARGUMENT;
	case -ENOMEM:
	case -ENOSPC:
		metrics_add(receiver->metrics, METRIC_INGEST_ERRORS, 1);
		log_failure(receiver, err);
		return RPC_RESOURCE_EXHAUSTED;
	default:
		metrics_add(receiver->metrics, METRIC_INGEST_ERRORS, 1);
		log_failure(receiver, err);
		return RPC_UNAVAILABLE;
	}
}

static const char *label_of(const struct profile *profile, const char *name)
{
	const char *value = NULL;

	for (uint32_t i = 0; i < profile->series_count && !value; i++)
		value = labels_get(&profile->series[i].labels, name);
	return value ? value : "";
}

/** The agent is recognised by labels that its credential gives its series, where it has one. */
static void add_boosts(struct receiver *receiver, const struct profile *profile,
		       const struct boost_report *report, struct export_response *response)
{
	response->boost_count =
		boost_table_exchange(receiver->boosts, label_of(profile, LABEL_TENANT),
				     label_of(profile, LABEL_NODE), report, response->boosts);
}

/** A batch that was decoded, and what became of it. */
struct received {
	struct tenant *tenant;
	struct profile *profile;
	struct boost_report report;
	struct batch_limited limited;
	struct store_append_result result;
};

static void count(struct receiver *receiver, struct received *received,
		  struct export_response *response)
{
	const struct store_append_result *result = &received->result;

	if (result->duplicate) {
		metrics_add(receiver->metrics, METRIC_INGEST_DUPLICATES, 1);
		return;
	}
	if (result->unknown_stack_count)
		return;
	metrics_add(receiver->metrics, METRIC_INGEST_BATCHES, 1);
	metrics_add(receiver->metrics, METRIC_INGEST_ROWS, received->profile->sample_count);
	received->limited.count[LIMIT_SERIES] = result->rows_tenant;
	batch_limits_note(received->tenant, &received->limited, response->limited,
			  sizeof(response->limited));
}

static enum rpc_status respond(struct receiver *receiver, struct received *received,
			       struct buffer *buffer, struct error *err)
{
	struct store_append_result *result = &received->result;

	batch_limits_restore_ids(&received->limited, result->unknown_stacks,
				 result->unknown_stack_count);
	_cleanup_(export_response_deinit) struct export_response response = {
		.unknown_stacks = take(result->unknown_stacks),
		.unknown_stack_count = result->unknown_stack_count,
		.duplicate = result->duplicate,
		.refused = { .late = result->rows_late,
			     .future = result->rows_future,
			     .series = result->rows_series,
			     .other = result->rows_other,
			     .from_ns = result->accepted.from_ns,
			     .to_ns = result->accepted.to_ns },
	};

	count(receiver, received, &response);
	add_boosts(receiver, received->profile, &received->report, &response);
	metrics_add(receiver->metrics, METRIC_INGEST_UNKNOWN_STACKS, response.unknown_stack_count);
	return export_response_encode(&response, buffer, err) ? RPC_INTERNAL : RPC_OK;
}

/** No agent sends one: `cairn doctor` asks whether batches are taken. It is not counted. */
static enum rpc_status answer_empty(const struct identity *caller, struct error *err)
{
	bool is_local = strcmp(caller->tenant, ACCESS_ALL_TENANTS) == 0;

	error_set(err, -EBADMSG, "%s", is_local ? EXPORT_EMPTY_NO_LOGIN : EXPORT_EMPTY);
	return RPC_INVALID_ARGUMENT;
}

static enum rpc_status fail_rate(struct tenant *tenant, const struct rpc_request *request)
{
	if (request->ret_pause_ms)
		*request->ret_pause_ms = tenant_ingest_pause_ms(tenant, clock_monotonic_ns());
	return RPC_RESOURCE_EXHAUSTED;
}

static void received_deinit(struct received *received)
{
	profile_free(received->profile);
}

enum rpc_status receiver_export(void *context, const struct rpc_request *request,
				struct buffer *response, struct error *err)
{
	struct receiver *receiver = context;
	_cleanup_(received_deinit) struct received received = { 0 };
	struct batch_id batch;

	const struct identity local = access_local();
	const struct identity *caller = request->caller ? request->caller : &local;

	if (!request->size)
		return answer_empty(caller, err);
	metrics_add(receiver->metrics, METRIC_INGEST_BYTES, request->size);
	received.tenant = tenant_limits_find(receiver->limits, ingest_tenant(caller));
	if (tenant_take_ingest(received.tenant, request->size, clock_monotonic_ns(), err))
		return fail_rate(received.tenant, request);
	int rc = export_request_decode(request->bytes, request->size, &batch, &received.profile,
				       &received.report, err);
	if (rc)
		return fail_decode(receiver, rc);

	struct store_batch_id id = { .agent = batch.agent,
				     .boot = batch.boot,
				     .sequence = batch.sequence };
	rc = batch_limits_apply(received.tenant, received.profile, &id, &received.limited, err);
	if (!rc)
		rc = ingest_identity_apply(caller, request->peer, received.profile, &id, err);
	if (rc)
		return fail_identity(receiver, rc);
	seen_agents_note(receiver->agents, &batch, received.profile, clock_realtime_ns());
	rc = store_append(receiver->store, &id, received.profile, &received.result, err);
	if (rc)
		return fail_append(receiver, rc, err);
	return respond(receiver, &received, response, err);
}
