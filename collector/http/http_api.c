// SPDX-License-Identifier: Apache-2.0
// The routes: paths, their parameters and handlers.
#include "collector/http/http_api.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory_account.h"
#include "collector/http/http_handlers.h"
#include "collector/pyroscope/querier.h"

/** Who may use a route: everybody, everybody with a credential, or a role. */
enum route_access {
	ROUTE_OPEN = 0,
	ROUTE_LOGIN = 1 << 30,
	ROUTE_READ = ACCESS_READ,
	ROUTE_UPLOAD = ACCESS_UPLOAD,
	ROUTE_INGEST = ACCESS_INGEST,
	ROUTE_ADMIN = ACCESS_ADMIN,
};

struct route {
	const char *path; // "{name}": a label's name, a build id, or a boost's
	unsigned int known;
	api_handler_fn handle;
	bool slow; // reads the store: runs on a worker
	enum route_access access;
	enum http_method method;
};

_Static_assert(TENANT_RANGE_NS_MAX == QUERY_RANGE_NS_MAX, "the longest range of a query");

static const struct route routes[] = {
	{ "/api/v1/types", API_SELECTION, http_handle_types, true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/labels", API_SELECTION, http_handle_labels, true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/labels/{name}/values", API_SELECTION, http_handle_label_values, true, ROUTE_READ,
	  HTTP_GET },
	{ "/api/v1/merge",
	  API_SELECTION | API_RANGES | API_TYPE | API_MAX_NODES | API_GROUP_BY | API_FORMAT |
		  API_LINES,
	  http_handle_merge, true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/callers",
	  API_SELECTION | API_RANGES | API_TYPE | API_MAX_NODES | API_LINES | API_FUNCTION,
	  http_handle_callers, true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/lines", API_SELECTION | API_RANGES | API_TYPE | API_FUNCTION | API_CONTEXT,
	  http_handle_lines, true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/top",
	  API_SELECTION | API_RANGES | API_TYPE | API_LIMIT | API_GROUP_BY | API_LINES,
	  http_handle_top, true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/diff",
	  API_SELECTION | API_RANGES | API_TYPE | API_MAX_NODES | API_FORMAT | API_LIMIT | API_DIFF,
	  http_handle_diff, true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/services", API_SELECTION | API_TYPE | API_LIMIT, http_handle_services, true,
	  ROUTE_READ, HTTP_GET },
	{ "/api/v1/series", API_SELECTION | API_TYPE | API_STEP | API_GROUP_BY, http_handle_series,
	  true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/series", API_DELETION, http_handle_series_deletion, true, ROUTE_ADMIN,
	  HTTP_DELETE },
	{ "/api/v1/heatmap", API_SELECTION | API_TYPE | API_SLOT | API_PEAK, http_handle_heatmap,
	  true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/timeline", API_SELECTION | API_SLOT | API_LIMIT, http_handle_timeline, true,
	  ROUTE_READ, HTTP_GET },
	{ "/api/v1/diagnose", API_SELECTION, http_handle_diagnose, true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/spikes", API_SELECTION | API_TYPE | API_LIMIT | API_MIN, http_handle_spikes,
	  true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/symbols/missing", API_SELECTION | API_TYPE | API_LIMIT,
	  http_handle_missing_symbols, true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/debug-files", 0, http_handle_debug_files, true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/sources", 0, http_handle_source_list, true, ROUTE_READ, HTTP_GET },
	{ "/api/v1/status", 0, http_handle_status, false, ROUTE_READ, HTTP_GET },
	{ "/api/v1/agents", 0, http_handle_agents, false, ROUTE_READ, HTTP_GET },
	{ "/api/v1/boosts", 0, http_handle_boosts, false, ROUTE_READ, HTTP_GET },
	{ "/api/v1/boosts", API_BOOST, http_handle_boost, true, ROUTE_ADMIN, HTTP_POST },
	{ "/api/v1/boosts/{name}", 0, http_handle_boost_end, false, ROUTE_ADMIN, HTTP_DELETE },
	{ "/api/v1/push", API_PUSH, http_handle_push, true, ROUTE_INGEST, HTTP_POST },
	{ "/api/v1/batches", API_PUSH, http_handle_batches, true, ROUTE_INGEST, HTTP_POST },
	{ "/ingest", API_PUSH, http_handle_ingest, true, ROUTE_INGEST, HTTP_POST },
	{ "/pyroscope/ingest", API_PUSH, http_handle_ingest, true, ROUTE_INGEST, HTTP_POST },
	{ "/push.v1.PusherService/Push", API_PUSH, http_handle_pusher, true, ROUTE_INGEST,
	  HTTP_POST },
	{ "/v1development/profiles", API_PUSH, http_handle_otlp, true, ROUTE_INGEST, HTTP_POST },
	{ "/" QUERIER_SERVICE "/{name}", API_PYROSCOPE, http_handle_querier, true, ROUTE_READ,
	  HTTP_POST },
	{ "/pyroscope/render", API_PYROSCOPE, http_handle_render, true, ROUTE_READ, HTTP_GET },
	{ "/pyroscope/render-diff", API_PYROSCOPE, http_handle_render_diff, true, ROUTE_READ,
	  HTTP_GET },
	{ "/api/v1/whoami", 0, http_handle_whoami, false, ROUTE_LOGIN, HTTP_GET },
	{ "/api/v1/login", 0, http_handle_login, false, ROUTE_LOGIN, HTTP_POST },
	{ "/api/v1/logout", 0, http_handle_logout, false, ROUTE_OPEN, HTTP_POST },
	{ "/metrics", 0, http_handle_metrics, false, ROUTE_READ, HTTP_GET },
	{ "/metrics/profiles", 0, http_handle_profile_metrics, false, ROUTE_READ, HTTP_GET },
	{ "/healthz", 0, http_handle_healthz, false, ROUTE_OPEN, HTTP_GET },
	{ "/readyz", 0, http_handle_readyz, false, ROUTE_OPEN, HTTP_GET },
};

