// SPDX-License-Identifier: Apache-2.0
// The handlers of the routes, and the parsed request that they act on.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>

#include "base/contract/boosts.h"
#include "base/contract/profile_type.h"
#include "collector/doors/doors.h"
#include "collector/http/http_audit.h"
#include "collector/http/http_exchange.h"
#include "collector/ingest/readiness.h"
#include "collector/ingest/receiver.h"
#include "collector/limits/tenant_limits.h"
#include "collector/metrics/metrics.h"
#include "collector/profile_metrics/profile_metrics.h"
#include "collector/query/query.h"
#include "collector/store/selector.h"
#include "collector/store/store.h"
#include "collector/symbols/symbol_spaces.h"
#include "proto/export.h"

/** What handlers use. Everything is borrowed and outlives the server. */
struct http_api {
	struct store *store;
	struct access *access;        // NULL: everybody is "local" and may do everything
	struct audit *audit;          // NULL: none
	struct tenant_limits *limits; // NULL: none
	bool is_tls;                  // cookies are Secure
	struct receiver *receiver;
	struct doors doors; // for pushes
	struct metrics *metrics;
	struct profile_metrics *profile_metrics; // NULL: none
	struct symbol_spaces *symbols; // NULL: uploads are refused, only agents name frames
	atomic_bool ready;             // false: starting or shutting down
	struct readiness *readiness;   // NULL: only `ready` counts
};

/** Parameters of API calls, as bits: a route has a set of them. */
enum api_parameter {
	API_QUERY = 1 << 0,
	API_TYPE = 1 << 1,
	API_FROM = 1 << 2,
	API_TO = 1 << 3,
	API_MAX_NODES = 1 << 4,
	API_GROUP_BY = 1 << 5,
	API_FORMAT = 1 << 6,
	API_LIMIT = 1 << 7,
	API_STEP = 1 << 8,
	API_SLOT = 1 << 9,
	API_DRY_RUN = 1 << 10,
	API_HZ = 1 << 11,
	API_PROFILES = 1 << 12,
	API_STOP = 1 << 13,
	API_FOR = 1 << 14,
	API_RANGES = 1 << 15, // instead of from and to
	API_MIN = 1 << 16,
	API_DIFF = 1 << 17, // against, against_..., norm, per, sort
	API_PEAK = 1 << 18,
	API_LINES = 1 << 19,
	API_FUNCTION = 1 << 20,
	API_CONTEXT = 1 << 21,
	API_PYROSCOPE = 1 << 29, // a query's body, or parameters that the handler reads
	API_PUSH = 1 << 30,      // a body, and parameters that the handler reads
	API_SELECTION = API_QUERY | API_FROM | API_TO,
	API_DELETION = API_SELECTION | API_DRY_RUN,
	API_BOOST = API_QUERY | API_HZ | API_PROFILES | API_STOP | API_FOR,
};

enum {
	API_LIMIT_MAX = 10000,
	API_LIMIT_DEFAULT = 100,
	API_CONTEXT_MAX = 20,
	API_CONTEXT_DEFAULT = 3,
};

/** The two sides of a diff: 0 is the baseline. */
struct api_diff {
	struct selector baseline;
	const char *query_texts[2];
	struct time_range range;    // of the baseline
	struct query_ranges ranges; // of it those that count; none: all of it
	const char *per;
	bool is_share; // otherwise values are compared by rate
	bool by_total; // functions are sorted by their totals' changes
};

/** A request, parsed completely before a handler runs. */
struct api_request {
	struct selector selector;
	const char *type;
	char unit[PROFILE_TYPE_PART_BYTES];
	struct time_range range;
	struct query_ranges ranges; // parts of the range that count; none: all of it
	uint64_t now_ns;
	const char *group_by; // NULL: none
	uint32_t max_nodes;
	uint32_t limit;
	bool is_file; // in a format of export.h; false: JSON
	enum export_format format;
	enum frame_lines lines;
	const char *function; // "": none
	uint32_t context;     // source lines around those with values
	uint64_t step_ns;
	uint64_t slot_ns;
	uint64_t min_ns;  // of a spike's extra time
	uint64_t peak_ns; // of a heat map's peaks; 0: none
	bool dry_run;
	struct boost boost; // without id
	struct api_diff diff;
	char label[LABEL_NAME_BYTES_MAX +
		   1]; // {name} of the path: a label's name, a build id, or a boost's
	const struct http_request *http; // what it was parsed of
};

