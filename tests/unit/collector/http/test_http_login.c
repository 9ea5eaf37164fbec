// SPDX-License-Identifier: Apache-2.0
// Subject: collector/http/http_login.c
// Who may ask what over HTTP, what a tenant's reader sees, and what the audit log keeps of it.
// Subject: collector/http/http_audit.c
// Subject: collector/http/http_delete.c
// Subject: collector/http/http_boosts.c
#include "tests/unit/collector/http/http_fixture.h"

#include "tests/unit/collector/access/access_fixture.h"
#include "tests/unit/collector/limits/limits_fixture.h"

struct login {
	struct fixture http;
	struct access_folder folder;
	struct made_token shop, bank, ops, agent, none, owner;
	char audit_path[64];
};

/** Two tenants' series of one service, each with 1 s of CPU time, beside the fixture's without a tenant. */
static void add_tenant_series(struct store *store, const char *tenant)
{
	struct labels labels = { 0 };
	struct memory_sample sample = {
		.slot_ns = 20000000,
		.time_ns = 1000 * NS_PER_SECOND,
		.locations = { 0 },
		.location_count = 1,
		.value = 1000000000,
	};

	assert_int_equal(0, labels_set(&labels, "service", tenant));
	assert_int_equal(0, labels_set(&labels, "tenant", tenant));
	sample.series = memory_store_add_series(store, &labels, PROFILE_TYPE_CPU);
	memory_store_add(store, &sample);
	labels_deinit(&labels);
}

static void open_login(struct login *l)
{
	struct error err = { 0 };
	char text[8 * ACCESS_LINE_BYTES];

	open_fixture(&l->http, 2);
	add_tenant_series(l->http.store, "shop");
	add_tenant_series(l->http.store, "bank");
	access_folder_open(&l->folder);
	l->shop = make_token("shop-reader", "read", "shop");
	l->bank = make_token("bank-reader", "read", "bank");
	l->ops = make_token("ops", "read,admin", "*");
	l->agent = make_token("agent", "ingest", "shop");
	l->none = make_token("none", "read", "-");
	l->owner = make_token("shop-owner", "read,admin", "shop");
	snprintf(text, sizeof(text), "%s%s%s%s%s%s", l->shop.line, l->bank.line, l->ops.line,
		 l->agent.line, l->none.line, l->owner.line);
	access_folder_write(&l->folder, text);
	const struct access_options options = { .file = l->folder.path };
	if (access_open(&options, &l->http.api.access, &err))
		fail_msg("%s", err.text);
	snprintf(l->audit_path, sizeof(l->audit_path), "%s/audit", l->folder.folder);
	if (audit_open(l->audit_path, &l->http.metrics, &l->http.api.audit, &err))
		fail_msg("%s", err.text);
}

static void close_login(struct login *l)
{
	close_fixture(&l->http);
	audit_close(l->http.api.audit);
	access_close(l->http.api.access);
	unlink(l->audit_path);
	access_folder_close(&l->folder);
}

static struct answer ask_as(struct login *l, const struct made_token *token, const char *method,
			    const char *target)
{
	char headers[ACCESS_TOKEN_BYTES + 64] = "";

	if (token)
		snprintf(headers, sizeof(headers), "Authorization: %s\r\n", token->authorization);
	return ask(&l->http, method, target, headers);
}

static int status_as(struct login *l, const struct made_token *token, const char *target)
{
	struct answer answer = ask_as(l, token, "GET", target);

	free(answer.bytes);
	return answer.status;
}

