// SPDX-License-Identifier: Apache-2.0
// Answers with the collector's state: status, metrics, probes.
#include "collector/http/http_handlers.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/version.h"
#include "base/json_text.h"
#include "collector/ingest/seen_agents.h"

#define AGENT_SEEN_NS (60 * NS_PER_SECOND)

static uint32_t agents_now(struct http_api *api, uint64_t now_ns)
{
	return seen_agents_count(receiver_agents(api->receiver), ns_before(now_ns, AGENT_SEEN_NS));
}

static void append_figure(struct buffer *body, const char *name, uint64_t value)
{
	buffer_printf(body, ",\"%s\":", name);
	json_append_uint(body, value);
}

static void append_text(struct buffer *body, const char *name, const char *value)
{
	buffer_printf(body, ",\"%s\":", name);
	json_append_string(body, value);
}

/** Whose refusals and metrics who asks may see. */
static const char *reader_of(const struct api_request *request)
{
	return request->http ? request->http->identity.tenant : ACCESS_ALL_TENANTS;
}

static void append_refusal(struct buffer *body, const struct tenant_limits *limits,
			   const struct tenant_refusal *refusal)
{
	char value[TENANT_LIMIT_TEXT_BYTES] = "", place[64] = "";

	if (refusal->value)
		tenant_limit_text(refusal->limit, refusal->value, value);
	if (refusal->line)
		snprintf(place, sizeof(place), "%.40s:%u", tenant_limits_file(limits),
			 refusal->line);
	buffer_append_string(body, "{\"tenant\":");
	json_append_string(body, refusal->tenant);
	append_text(body, "limit", tenant_limit_spec(refusal->limit)->name);
	append_text(body, "value", value);
	append_text(body, "set_in", place);
	append_figure(body, "refused", refusal->count);
	append_figure(body, "last_ns", refusal->last_ns);
	buffer_append_byte(body, '}');
}

static void append_refusals(struct buffer *body, struct tenant_limits *limits, const char *reader)
{
	_cleanup_free_ struct tenant_refusal *refusals = NULL;
	uint32_t count = 0;

	buffer_append_string(body, ",\"limits\":[");
	if (!tenant_limits_list(limits, reader, &refusals, &count))
		for (uint32_t i = 0; i < count; i++) {
			if (i)
				buffer_append_byte(body, ',');
			append_refusal(body, limits, &refusals[i]);
		}
	buffer_append_byte(body, ']');
}

void http_handle_status(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	const struct time_range all = { 0, UINT64_MAX };
	struct store_stats stats = { 0 };
	struct store_damage damage;
	struct buffer *body = &response->body;

	store_read_stats(api->store, &stats);
	store_read_damage(api->store, all, &damage);
	buffer_append_string(body, "{\"version\":");
	json_append_string(body, CAIRN_VERSION);
	append_figure(body, "agents", agents_now(api, request->now_ns));
	append_figure(body, "series", stats.series);
	append_figure(body, "oldest_ns", stats.oldest_ns);
	append_figure(body, "newest_ns", stats.newest_ns);
	append_figure(body, "stored_bytes", stats.stored_bytes);
	append_figure(body, "disk_free_bytes", stats.disk_free_bytes);
	append_figure(body, "batches_refused", stats.batches_refused);
	append_figure(body, "damaged_partitions", damage.partitions);
	append_figure(body, "damaged_first_ns", damage.first_ns);
	append_figure(body, "deletions", stats.tombstones);
	append_figure(body, "now_ns", request->now_ns);
	append_refusals(body, api->limits, reader_of(request));
	if (api->access && access_needs_login(api->access)) {
		buffer_append_string(body, ",\"who\":");
		json_append_string(body, request->http->identity.key);
	}
	buffer_append_string(body, "}\n");
}

static void append_agent(struct buffer *body, const struct seen_agent *agent, uint64_t now_ns)
{
	buffer_printf(body, "{\"agent\":\"%016llx%016llx\"",
		      (unsigned long long)agent->machine.high,
		      (unsigned long long)agent->machine.low);
	append_text(body, "node", agent->node);
	append_text(body, "tenant", agent->tenant);
	append_text(body, "version", agent->version);
	append_text(body, "state",
		    ns_between(agent->seen_ns, now_ns) < AGENT_SEEN_NS ? "sending" : "silent");
	append_figure(body, "first_ns", agent->first_ns);
	append_figure(body, "last_ns", agent->seen_ns);
	append_figure(body, "batches", agent->batches);
	append_figure(body, "samples", agent->samples);
	buffer_append_byte(body, '}');
}

void http_handle_agents(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	_cleanup_free_ struct seen_agent *agents = NULL;
	struct buffer *body = &response->body;
	uint32_t count = 0;

	if (seen_agents_list(receiver_agents(api->receiver), request->http->identity.tenant,
			     &agents, &count)) {
		http_respond_busy(response);
		return;
	}
	buffer_append_string(body, "{\"agents\":[");
	for (uint32_t i = 0; i < count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_agent(body, &agents[i], request->now_ns);
	}
	buffer_append_byte(body, ']');
	append_figure(body, "now_ns", request->now_ns);
	buffer_append_string(body, "}\n");
}

void http_handle_metrics(struct http_api *api, const struct api_request *request,
			 struct http_response *response)
{
	struct store_stats stats = { 0 };

	store_read_stats(api->store, &stats);
	response->media_type = "text/plain; version=0.0.4; charset=utf-8";
	metrics_encode(api->metrics, &stats, agents_now(api, request->now_ns), &response->body);
	tenant_limits_encode(api->limits, reader_of(request), &response->body);
}

/** Of all tenants: for who may see all of them, and whoever reaches --admin. */
void http_handle_profile_metrics(struct http_api *api, const struct api_request *request,
				 struct http_response *response)
{
	if (strcmp(reader_of(request), ACCESS_ALL_TENANTS) != 0) {
		http_respond_error(response, 403, "forbidden", "",
				   "these are metrics of all tenants: use a credential for all of "
				   "them, or the address of --admin");
		return;
	}
	response->media_type = "text/plain; version=0.0.4; charset=utf-8";
	profile_metrics_encode(api->profile_metrics, request->now_ns, &response->body);
}

void http_handle_healthz(struct http_api *api, const struct api_request *request,
			 struct http_response *response)
{
	(void)api, (void)request;
	response->media_type = "text/plain; charset=utf-8";
	buffer_append_string(&response->body, "ok\n");
}

void http_handle_readyz(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	char text[READINESS_TEXT_BYTES] = "starting or shutting down";
	struct store_health health = { .takes_batches = true };
	bool is_ready = atomic_load(&api->ready) &&
			(!api->readiness || readiness_read(api->readiness, text));

	(void)request;
	store_read_health(api->store, &health);
	response->media_type = "text/plain; charset=utf-8";
	response->status = is_ready && health.takes_batches ? 200 : 503;
	if (!is_ready)
		buffer_printf(&response->body, "not ready: %s\n", text);
	else if (!health.takes_batches)
		buffer_printf(&response->body,
			      "not ready: batches are refused, queries go on: %s\n", health.text);
	else
		buffer_append_string(&response->body, "ready\n");
	if (*health.clock)
		buffer_printf(&response->body, "retention stopped: the clock is in doubt: %s\n",
			      health.clock);
}
