// SPDX-License-Identifier: Apache-2.0
// Answers with the collector's state: status, metrics, probes.
#include "collector/http/http_handlers.h"

#include "base/clock.h"
#include "base/version.h"
#include "collector/http/json_text.h"

#define AGENT_SEEN_NS (60 * NS_PER_SECOND)

static uint32_t agents_now(struct http_api *api, uint64_t now_ns)
{
	return receiver_agents_since(api->receiver, ns_before(now_ns, AGENT_SEEN_NS));
}

static void append_figure(struct buffer *body, const char *name, uint64_t value)
{
	buffer_printf(body, ",\"%s\":", name);
	json_append_uint(body, value);
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
	append_figure(body, "damaged_partitions", damage.partitions);
	append_figure(body, "damaged_first_ns", damage.first_ns);
	append_figure(body, "deletions", stats.tombstones);
	append_figure(body, "now_ns", request->now_ns);
	if (api->access && access_needs_login(api->access)) {
		buffer_append_string(body, ",\"who\":");
		json_append_string(body, request->http->identity.key);
	}
	buffer_append_string(body, "}\n");
}

void http_handle_metrics(struct http_api *api, const struct api_request *request,
			 struct http_response *response)
{
	struct store_stats stats = { 0 };

	store_read_stats(api->store, &stats);
	response->media_type = "text/plain; version=0.0.4; charset=utf-8";
	metrics_encode(api->metrics, &stats, agents_now(api, request->now_ns), &response->body);
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