TEST(each_call_needs_a_credential_with_its_role)
{
	static const char *const calls[] = {
		"/api/v1/types",       "/api/v1/labels",   "/api/v1/labels/service/values",
		"/api/v1/merge",       "/api/v1/top",      "/api/v1/series",
		"/api/v1/heatmap",     "/api/v1/services", "/api/v1/diagnose",
		"/api/v1/debug-files", "/api/v1/status",   "/metrics",
		"/api/v1/spikes",      "/api/v1/timeline",
	};
	struct login l;

	open_login(&l);
	for EACH (call, calls) {
		struct answer answer = ask_as(&l, NULL, "GET", *call);
		EXPECT_EQ(401, answer.status, *call);
		assert_true(has_header(&answer, "WWW-Authenticate: Bearer"));
		free(answer.bytes);
		EXPECT_EQ(403, status_as(&l, &l.agent, *call), *call);
		EXPECT_EQ(200, status_as(&l, &l.shop, *call), *call);
	}
	EXPECT_EQ(401, status_as(&l, NULL, "/api/v1/whoami"), "whoami");
	EXPECT_EQ(200, status_as(&l, &l.agent, "/api/v1/whoami"), "whoami of any role");
	EXPECT_EQ(2 * 14 + 1, l.http.metrics.counters[METRIC_ACCESS_REFUSED], "counted");
	close_login(&l);
}

TEST(a_reader_sees_its_tenants_refusals_only)
{
	static const char *const targets[] = { "/api/v1/status", "/metrics" };
	struct limits_fixture limits;
	struct login l;

	open_login(&l);
	limits_open(&limits, "tenants: {shop: {query-range: 1m}}\n");
	l.http.api.limits = limits.limits;
	EXPECT_EQ(422, status_as(&l, &l.shop, "/api/v1/merge?from=1000&to=2000"), "its limit");
	EXPECT_EQ(200, status_as(&l, &l.bank, "/api/v1/merge?from=1000&to=2000"), "another's");
	EXPECT_EQ(200, status_as(&l, &l.ops, "/api/v1/merge?from=1000&to=2000"), "all tenants'");
	for EACH (target, targets) {
		const struct {
			const struct made_token *token;
			bool sees;
		} readers[] = { { &l.shop, true }, { &l.ops, true }, { &l.bank, false } };

		for EACH (reader, readers) {
			struct answer answer = ask_as(&l, reader->token, "GET", *target);
			bool sees = strstr(answer.body, "query-range\"}") ||
				    strstr(answer.body, "\"limit\":\"query-range\"");

			EXPECT_EQ(reader->sees, sees, *target);
			EXPECT_EQ(reader->sees, strstr(answer.body, "shop") != NULL, *target);
			free(answer.bytes);
		}
	}
	close_login(&l);
	limits_close(&limits);
}

TEST(pushes_need_the_role_ingest)
{
	static const char *const calls[] = { "/api/v1/push",
					     "/api/v1/batches",
					     "/ingest?name=a",
					     "/pyroscope/ingest?name=a",
					     "/push.v1.PusherService/Push",
					     "/v1development/profiles" };
	struct login l;

	open_login(&l);
	for EACH (call, calls) {
		struct answer answer = ask_as(&l, NULL, "POST", *call);
		EXPECT_EQ(401, answer.status, *call);
		free(answer.bytes);
		answer = ask_as(&l, &l.shop, "POST", *call);
		EXPECT_EQ(403, answer.status, *call);
		free(answer.bytes);
		answer = ask_as(&l, &l.agent, "POST", *call);
		if (answer.status != 200 && answer.status != 400)
			fail_msg("%s: %d", *call, answer.status);
		free(answer.bytes);
	}
	close_login(&l);
}

TEST(grafanas_queries_need_the_role_read)
{
	static const struct {
		const char *method, *path;
		int status; // of who may read; without a body it is no JSON
	} calls[] = {
		{ "POST", "/querier.v1.QuerierService/ProfileTypes", 415 },
		{ "GET", "/pyroscope/render", 400 },
		{ "GET", "/pyroscope/render-diff", 400 },
	};
	struct login l;

	open_login(&l);
	for EACH (call, calls) {
		struct answer answer = ask_as(&l, NULL, call->method, call->path);
		EXPECT_EQ(401, answer.status, call->path);
		free(answer.bytes);
		answer = ask_as(&l, &l.agent, call->method, call->path);
		EXPECT_EQ(403, answer.status, call->path);
		free(answer.bytes);
		answer = ask_as(&l, &l.shop, call->method, call->path);
		EXPECT_EQ(call->status, answer.status, call->path);
		free(answer.bytes);
	}
	close_login(&l);
}

