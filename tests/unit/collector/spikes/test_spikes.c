// SPDX-License-Identifier: Apache-2.0
// Spikes out of a store: of the right service, type and time, ranked, with the code and labels that carry them.
// Subject: collector/spikes/spikes.c
// Subject: collector/spikes/spike_cause.c
// Subject: collector/spikes/spike_text.c
// Subject: collector/spikes/spike_type.c
// Subject: collector/spikes/spike_selector.c
#include "collector/spikes/spikes.h"

#include "collector/spikes/spike_text.h"
#include "tests/unit/collector/spikes/spikes_fixture.h"

static int find(struct fixture *fixture, const char *tenant, const char *selector_text,
		const struct spikes_options *options, struct error *err)
{
	struct selector selector = { 0 };
	const struct query query = {
		.store = fixture->store,
		.selector = &selector,
		.range = { fixture->begin_ns + 300 * NS_PER_SECOND,
			   fixture->begin_ns + MINUTES * 60 * NS_PER_SECOND },
	};

	spikes_deinit(&fixture->spikes);
	if (selector_parse(selector_text, tenant, &selector, err))
		fail_msg("%s", err->text);
	int rc = query_spikes(&query, options, &fixture->spikes, err);
	selector_deinit(&selector);
	return rc;
}

static const struct spike *find_first(struct fixture *fixture, const char *selector_text)
{
	const struct spikes_options options = { .min_s = 0.2, .limit = 20 };
	struct error err = { 0 };

	if (find(fixture, SELECTOR_ALL_TENANTS, selector_text, &options, &err))
		fail_msg("%s", err.text);
	return fixture->spikes.count ? &fixture->spikes.items[0] : NULL;
}

static void expect_text(void (*make)(struct buffer *text, const struct spike *spike),
			const struct spike *spike, const char *expected)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };

	make(&text, spike);
	EXPECT_STR(expected, buffer_string(&text), "text");
}

TEST(names_code_and_pod_of_a_lock_convoy)
{
	struct fixture fixture;

	set_up(&fixture);
	add_service(&fixture, "shop", 0, MINUTES);
	add_service(&fixture, "other", 0, MINUTES);
	add_lock_convoy(&fixture, "shop");
	store_all(&fixture);
	const struct spike *spike = find_first(&fixture, "{}");

	EXPECT_EQ(1, fixture.spikes.count, "spikes");
	EXPECT_STR("shop", spike->service, "service");
	EXPECT_STR("lock", spike->group, "wait");
	EXPECT_EQ(SPIKE_AT_S * 10, (spike->interval.from_ns - fixture.begin_ns) / 100000000,
		  "from");
	EXPECT_EQ((SPIKE_AT_S + 3) * 10, (spike->interval.to_ns - fixture.begin_ns) / 100000000,
		  "to");
	assert_false(spike->goes_on);
	expect_text(spike_append_title, spike,
		    "Blocked time (lock): 4.02 threads instead of 0.02, for 3.0 s");
	expect_text(spike_append_sentence, spike,
		    "100 % of the extra blocked time (lock) is `lock_wait` under `encode`, on 1 of "
		    "2 pods (shop-1), node n1.");
	tear_down(&fixture);
}

TEST(quiet_services_have_none)
{
	struct fixture fixture;

	set_up(&fixture);
	add_service(&fixture, "shop", 0, MINUTES);
	store_all(&fixture);
	assert_null(find_first(&fixture, "{}"));
	EXPECT_EQ(0, fixture.spikes.not_judged, "judged");
	tear_down(&fixture);
}

TEST(a_service_that_just_started_is_not_judged)
{
	struct fixture fixture;

	set_up(&fixture);
	add_service(&fixture, "shop", 0, MINUTES);
	add_service(&fixture, "young", SPIKE_AT_S - 30, 2);
	add_lock_convoy(&fixture, "young");
	store_all(&fixture);
	assert_null(find_first(&fixture, "{}"));
	EXPECT_EQ(1, fixture.spikes.not_judged, "reported");
	tear_down(&fixture);
}

