// SPDX-License-Identifier: Apache-2.0
// Who may add series: a process, service, node or tenant that has many loses labels, others do not.
#include "tests/unit/collector/store/store_fixture.h"

#include "collector/store/rocksdb/partition_quota.h"
#include "collector/store/rocksdb/postings.h"

static uint32_t tenant_max; // of the tenant whose series are placed; 0: the default

/** Place the series "labels"; its labels afterwards are @expected (NULL: as they are). */
static void expect_placed(struct postings *postings, const char *text, const char *expected)
{
	struct labels labels = { 0 };
	char placed[512] = "";
	uint32_t series;
	enum series_level level;

	labels_of_text(text, &labels);
	assert_int_equal(0,
			 postings_place(postings, &labels, "cpu", 20, tenant_max, &series, &level));
	const struct indexed_series *found = &postings->series[series];
	for (uint32_t i = 0; i < found->pair_count; i++) {
		uint32_t pair = postings->series_pairs[found->first_pair + i];

		sprintf(placed + strlen(placed), "%s%s=%s", i ? "," : "",
			postings->pairs[pair].name, postings->pairs[pair].value);
	}
	assert_string_equal(expected ? expected : text, placed);
	EXPECT_EQ(expected != NULL, level != SERIES_LEVELS, text);
	labels_deinit(&labels);
}

/** Place @count series: @format has a number. */
__attribute__((format(printf, 2, 0))) static void place_many(struct postings *postings,
							     const char *format, uint32_t count)
{
	struct labels labels = { 0 };
	char text[256];
	uint32_t series;
	enum series_level level;

	for (uint32_t i = 0; i < count; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(text, sizeof(text), format, i, i / 1000);
#pragma GCC diagnostic pop
		labels_of_text(text, &labels);
		assert_int_equal(0, postings_place(postings, &labels, "cpu", 20, tenant_max,
						   &series, &level));
		labels_deinit(&labels);
	}
}

TEST(a_process_with_many_threads_loses_their_names)
{
	struct postings *postings = postings_new();

	place_many(postings, "node=n,process=p,service=s,thread=t%u", SERIES_PER_PROCESS_MAX + 100);
	EXPECT_EQ(SERIES_PER_PROCESS_MAX + 1, postings->series_count, "and one of the excess");
	expect_placed(postings, "node=n,process=p,service=s,thread=new",
		      "node=n,other=process,process=p,service=s");
	expect_placed(postings, "node=n,process=p,service=s,state=running,thread=new",
		      "node=n,other=process,process=p,service=s,state=running");
	expect_placed(postings, "node=n,process=p,service=s,thread=t7", NULL); // is there
	expect_placed(postings, "node=n,process=q,service=s,thread=new", NULL);
	expect_placed(postings, "node=m,process=p,service=s,thread=new", NULL);
	postings_unref(postings);
}

TEST(a_service_leaves_room_for_others)
{
	struct postings *postings = postings_new();

	// A thousand series of each node and process, so that no narrower quota is met.
	place_many(postings, "service=s,thread=t%u,node=n%u", SERIES_PER_SERVICE_MAX + 5000);
	EXPECT_EQ(SERIES_PER_SERVICE_MAX + 1, postings->series_count, "and one of the excess");
	expect_placed(postings, "node=new,service=s,thread=t", "other=service,service=s");
	expect_placed(postings, "node=new,service=t,thread=t", NULL);
	expect_placed(postings, "node=new,service=s,tenant=a,thread=t", NULL); // of another's
	postings_unref(postings);
}

TEST(a_node_leaves_room_for_others)
{
	struct postings *postings = postings_new();

	place_many(postings, "node=n,service=s%u", SERIES_PER_NODE_MAX + 500);
	EXPECT_EQ(SERIES_PER_NODE_MAX + 1, postings->series_count, "and one of the excess");
	expect_placed(postings, "node=n,service=new", "node=n,other=node");
	expect_placed(postings, "node=m,service=new", NULL);
	postings_unref(postings);
}

TEST(a_tenant_leaves_room_for_others)
{
	struct postings *postings = postings_new();

	place_many(postings, "tenant=a,service=s%u,node=n%u", SERIES_PER_TENANT_MAX + 500);
	expect_placed(postings, "node=new,service=new,tenant=a", "other=tenant,tenant=a");
	expect_placed(postings, "node=new,service=new,tenant=b", NULL);
	postings_unref(postings);
}

