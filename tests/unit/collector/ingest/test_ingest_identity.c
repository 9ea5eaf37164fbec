// SPDX-License-Identifier: Apache-2.0
// Whose batch it is: by the credential, never by the message.
#include "collector/ingest/ingest_identity.h"

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "tests/unit/collector/access/access_fixture.h"
#include "tests/unit/collector/limits/limits_fixture.h"

static const struct id128 agent = { 1, 2 };

static struct profile *profile_of(const char *tenant, const char *node)
{
	struct profile *profile = profile_new(20000000);
	struct labels labels = { 0 };
	uint32_t series;

	assert_int_equal(0, labels_set(&labels, LABEL_TENANT, tenant));
	assert_int_equal(0, labels_set(&labels, LABEL_NODE, node));
	assert_int_equal(0, labels_set(&labels, LABEL_SERVICE, "llm"));
	assert_int_equal(0, profile_add_series(profile, &labels, PROFILE_TYPE_CPU, &series));
	labels_deinit(&labels);
	return profile;
}

static const struct {
	const char *what;
	const char *key, *tenant, *node; // the identity's
	const char *stored_tenant, *stored_node;
	bool is_local;
} rows[] = {
	{ "local", "local", "*", "", NULL, "claimed", true },
	{ "a token", "token:a", "shop", "", "shop", "claimed", false },
	{ "no tenant", "token:a", "", "", NULL, "claimed", false },
	{ "a certificate", "certificate:n", "shop", "n", "shop", "n", false },
};

TEST(labels_come_from_the_credential)
{
	for EACH (row, rows) {
		struct profile *profile = profile_of("claimed", "claimed");
		struct store_batch_id batch = { .agent = agent };
		struct identity identity = { 0 };

		strcpy(identity.key, row->key);
		strcpy(identity.tenant, row->tenant);
		strcpy(identity.node, row->node);
		assert_int_equal(
			0, ingest_identity_apply(&identity, "10.0.0.1", profile, &batch, NULL));
		const struct labels *labels = &profile->series[0].labels;
		const char *tenant = labels_get(labels, LABEL_TENANT);
		EXPECT_STR(row->stored_tenant ? row->stored_tenant : "none",
			   tenant ? tenant : "none", row->what);
		EXPECT_STR(row->stored_node, labels_get(labels, LABEL_NODE), row->what);
		EXPECT_EQ(true, id128_equal(agent, batch.agent), row->what);
		EXPECT_EQ(row->is_local,
			  id128_equal(batch.identity, id128_of("10.0.0.1", strlen("10.0.0.1"))),
			  row->what);
		struct id128 id = series_id_of(labels, PROFILE_TYPE_CPU);
		EXPECT_EQ(true, id128_equal(id, profile->series[0].id), row->what);
		profile_free(profile);
	}
}

static struct id128 bound(const char *key, const char *tenant)
{
	struct profile *profile = profile_of("", "");
	struct store_batch_id batch = { .agent = agent };
	struct identity identity = { 0 };

	strcpy(identity.key, key);
	strcpy(identity.tenant, tenant);
	assert_int_equal(0, ingest_identity_apply(&identity, "10.0.0.1", profile, &batch, NULL));
	profile_free(profile);
	return batch.identity;
}

TEST(nobody_can_send_as_another_agent)
{
	struct id128 own = bound("token:a", "t");

	assert_true(id128_equal(own, bound("token:a", "t")));
	assert_false(id128_equal(own, bound("token:b", "t")));
	assert_false(id128_equal(own, bound("certificate:a", "t")));
	assert_false(id128_equal(own, bound("token:a", "u")));
}

static struct id128 clock_of(const char *key, const char *peer, struct id128 machine)
{
	struct profile *profile = profile_of("", "");
	struct store_batch_id batch = { .agent = machine };
	struct identity identity = { .tenant = "t" };

	strcpy(identity.key, key);
	assert_int_equal(0, ingest_identity_apply(&identity, peer, profile, &batch, NULL));
	profile_free(profile);
	return batch.clock;
}

TEST(a_clock_is_of_credential_and_address)
{
	const struct id128 own = clock_of("token:a", "10.0.0.1", agent);

	assert_true(id128_equal(own, clock_of("token:a", "10.0.0.1", (struct id128){ 7, 7 })));
	assert_false(id128_equal(own, clock_of("token:b", "10.0.0.1", agent)));
	assert_false(id128_equal(own, clock_of("token:a", "10.0.0.2", agent)));
}

TEST(admits_the_role_ingest)
{
	struct limits_fixture limits;
	struct made_token fleet = make_token("fleet", "ingest", "shop");
	struct made_token reader = make_token("reader", "read", "shop");
	struct access_folder folder;
	struct access *access;
	struct error err = { 0 };
	char text[2 * ACCESS_LINE_BYTES + 8];
	void *caller = NULL;

	access_folder_open(&folder);
	snprintf(text, sizeof(text), "%s%s", fleet.line, reader.line);
	access_folder_write(&folder, text);
	const struct access_options options = { .file = folder.path };
	assert_int_equal(0, access_open(&options, &access, &err));

	struct ingest_gate gate = { .access = access };
	uint32_t pause_ms = 0;
	struct rpc_visitor visitor = { .peer = "127.0.0.1", .ret_pause_ms = &pause_ms };
	EXPECT_EQ(RPC_UNAUTHENTICATED, ingest_admit(&gate, &visitor, &caller, &err), "nothing");
	visitor.authorization = "Bearer x";
	EXPECT_EQ(RPC_UNAUTHENTICATED, ingest_admit(&gate, &visitor, &caller, &err), "unknown");
	visitor.authorization = reader.authorization;
	EXPECT_EQ(RPC_PERMISSION_DENIED, ingest_admit(&gate, &visitor, &caller, &err), "a reader");
	assert_null(caller);
	visitor.authorization = fleet.authorization;
	EXPECT_EQ(RPC_OK, ingest_admit(&gate, &visitor, &caller, &err), "the fleet");
	EXPECT_STR("token:fleet", ((struct identity *)caller)->key, "key");
	free(take(caller));
	EXPECT_EQ(0, pause_ms, "nobody has to wait");

	limits_open(&limits, "tenants: {shop: {ingest-rate: 1KiB}}\n");
	gate.limits = limits.limits;
	EXPECT_EQ(RPC_OK, ingest_admit(&gate, &visitor, &caller, &err), "within its rate");
	free(take(caller));
	limits_use(&limits, "shop", 20 << 10);
	EXPECT_EQ(RPC_RESOURCE_EXHAUSTED, ingest_admit(&gate, &visitor, &caller, &err),
		  "over its rate");
	EXPECT_EQ(TENANT_LATER, err.code, "which limit it is");
	assert_null(caller);
	assert_true(pause_ms > 9000 && pause_ms < 11000);
	limits_close(&limits);
	access_close(access);
	access_folder_close(&folder);
}

RUN_TESTS(cmocka_unit_test(labels_come_from_the_credential),
	  cmocka_unit_test(nobody_can_send_as_another_agent),
	  cmocka_unit_test(a_clock_is_of_credential_and_address),
	  cmocka_unit_test(admits_the_role_ingest))
