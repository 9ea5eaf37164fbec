// SPDX-License-Identifier: Apache-2.0
// Tells agents to sample more, or to stop, for a while; shows which boosts are active, and ends them.
#include "collector/http/http_handlers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "collector/boost/boost_table.h"
#include "base/json_text.h"

enum { RETRY_FULL_S = 30 };

// ---- answers --------------------------------------------------------------------------------

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

static void append_flag(struct buffer *body, const char *name, bool value)
{
	buffer_printf(body, ",\"%s\":%s", name, value ? "true" : "false");
}

static void append_profiles(struct buffer *body, uint32_t profiles)
{
	char text[BOOST_PROFILES_BYTES];

	append_text(body, "profiles", boost_profiles_text(profiles, text));
}

static const char *state_token(const struct boost *boost, const struct boost_node *node)
{
	const struct boost_state *state = &node->state;

	if (!node->has_reported)
		return "waiting";
	if (!state->hz_max)
		return "refused";
	if (state->hz < boost->hz || (boost->profiles & ~state->profiles) ||
	    boost->stop != state->stopped)
		return "limited";
	return "applied";
}

static void append_node(struct buffer *body, const struct boost *boost,
			const struct boost_node *node)
{
	buffer_append_string(body, "{\"node\":");
	json_append_string(body, node->name);
	append_text(body, "state", state_token(boost, node));
	append_figure(body, "hz", node->state.hz);
	append_figure(body, "hz_max", node->state.hz_max);
	append_profiles(body, node->state.profiles);
	append_flag(body, "stopped", node->state.stopped);
	buffer_append_byte(body, '}');
}

static void append_boost(struct buffer *body, const struct boost_view *view)
{
	const struct boost *boost = &view->boost;
	char id[BOOST_ID_BYTES];

	buffer_printf(body, "{\"id\":\"%s\"", boost_id_text(boost->id, id));
	append_text(body, "query", view->query);
	append_text(body, "tenant", view->tenant);
	append_text(body, "who", view->who);
	append_figure(body, "hz", boost->hz);
	append_profiles(body, boost->profiles);
	append_flag(body, "stop", boost->stop);
	append_figure(body, "left_ms", boost->left_ms);
	buffer_append_string(body, ",\"nodes\":[");
	for (uint32_t i = 0; i < view->nodes.count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_node(body, boost, &view->nodes.nodes[i]);
	}
	buffer_append_string(body, "]}");
}

void http_handle_boosts(struct http_api *api, const struct api_request *request,
			struct http_response *response)
{
	struct boost_table *boosts = receiver_boosts(api->receiver);
	_cleanup_free_ struct boost_view *views = NULL;
	struct buffer *body = &response->body;
	uint32_t count = 0;

	if (boost_table_list(boosts, request->http->identity.tenant, &views, &count)) {
		http_respond_busy(response);
		return;
	}
	buffer_append_string(body, "{\"boosts\":[");
	for (uint32_t i = 0; i < count; i++) {
		if (i)
			buffer_append_byte(body, ',');
		append_boost(body, &views[i]);
		boost_view_deinit(&views[i]);
	}
	buffer_append_string(body, "]}\n");
}

// ---- acts -----------------------------------------------------------------------------------

/** Of a credential for all tenants, the one that its selector names. */
static const char *tenant_of(const struct api_request *request)
{
	const struct selector *selector = &request->selector;

	if (!selector->all_tenants)
		return request->http->identity.tenant;
	for (uint32_t i = 0; i < selector->count; i++)
		if (selector->matchers[i].op == MATCH_EQUAL &&
		    strcmp(selector->matchers[i].name, LABEL_TENANT) == 0)
			return selector->matchers[i].value;
	return ACCESS_NO_TENANT;
}

static void refuse(struct http_response *response, const struct error *err)
{
	if (err->code != -EAGAIN) {
		http_respond_failure(response, err, "query");
		return;
	}
	http_respond_error(response, 503, "overloaded", "", err->text);
	response->retry_after_s = RETRY_FULL_S;
}

void http_handle_boost(struct http_api *api, const struct api_request *request,
		       struct http_response *response)
{
	const struct boost_request boost = {
		.query = http_parameter(request->http, "query"),
		.reader = request->selector.all_tenants ? SELECTOR_ALL_TENANTS
							: request->http->identity.tenant,
		.tenant = tenant_of(request),
		.who = request->http->identity.key,
		.boost = request->boost,
		.deadline = request->http->deadline,
	};
	struct boost_view view;
	struct error err = { 0 };
	char id[BOOST_ID_BYTES];
	int rc = http_check_selector(api, request, "boost", &err);

	if (!rc)
		rc = boost_table_add(receiver_boosts(api->receiver), &boost, &view, &err);
	if (rc) {
		err.code = rc;
		refuse(response, &err);
		return;
	}
	append_boost(&response->body, &view);
	buffer_append_byte(&response->body, '\n');
	snprintf(response->audited, sizeof(response->audited), ",\"boost\":\"%s\",\"nodes\":%u",
		 boost_id_text(view.boost.id, id), view.nodes.count);
	boost_view_deinit(&view);
}

void http_handle_boost_end(struct http_api *api, const struct api_request *request,
			   struct http_response *response)
{
	struct boost_table *boosts = receiver_boosts(api->receiver);
	const char *tenant = request->http->identity.tenant;
	uint32_t id;

	if (boost_id_parse(request->label, &id) || boost_table_end(boosts, id, tenant)) {
		http_respond_error(response, 404, "not_found", "",
				   "no boost of this id is active; GET /api/v1/boosts lists them");
		return;
	}
	buffer_printf(&response->body, "{\"id\":\"%s\"}\n", request->label);
}
