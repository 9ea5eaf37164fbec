// SPDX-License-Identifier: Apache-2.0
// Subject: collector/boost/boost_nodes.c
#include "tests/test.h"

#include "base/clock.h"
#include "base/contract/profile_types.h"
#include "collector/boost/boost_table.h"
#include "tests/unit/collector/store/memory_store.h"

static uint64_t realtime_ns, monotonic_ns;

static uint64_t read_realtime(void)
{
	return realtime_ns;
}

static uint64_t read_monotonic(void)
{
	return monotonic_ns;
}

static void pass(uint64_t seconds)
{
	realtime_ns += seconds * NS_PER_SECOND;
	monotonic_ns += seconds * NS_PER_SECOND;
}

struct fixture {
	struct store *store;
	struct metrics metrics;
	struct boost_table *table;
};

static uint32_t add_series(struct store *store, const char *tenant, const char *node,
			   const char *service)
{
	struct labels labels = { 0 };

	if (*tenant)
		assert_int_equal(0, labels_set(&labels, "tenant", tenant));
	if (node)
		assert_int_equal(0, labels_set(&labels, "node", node));
	assert_int_equal(0, labels_set(&labels, "service", service));
	uint32_t series = memory_store_add_series(store, &labels, PROFILE_TYPE_CPU);
	labels_deinit(&labels);
	return series;
}

static void add_sample(struct store *store, uint32_t series)
{
	const struct memory_sample sample = {
		.series = series, .slot_ns = 20 * NS_PER_MS, .time_ns = realtime_ns, .value = 1
	};

	memory_store_add(store, &sample);
}

static void serve(struct fixture *f, const char *tenant, const char *node, const char *service)
{
	add_sample(f->store, add_series(f->store, tenant, node, service));
}

static void open_fixture(struct fixture *f)
{
	const struct store_clock clock = { read_realtime, read_monotonic };

	memset(f, 0, sizeof(*f));
	realtime_ns = 1000000 * NS_PER_SECOND;
	monotonic_ns = 5000 * NS_PER_SECOND;
	f->store = memory_store_new(3600 * NS_PER_SECOND);
	f->table = boost_table_new(f->store, &f->metrics, &clock);
	serve(f, "", "a", "llm");
	serve(f, "", "a", "llm");
	serve(f, "", "b", "llm-2");
	serve(f, "", NULL, "llm");
	serve(f, "", "c", "web");
	serve(f, "shop", "a", "llm");
}

static void close_fixture(struct fixture *f)
{
	boost_table_free(f->table);
	store_close(f->store);
}

static struct boost_request request_for(const char *query)
{
	return (struct boost_request){ .query = query,
				       .reader = "",
				       .tenant = "",
				       .who = "token:ann",
				       .boost = { .left_ms = 60000, .hz = 999 } };
}

static int add(struct fixture *f, const struct boost_request *request, uint32_t *ret_id,
	       char nodes[64], struct error *err)
{
	struct boost_view view;
	int rc = boost_table_add(f->table, request, &view, err);

	nodes[0] = 0;
	if (rc)
		return rc;
	for (uint32_t i = 0; i < view.nodes.count; i++) {
		strcat(nodes, view.nodes.nodes[i].name);
		strcat(nodes, " ");
	}
	*ret_id = view.boost.id;
	boost_view_deinit(&view);
	return 0;
}

static uint32_t begin(struct fixture *f, const char *query)
{
	const struct boost_request request = request_for(query);
	struct error err = { 0 };
	char nodes[64];
	uint32_t id = 0;

	if (add(f, &request, &id, nodes, &err))
		fail_msg("%s: %s", query, err.text);
	return id;
}

/* How many boosts an agent gets; the first is in @ret_boost. */
static uint32_t exchange(struct fixture *f, const char *tenant, const char *node,
			 const struct boost_report *report, struct boost *ret_boost)
{
	static const struct boost_report none;
	struct boost boosts[BOOSTS_OF_AGENT_MAX] = { 0 };
	uint32_t count =
		boost_table_exchange(f->table, tenant, node, report ? report : &none, boosts);

	if (ret_boost)
		*ret_boost = boosts[0];
	return count;
}

static const struct {
	const char *what, *query, *reader, *tenant, *nodes;
	int rc;
} selectors[] = {
	{ "a service", "llm", "", "", "a ", 0 },
	{ "a pattern", "{service=~\"llm.*\"}", "", "", "a b ", 0 },
	{ "everything", "{}", "", "", "a b c ", 0 },
	{ "of another tenant", "{}", "shop", "shop", "a ", 0 },
	{ "who sees all names one", "{tenant=\"shop\"}", NULL, "shop", "a ", 0 },
	{ "nodes of others do not count", "{}", NULL, "shop", "a ", 0 },
	{ "nothing", "{service=\"none\"}", "", "", "", -EINVAL },
	{ "of a tenant that one may not see", "{tenant=\"shop\"}", "", "", "", -EINVAL },
	{ "no selector", "{", "", "", "", -EINVAL },
};

