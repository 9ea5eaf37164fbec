// SPDX-License-Identifier: Apache-2.0
// Services against sums over all samples.
#include "tests/unit/collector/query/query_fixture.h"

/** Sum and number of nodes of the samples of @service. */
static void naive_service(const struct query *query, const char *service, int64_t *ret_total,
			  uint32_t *ret_nodes)
{
	bool seen[3] = { false };

	*ret_total = *ret_nodes = 0;
	for (uint32_t i = 0; i < query->store->sample_count; i++) {
		const struct memory_sample *sample = &query->store->samples[i];
		struct labels *labels = &query->store->series[sample->series].labels;
		const char *node = labels_get(labels, "node");

		if (!sample_selected(query, sample) ||
		    strcmp(labels_get(labels, "service"), service) != 0)
			continue;
		*ret_total += sample_value(sample, query->range);
		if (node && !seen[node[1] - '0']) {
			seen[node[1] - '0'] = true;
			(*ret_nodes)++;
		}
	}
}

TEST(services_add_up_and_count_nodes)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct store *store = random_store();
		struct selector selector;
		struct query query = random_query(store, &selector);
		struct query_service_set set;
		struct error err;
		int64_t sum = 0;

		assert_int_equal(0, query_services(&query, &set, &err));
		for (uint32_t i = 0; i < set.count; i++) {
			const struct query_service *service = &set.services[i];
			int64_t total;
			uint32_t nodes;

			naive_service(&query, service->name, &total, &nodes);
			EXPECT_EQ(total, service->total, service->name);
			EXPECT_EQ(nodes, service->node_count, service->name);
			EXPECT_EQ(0, service->pod_count, service->name);
			assert_true(!i || set.services[i - 1].total >= total);
			sum += total;
		}
		assert_int_equal(sum, set.total);
		query_service_set_deinit(&set);
		selector_deinit(&selector);
		store_close(store);
	}
}

TEST(series_without_a_service_are_one)
{
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, PARTITION_NS } };
	struct query_service_set set;
	struct error err;

	for (int i = 0; i < 3; i++) {
		struct labels labels = { 0 };
		char pod[8];

		snprintf(pod, sizeof(pod), "p%d", i);
		assert_int_equal(0, labels_set(&labels, "pod", pod));
		assert_int_equal(0, labels_set(&labels, "instance", i ? "b" : "a"));
		struct memory_sample sample = {
			.series = memory_store_add_series(store, &labels, PROFILE_TYPE_CPU),
			.slot_ns = 20000000,
			.value = 5,
		};
		memory_store_add(store, &sample);
		labels_deinit(&labels);
	}
	assert_int_equal(0, query_services(&query, &set, &err));
	assert_int_equal(1, set.count);
	EXPECT_STR("", set.services[0].name, "name");
	assert_int_equal(15, set.services[0].total);
	assert_int_equal(3, set.services[0].pod_count);
	assert_int_equal(2, set.services[0].instance_count);
	assert_int_equal(0, set.services[0].node_count);
	query_service_set_deinit(&set);
	query.type = PROFILE_TYPE_RSS;
	assert_int_equal(-EINVAL, query_services(&query, &set, &err));
	store_close(store);
}

RUN_TESTS(cmocka_unit_test(services_add_up_and_count_nodes),
	  cmocka_unit_test(series_without_a_service_are_one))
