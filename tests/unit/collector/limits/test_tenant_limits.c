// SPDX-License-Identifier: Apache-2.0
// What a tenant is refused, for how long, and that others are not.
#include "tests/unit/collector/limits/limits_fixture.h"

#include <pthread.h>

#include "base/clock.h"

enum { KIB = 1 << 10 };

// A monotonic clock that the test controls.
#define AT_S(seconds) (uint64_t)(1000 * NS_PER_SECOND + (seconds) * (double)NS_PER_SECOND)

static const char shop_limited[] = "tenants:\n"
				   "  shop:\n"
				   "    ingest-rate: 10KiB\n"
				   "    ingest-burst: 20KiB\n"
				   "    query-range: 1h\n"
				   "    query-memory: 2MiB\n";

TEST(a_rate_is_refused_until_it_is_worked_off)
{
	struct limits_fixture f;
	char words[200];
	struct error err = { 0 };

	limits_open(&f, shop_limited);
	struct tenant *shop = tenant_limits_find(f.limits, "shop");
	EXPECT_EQ(0, tenant_take_ingest(shop, 15 * KIB, AT_S(0), &err), "within the burst");
	EXPECT_EQ(0, tenant_take_ingest(shop, 15 * KIB, AT_S(0), &err), "begins within it");
	EXPECT_EQ(TENANT_LATER, tenant_take_ingest(shop, 1, AT_S(0), &err), "10 KiB above it");
	snprintf(words, sizeof(words),
		 "tenant shop: ingest-rate: 10 KiB (%s:3) is used up; send it again in 1.0 s",
		 tenant_limits_file(f.limits));
	EXPECT_STR(words, err.text, "words");
	EXPECT_EQ(1001, tenant_ingest_pause_ms(shop, AT_S(0)), "pause");
	EXPECT_EQ(TENANT_LATER, tenant_take_ingest(shop, 1, AT_S(0.9), &err), "too early");
	EXPECT_EQ(0, tenant_take_ingest(shop, 1, AT_S(1.001), &err), "in time");
	EXPECT_EQ(2, refusals_of(&f, "shop", LIMIT_INGEST_RATE), "counted");
	limits_close(&f);
}

TEST(no_batch_is_too_large_for_ever)
{
	struct limits_fixture f;
	struct error err = { 0 };

	limits_open(&f, shop_limited);
	struct tenant *shop = tenant_limits_find(f.limits, "shop");
	EXPECT_EQ(0, tenant_take_ingest(shop, 120 * KIB, AT_S(0), &err), "six times the burst");
	EXPECT_EQ(10001, tenant_ingest_pause_ms(shop, AT_S(0)), "then a long pause");
	EXPECT_EQ(0, tenant_take_ingest(shop, 120 * KIB, AT_S(10.1), &err), "and again");
	limits_close(&f);
}

TEST(long_silence_saves_up_no_more_than_the_burst)
{
	struct limits_fixture f;
	struct error err = { 0 };
	int taken = 0;

	limits_open(&f, shop_limited);
	struct tenant *shop = tenant_limits_find(f.limits, "shop");
	assert_int_equal(0, tenant_take_ingest(shop, KIB, AT_S(0), &err));
	while (!tenant_take_ingest(shop, KIB, AT_S(100000), &err))
		taken++;
	EXPECT_EQ(20, taken, "KiB");
	// A clock that another thread has read earlier gives nothing.
	EXPECT_EQ(TENANT_LATER, tenant_take_ingest(shop, 1, AT_S(99999), &err), "earlier");
	EXPECT_EQ(TENANT_LATER, tenant_take_ingest(shop, 1, AT_S(100000), &err), "the same");
	limits_close(&f);
}

TEST(what_is_inflated_later_counts)
{
	struct limits_fixture f;
	struct error err = { 0 };

	limits_open(&f, shop_limited);
	struct tenant *shop = tenant_limits_find(f.limits, "shop");
	EXPECT_EQ(0, tenant_take_ingest(shop, 0, AT_S(0), &err), "asks");
	EXPECT_EQ(0, tenant_ingest_pause_ms(shop, AT_S(0)), "asking uses nothing");
	tenant_charge_ingest(shop, 30 * KIB);
	EXPECT_EQ(TENANT_LATER, tenant_take_ingest(shop, 0, AT_S(0), &err), "asks");
	limits_close(&f);
}