TEST(probes_and_the_page_are_open)
{
	static const char *const open[] = { "/", "/app.js", "/healthz", "/readyz",
					    "/api/v1/openapi.yaml" };
	struct login l;

	open_login(&l);
	for EACH (path, open)
		EXPECT_EQ(200, status_as(&l, NULL, *path), *path);
	EXPECT_EQ(404, status_as(&l, NULL, "/nothing"), "unknown path");
	close_login(&l);
}

TEST(an_upload_needs_its_role_before_the_body)
{
	struct login l;
	char head[ACCESS_TOKEN_BYTES + 256];

	open_login(&l);
	snprintf(head, sizeof(head),
		 "PUT /api/v1/debug-files/abcd HTTP/1.1\r\nHost: x\r\nAuthorization: %s\r\n"
		 "Content-Length: 1000000000\r\n\r\n",
		 l.shop.authorization);
	struct answer answer = ask_raw(&l.http, head, strlen(head));
	EXPECT_EQ(403, answer.status, "without a byte of the body");
	free(answer.bytes);
	close_login(&l);
}

static json_t *json_as(struct login *l, const struct made_token *token, const char *target)
{
	struct answer answer = ask_as(l, token, "GET", target);

	EXPECT_EQ(200, answer.status, target);
	json_t *json = json_loadb(answer.body, answer.body_size, 0, NULL);
	assert_non_null(json);
	free(answer.bytes);
	return json;
}

static long long total_as(struct login *l, const struct made_token *token, const char *query)
{
	char target[512];

	snprintf(target, sizeof(target), "/api/v1/top?" RANGE "&query=%s", query);
	json_t *json = json_as(l, token, target);
	long long total = number_at(json, "total");
	json_decref(json);
	return total;
}

TEST(a_reader_sees_its_tenant_only)
{
	static const char *const queries[] = {
		"",
		"%7B%7D",
		"%7Btenant=~%22.*%22%7D",
		"%7Btenant!=%22%22%7D",
		"%7Bservice=~%22.*%22,tenant=~%22shop%7Cbank%22%7D",
	};
	const long long own = 1000000000, untenanted = 100 * 10000000;
	struct login l;

	open_login(&l);
	for EACH (query, queries) {
		EXPECT_EQ(own, total_as(&l, &l.shop, *query), *query);
		EXPECT_EQ(own, total_as(&l, &l.bank, *query), *query);
	}
	EXPECT_EQ(0, total_as(&l, &l.shop, "%7Btenant=%22bank%22%7D"), "by name");
	EXPECT_EQ(0, total_as(&l, &l.shop, "bank"), "by service");
	EXPECT_EQ(0, total_as(&l, &l.shop, "%7Btenant=%22%22%7D"), "without a tenant");
	EXPECT_EQ(untenanted, total_as(&l, &l.none, ""), "a reader of series without a tenant");
	EXPECT_EQ(2 * own + untenanted, total_as(&l, &l.ops, ""), "a reader of all");

	json_t *json = json_as(&l, &l.shop, "/api/v1/labels/service/values?" RANGE);
	json_t *values = json_object_get(json, "values");
	EXPECT_EQ(1, json_array_size(values), "services");
	EXPECT_STR("shop", json_string_value(json_array_get(values, 0)), "service");
	json_decref(json);
	json = json_as(&l, &l.shop, "/api/v1/labels/tenant/values?" RANGE);
	EXPECT_EQ(1, json_array_size(json_object_get(json, "values")), "tenants");
	json_decref(json);
	json = json_as(&l, &l.shop, "/api/v1/series?group_by=service&" RANGE);
	EXPECT_EQ(1, json_array_size(json_object_get(json, "series")), "series");
	json_decref(json);
	close_login(&l);
}