#define NAME_PLACE "{name}"

/** Does @path match a route's? If so, {name} is copied to @label. */
static bool route_matches(const char *route, const char *path, char label[LABEL_NAME_BYTES_MAX + 1])
{
	const char *place = strstr(route, NAME_PLACE);

	if (!place)
		return strcmp(path, route) == 0;

	size_t before = (size_t)(place - route);
	if (strncmp(path, route, before) != 0)
		return false;
	size_t size = strcspn(path + before, "/");
	if (size == 0 || size > LABEL_NAME_BYTES_MAX ||
	    strcmp(path + before + size, place + strlen(NAME_PLACE)) != 0)
		return false;

	memcpy(label, path + before, size);
	label[size] = '\0';
	return true;
}

/** The route of the request's path: that of its method, if there is one. */
static const struct route *find_route(const struct http_request *request,
				      char label[LABEL_NAME_BYTES_MAX + 1])
{
	const struct route *of_path = NULL;

	for (size_t i = 0; i < ARRAY_SIZE(routes); i++) {
		if (!route_matches(routes[i].path, request->path, label))
			continue;
		if (routes[i].method == request->method)
			return &routes[i];
		of_path = of_path ? of_path : &routes[i];
	}
	return of_path;
}

bool http_api_is_slow(void *context, const struct http_request *request)
{
	char label[LABEL_NAME_BYTES_MAX + 1];
	const struct route *route = find_route(request, label);

	(void)context;
	return request->method == HTTP_PUT || (route && route->slow);
}

size_t http_api_body_max(void *context, const struct http_request *request)
{
	char label[LABEL_NAME_BYTES_MAX + 1];
	const struct route *route = find_route(request, label);

	(void)context;
	if (!route || request->method != HTTP_POST || route->method != HTTP_POST)
		return 0;
	return route->known & API_PUSH        ? DOOR_BYTES_MAX
	       : route->known & API_PYROSCOPE ? QUERIER_BODY_BYTES_MAX
					      : 0;
}