TEST(one_at_its_limit_leaves_others_alone)
{
	static const char *const others[] = { "bank", "", "*", "shopping" };
	struct limits_fixture f;
	struct error err = { 0 };

	limits_open(&f, shop_limited);
	struct tenant *shop = tenant_limits_find(f.limits, "shop");
	while (!tenant_take_ingest(shop, KIB, AT_S(0), &err))
		;
	for EACH (name, others) {
		struct tenant *other = tenant_limits_find(f.limits, *name);

		for (int i = 0; i < 1000; i++)
			EXPECT_EQ(0, tenant_take_ingest(other, 1 << 20, AT_S(0), &err), *name);
		EXPECT_EQ(0, tenant_check_range(other, 86400 * NS_PER_SECOND, &err), *name);
	}
	EXPECT_EQ(true, shop == tenant_limits_find(f.limits, "shop"), "the same tenant");
	limits_close(&f);
}

TEST(queries_have_a_range_and_memory)
{
	struct limits_fixture f;
	struct error err = { 0 };
	size_t most = 0;

	limits_open(&f, shop_limited);
	struct tenant *shop = tenant_limits_find(f.limits, "shop");
	EXPECT_EQ(0, tenant_check_range(shop, 3600 * NS_PER_SECOND, &err), "an hour");
	EXPECT_EQ(TENANT_NEVER, tenant_check_range(shop, 3601 * NS_PER_SECOND, &err), "more");
	assert_non_null(strstr(err.text, "tenant shop: query-range: 1h ("));
	assert_non_null(tenant_query_memory(shop, &most));
	EXPECT_EQ(2 << 20, most, "memory");
	EXPECT_EQ(TENANT_NEVER, tenant_refuse_memory(shop, true, &err), "alone");
	EXPECT_EQ(TENANT_LATER, tenant_refuse_memory(shop, false, &err), "beside others");
	EXPECT_EQ(2, refusals_of(&f, "shop", LIMIT_QUERY_MEMORY), "counted");
	assert_null(tenant_query_memory(tenant_limits_find(f.limits, "bank"), &most));
	limits_close(&f);
}

TEST(a_changed_file_holds_at_once)
{
	struct limits_fixture f;
	struct error err = { 0 };

	limits_open(&f, shop_limited);
	struct tenant *shop = tenant_limits_find(f.limits, "shop");
	while (!tenant_take_ingest(shop, KIB, AT_S(0), &err))
		;
	EXPECT_EQ(0, tenant_limits_refresh(f.limits, &err), "unchanged");
	limits_write(&f, "tenants: {shop: {ingest-rate: 1MiB}}\n");
	EXPECT_EQ(1, tenant_limits_refresh(f.limits, &err), "changed");
	EXPECT_EQ(0, tenant_take_ingest(shop, KIB, AT_S(0), &err), "raised");
	EXPECT_EQ(0, tenant_check_range(shop, 86400 * NS_PER_SECOND, &err), "taken away");
	limits_write(&f, "tenants: {shop: {ingest-rate: 1KiB}}\n}");
	EXPECT_EQ(-EINVAL, tenant_limits_refresh(f.limits, &err), "damaged");
	EXPECT_EQ(0, tenant_limits_refresh(f.limits, &err), "said once");
	EXPECT_EQ(0, tenant_take_ingest(shop, KIB, AT_S(0), &err), "the old one is in force");
	limits_write(&f, "");
	EXPECT_EQ(1, tenant_limits_refresh(f.limits, &err), "none");
	for (int i = 0; i < 100; i++)
		EXPECT_EQ(0, tenant_take_ingest(shop, 1 << 20, AT_S(0), &err), "no limit");
	limits_close(&f);
}

TEST(without_a_file_nothing_is_refused)
{
	struct tenant_limits *limits = NULL;
	struct tenant_values values;
	struct error err = { 0 };

	assert_int_equal(0, tenant_limits_open(NULL, &limits, &err));
	EXPECT_EQ(0, tenant_limits_refresh(limits, &err), "nothing to read");
	struct tenant *tenants[] = { NULL, tenant_limits_find(limits, "shop"),
				     tenant_limits_find(NULL, "shop") };
	for EACH (tenant, tenants) {
		EXPECT_EQ(0, tenant_take_ingest(*tenant, 1ULL << 40, AT_S(0), &err), "rate");
		EXPECT_EQ(0, tenant_take_ingest(*tenant, 1ULL << 40, AT_S(0), &err), "again");
		EXPECT_EQ(0, tenant_check_range(*tenant, TENANT_RANGE_NS_MAX, &err), "range");
		tenant_read_values(*tenant, &values);
		EXPECT_EQ(32, values.of[LIMIT_LABELS], "labels");
	}
	tenant_limits_close(limits);
}