TEST(a_login_sets_a_cookie_that_works)
{
	struct login l;
	char cookie[ACCESS_TOKEN_BYTES + 64];

	open_login(&l);
	struct answer answer = ask_as(&l, &l.shop, "POST", "/api/v1/login");
	EXPECT_EQ(200, answer.status, "login");
	snprintf(cookie, sizeof(cookie),
		 "Set-Cookie: " ACCESS_COOKIE "=%s; Path=/; HttpOnly; SameSite=Strict\r\n",
		 l.shop.token);
	assert_true(has_header(&answer, cookie));
	assert_null(strstr(answer.body, l.shop.token));
	free(answer.bytes);

	snprintf(cookie, sizeof(cookie), "Cookie: " ACCESS_COOKIE "=%s\r\n", l.shop.token);
	answer = ask(&l.http, "GET", "/api/v1/status", cookie);
	EXPECT_EQ(200, answer.status, "by cookie");
	assert_non_null(strstr(answer.body, "\"who\":\"token:shop-reader\""));
	free(answer.bytes);

	l.http.api.is_tls = true;
	answer = ask_as(&l, &l.shop, "POST", "/api/v1/login");
	assert_true(has_header(&answer, "SameSite=Strict; Secure\r\n"));
	free(answer.bytes);
	answer = ask(&l.http, "POST", "/api/v1/logout", "");
	assert_true(has_header(&answer, "Set-Cookie: " ACCESS_COOKIE "=; Path=/"));
	assert_true(has_header(&answer, "Max-Age=0"));
	free(answer.bytes);
	answer = ask_as(&l, NULL, "POST", "/api/v1/login");
	EXPECT_EQ(401, answer.status, "login without a token");
	assert_false(has_header(&answer, "Set-Cookie"));
	free(answer.bytes);
	answer = ask_as(&l, &l.shop, "GET", "/api/v1/login");
	EXPECT_EQ(405, answer.status, "a link logs nobody in");
	free(answer.bytes);
	close_login(&l);
}

/** DELETE what @parameters say. Returns the status. */
static int delete_as(struct login *l, const struct made_token *token, const char *parameters,
		     struct answer *ret_answer)
{
	char target[512];

	snprintf(target, sizeof(target), "/api/v1/series?%s", parameters);
	*ret_answer = ask_as(l, token, "DELETE", target);
	return ret_answer->status;
}

static int delete_status(struct login *l, const struct made_token *token, const char *parameters)
{
	struct answer answer;
	int status = delete_as(l, token, parameters, &answer);

	free(answer.bytes);
	return status;
}

#define ALL_SERIES  "query=%7B%7D"
#define SHOP_SERIES "query=%7Btenant=%22shop%22%7D"
#define SECOND      1000000000LL

TEST(an_admin_deletes_its_tenants_series_only)
{
	struct answer answer;
	struct login l;

	open_login(&l);
	EXPECT_EQ(401, delete_status(&l, NULL, ALL_SERIES), "nobody");
	EXPECT_EQ(403, delete_status(&l, &l.shop, ALL_SERIES), "a reader");
	EXPECT_EQ(403, delete_status(&l, &l.agent, ALL_SERIES), "an agent");
	EXPECT_EQ(SECOND, total_as(&l, &l.shop, ""), "still there");
	EXPECT_EQ(200, delete_as(&l, &l.owner, ALL_SERIES "&dry_run=true", &answer), "counted");
	assert_non_null(strstr(answer.body, "{\"series\":1,"));
	assert_non_null(strstr(answer.body, "\"dry_run\":true}"));
	free(answer.bytes);
	EXPECT_EQ(SECOND, total_as(&l, &l.shop, ""), "only counted");
	EXPECT_EQ(200, delete_as(&l, &l.owner, ALL_SERIES, &answer), "an admin");
	assert_non_null(strstr(answer.body, "{\"series\":1,"));
	assert_non_null(strstr(answer.body, "\"dry_run\":false}"));
	free(answer.bytes);
	EXPECT_EQ(0, total_as(&l, &l.shop, ""), "its tenant's");
	EXPECT_EQ(SECOND, total_as(&l, &l.bank, ""), "another tenant's");
	EXPECT_EQ(200, delete_status(&l, &l.owner, "query=%7Btenant=%22bank%22%7D"), "another's");
	EXPECT_EQ(SECOND, total_as(&l, &l.bank, ""), "which it does not reach");
	close_login(&l);
}