TEST(a_tenant_may_have_a_limit_of_its_own)
{
	static const struct {
		const char *what, *format, *new, *excess;
	} rows[] = {
		{ "a tenant", "tenant=a,service=s%u,node=n%u", "node=new,service=new,tenant=a",
		  "other=tenant,tenant=a" },
		{ "none", "service=s%u,node=n%u", "node=new,service=new", "other=tenant" },
	};

	for EACH (row, rows) {
		struct postings *postings = postings_new();

		tenant_max = 50;
		place_many(postings, row->format, 60);
		EXPECT_EQ(51, postings->series_count, row->what);
		expect_placed(postings, row->new, row->excess);
		tenant_max = 0;
		expect_placed(postings, "node=new,service=new,tenant=b", NULL);
		expect_placed(postings, row->new, NULL); // it was raised
		postings_unref(postings);
	}
}

TEST(a_full_partition_keeps_the_sums)
{
	struct postings *postings = postings_new();

	place_many(postings, "service=s%u,node=n%u", POSTINGS_SERIES_MAX + 5000);
	EXPECT_EQ(POSTINGS_SERIES_MAX - SERIES_OF_EXCESS_MAX + 1, postings->series_count, "series");
	expect_placed(postings, "node=new,service=new", "other=collector");
	expect_placed(postings, "node=new,service=new,tenant=b", "other=collector,tenant=b");
	postings_unref(postings);
}

TEST(nobody_claims_the_excess)
{
	struct postings *postings = postings_new();
	struct labels labels = { 0 };
	uint32_t series;
	enum series_level level;

	labels_of_text("other=collector,service=s", &labels);
	assert_int_equal(0,
			 postings_place(postings, &labels, "cpu", 20, tenant_max, &series, &level));
	EXPECT_EQ(1, postings->series[series].pair_count, "only its service");
	EXPECT_EQ(SERIES_LEVELS, level, "an ordinary series");
	labels_deinit(&labels);
	postings_unref(postings);
}

TEST(quotas_hold_after_decoding)
{
	struct postings *postings = postings_new(), *restored = postings_new();
	struct buffer record = { 0 };

	place_many(postings, "node=n,process=p,service=s,thread=t%u", SERIES_PER_PROCESS_MAX + 100);
	postings_encode(postings, 0, &record);
	assert_int_equal(
		0, postings_decode(restored, (struct bytes){ record.bytes, record.size }, NULL));
	EXPECT_EQ(postings->quota.series, restored->quota.series, "series");
	EXPECT_EQ(postings->quota.count, restored->quota.count, "keys");
	expect_placed(restored, "node=n,process=p,service=s,thread=new",
		      "node=n,other=process,process=p,service=s");
	buffer_deinit(&record);
	postings_unref(postings);
	postings_unref(restored);
}

TEST(the_excess_stays_its_tenants)
{
	for (int level = 0; level < SERIES_LEVELS; level++) {
		struct labels labels = { 0 }, excess = { 0 };
		char name[8];

		for (uint32_t i = 0; i < LABELS_MAX - 1; i++) {
			snprintf(name, sizeof(name), "a%u", i); // before "tenant"
			assert_int_equal(0, labels_set(&labels, name, "x"));
		}
		assert_int_equal(0, labels_set(&labels, "tenant", "shop"));
		assert_int_equal(0, series_of_excess((enum series_level)level, &labels, &excess));
		EXPECT_STR("shop", labels_get(&excess, "tenant"), "tenant");
		labels_deinit(&labels);
		labels_deinit(&excess);
	}
}

RUN_TESTS(cmocka_unit_test(the_excess_stays_its_tenants),
	  cmocka_unit_test(a_process_with_many_threads_loses_their_names),
	  cmocka_unit_test(a_service_leaves_room_for_others),
	  cmocka_unit_test(a_node_leaves_room_for_others),
	  cmocka_unit_test(a_tenant_leaves_room_for_others),
	  cmocka_unit_test(a_tenant_may_have_a_limit_of_its_own),
	  cmocka_unit_test(a_full_partition_keeps_the_sums),
	  cmocka_unit_test(nobody_claims_the_excess), cmocka_unit_test(quotas_hold_after_decoding))
