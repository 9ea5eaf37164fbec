// SPDX-License-Identifier: Apache-2.0
// The Export handler: what agents are answered, what is counted.
#include "tests/test.h"

#include "base/clock.h"
#include "collector/boost/boost_table.h"
#include "collector/ingest/batch_limits.h"
#include "collector/ingest/receiver.h"
#include "collector/ingest/seen_agents.h"
#include "tests/unit/collector/limits/limits_fixture.h"
#include "tests/unit/collector/store/memory_store.h"
#include "proto/export_message.h"

struct fixture {
	struct store *store;
	struct metrics metrics;
	struct receiver *receiver;
	struct buffer request;
	struct buffer response;
	struct error err;
};

static void open_fixture(struct fixture *f)
{
	memset(f, 0, sizeof(*f));
	f->store = memory_store_new(NS_PER_SECOND);
	f->receiver = receiver_new(f->store, &f->metrics, NULL);
}

static void close_fixture(struct fixture *f)
{
	buffer_deinit(&f->request);
	buffer_deinit(&f->response);
	receiver_free(f->receiver);
	store_close(f->store);
}

static bool define_all(void *context, const struct profile *profile, const struct stack *stack)
{
	(void)context, (void)profile, (void)stack;
	return true;
}

static const char *node; // of the series; NULL: none

static void encode_boot(struct fixture *f, uint64_t agent, uint64_t boot, uint64_t sequence)
{
	const struct batch_id batch = { .agent = { 1, agent },
					.boot = { 2, boot },
					.sequence = sequence };
	struct profile *profile = profile_new(20 * NS_PER_MS);
	struct location location = { .kind = FRAME_KIND_NATIVE, .id = { 7, 7 } };
	struct labels labels = { 0 };
	uint32_t number, stack, series;

	profile->from_ns = 1000 * NS_PER_SECOND;
	profile->to_ns = 1005 * NS_PER_SECOND;
	assert_int_equal(0, labels_set(&labels, "service", "llm"));
	if (node)
		assert_int_equal(0, labels_set(&labels, "node", node));
	assert_int_equal(0, profile_add_string(profile, "/bin/llm", &location.module));
	assert_int_equal(0, profile_add_location(profile, &location, NULL, 0, &number));
	assert_int_equal(0, profile_add_stack(profile, &number, 1, STACK_END_COMPLETE, &stack));
	assert_int_equal(0, profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series));
	for (uint64_t slot = 50000; slot < 50003; slot++)
		assert_int_equal(0, profile_add_sample(profile, series, stack, slot, 10000000));
	buffer_clear(&f->request);
	if (export_request_encode(&batch, profile, define_all, NULL, &f->request, &f->err))
		fail_msg("%s", f->err.text);
	labels_deinit(&labels);
	profile_free(profile);
}

static void encode(struct fixture *f, uint64_t agent, uint64_t sequence)
{
	encode_boot(f, agent, 3, sequence);
}

static enum rpc_status export_bytes(struct fixture *f, const void *bytes, size_t size)
{
	const struct rpc_request request = { .bytes = bytes, .size = size, .peer = "192.0.2.1" };

	return receiver_export(f->receiver, &request, &f->response, &f->err);
}

static enum rpc_status export_it(struct fixture *f)
{
	buffer_clear(&f->response);
	return export_bytes(f, f->request.bytes, f->request.size);
}

static struct export_response decode(struct fixture *f)
{
	struct export_response response = { 0 };

	assert_int_equal(
		0, export_response_decode(f->response.bytes, f->response.size, &response, &f->err));
	return response;
}

TEST(stores_and_counts_a_batch_once)
{
	struct fixture f;

	open_fixture(&f);
	encode(&f, 1, 1);
	assert_int_equal(RPC_OK, export_it(&f));
	struct export_response response = decode(&f);
	assert_false(response.duplicate);
	assert_int_equal(0, response.unknown_stack_count);
	export_response_deinit(&response);
	assert_int_equal(RPC_OK, export_it(&f));
	response = decode(&f);
	assert_true(response.duplicate);
	export_response_deinit(&response);
	assert_int_equal(1, f.metrics.counters[METRIC_INGEST_BATCHES]);
	assert_int_equal(3, f.metrics.counters[METRIC_INGEST_ROWS]);
	assert_int_equal(1, f.metrics.counters[METRIC_INGEST_DUPLICATES]);
	assert_int_equal(2 * f.request.size, f.metrics.counters[METRIC_INGEST_BYTES]);
	close_fixture(&f);
}