TEST(an_admin_of_all_tenants_names_one)
{
	static const char *const nameless[] = {
		ALL_SERIES,
		"query=shop",
		"query=%7Btenant!=%22bank%22%7D",
		"query=%7Btenant=~%22.*%22%7D",
	};
	struct login l;

	open_login(&l);
	for EACH (parameters, nameless)
		EXPECT_EQ(400, delete_status(&l, &l.ops, *parameters), *parameters);
	EXPECT_EQ(SECOND, total_as(&l, &l.shop, ""), "still there");
	EXPECT_EQ(200, delete_status(&l, &l.ops, SHOP_SERIES), "named");
	EXPECT_EQ(0, total_as(&l, &l.shop, ""), "deleted");
	EXPECT_EQ(SECOND, total_as(&l, &l.bank, ""), "another tenant's");
	close_login(&l);
}

TEST(deletions_are_checked)
{
	static const struct {
		const char *parameters, *text;
	} cases[] = {
		{ "", "name the series to delete" },
		{ "query=", "name the series to delete" },
		{ "query=%7B", "column" },
		{ ALL_SERIES "&from=61", "the nearest are 60 and 120" },
		{ ALL_SERIES "&to=61", "the nearest are 60 and 120" },
		{ ALL_SERIES "&from=120&to=60", "must be before to" },
		{ ALL_SERIES "&from=yesterday", "yesterday" },
		{ ALL_SERIES "&dry_run=1", "neither true nor false" },
		{ ALL_SERIES "&step=1s", "unknown parameter" },
	};
	struct answer answer;
	struct login l;

	open_login(&l);
	for EACH (c, cases) {
		EXPECT_EQ(400, delete_as(&l, &l.owner, c->parameters, &answer), c->parameters);
		if (!strstr(answer.body, c->text))
			fail_msg("%s: %s", c->parameters, answer.body);
		free(answer.bytes);
	}
	EXPECT_EQ(SECOND, total_as(&l, &l.shop, ""), "nothing is deleted");
	EXPECT_EQ(200, delete_status(&l, &l.owner, ALL_SERIES "&from=1020&to=1080"), "beside it");
	EXPECT_EQ(SECOND, total_as(&l, &l.shop, ""), "of another time");
	EXPECT_EQ(200, delete_status(&l, &l.owner, ALL_SERIES "&from=960&to=1020"), "around it");
	EXPECT_EQ(0, total_as(&l, &l.shop, ""), "deleted");
	answer = ask_as(&l, &l.owner, "POST", "/api/v1/series");
	EXPECT_EQ(405, answer.status, "POST");
	free(answer.bytes);
	close_login(&l);
}

static char *read_text(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 16);

	assert_non_null(file);
	assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
	fclose(file);
	return text;
}

static void add_node(struct login *l, const char *tenant, const char *node)
{
	const struct memory_sample sample = { .series = l->http.store->series_count,
					      .slot_ns = 20000000,
					      .time_ns = clock_realtime_ns() };
	struct labels labels = { 0 };

	assert_int_equal(0, labels_set(&labels, "service", "llm"));
	assert_int_equal(0, labels_set(&labels, "tenant", tenant));
	assert_int_equal(0, labels_set(&labels, "node", node));
	memory_store_add_series(l->http.store, &labels, PROFILE_TYPE_CPU);
	memory_store_add(l->http.store, &sample);
	labels_deinit(&labels);
}

#define BOOSTS "/api/v1/boosts"
#define LLM    BOOSTS "?query=llm&for=60s"

enum asker { OWNER, OPS, READER, AGENT, NOBODY };