/**
 * Parse the parameters of @request; @known: those of the route. Returns 0; -EINVAL with the parameter in
 * *ret_field (a string that lives as long as the request) and the reason in @err.
 */
int api_request_parse(const struct http_request *request, unsigned int known,
		      struct api_request *ret_parsed, const char **ret_field, struct error *err);
void api_request_deinit(struct api_request *parsed);

/** A round step that gives about 300 points for @range_ns. */
uint64_t api_default_step(uint64_t range_ns);

/** Handlers fill @response, on failure with an error response. */
typedef void (*api_handler_fn)(struct http_api *api, const struct api_request *request,
			       struct http_response *response);

void http_handle_types(struct http_api *api, const struct api_request *request,
		       struct http_response *response);
void http_handle_labels(struct http_api *api, const struct api_request *request,
			struct http_response *response);
void http_handle_label_values(struct http_api *api, const struct api_request *request,
			      struct http_response *response);
void http_handle_merge(struct http_api *api, const struct api_request *request,
		       struct http_response *response);
void http_handle_diff(struct http_api *api, const struct api_request *request,
		      struct http_response *response);
void http_handle_callers(struct http_api *api, const struct api_request *request,
			 struct http_response *response);
void http_handle_top(struct http_api *api, const struct api_request *request,
		     struct http_response *response);
/** The source lines of one function, with their text where it is uploaded or readable. */
void http_handle_lines(struct http_api *api, const struct api_request *request,
		       struct http_response *response);
void http_handle_services(struct http_api *api, const struct api_request *request,
			  struct http_response *response);
void http_handle_series(struct http_api *api, const struct api_request *request,
			struct http_response *response);
void http_handle_series_deletion(struct http_api *api, const struct api_request *request,
				 struct http_response *response);
void http_handle_boosts(struct http_api *api, const struct api_request *request,
			struct http_response *response);
void http_handle_boost(struct http_api *api, const struct api_request *request,
		       struct http_response *response);
void http_handle_boost_end(struct http_api *api, const struct api_request *request,
			   struct http_response *response);
void http_handle_heatmap(struct http_api *api, const struct api_request *request,
			 struct http_response *response);
void http_handle_timeline(struct http_api *api, const struct api_request *request,
			  struct http_response *response);
void http_handle_diagnose(struct http_api *api, const struct api_request *request,
			  struct http_response *response);
void http_handle_spikes(struct http_api *api, const struct api_request *request,
			struct http_response *response);
void http_handle_status(struct http_api *api, const struct api_request *request,
			struct http_response *response);
void http_handle_agents(struct http_api *api, const struct api_request *request,
			struct http_response *response);
void http_handle_metrics(struct http_api *api, const struct api_request *request,
			 struct http_response *response);
void http_handle_profile_metrics(struct http_api *api, const struct api_request *request,
				 struct http_response *response);
void http_handle_healthz(struct http_api *api, const struct api_request *request,
			 struct http_response *response);
void http_handle_login(struct http_api *api, const struct api_request *request,
		       struct http_response *response);
void http_handle_logout(struct http_api *api, const struct api_request *request,
			struct http_response *response);
void http_handle_whoami(struct http_api *api, const struct api_request *request,
			struct http_response *response);
void http_handle_readyz(struct http_api *api, const struct api_request *request,
			struct http_response *response);

/** Has the push's tenant room within its rate? Else with the response. Before the body is received. */
bool http_admit_push(struct http_api *api, const struct http_request *request,
		     struct http_response *response);
/** Pushes: a pprof profile, batches of `cairn push`, Pyroscope's /ingest and PusherService, OTLP. */
void http_handle_push(struct http_api *api, const struct api_request *request,
		      struct http_response *response);