static void add_node(struct fixture *f)
{
	const struct memory_sample sample = { .slot_ns = 20 * NS_PER_MS,
					      .time_ns = clock_realtime_ns() };
	struct labels labels = { 0 };

	assert_int_equal(0, labels_set(&labels, "service", "llm"));
	assert_int_equal(0, labels_set(&labels, "node", "a17"));
	memory_store_add_series(f->store, &labels, PROFILE_TYPE_CPU);
	memory_store_add(f->store, &sample);
	labels_deinit(&labels);
}

TEST(answers_with_boosts_and_notes_reports)
{
	const struct boost_request request = { .query = "llm",
					       .reader = "",
					       .tenant = "",
					       .who = "local",
					       .boost = { .left_ms = 60000, .hz = 999 } };
	struct boost_report report = { .count = 1 };
	struct boost_view view, *views;
	struct fixture f;
	uint32_t count;

	open_fixture(&f);
	add_node(&f);
	if (boost_table_add(receiver_boosts(f.receiver), &request, &view, &f.err))
		fail_msg("%s", f.err.text);
	encode(&f, 1, 1);
	assert_int_equal(RPC_OK, export_it(&f));
	struct export_response response = decode(&f);
	assert_int_equal(0, response.boost_count); // another node's agent
	export_response_deinit(&response);
	node = "a17";
	encode(&f, 1, 2);
	node = NULL;
	report.states[0] = (struct boost_state){ view.boost.id, 999, 999, 0, false };
	assert_int_equal(0, export_request_add_boosts(&report, &f.request, &f.err));
	assert_int_equal(RPC_OK, export_it(&f));
	response = decode(&f);
	assert_int_equal(1, response.boost_count);
	assert_int_equal(view.boost.id, response.boosts[0].id);
	assert_int_equal(999, response.boosts[0].hz);
	export_response_deinit(&response);
	boost_view_deinit(&view);
	assert_int_equal(0, boost_table_list(receiver_boosts(f.receiver), "", &views, &count));
	assert_int_equal(1, count);
	assert_true(views[0].nodes.nodes[0].has_reported);
	boost_view_deinit(&views[0]);
	free(views);
	close_fixture(&f);
}

TEST(requests_unknown_stacks)
{
	struct fixture f;

	open_fixture(&f);
	f.store->unknown_stack = (struct id128){ 4, 5 };
	encode(&f, 1, 1);
	assert_int_equal(RPC_OK, export_it(&f));
	struct export_response response = decode(&f);
	assert_int_equal(1, response.unknown_stack_count);
	assert_int_equal(4, response.unknown_stacks[0].high);
	assert_int_equal(5, response.unknown_stacks[0].low);
	assert_int_equal(0, f.metrics.counters[METRIC_INGEST_BATCHES]);
	assert_int_equal(1, f.metrics.counters[METRIC_INGEST_UNKNOWN_STACKS]);
	export_response_deinit(&response);
	close_fixture(&f);
}

TEST(answers_what_was_refused)
{
	struct fixture f;

	open_fixture(&f);
	f.store->refused = (struct store_append_result){ .rows_late = 1,
							 .rows_future = 2,
							 .rows_series = 3,
							 .rows_other = 4,
							 .accepted = { 5, 6 } };
	encode(&f, 1, 1);
	assert_int_equal(RPC_OK, export_it(&f));
	struct export_response response = decode(&f);
	assert_int_equal(1, response.refused.late);
	assert_int_equal(2, response.refused.future);
	assert_int_equal(3, response.refused.series);
	assert_int_equal(4, response.refused.other);
	assert_int_equal(5, response.refused.from_ns);
	assert_int_equal(6, response.refused.to_ns);
	export_response_deinit(&response);
	close_fixture(&f);
}