static const struct {
	const char *what, *target;
	enum asker who;
	int status;
	const char *text; // in the answer
} boosts[] = {
	{ "a reader", LLM "&hz=999", READER, 403, "lacks the role admin" },
	{ "an agent", LLM "&hz=999", AGENT, 403, "lacks the role admin" },
	{ "nobody", LLM "&hz=999", NOBODY, 401, "" },
	{ "all tenants", LLM "&hz=999", OPS, 400, "name one of them" },
	{ "no selector", BOOSTS "?for=60s&hz=999", OWNER, 400, "name the series to boost" },
	{ "a bad selector", BOOSTS "?query={&for=60s&hz=999", OWNER, 400, "column" },
	{ "no node", BOOSTS "?query=web&for=60s&hz=999", OWNER, 400, "no node has series" },
	{ "no time", BOOSTS "?query=llm&hz=999", OWNER, 400, "a boost ends after it" },
	{ "a time of 0", BOOSTS "?query=llm&hz=999&for=0s", OWNER, 400, "from 1s to 60m" },
	{ "two hours", BOOSTS "?query=llm&hz=999&for=2h", OWNER, 400, "from 1s to 60m" },
	{ "a huge time", BOOSTS "?query=llm&hz=999&for=99999999999999999d", OWNER, 400, "" },
	{ "no time at all", BOOSTS "?query=llm&hz=999&for=soon", OWNER, 400, "from 1s to 60m" },
	{ "nothing to do", LLM, OWNER, 400, "asks for nothing" },
	{ "a rate of 0", LLM "&hz=0", OWNER, 400, "from 1 to 1000" },
	{ "a rate of 2^32", LLM "&hz=4294967296", OWNER, 400, "from 1 to 1000" },
	{ "a negative rate", LLM "&hz=-1", OWNER, 400, "from 1 to 1000" },
	{ "a stop and a rate", LLM "&hz=999&stop=true", OWNER, 400, "does not go with" },
	{ "what is no profile", LLM "&profiles=wall,heap", OWNER, 400, "is none of wall" },
	{ "gpu", LLM "&profiles=gpu", OWNER, 400, "gpu cannot be added" },
	{ "an unknown parameter", LLM "&hz=999&from=now", OWNER, 400, "unknown parameter" },
};

TEST(only_admins_boost_and_only_what_makes_sense)
{
	struct login l;

	open_login(&l);
	const struct made_token *askers[] = { &l.owner, &l.ops, &l.shop, &l.agent, NULL };
	add_node(&l, "shop", "a17");
	for EACH (row, boosts) {
		struct answer answer = ask_as(&l, askers[row->who], "POST", row->target);

		EXPECT_EQ(row->status, answer.status, row->what);
		if (!strstr(answer.body, row->text))
			fail_msg("%s: %s", row->what, answer.body);
		free(answer.bytes);
	}
	EXPECT_EQ(0, l.http.metrics.counters[METRIC_BOOSTS], "none began");
	close_login(&l);
}

static void expect_boosts(struct login *l, const struct made_token *who, const char *text)
{
	struct answer answer = ask_as(l, who, "GET", BOOSTS);

	EXPECT_EQ(200, answer.status, "list");
	if (!strstr(answer.body, text))
		fail_msg("\"%s\" is not in %s", text, answer.body);
	free(answer.bytes);
}

static int end_as(struct login *l, const struct made_token *who, const char *id)
{
	char target[64];

	snprintf(target, sizeof(target), BOOSTS "/%s", id);
	struct answer answer = ask_as(l, who, "DELETE", target);
	free(answer.bytes);
	return answer.status;
}

static void begin_boost(struct login *l, char id[BOOST_ID_BYTES])
{
	struct answer answer =
		ask_as(l, &l->ops, "POST",
		       BOOSTS "?query=%7Btenant=%22shop%22%7D&for=60s&hz=999&profiles=wakers");

	if (sscanf(answer.body, "{\"id\":\"%8[0-9a-f]\"", id) != 1)
		fail_msg("%s", answer.body);
	assert_non_null(strstr(answer.body, "\"nodes\":[{\"node\":\"a17\",\"state\":\"waiting\""));
	free(answer.bytes);
}