TEST(what_was_so_yesterday_is_usual)
{
	const uint64_t day_ns = 24 * 3600 * NS_PER_SECOND;
	struct fixture fixture;

	set_up(&fixture);
	add_service(&fixture, "shop", 0, MINUTES);
	add_lock_convoy(&fixture, "shop");
	store_all(&fixture);
	fixture.begin_ns -= day_ns;
	add_service(&fixture, "shop", 0, 1); // so long it is stored
	store_all(&fixture);
	fixture.begin_ns += day_ns;
	assert_non_null(find_first(&fixture, "{}"));
	EXPECT_EQ(0, fixture.spikes.usual_at_time, "yesterday was quiet");
	fixture.begin_ns -= day_ns - 120 * NS_PER_SECOND;
	add_lock_convoy(&fixture, "shop"); // two minutes later in the day
	store_all(&fixture);
	fixture.begin_ns += day_ns - 120 * NS_PER_SECOND;
	assert_null(find_first(&fixture, "{}"));
	EXPECT_EQ(1, fixture.spikes.usual_at_time, "reported");
	tear_down(&fixture);
}

TEST(a_selector_holds)
{
	struct fixture fixture;

	set_up(&fixture);
	add_service(&fixture, "shop", 0, MINUTES);
	add_service(&fixture, "other", 0, MINUTES);
	add_lock_convoy(&fixture, "shop");
	store_all(&fixture);
	assert_null(find_first(&fixture, "other"));
	assert_null(find_first(&fixture, "{pod=\"shop-0\"}"));
	assert_non_null(find_first(&fixture, "{pod=\"shop-1\"}"));
	tear_down(&fixture);
}

TEST(a_tenant_sees_its_own_alone)
{
	const struct spikes_options options = { .min_s = 0.2, .limit = 20 };
	struct fixture fixture;
	struct error err = { 0 };

	set_up(&fixture);
	add_service(&fixture, "shop", 0, MINUTES);
	add_lock_convoy(&fixture, "shop");
	store_all(&fixture);
	EXPECT_EQ(0, find(&fixture, "acme", "{}", &options, &err), "asked");
	EXPECT_EQ(0, fixture.spikes.count, "of another tenant");
	EXPECT_EQ(0, find(&fixture, "", "{}", &options, &err), "asked");
	EXPECT_EQ(1, fixture.spikes.count, "its own");
	tear_down(&fixture);
}

TEST(names_the_neighbour_of_a_full_run_queue)
{
	struct fixture fixture;

	set_up(&fixture);
	add_service(&fixture, "shop", 0, MINUTES);
	for (int i = 0; i < MINUTES * 60; i++) {
		add(&fixture, i, "service=shop,node=n1,pod=shop-1", PROFILE_TYPE_SCHED_DELAY,
		    "main;serve", 0.01);
		add(&fixture, i, "service=batch,node=n1", PROFILE_TYPE_CPU, "main;crunch", 0.01);
	}
	for (int i = 0; i < 100; i++) {
		add(&fixture, SPIKE_AT_S + i * 0.1, "service=shop,node=n1,pod=shop-1",
		    PROFILE_TYPE_SCHED_DELAY, "main;serve", 0.12);
		add(&fixture, SPIKE_AT_S + i * 0.1, "service=batch,node=n1", PROFILE_TYPE_CPU,
		    "main;run;crunch", 0.3);
	}
	store_all(&fixture);
	const struct spike *spike = find_first(&fixture, "shop");

	assert_non_null(spike);
	EXPECT_STR(PROFILE_TYPE_SCHED_DELAY, spike->type->type, "type");
	expect_text(spike_append_sentence, spike,
		    "100 % of the extra time in the run queue is `serve`, on 1 of 2 pods (shop-1), "
		    "node n1; meanwhile service batch took 3.0 cores more, 100 % of it `crunch` "
		    "under `run`.");
	find_first(&fixture, "{}");
	EXPECT_EQ(2, fixture.spikes.count, "the neighbour's own, too");
	EXPECT_EQ(0, fixture.spikes.items[1].incident, "it is one incident");
	EXPECT_STR("batch", fixture.spikes.items[0].service, "the cause comes first");
	tear_down(&fixture);
}

TEST(throttled_time_names_what_used_the_quota_up)
{
	struct fixture fixture;

	set_up(&fixture);
	add_service(&fixture, "shop", 0, MINUTES);
	for (int i = 0; i < 100; i++)
		add(&fixture, SPIKE_AT_S + i * 0.1, "service=shop,node=n1,pod=shop-1",
		    PROFILE_TYPE_THROTTLED, "", 0.05);
	store_all(&fixture);
	const struct spike *spike = find_first(&fixture, "shop");

	assert_non_null(spike);
	EXPECT_STR(PROFILE_TYPE_THROTTLED, spike->type->type, "type");
	expect_text(spike_append_sentence, spike,
		    "The extra throttled time is on 1 of 2 pods (shop-1), node n1; meanwhile it "
		    "ran 0.20 cores, "
		    "100 % of it `work` under `serve`.");
	tear_down(&fixture);
}