TEST(identifies_a_batch_by_its_peer)
{
	struct fixture f;

	open_fixture(&f);
	encode(&f, 1, 1);
	assert_int_equal(RPC_OK, export_it(&f));
	struct id128 first = f.store->last_identity;
	assert_false(id128_is_zero(first));
	const struct rpc_request other = { .bytes = f.request.bytes,
					   .size = f.request.size,
					   .peer = "192.0.2.2" };
	buffer_clear(&f.response);
	assert_int_equal(RPC_OK, receiver_export(f.receiver, &other, &f.response, &f.err));
	assert_false(id128_equal(first, f.store->last_identity));
	close_fixture(&f);
}

static const struct {
	const char *what;
	int rc;
	enum rpc_status status;
	enum metric_counter counter;
} failures[] = {
	{ "absurd time", -EINVAL, RPC_INVALID_ARGUMENT, METRIC_INGEST_MALFORMED },
	{ "disk full", -ENOSPC, RPC_RESOURCE_EXHAUSTED, METRIC_INGEST_ERRORS },
	{ "memory full", -ENOMEM, RPC_RESOURCE_EXHAUSTED, METRIC_INGEST_ERRORS },
	{ "disk broken", -EIO, RPC_UNAVAILABLE, METRIC_INGEST_ERRORS },
	{ "clock in doubt", -EAGAIN, RPC_UNAVAILABLE, METRIC_INGEST_ERRORS },
};

TEST(agents_retry_when_the_store_fails)
{
	for EACH (row, failures) {
		struct fixture f;

		open_fixture(&f);
		f.store->append_rc = row->rc;
		encode(&f, 1, 1);
		EXPECT_EQ(row->status, export_it(&f), row->what);
		EXPECT_EQ(1, f.metrics.counters[row->counter], row->what);
		EXPECT_EQ(0, f.metrics.counters[METRIC_INGEST_BATCHES], row->what);
		assert_non_null(strstr(f.err.text, "as the test wants it"));
		close_fixture(&f);
	}
}

TEST(refuses_malformed_batches)
{
	struct fixture f;

	open_fixture(&f);
	encode(&f, 1, 1);
	// Cut a good message everywhere, and flip each of its bytes: never a crash.
	for (size_t size = 0; size < f.request.size; size++)
		export_bytes(&f, f.request.bytes, size);
	for (size_t at = 0; at < f.request.size; at++) {
		f.request.bytes[at] ^= 0xff;
		export_bytes(&f, f.request.bytes, f.request.size);
		f.request.bytes[at] ^= 0xff;
	}
	assert_int_equal(RPC_INVALID_ARGUMENT, export_bytes(&f, "\xff\xff\xff\xff", 4));
	assert_true(f.metrics.counters[METRIC_INGEST_MALFORMED] > 10);
	close_fixture(&f);
}

TEST(answers_an_empty_request_uncounted)
{
	struct fixture f;

	open_fixture(&f);
	EXPECT_EQ(RPC_INVALID_ARGUMENT, export_bytes(&f, "", 0), "status");
	EXPECT_STR(EXPORT_EMPTY_NO_LOGIN, f.err.text, "the answer");
	EXPECT_EQ(0, f.metrics.counters[METRIC_INGEST_MALFORMED], "it is no batch");
	close_fixture(&f);
}

TEST(refuses_a_newer_contract_version)
{
	struct fixture f;

	open_fixture(&f);
	encode(&f, 1, 1);
	buffer_append(&f.request, "\x68\x03", 2); // the last value of a field wins
	assert_int_equal(RPC_FAILED_PRECONDITION, export_it(&f));
	assert_non_null(strstr(f.err.text, "contract_version: 3, newer than this collector's 2"));
	assert_int_equal(1, f.metrics.counters[METRIC_INGEST_UNSUPPORTED]);
	assert_int_equal(0, f.metrics.counters[METRIC_INGEST_MALFORMED]);
	close_fixture(&f);
}