TEST(finds_the_nodes_of_a_selector)
{
	for EACH (row, selectors) {
		struct fixture f;
		struct boost_request request = request_for(row->query);
		struct error err = { 0 };
		char nodes[64];
		uint32_t id = 0;

		open_fixture(&f);
		request.reader = row->reader;
		request.tenant = row->tenant;
		EXPECT_EQ(row->rc, add(&f, &request, &id, nodes, &err), row->what);
		EXPECT_STR(row->nodes, nodes, row->what);
		EXPECT_EQ(!row->rc, id != 0, row->what);
		close_fixture(&f);
	}
}

static const struct {
	const char *what;
	struct boost boost;
	int rc;
} asked[] = {
	{ "a rate", { .left_ms = 1000, .hz = 1 }, 0 },
	{ "the highest rate for an hour", { .left_ms = 3600000, .hz = 1000 }, 0 },
	{ "profiles", { .left_ms = 1, .profiles = BOOST_WALL }, 0 },
	{ "a stop", { .left_ms = 1, .stop = true }, 0 },
	{ "nothing", { .left_ms = 1000 }, -EINVAL },
	{ "a stop and a rate", { .left_ms = 1000, .stop = true, .hz = 99 }, -EINVAL },
	{ "too high a rate", { .left_ms = 1000, .hz = 1001 }, -EINVAL },
	{ "a rate of 32 bits", { .left_ms = 1000, .hz = UINT32_MAX }, -EINVAL },
	{ "no time", { .hz = 99 }, -EINVAL },
	{ "more than an hour", { .left_ms = 3600001, .hz = 99 }, -EINVAL },
	{ "49 days", { .left_ms = UINT32_MAX, .hz = 99 }, -EINVAL },
};

TEST(refuses_what_makes_no_sense)
{
	struct fixture f;

	open_fixture(&f);
	for EACH (row, asked) {
		struct boost_request request = request_for("llm");
		struct error err = { 0 };
		char nodes[64];
		uint32_t id;

		request.boost = row->boost;
		EXPECT_EQ(row->rc, add(&f, &request, &id, nodes, &err), row->what);
		if (!row->rc)
			EXPECT_EQ(0, boost_table_end(f.table, id, ""), row->what);
	}
	close_fixture(&f);
}

TEST(only_its_agents_get_a_boost)
{
	struct fixture f;
	struct boost boost;

	open_fixture(&f);
	uint32_t id = begin(&f, "{service=~\"llm.*\"}");
	EXPECT_EQ(1, exchange(&f, "", "a", NULL, &boost), "a node");
	EXPECT_EQ(id, boost.id, "id");
	EXPECT_EQ(999, boost.hz, "rate");
	EXPECT_EQ(60000, boost.left_ms, "time");
	EXPECT_STR("llm,llm-2", boost.services, "services, each once");
	EXPECT_EQ(0, exchange(&f, "", "c", NULL, NULL), "another node");
	EXPECT_EQ(0, exchange(&f, "shop", "a", NULL, NULL), "another tenant's node of this name");
	EXPECT_EQ(0, exchange(&f, "", "", NULL, NULL), "no name");
	close_fixture(&f);
}

TEST(ends_by_time_or_by_hand)
{
	struct fixture f;
	struct boost boost;

	open_fixture(&f);
	begin(&f, "llm");
	pass(59);
	EXPECT_EQ(1, exchange(&f, "", "a", NULL, &boost), "in force");
	EXPECT_EQ(1000, boost.left_ms, "left");
	pass(1);
	EXPECT_EQ(0, exchange(&f, "", "a", NULL, NULL), "over");
	uint32_t id = begin(&f, "llm");
	EXPECT_EQ(-ENOENT, boost_table_end(f.table, id, "shop"), "another tenant");
	EXPECT_EQ(-ENOENT, boost_table_end(f.table, id + 1, ""), "another id");
	EXPECT_EQ(0, boost_table_end(f.table, id, ACCESS_ALL_TENANTS), "ended");
	EXPECT_EQ(-ENOENT, boost_table_end(f.table, id, ""), "only once");
	EXPECT_EQ(0, exchange(&f, "", "a", NULL, NULL), "ended for agents");
	EXPECT_EQ(2, f.metrics.counters[METRIC_BOOSTS], "begun");
	close_fixture(&f);
}