TEST(groups_simultaneous_spikes)
{
	struct fixture fixture;

	set_up(&fixture);
	add_service(&fixture, "shop", 0, MINUTES);
	add_lock_convoy(&fixture, "shop");
	for (int i = 0; i < 150; i++)
		add(&fixture, SPIKE_AT_S + i * 0.02, "service=shop,node=n1,pod=shop-1",
		    PROFILE_TYPE_CPU, "main;reload;parse", 0.02);
	for (int i = 0; i < 50; i++)
		add(&fixture, 400 + i * 0.02, "service=shop,node=n0,pod=shop-0", PROFILE_TYPE_CPU,
		    "main;collect", 0.04);
	store_all(&fixture);
	find_first(&fixture, "shop");
	EXPECT_EQ(3, fixture.spikes.count, "spikes");
	EXPECT_EQ(0, fixture.spikes.items[0].incident, "first");
	for (uint32_t i = 1; i < 3; i++) {
		const struct spike *spike = &fixture.spikes.items[i];
		bool is_late = spike->interval.from_ns > fixture.begin_ns + 600 * NS_PER_SECOND;

		EXPECT_EQ(is_late ? 0 : i, spike->incident, "incident");
	}
	EXPECT_STR("parse", fixture.spikes.items[0].cause.meanwhile.leaf, "meanwhile");
	tear_down(&fixture);
}

TEST(answers_only_judged_types)
{
	struct spikes_options options = { .min_s = 0.2, .limit = 20, .type = PROFILE_TYPE_CPU };
	struct fixture fixture;
	struct error err = { 0 };

	set_up(&fixture);
	add_service(&fixture, "shop", 0, MINUTES);
	add_lock_convoy(&fixture, "shop");
	store_all(&fixture);
	EXPECT_EQ(0, find(&fixture, SELECTOR_ALL_TENANTS, "{}", &options, &err), "CPU time");
	EXPECT_EQ(0, fixture.spikes.count, "none of CPU time");
	options.type = PROFILE_TYPE_RSS;
	EXPECT_EQ(-EINVAL, find(&fixture, SELECTOR_ALL_TENANTS, "{}", &options, &err), "a gauge");
	options = (struct spikes_options){ .min_s = 100, .limit = 20 };
	EXPECT_EQ(0, find(&fixture, SELECTOR_ALL_TENANTS, "{}", &options, &err), "min");
	EXPECT_EQ(0, fixture.spikes.count, "none is as large");
	tear_down(&fixture);
}

TEST(an_empty_store_answers_nothing)
{
	struct fixture fixture;

	set_up(&fixture);
	assert_null(find_first(&fixture, "{}"));
	tear_down(&fixture);
}

TEST(a_path_is_escaped)
{
	struct spike spike = {
		.service = (char *)"a b&c",
		.type = spike_type_find(PROFILE_TYPE_OFF_CPU),
		.group = (char *)"lock",
		.interval = { 1700000000000000000ULL, 1700000001500000000ULL },
	};

	expect_text(spike_append_path, &spike,
		    "/?at=1700000000000&for=1500ms&service=a%20b%26c&type=off-cpu"
		    "&query=%7Bwait%3D%22lock%22%7D");
}

RUN_TESTS(cmocka_unit_test(names_code_and_pod_of_a_lock_convoy),
	  cmocka_unit_test(quiet_services_have_none),
	  cmocka_unit_test(a_service_that_just_started_is_not_judged),
	  cmocka_unit_test(what_was_so_yesterday_is_usual), cmocka_unit_test(a_selector_holds),
	  cmocka_unit_test(a_tenant_sees_its_own_alone),
	  cmocka_unit_test(names_the_neighbour_of_a_full_run_queue),
	  cmocka_unit_test(throttled_time_names_what_used_the_quota_up),
	  cmocka_unit_test(groups_simultaneous_spikes), cmocka_unit_test(answers_only_judged_types),
	  cmocka_unit_test(an_empty_store_answers_nothing), cmocka_unit_test(a_path_is_escaped))