void http_handle_batches(struct http_api *api, const struct api_request *request,
			 struct http_response *response);
void http_handle_ingest(struct http_api *api, const struct api_request *request,
			struct http_response *response);
void http_handle_pusher(struct http_api *api, const struct api_request *request,
			struct http_response *response);
void http_handle_otlp(struct http_api *api, const struct api_request *request,
		      struct http_response *response);
/** Pyroscope's query API: a method of its QuerierService, render and render-diff. */
void http_handle_querier(struct http_api *api, const struct api_request *request,
			 struct http_response *response);
void http_handle_render(struct http_api *api, const struct api_request *request,
			struct http_response *response);
void http_handle_render_diff(struct http_api *api, const struct api_request *request,
			     struct http_response *response);
/** Make it the error response of @err's code, as Connect's clients read it. */
void http_pyroscope_respond_failure(struct http_response *response, const struct error *err);

/** The files whose symbols are missing in the selected samples, the most missed first. */
void http_handle_missing_symbols(struct http_api *api, const struct api_request *request,
				 struct http_response *response);

void http_handle_debug_files(struct http_api *api, const struct api_request *request,
			     struct http_response *response);

/** Begin an upload. Returns a descriptor for its body, or -1 with an error response. */
int http_begin_debug_file(struct http_api *api, struct http_request *upload, const char *build_id,
			  struct http_response *response);
/** The files and names of @request's tenant; NULL with @err, or without api->symbols. */
struct symbol_space *api_symbols(struct http_api *api, const struct http_request *request,
				 struct error *err);
/** Delete the file of the path's build id from the tenant's. */
void http_handle_debug_file_deletion(struct http_api *api, const struct api_request *request,
				     const struct http_request *deletion,
				     struct http_response *response);
/** The whole body has arrived: keep the file if it has the path's build id. */
void http_handle_debug_file(struct http_api *api, const struct api_request *request,
			    const struct http_request *upload, struct http_response *response);
/** Delete the upload unless it was kept. */
void http_end_debug_file(struct http_api *api, struct http_request *upload);

/** The same for archives of source files. */
void http_handle_source_list(struct http_api *api, const struct api_request *request,
			     struct http_response *response);
int http_begin_sources(struct http_api *api, struct http_request *upload, const char *id,
		       struct http_response *response);
void http_handle_sources(struct http_api *api, const struct api_request *request,
			 const struct http_request *upload, struct http_response *response);
void http_handle_sources_deletion(struct http_api *api, const struct api_request *request,
				  const struct http_request *deletion,
				  struct http_response *response);
void http_end_sources(struct http_api *api, struct http_request *upload);
/** Make it the error response of an upload's @err; a wrong @field is an id. */
void http_respond_upload_failure(struct http_response *response, const struct error *err,
				 const char *field);
/** ,"uploaded":..,"who":..,"address":..,"sha256":.. */
void http_append_origin(struct buffer *body, const struct debug_origin *origin);

/**
 * Does a request that acts on more than one series say on which? A selector has to be given, by a credential for all tenants
 * with one tenant. @act goes on after "name the series to". Returns 0, or -EINVAL with @err about the parameter query.
 */
int http_check_selector(const struct http_api *api, const struct api_request *request,
			const char *act, struct error *err);

/** Respond with the embedded file at @request's path. False: there is none. */
bool http_handle_asset(const struct http_request *request, struct http_response *response);

/** The tenant whose limits a query of @request has. NULL: none. */
struct tenant *api_limited(struct http_api *api, const struct http_request *request);
/** The tenant of who asks, for selector_parse(). */
const char *api_tenant(const struct http_request *request);
/** The query of @request. */
struct query api_query(struct http_api *api, const struct api_request *request);
/** The parameter that a failed merge, table or heat map is about: "type" of a gauge, or "query". */
const char *api_failed_field(const struct api_request *request);
/** "type":..,"unit":.. */
void api_append_type(struct buffer *body, const struct api_request *request);
/** {"node":"a17","thread":"worker"} */
void api_append_labels(struct buffer *body, const struct labels *labels);