/** Files that are uploaded by PUT to the path of their id, and deleted there. They cannot be downloaded. */
static const struct upload_route {
	const char *path;
	int (*begin)(struct http_api *api, struct http_request *upload, const char *id,
		     struct http_response *response);
	void (*end)(struct http_api *api, struct http_request *upload);
	void (*keep)(struct http_api *api, const struct api_request *request,
		     const struct http_request *upload, struct http_response *response);
	void (*remove)(struct http_api *api, const struct api_request *request,
		       const struct http_request *deletion, struct http_response *response);
	const char *refusal; // of other methods
} upload_routes[] = {
	{ "/api/v1/debug-files/{name}", http_begin_debug_file, http_end_debug_file,
	  http_handle_debug_file, http_handle_debug_file_deletion,
	  "only PUT and DELETE are allowed at this path; GET /api/v1/debug-files lists the files" },
	{ "/api/v1/sources/{name}", http_begin_sources, http_end_sources, http_handle_sources,
	  http_handle_sources_deletion,
	  "only PUT and DELETE are allowed at this path; GET /api/v1/sources lists the archives" },
};

/** The upload of @path, whose {name} is copied to @id; NULL: none. */
static const struct upload_route *find_upload(const char *path, char id[LABEL_NAME_BYTES_MAX + 1])
{
	for (size_t i = 0; i < ARRAY_SIZE(upload_routes); i++)
		if (route_matches(upload_routes[i].path, path, id))
			return &upload_routes[i];
	return NULL;
}

static void respond_unknown_path(struct http_response *response)
{
	response->endpoint = "unknown";
	http_respond_error(response, 404, "not_found", "",
			   "no such path; GET /api/v1/openapi.yaml describes the API");
}

/** The page's files and unknown paths are open: they hold no data. */
static enum route_access access_of(const struct http_request *request)
{
	char label[LABEL_NAME_BYTES_MAX + 1];
	const struct route *route = find_route(request, label);

	if (find_upload(request->path, label) && request->method == HTTP_DELETE)
		return ROUTE_ADMIN;
	if (request->method == HTTP_PUT || find_upload(request->path, label))
		return ROUTE_UPLOAD;
	return route ? route->access : ROUTE_OPEN;
}

static void refuse_access(struct http_api *api, const struct http_request *request,
			  struct http_response *response, const struct error *err)
{
	bool unknown = err->code == -EACCES;

	metrics_add(api->metrics, METRIC_ACCESS_REFUSED, 1);
	response->media_type = "application/json";
	response->endpoint = "refused";
	http_respond_error(response, unknown ? 401 : 403,
			   unknown ? "unauthenticated" : "permission_denied", "", err->text);
	log_debug("http: refused %s from %s: %s", request->path, request->credentials.address,
		  err->text);
}

static bool admit_identity(struct http_api *api, struct http_request *request,
			   struct http_response *response)
{
	enum route_access access = access_of(request);
	struct error err = { 0 };

	if (!api->access || access == ROUTE_OPEN) {
		request->identity = access_local();
		return true;
	}
	int rc = access_identify(api->access, &request->credentials, &request->identity, &err);
	if (!rc && access != ROUTE_LOGIN)
		rc = access_check(&request->identity, (enum access_role)access, &err);
	if (rc)
		refuse_access(api, request, response, &err);
	return !rc;
}

bool http_api_admit(void *context, struct http_request *request, struct http_response *response)
{
	char label[LABEL_NAME_BYTES_MAX + 1];
	const struct route *route = find_route(request, label);

	if (!admit_identity(context, request, response))
		return false;
	if (!route || route->method != request->method || !(route->known & API_PUSH))
		return true;
	if (http_admit_push(context, request, response))
		return true;
	response->endpoint = route->path;
	return false;
}