TEST(holds_only_so_many)
{
	struct boost_request request = request_for("{}");
	struct fixture f;
	struct error err = { 0 };
	char nodes[64], tenant[8];
	uint32_t id;

	open_fixture(&f);
	for (int i = 0; i < BOOSTS_OF_TENANT_MAX; i++)
		EXPECT_EQ(0, add(&f, &request, &id, nodes, &err), "room");
	EXPECT_EQ(-EAGAIN, add(&f, &request, &id, nodes, &err), "full for this tenant");
	EXPECT_EQ(BOOSTS_OF_AGENT_MAX, exchange(&f, "", "a", NULL, NULL), "of an agent");
	request.reader = request.tenant = tenant;
	for (int i = 0; i < BOOSTS_MAX; i++) {
		snprintf(tenant, sizeof(tenant), "t%d", i / BOOSTS_OF_TENANT_MAX);
		serve(&f, tenant, "a", "llm");
		EXPECT_EQ(i < BOOSTS_MAX - BOOSTS_OF_TENANT_MAX ? 0 : -EAGAIN,
			  add(&f, &request, &id, nodes, &err), "others have theirs");
	}
	pass(60);
	EXPECT_EQ(0, add(&f, &request, &id, nodes, &err), "those that are over make room");
	close_fixture(&f);
}

TEST(shows_what_agents_report)
{
	struct boost_report report = { .count = 2 };
	struct boost_view *views = NULL;
	struct fixture f;
	uint32_t count = 0;

	open_fixture(&f);
	uint32_t id = begin(&f, "{service=~\"llm.*\"}");
	report.states[0] = (struct boost_state){ .id = id + 1, .hz = 1, .hz_max = 1 };
	report.states[1] = (struct boost_state){ .id = id, .hz = 499, .hz_max = 499 };
	exchange(&f, "", "a", &report, NULL);
	exchange(&f, "", "c", &report, NULL);
	exchange(&f, "shop", "b", &report, NULL);
	EXPECT_EQ(0, boost_table_list(f.table, "shop", &views, &count), "another tenant's");
	EXPECT_EQ(0, count, "count");
	free(views);
	EXPECT_EQ(0, boost_table_list(f.table, ACCESS_ALL_TENANTS, &views, &count), "all");
	EXPECT_EQ(1, count, "count");
	EXPECT_STR("{service=~\"llm.*\"}", views[0].query, "query");
	EXPECT_STR("token:ann", views[0].who, "who");
	EXPECT_EQ(true, views[0].nodes.nodes[0].has_reported, "a");
	EXPECT_EQ(499, views[0].nodes.nodes[0].state.hz, "rate");
	EXPECT_EQ(false, views[0].nodes.nodes[1].has_reported, "b");
	boost_view_deinit(&views[0]);
	free(views);
	close_fixture(&f);
}

TEST(follows_services_that_move)
{
	struct boost_report report = { .count = 1 };
	struct fixture f;

	open_fixture(&f);
	struct boost_request request = request_for("llm");
	struct error err = { 0 };
	char nodes[64];
	uint32_t id;
	request.boost.left_ms = 1000 * 1000;
	EXPECT_EQ(0, add(&f, &request, &id, nodes, &err), "begin");
	report.states[0] = (struct boost_state){ .id = id, .hz = 999, .hz_max = 999 };
	exchange(&f, "", "a", &report, NULL);
	serve(&f, "", "d", "llm");
	boost_table_maintain(f.table);
	EXPECT_EQ(0, exchange(&f, "", "d", NULL, NULL), "not yet");
	pass(16);
	boost_table_maintain(f.table);
	EXPECT_EQ(1, exchange(&f, "", "d", NULL, NULL), "a new node");
	EXPECT_EQ(1, exchange(&f, "", "a", NULL, NULL), "the old one");
	pass(310);
	serve(&f, "", "d", "llm");
	boost_table_maintain(f.table);
	EXPECT_EQ(1, exchange(&f, "", "d", NULL, NULL), "where it is");
	EXPECT_EQ(0, exchange(&f, "", "a", NULL, NULL), "where it was");
	EXPECT_EQ(0, f.metrics.counters[METRIC_BOOST_SCANS_FAILED], "scans");
	close_fixture(&f);
}

TEST(a_stop_keeps_its_nodes)
{
	struct boost_request request = request_for("llm");
	struct error err = { 0 };
	struct fixture f;
	char nodes[64];
	uint32_t id;

	open_fixture(&f);
	request.boost = (struct boost){ .left_ms = 3600 * 1000, .stop = true };
	EXPECT_EQ(0, add(&f, &request, &id, nodes, &err), "begin");
	pass(3000); // and no series any more
	boost_table_maintain(f.table);
	EXPECT_EQ(1, exchange(&f, "", "a", NULL, NULL), "still stopped");
	close_fixture(&f);
}

RUN_TESTS(cmocka_unit_test(finds_the_nodes_of_a_selector),
	  cmocka_unit_test(refuses_what_makes_no_sense),
	  cmocka_unit_test(only_its_agents_get_a_boost), cmocka_unit_test(ends_by_time_or_by_hand),
	  cmocka_unit_test(holds_only_so_many), cmocka_unit_test(shows_what_agents_report),
	  cmocka_unit_test(follows_services_that_move), cmocka_unit_test(a_stop_keeps_its_nodes))