static bool has_line(struct limits_fixture *f, const char *reader, const char *line)
{
	struct buffer text = { 0 };

	tenant_limits_encode(f->limits, reader, &text);
	bool has_it = strstr(buffer_string(&text), line);
	buffer_deinit(&text);
	return has_it;
}

TEST(metrics_name_a_bounded_number_of_tenants)
{
	struct limits_fixture f;
	char name[16];

	limits_open(&f, "");
	for (int i = 0; i < REPORTED_TENANTS_MAX + 10; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		tenant_count(tenant_limits_find(f.limits, name), LIMIT_SERIES, 2);
	}
	EXPECT_EQ(true, has_line(&f, "*", "{tenant=\"t7\",limit=\"series\"} 2\n"), "named");
	EXPECT_EQ(false, has_line(&f, "*", "tenant=\"t260\""), "beyond");
	EXPECT_EQ(true, has_line(&f, "*", "{tenant=\"(others)\",limit=\"series\"} 20\n"), "summed");
	EXPECT_EQ(true, has_line(&f, "t260", "{tenant=\"t260\",limit=\"series\"} 2\n"), "its own");
	EXPECT_EQ(false, has_line(&f, "t260", "tenant=\"t7\""), "another's");
	EXPECT_EQ(2, refusals_of(&f, "t260", LIMIT_SERIES), "listed for its reader");
	limits_close(&f);
}

TEST(tenants_themselves_are_bounded)
{
	struct limits_fixture f;
	char name[16];

	limits_open(&f, "");
	for (int i = 0; i < LIMITED_TENANTS_MAX; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		assert_non_null(tenant_limits_find(f.limits, name));
	}
	assert_null(tenant_limits_find(f.limits, "one-more"));
	assert_non_null(tenant_limits_find(f.limits, "t0"));
	limits_close(&f);
}

static void *take_much(void *argument)
{
	struct limits_fixture *f = argument;
	struct error err = { 0 };

	for (int i = 0; i < 2000; i++) {
		struct tenant *tenant = tenant_limits_find(f->limits, i % 2 ? "shop" : "bank");

		tenant_take_ingest(tenant, 1, AT_S(0), &err);
		tenant_ingest_pause_ms(tenant, AT_S(0));
	}
	return NULL;
}

TEST(threads_share_one_account)
{
	struct limits_fixture f;
	struct error err = { 0 };
	pthread_t threads[4];

	limits_open(&f, shop_limited);
	for EACH (thread, threads)
		assert_int_equal(0, pthread_create(thread, NULL, take_much, &f));
	for EACH (thread, threads)
		pthread_join(*thread, NULL);
	tenant_charge_ingest(tenant_limits_find(f.limits, "shop"), 20 * KIB - 4000);
	EXPECT_EQ(TENANT_LATER,
		  tenant_take_ingest(tenant_limits_find(f.limits, "shop"), 0, AT_S(0), &err),
		  "all were counted");
	limits_close(&f);
}

RUN_TESTS(cmocka_unit_test(a_rate_is_refused_until_it_is_worked_off),
	  cmocka_unit_test(no_batch_is_too_large_for_ever),
	  cmocka_unit_test(long_silence_saves_up_no_more_than_the_burst),
	  cmocka_unit_test(what_is_inflated_later_counts),
	  cmocka_unit_test(one_at_its_limit_leaves_others_alone),
	  cmocka_unit_test(queries_have_a_range_and_memory),
	  cmocka_unit_test(a_changed_file_holds_at_once),
	  cmocka_unit_test(without_a_file_nothing_is_refused),
	  cmocka_unit_test(metrics_name_a_bounded_number_of_tenants),
	  cmocka_unit_test(tenants_themselves_are_bounded),
	  cmocka_unit_test(threads_share_one_account))