TEST(a_tenant_sees_and_ends_its_boosts)
{
	struct login l;
	char id[BOOST_ID_BYTES];

	open_login(&l);
	add_node(&l, "shop", "a17");
	add_node(&l, "bank", "b2");
	begin_boost(&l, id);
	expect_boosts(&l, &l.shop, "\"profiles\":\"wakers\"");
	expect_boosts(&l, &l.shop, "\"who\":\"token:ops\"");
	expect_boosts(&l, &l.bank, "{\"boosts\":[]}");
	EXPECT_EQ(403, end_as(&l, &l.shop, id), "a reader");
	EXPECT_EQ(404, end_as(&l, &l.owner, "00000001"), "another id");
	EXPECT_EQ(404, end_as(&l, &l.owner, "nonsense"), "no id");
	EXPECT_EQ(200, end_as(&l, &l.owner, id), "its owner");
	EXPECT_EQ(404, end_as(&l, &l.owner, id), "only once");
	expect_boosts(&l, &l.ops, "{\"boosts\":[]}");
	struct answer answer = ask_as(&l, &l.owner, "DELETE", BOOSTS);
	EXPECT_EQ(405, answer.status, "not all at once");
	free(answer.bytes);
	answer = ask_as(&l, &l.owner, "GET", BOOSTS "/00000001");
	EXPECT_EQ(405, answer.status, "one alone");
	assert_true(has_header(&answer, "Allow: DELETE\r\n"));
	free(answer.bytes);
	close_login(&l);
}

TEST(the_audit_log_has_boosts)
{
	struct login l;
	char id[BOOST_ID_BYTES], expected[64];

	open_login(&l);
	add_node(&l, "shop", "a17");
	begin_boost(&l, id);
	EXPECT_EQ(200, end_as(&l, &l.owner, id), "end");
	close_fixture(&l.http); // a line is written after its answer
	char *text = read_text(l.audit_path);
	snprintf(expected, sizeof(expected), ",\"boost\":\"%s\",\"nodes\":1}\n", id);
	assert_non_null(strstr(text, "\"who\":\"token:ops\""));
	assert_non_null(strstr(text, "\"hz\":\"999\""));
	assert_non_null(strstr(text, expected));
	snprintf(expected, sizeof(expected), "\"path\":\"" BOOSTS "/%s\"", id);
	assert_non_null(strstr(text, "\"who\":\"token:shop-owner\""));
	assert_non_null(strstr(text, expected));
	free(text);
	audit_close(l.http.api.audit);
	access_close(l.http.api.access);
	unlink(l.audit_path);
	access_folder_close(&l.folder);
}

TEST(the_audit_log_names_who_and_what)
{
	struct login l;

	open_login(&l);
	total_as(&l, &l.shop, "%7Bservice=%22a%5C%22b%22%7D");
	EXPECT_EQ(401, status_as(&l, NULL, "/api/v1/types"), "refused");
	EXPECT_EQ(403, status_as(&l, &l.agent, "/api/v1/types"), "refused");
	EXPECT_EQ(200, status_as(&l, NULL, "/healthz"), "a probe");
	close_fixture(&l.http); // a line is written after its answer
	char *text = read_text(l.audit_path);
	char *rest, *lines[4] = { 0 };
	int count = 0;
	for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		assert_true(count < 3);
		lines[count++] = line;
	}
	EXPECT_EQ(3, count, "lines: a probe has none");
	for (int i = 0; i < count; i++) {
		json_t *json = json_loads(lines[i], 0, NULL);
		json_t *status = json_object_get(json, "status");
		const char *who = json_string_value(json_object_get(json, "who"));

		assert_non_null(json);
		switch (json_integer_value(status)) {
		case 200:
			EXPECT_STR("token:shop-reader", who, "who");
			EXPECT_STR("shop", json_string_value(json_object_get(json, "tenant")), "t");
			EXPECT_STR("/api/v1/top", json_string_value(json_object_get(json, "path")),
				   "p");
			EXPECT_STR("{service=\"a\\\"b\"}",
				   json_string_value(json_object_get(
					   json_object_get(json, "parameters"), "query")),
				   "query");
			break;
		case 401:
			EXPECT_STR("unknown", who, "who");
			break;
		default:
			EXPECT_EQ(403, json_integer_value(status), "status");
			EXPECT_STR("token:agent", who, "who");
		}
		EXPECT_STR("127.0.0.1", json_string_value(json_object_get(json, "address")), "a");
		json_decref(json);
	}
	free(text);
	audit_close(l.http.api.audit);
	access_close(l.http.api.access);
	unlink(l.audit_path);
	access_folder_close(&l.folder);
}