static void handle_upload(struct http_api *api, const struct upload_route *route,
			  const struct http_request *request, const struct api_request *parsed,
			  struct http_response *response)
{
	response->endpoint = route->path;
	response->media_type = "application/json";
	if (request->method == HTTP_PUT) {
		route->keep(api, parsed, request, response);
	} else if (request->method == HTTP_DELETE) {
		route->remove(api, parsed, request, response);
	} else {
		http_respond_error(response, 405, "method_not_allowed", "", route->refusal);
		response->allow = "PUT, DELETE";
	}
}

int http_api_begin_upload(void *context, struct http_request *request,
			  struct http_response *response)
{
	char id[LABEL_NAME_BYTES_MAX + 1];
	struct http_api *api = context;
	const struct upload_route *route = find_upload(request->path, id);

	response->endpoint = route ? route->path : "unknown";
	response->media_type = "application/json";
	if (!route || !api->symbols) {
		http_respond_error(response, 405, "method_not_allowed", "",
				   "only GET and HEAD are allowed at this path");
		return -1;
	}
	if (!atomic_load(&api->ready)) {
		http_respond_error(response, 503, "unavailable", "",
				   "the collector is starting or shutting down");
		response->retry_after_s = 1;
		return -1;
	}
	return route->begin(api, request, id, response);
}

void http_api_end_upload(void *context, struct http_request *request)
{
	char id[LABEL_NAME_BYTES_MAX + 1];
	const struct upload_route *route = find_upload(request->path, id);

	if (route)
		route->end(context, request);
}

/** Say what damage has left out of an answer, and how long the slots of what it is about are. */
static void note_quality(struct http_api *api, const struct api_request *request,
			 struct http_response *response)
{
	struct store_damage damage;

	store_read_damage(api->store, request->range, &damage);
	if (damage.partitions)
		snprintf(response->incomplete, sizeof(response->incomplete),
			 "damaged; partitions=%u; first_ns=%llu", damage.partitions,
			 (unsigned long long)damage.first_ns);
	response->resolution_ns = store_resolution(api->store, request->range);
}

/** What a path allows, if not GET and HEAD, is one method. */
static void refuse_method(const struct route *route, struct http_response *response)
{
	bool is_post = route->method == HTTP_POST, is_delete = route->method == HTTP_DELETE;

	http_respond_error(response, 405, "method_not_allowed", "",
			   is_post     ? "only POST is allowed at this path"
			   : is_delete ? "only DELETE is allowed at this path"
				       : "only GET and HEAD are allowed at this path");
	response->allow = is_post ? "POST" : is_delete ? "DELETE" : NULL;
}

/** Was the body refused memory that it would not have alone, either? It doubles, and has the bytes before while it moves. */
static bool is_beyond_budget(const struct buffer *body, const struct memory_account *account)
{
	return body->rc == -EDQUOT && body->budget &&
	       3 * body->capacity + account->bytes_used_max > body->budget->bytes_max;
}

/** What a query needs of memory is taken from its answer's budget; what a push needs, from the messages'. */
static void answer(struct http_api *api, const struct route *route,
		   const struct api_request *request, struct http_response *response)
{
	bool is_query = route->slow && !(route->known & API_PUSH);
	struct tenant *tenant = is_query ? api_limited(api, request->http) : NULL;
	struct memory_account account;
	struct error err = { 0 };
	size_t share_max = 0;
	struct byte_budget *share = tenant_query_memory(tenant, &share_max);

	memory_account_begin(&account, is_query ? response->body.budget : NULL);
	memory_account_share(&account, share, share_max);
	route->handle(api, request, response);
	if (is_query && is_beyond_budget(&response->body, &account))
		response->body.rc = -EFBIG; // to try again is in vain
	memory_account_end(&account);
	// What was refused may have been left out of an answer that looks whole.
	if (!memory_account_check(&account, &err))
		return;
	if (account.is_part_full)
		tenant_refuse_memory(tenant, account.is_part_small, &err);
	response->disposition = NULL;
	if (route->known & API_PYROSCOPE)
		http_pyroscope_respond_failure(response, &err);
	else
		http_respond_no_memory(response, &err);
}