/** A batch of @tenant's agent. */
static enum rpc_status export_of(struct fixture *f, const char *tenant, uint32_t *ret_pause_ms)
{
	struct identity identity = { .key = "token:agent", .roles = ACCESS_INGEST };
	const struct rpc_request request = { .bytes = f->request.bytes,
					     .size = f->request.size,
					     .peer = "192.0.2.1",
					     .caller = &identity,
					     .ret_pause_ms = ret_pause_ms };

	snprintf(identity.tenant, sizeof(identity.tenant), "%s", tenant);
	buffer_clear(&f->response);
	return receiver_export(f->receiver, &request, &f->response, &f->err);
}

TEST(a_tenant_over_its_rate_sends_later)
{
	struct limits_fixture limits;
	uint32_t pause_ms = 0;
	struct fixture f;

	open_fixture(&f);
	limits_open(&limits, "tenants: {shop: {ingest-rate: 1KiB, ingest-burst: 1KiB}}\n");
	receiver_free(f.receiver);
	f.receiver = receiver_new(f.store, &f.metrics, limits.limits);
	encode(&f, 1, 1);
	limits_use(&limits, "shop", 1 << 20);
	EXPECT_EQ(RPC_RESOURCE_EXHAUSTED, export_of(&f, "shop", &pause_ms), "over its rate");
	EXPECT_EQ(TENANT_LATER, f.err.code, "the code");
	assert_non_null(strstr(f.err.text, "tenant shop: ingest-rate: 1 KiB ("));
	assert_true(pause_ms > 1000 * 1000 && pause_ms < 1024 * 1000);
	EXPECT_EQ(RPC_RESOURCE_EXHAUSTED, export_of(&f, "shop", NULL), "nobody asks when");
	EXPECT_EQ(0, f.metrics.counters[METRIC_INGEST_BATCHES], "not stored");
	EXPECT_EQ(RPC_OK, export_of(&f, "bank", &pause_ms), "another tenant");
	EXPECT_EQ(RPC_OK, export_of(&f, "*", &pause_ms), "without a login");
	EXPECT_EQ(2, refusals_of(&limits, "shop", LIMIT_INGEST_RATE), "counted");
	close_fixture(&f);
	limits_close(&limits);
}

TEST(requests_stacks_by_the_agents_ids)
{
	struct limits_fixture limits;
	struct id128 sent = { 4, 5 };
	struct fixture f;

	open_fixture(&f);
	limits_open(&limits, "tenants: {shop: {stack-depth: 16}}\n");
	receiver_free(f.receiver);
	f.receiver = receiver_new(f.store, &f.metrics, limits.limits);
	// As the store knows it.
	struct batch_limited limited = { 0 };
	struct store_batch_id id;
	struct profile *profile = profile_new(20 * NS_PER_MS);
	assert_int_equal(0, batch_limits_apply(tenant_limits_find(limits.limits, "shop"), profile,
					       &id, &limited, NULL));
	profile_free(profile);
	f.store->unknown_stack = sent;
	batch_limits_restore_ids(&limited, &f.store->unknown_stack, 1);
	encode(&f, 1, 1);
	EXPECT_EQ(RPC_OK, export_of(&f, "shop", NULL), "answered");
	struct export_response response = decode(&f);
	EXPECT_EQ(1, response.unknown_stack_count, "stacks");
	EXPECT_EQ(true, id128_equal(sent, response.unknown_stacks[0]), "the agent's id");
	export_response_deinit(&response);
	close_fixture(&f);
	limits_close(&limits);
}

static uint32_t seen_series_max;

static void see_series_max(const struct store_batch_id *batch, const struct profile *profile)
{
	(void)profile;
	seen_series_max = batch->tenant_series_max;
}