TEST(the_audit_log_says_how_much_was_deleted)
{
	struct answer answer;
	struct login l;

	open_login(&l);
	EXPECT_EQ(200, delete_as(&l, &l.ops, SHOP_SERIES, &answer), "status");
	free(answer.bytes);
	close_fixture(&l.http);
	char *text = read_text(l.audit_path);
	json_t *json = json_loads(text, 0, NULL);
	EXPECT_STR("token:ops", json_string_value(json_object_get(json, "who")), "who");
	EXPECT_STR("DELETE", json_string_value(json_object_get(json, "method")), "method");
	EXPECT_STR("{tenant=\"shop\"}",
		   json_string_value(json_object_get(json_object_get(json, "parameters"), "query")),
		   "of what");
	EXPECT_EQ(1, json_integer_value(json_object_get(json, "series")), "how many");
	json_decref(json);
	free(text);
	audit_close(l.http.api.audit);
	access_close(l.http.api.access);
	unlink(l.audit_path);
	access_folder_close(&l.folder);
}

TEST(the_audit_log_is_bounded)
{
	struct login l;
	char old[80];

	open_login(&l);
	assert_int_equal(0, truncate(l.audit_path, AUDIT_FILE_BYTES_MAX));
	audit_close(l.http.api.audit);
	assert_int_equal(0, audit_open(l.audit_path, &l.http.metrics, &l.http.api.audit, NULL));
	total_as(&l, &l.shop, "");
	close_fixture(&l.http);
	snprintf(old, sizeof(old), "%s.1", l.audit_path);
	char *text = read_text(l.audit_path);
	assert_int_equal('{', text[0]);
	free(text);
	assert_int_equal(0, unlink(old));
	EXPECT_EQ(0, l.http.metrics.counters[METRIC_AUDIT_ERRORS], "errors");
	audit_close(l.http.api.audit);
	access_close(l.http.api.access);
	unlink(l.audit_path);
	access_folder_close(&l.folder);
}

RUN_TESTS(cmocka_unit_test(a_reader_sees_its_tenants_refusals_only),
	  cmocka_unit_test(each_call_needs_a_credential_with_its_role),
	  cmocka_unit_test(pushes_need_the_role_ingest),
	  cmocka_unit_test(grafanas_queries_need_the_role_read),
	  cmocka_unit_test(probes_and_the_page_are_open),
	  cmocka_unit_test(an_upload_needs_its_role_before_the_body),
	  cmocka_unit_test(a_reader_sees_its_tenant_only),
	  cmocka_unit_test(a_login_sets_a_cookie_that_works),
	  cmocka_unit_test(an_admin_deletes_its_tenants_series_only),
	  cmocka_unit_test(an_admin_of_all_tenants_names_one),
	  cmocka_unit_test(deletions_are_checked),
	  cmocka_unit_test(only_admins_boost_and_only_what_makes_sense),
	  cmocka_unit_test(a_tenant_sees_and_ends_its_boosts),
	  cmocka_unit_test(the_audit_log_has_boosts),
	  cmocka_unit_test(the_audit_log_names_who_and_what),
	  cmocka_unit_test(the_audit_log_says_how_much_was_deleted),
	  cmocka_unit_test(the_audit_log_is_bounded))