/** Of a query: deletions may be of all time. */
static int check_ranges(struct http_api *api, const struct route *route,
			const struct api_request *request, const char **ret_field,
			struct error *err)
{
	const struct time_range *range = &request->range, *other = &request->diff.range;
	int rc = 0;

	if (!(route->known & API_FROM) || route->known & API_DRY_RUN)
		return 0;
	struct tenant *tenant = api_limited(api, request->http);
	*ret_field = "from";
	rc = tenant_check_range(tenant, range->to_ns - range->from_ns, err);
	if (rc || !(route->known & API_DIFF))
		return rc;
	*ret_field = "against_from";
	return tenant_check_range(tenant, other->to_ns - other->from_ns, err);
}

void http_api_handle(void *context, const struct http_request *request,
		     struct http_response *response)
{
	struct http_api *api = context;
	_cleanup_(api_request_deinit) struct api_request parsed = { 0 };
	struct error err = { 0 };
	const char *field = "";
	char label[LABEL_NAME_BYTES_MAX + 1] = "";

	const struct upload_route *upload = find_upload(request->path, parsed.label);
	if (upload) {
		handle_upload(api, upload, request, &parsed, response);
		return;
	}
	const struct route *route = find_route(request, label);
	if (!route) {
		if (request->method != HTTP_GET)
			http_respond_error(response, 405, "method_not_allowed", "",
					   "only GET and HEAD are allowed at this path");
		else if (!http_handle_asset(request, response))
			respond_unknown_path(response);
		return;
	}
	response->endpoint = route->path;
	response->media_type = "application/json";
	if (request->method != route->method) {
		refuse_method(route, response);
		return;
	}
	parsed.http = request;
	if (!(route->known & (API_PUSH | API_PYROSCOPE)) &&
	    (api_request_parse(request, route->known, &parsed, &field, &err) ||
	     check_ranges(api, route, &parsed, &field, &err))) {
		http_respond_failure(response, &err, field);
		return;
	}
	if (route->slow && !atomic_load(&api->ready)) {
		http_respond_error(response, 503, "unavailable", "",
				   "the collector is starting or shutting down");
		response->retry_after_s = 1;
		return;
	}
	memcpy(parsed.label, label, sizeof(label));
	answer(api, route, &parsed, response);
	if (route->known & API_FROM)
		note_quality(api, &parsed, response);
}

void http_api_done(void *context, const struct http_request *request,
		   const struct http_response *response, uint64_t duration_ns, uint64_t bytes)
{
	struct http_api *api = context;
	const char *endpoint = response->endpoint ? response->endpoint : "refused";

	if (response->retry_after_s && strcmp(endpoint, "refused") == 0)
		metrics_add(api->metrics, METRIC_QUERIES_REFUSED, 1);
	if (response->is_foreign)
		metrics_add(api->metrics, METRIC_REQUESTS_FOREIGN, 1);
	if (response->status == HTTP_CLIENT_GONE)
		metrics_add(api->metrics, METRIC_QUERIES_ABANDONED, 1);
	metrics_add_response(api->metrics, endpoint, response->status, duration_ns, bytes);
	if (api->audit && access_of(request) != ROUTE_OPEN)
		audit_write(api->audit, request, response);
	log_debug("http: %d %s, %llu bytes, %.1f ms", response->status, request->path,
		  (unsigned long long)bytes, (double)duration_ns / NS_PER_MS);
}

void http_api_limited(void *context, enum http_limit limit)
{
	struct http_api *api = context;

	static const enum metric_counter counters[] = {
		[HTTP_LIMIT_LATE] = METRIC_HTTP_LATE,
		[HTTP_LIMIT_PEER] = METRIC_HTTP_PEER_FULL,
		[HTTP_LIMIT_ANSWERS] = METRIC_ANSWERS_FULL,
	};

	metrics_add(api->metrics, counters[limit], 1);
}