TEST(the_answer_says_what_limits_changed)
{
	struct limits_fixture limits;
	struct fixture f;

	open_fixture(&f);
	limits_open(&limits, "tenants: {shop: {series: 9}}\n");
	receiver_free(f.receiver);
	f.receiver = receiver_new(f.store, &f.metrics, limits.limits);
	f.store->on_append = see_series_max;
	f.store->refused = (struct store_append_result){ .rows_other = 4, .rows_tenant = 3 };
	encode(&f, 1, 1);
	EXPECT_EQ(RPC_OK, export_of(&f, "shop", NULL), "stored");
	EXPECT_EQ(9, seen_series_max, "the store's to apply");
	struct export_response response = decode(&f);
	assert_non_null(strstr(response.limited, "tenant shop: series: 9 ("));
	assert_non_null(strstr(response.limited,
			       ":1): rows of new series stored under the label other: 3"));
	export_response_deinit(&response);
	EXPECT_EQ(3, refusals_of(&limits, "shop", LIMIT_SERIES), "counted");
	EXPECT_EQ(RPC_OK, export_of(&f, "shop", NULL), "again");
	response = decode(&f);
	EXPECT_EQ(true, response.duplicate, "nothing was stored");
	EXPECT_STR("", response.limited, "nothing was changed");
	export_response_deinit(&response);
	EXPECT_EQ(3, refusals_of(&limits, "shop", LIMIT_SERIES), "once");
	close_fixture(&f);
	limits_close(&limits);
}

TEST(counts_a_restarted_agent_once)
{
	static const struct {
		uint64_t boot;
		uint32_t agents; // then
	} batches[] = {
		{ 1, 1 }, { 1, 1 }, //
		{ 2, 1 },           // it may have started anew
		{ 1, 2 },           // it has not: there are two
		{ 2, 2 }, { 1, 2 }, //
		{ 3, 1 }, { 2, 2 }, // one of them has
	};
	struct fixture f;

	open_fixture(&f);
	for (uint32_t i = 0; i < ARRAY_SIZE(batches); i++) {
		encode_boot(&f, 1, batches[i].boot, i + 1);
		assert_int_equal(RPC_OK, export_it(&f));
		assert_int_equal(batches[i].agents,
				 seen_agents_count(receiver_agents(f.receiver), 0));
	}
	close_fixture(&f);
}

TEST(the_table_of_agents_is_bounded)
{
	struct fixture f;

	open_fixture(&f);
	uint64_t start_ns = clock_realtime_ns();
	for (uint64_t agent = 1; agent <= 3; agent++) {
		encode(&f, agent, agent);
		assert_int_equal(RPC_OK, export_it(&f));
		assert_int_equal(RPC_OK, export_it(&f));
	}
	assert_int_equal(3, seen_agents_count(receiver_agents(f.receiver), start_ns));
	assert_int_equal(0,
			 seen_agents_count(receiver_agents(f.receiver), clock_realtime_ns() + 1));
	for (uint64_t agent = 4; agent < SEEN_AGENTS_MAX + 10; agent++) {
		encode(&f, agent, agent);
		assert_int_equal(RPC_OK, export_it(&f));
	}
	assert_int_equal(SEEN_AGENTS_MAX, seen_agents_count(receiver_agents(f.receiver), start_ns));
	close_fixture(&f);
}

RUN_TESTS(cmocka_unit_test(stores_and_counts_a_batch_once),
	  cmocka_unit_test(answers_with_boosts_and_notes_reports),
	  cmocka_unit_test(requests_unknown_stacks), cmocka_unit_test(answers_what_was_refused),
	  cmocka_unit_test(answers_an_empty_request_uncounted),
	  cmocka_unit_test(identifies_a_batch_by_its_peer),
	  cmocka_unit_test(agents_retry_when_the_store_fails),
	  cmocka_unit_test(refuses_malformed_batches),
	  cmocka_unit_test(refuses_a_newer_contract_version),
	  cmocka_unit_test(a_tenant_over_its_rate_sends_later),
	  cmocka_unit_test(the_answer_says_what_limits_changed),
	  cmocka_unit_test(requests_stacks_by_the_agents_ids),
	  cmocka_unit_test(counts_a_restarted_agent_once),
	  cmocka_unit_test(the_table_of_agents_is_bounded))
