// SPDX-License-Identifier: Apache-2.0
// Queries against a naive implementation that walks every sample: random stacks with recursion,
// inlined calls, shared names, cut stacks, several partitions and groups.
#include "tests/unit/collector/query/query_fixture.h"

/** A naive tree: every node keeps its children in a list. */
struct naive_node {
	const char *name;
	enum frame_kind kind;
	int64_t self, total;
	bool ended;
	struct naive_node *child, *sibling;
};

static struct naive_node *naive_child(struct naive_node *node, const char *name,
				      enum frame_kind kind)
{
	for (struct naive_node *child = node->child; child; child = child->sibling) {
		if (child->kind == kind && strcmp(child->name, name) == 0)
			return child;
	}
	return NULL;
}

static void naive_add(struct naive_node *node, const struct path *path, uint32_t level,
		      int64_t value)
{
	node->total += value;
	if (level == path->count) {
		node->self += value;
		node->ended = true;
		return;
	}
	struct naive_node *child = naive_child(node, path->names[level], path->kinds[level]);
	if (!child) {
		child = calloc(1, sizeof(*child));
		child->name = strdup(path->names[level]);
		child->kind = path->kinds[level];
		child->sibling = node->child;
		node->child = child;
	}
	naive_add(child, path, level + 1, value);
}

static uint32_t naive_count(const struct naive_node *node)
{
	uint32_t count = 1;

	for (const struct naive_node *child = node->child; child; child = child->sibling)
		count += naive_count(child);
	return count;
}

static uint32_t naive_stacks(const struct naive_node *node)
{
	uint32_t count = node->ended;

	for (const struct naive_node *child = node->child; child; child = child->sibling)
		count += naive_stacks(child);
	return count;
}

static void naive_free_children(struct naive_node *node)
{
	while (node->child) {
		struct naive_node *child = node->child;

		node->child = child->sibling;
		naive_free_children(child);
		free((void *)child->name);
		free(child);
	}
}

static void naive_tree(const struct query *query, struct naive_node *root)
{
	struct path path;

	for (uint32_t i = 0; i < query->store->sample_count; i++) {
		const struct memory_sample *sample = &query->store->samples[i];

		// A small value may have nothing in the last slots of its interval.
		if (!sample_selected(query, sample) || !sample_value(sample, query->range))
			continue;
		path_of(query->store, sample, query->group_by, &path);
		naive_add(root, &path, 0, sample_value(sample, query->range));
	}
}

static void expect_equal_trees(struct naive_node *root, const struct flame_tree *tree)
{
	struct naive_node **naive = calloc(tree->node_count, sizeof(struct naive_node *));

	assert_int_equal(naive_count(root), tree->node_count);
	assert_int_equal(naive_stacks(root), tree->stack_count);
	naive[0] = root;
	for (uint32_t i = 0; i < tree->node_count; i++) {
		const struct flame_node *node = &tree->nodes[i];
		const char *name = string_table_get(&tree->strings, node->name);

		if (i) {
			assert_true(node->parent < i);
			naive[i] = naive_child(naive[node->parent], name, node->kind);
			if (!naive[i])
				fail_msg("node %s is not expected there", name);
		}
		EXPECT_EQ(naive[i]->self, node->self, name);
		EXPECT_EQ(naive[i]->total, node->total, name);
	}
	free(naive);
}

TEST(flame_trees_equal_a_naive_walk)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct store *store = random_store();
		struct selector selector;
		struct query query = random_query(store, &selector);
		struct naive_node root = { .name = "total" };
		struct flame_tree tree;
		struct error err;

		naive_tree(&query, &root);
		assert_int_equal(0, query_flame_tree(&query, &tree, &err));
		expect_equal_trees(&root, &tree);
		naive_free_children(&root);
		flame_tree_deinit(&tree);
		selector_deinit(&selector);
		store_close(store);
	}
}

static void naive_parts(const struct query *query, struct naive_node *root)
{
	for (uint32_t i = 0; i < query->parts.count; i++) {
		struct query part = *query;

		part.range = query->parts.at[i];
		naive_tree(&part, root);
	}
}

/** Some ranges at random, within what is stored and around it; they overlap, and their ends lie within slots. */
static struct query_ranges random_ranges(void)
{
	struct query_ranges ranges = { .count = 1 + random_below(8) };

	for (uint32_t i = 0; i < ranges.count; i++) {
		uint64_t from_ns = PARTITION_NS / 2 + random_below(5000) * 1000000ULL;

		ranges.at[i] = (struct time_range){ from_ns, from_ns + (1 + random_below(400)) *
									       1000000ULL };
	}
	return ranges;
}

TEST(counts_each_slot_of_several_ranges_once)
{
	for (int round = 0; round < 3 * ROUNDS; round++) {
		struct store *store = random_store();
		struct selector selector;
		struct query query = random_query(store, &selector);
		struct naive_node root = { .name = "total" };
		struct flame_tree tree;
		struct profile *profile;
		int64_t sum = 0;
		struct error err;

		query.parts = random_ranges();
		query_ranges_tidy(&query.parts);
		query.range = query_ranges_hull(&query.parts);
		naive_parts(&query, &root);
		assert_int_equal(0, query_flame_tree(&query, &tree, &err));
		expect_equal_trees(&root, &tree);
		assert_int_equal(0, query_profile(&query, &profile, &err));
		for (uint32_t i = 0; i < profile->sample_count; i++)
			sum += profile->samples[i].value;
		assert_int_equal(root.total, sum);
		naive_free_children(&root);
		flame_tree_deinit(&tree);
		profile_free(profile);
		selector_deinit(&selector);
		store_close(store);
	}
}

// Rows of the same group and stack come apart here, with those of other groups between.
TEST(grouped_trees_equal_a_naive_walk)
{
	enum { PODS = 1500 };
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, 2 * PARTITION_NS },
			       .group_by = "pod" };
	struct naive_node root = { .name = "total" };
	struct flame_tree tree;
	struct error err;

	for (uint32_t i = 0; i < LOCATIONS; i++)
		add_random_location(store->profile, i);
	for (uint32_t i = 0; i < PODS; i++) {
		struct labels labels = { 0 };
		char pod[16];

		snprintf(pod, sizeof(pod), "p%u", i);
		assert_int_equal(0, labels_set(&labels, "pod", pod));
		memory_store_add_series(store, &labels, PROFILE_TYPE_CPU);
		labels_deinit(&labels);
	}
	for (uint32_t i = 0; i < 2 * PODS; i++) {
		struct memory_sample sample = { .series = i * 7 % PODS,
						.slot_ns = 20000000,
						.location_count = 6,
						.value = 1 + random_below(1000) };
		for (uint32_t l = 0; l < sample.location_count; l++)
			sample.locations[l] = i < PODS ? random_below(LOCATIONS)
						       : store->samples[i - PODS].locations[l];
		memory_store_add(store, &sample);
	}
	naive_tree(&query, &root);
	assert_int_equal(0, query_flame_tree(&query, &tree, &err));
	expect_equal_trees(&root, &tree);
	naive_free_children(&root);
	flame_tree_deinit(&tree);
	store_close(store);
}

/** The rows of one table, for the caller to free. */
static int read_top(const struct flame_tree *tree, uint32_t root, struct top_row **ret_rows,
		    uint32_t *ret_count, struct error *err)
{
	_cleanup_(top_table_freep) struct top_table *table = top_table_new(tree);
	const struct top_row *rows;

	assert_non_null(table);
	// A table is read more than once: what one walk leaves must not show in the next.
	for (int i = 0; i < 2; i++) {
		int rc = top_table_read(table, root, &rows, ret_count, err);
		if (rc)
			return rc;
	}
	*ret_rows = malloc((*ret_count + 1) * sizeof(**ret_rows));
	memcpy(*ret_rows, rows, *ret_count * sizeof(**ret_rows));
	return 0;
}

/** What a function's row should hold, from the samples themselves. */
static void naive_top(const struct query *query, const char *name, enum frame_kind kind,
		      int64_t *ret_self, int64_t *ret_total, int64_t ret_ran[FRAME_KIND_COUNT])
{
	struct path path;

	memset(ret_ran, 0, FRAME_KIND_COUNT * sizeof(ret_ran[0]));
	*ret_self = *ret_total = 0;
	for (uint32_t i = 0; i < query->store->sample_count; i++) {
		const struct memory_sample *sample = &query->store->samples[i];
		bool seen = false;

		if (!sample_selected(query, sample))
			continue;
		path_of(query->store, sample, NULL, &path);
		for (uint32_t level = 0; level < path.count; level++)
			seen |= path.kinds[level] == kind && strcmp(path.names[level], name) == 0;
		if (seen) {
			*ret_total += sample_value(sample, query->range);
			ret_ran[path.kinds[path.count - 1]] += sample_value(sample, query->range);
		}
		if (path.count && path.kinds[path.count - 1] == kind &&
		    strcmp(path.names[path.count - 1], name) == 0)
			*ret_self += sample_value(sample, query->range);
	}
}

TEST(the_table_counts_each_value_once)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct store *store = random_store();
		struct selector selector;
		struct query query = random_query(store, &selector);
		struct flame_tree tree;
		struct top_row *rows;
		uint32_t count;
		struct error err;
		int64_t self_sum = 0;

		query.group_by = NULL;
		assert_int_equal(0, query_flame_tree(&query, &tree, &err));
		assert_int_equal(0, read_top(&tree, 0, &rows, &count, &err));
		for (uint32_t i = 0; i < count; i++) {
			const char *name = string_table_get(&tree.strings, rows[i].name);
			int64_t self, total, ran[FRAME_KIND_COUNT];

			naive_top(&query, name, rows[i].kind, &self, &total, ran);
			for (int kind = 0; kind < FRAME_KIND_COUNT; kind++)
				EXPECT_EQ(ran[kind], rows[i].ran[kind], name);
			EXPECT_EQ(self, rows[i].self, name);
			EXPECT_EQ(total, rows[i].total, name);
			self_sum += rows[i].self;
			if (i)
				assert_true(rows[i - 1].self >= rows[i].self);
		}
		assert_int_equal(tree.nodes[0].total - tree.nodes[0].self, self_sum);
		free(rows);
		flame_tree_deinit(&tree);
		selector_deinit(&selector);
		store_close(store);
	}
}

TEST(the_interpreter_runs_python)
{
	static const struct {
		const char *what, *module;
		enum frame_kind kind, ran_as;
	} cases[] = {
		{ "its binary", "/usr/bin/python3.11", FRAME_KIND_NATIVE, FRAME_KIND_PYTHON },
		{ "its library", "/opt/lib/libpython3.12.so.1.0", FRAME_KIND_NATIVE,
		  FRAME_KIND_PYTHON },
		{ "a library", "/usr/lib/libblas.so", FRAME_KIND_NATIVE, FRAME_KIND_NATIVE },
		{ "the kernel", "python", FRAME_KIND_KERNEL, FRAME_KIND_KERNEL },
		{ "unknown", "", FRAME_KIND_COUNT, FRAME_KIND_UNKNOWN },
	};

	for EACH (c, cases)
		EXPECT_EQ(c->ran_as, frame_ran_as(c->kind, c->module), c->what);
}

TEST(group_tables_add_up_to_the_whole)
{
	struct store *store = random_store();
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, 100 * PARTITION_NS },
			       .group_by = "node" };
	struct flame_tree tree;
	struct error err;
	int64_t sum = 0;
	uint32_t groups = 0;

	assert_int_equal(0, query_flame_tree(&query, &tree, &err));
	assert_true(tree.grouped);
	for (uint32_t node = 1; node < tree.node_count; node++) {
		struct top_row *rows;
		uint32_t count;

		if (tree.nodes[node].parent)
			continue;
		groups++;
		assert_int_equal(0, read_top(&tree, node, &rows, &count, &err));
		for (uint32_t i = 0; i < count; i++)
			sum += rows[i].self;
		sum += tree.nodes[node].self;
		free(rows);
	}
	assert_int_equal(4, groups); // n0, n1, n2, none
	assert_int_equal(tree.nodes[0].total, sum);
	flame_tree_deinit(&tree);
	store_close(store);
}

TEST(truncation_keeps_the_largest_nodes)
{
	for (int round = 0; round < ROUNDS; round++) {
		struct store *store = random_store();
		struct selector selector = { 0 };
		struct query query = { .store = store,
				       .selector = &selector,
				       .type = PROFILE_TYPE_CPU,
				       .range = { 0, 100 * PARTITION_NS },
				       .group_by = NULL };
		struct flame_tree full, cut_tree;
		struct error err;
		int64_t cut, below = 0, least = INT64_MAX;
		uint32_t nodes_max = 2 + random_below(200);

		assert_int_equal(0, query_flame_tree(&query, &full, &err));
		assert_int_equal(0, query_flame_tree(&query, &cut_tree, &err));
		assert_int_equal(0, flame_tree_truncate(&cut_tree, nodes_max, &cut));
		assert_int_equal(nodes_max, cut_tree.node_count);

		// A node's total is its self, its children's and what was cut below it.
		for (uint32_t i = 0; i < cut_tree.node_count; i++) {
			below += cut_tree.nodes[i].total - cut_tree.nodes[i].self;
			if (i) {
				assert_true(cut_tree.nodes[i].parent < i);
				below -= cut_tree.nodes[i].total;
				if (cut_tree.nodes[i].total < least)
					least = cut_tree.nodes[i].total;
			}
		}
		assert_int_equal(cut, below);
		uint32_t larger = 0;
		for (uint32_t i = 1; i < full.node_count; i++)
			larger += full.nodes[i].total > least;
		assert_true(larger < nodes_max);
		assert_int_equal(full.nodes[0].total, cut_tree.nodes[0].total);
		EXPECT_STR("total", string_table_get(&cut_tree.strings, cut_tree.nodes[0].name),
			   "root");
		assert_true(cut_tree.strings.count <= 2 * nodes_max + 1);
		flame_tree_deinit(&full);
		flame_tree_deinit(&cut_tree);
		store_close(store);
	}
}

TEST(truncation_keeps_a_tree_that_fits)
{
	struct store *store = random_store();
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, 100 * PARTITION_NS },
			       .group_by = NULL };
	struct naive_node root = { .name = "total" };
	struct flame_tree tree;
	struct error err;
	int64_t cut = 1;

	naive_tree(&query, &root);
	assert_int_equal(0, query_flame_tree(&query, &tree, &err));
	assert_int_equal(0, flame_tree_truncate(&tree, tree.node_count, &cut));
	assert_int_equal(0, cut);
	expect_equal_trees(&root, &tree);
	naive_free_children(&root);
	flame_tree_deinit(&tree);
	store_close(store);
}

/** Sum of the samples whose process and path are those of @sample. */
static int64_t naive_stack_value(const struct query *query, const struct memory_sample *sample)
{
	struct labels *labels = &query->store->series[sample->series].labels;
	int64_t sum = 0;

	for (uint32_t i = 0; i < query->store->sample_count; i++) {
		const struct memory_sample *other = &query->store->samples[i];
		struct labels *others = &query->store->series[other->series].labels;

		if (sample_selected(query, other) && other->end == sample->end &&
		    other->location_count == sample->location_count &&
		    memcmp(other->locations, sample->locations,
			   sample->location_count * sizeof(uint32_t)) == 0 &&
		    strcmp(labels_get(labels, "process"), labels_get(others, "process")) == 0)
			sum += sample_value(other, query->range);
	}
	return sum;
}

static int64_t profile_stack_value(const struct profile *profile, const struct store *store,
				   const struct memory_sample *sample)
{
	const char *process = labels_get(&store->series[sample->series].labels, "process");
	struct id128 ids[MEMORY_FRAMES_MAX];
	int64_t value = -1;

	for (uint32_t i = 0; i < sample->location_count; i++)
		ids[i] = store->profile->locations[sample->locations[i]].id;
	struct id128 id = stack_id_of(ids, sample->location_count, sample->end);
	for (uint32_t i = 0; i < profile->sample_count; i++) {
		const struct sample *found = &profile->samples[i];
		const struct labels *labels = &profile->series[found->series].labels;

		if (!id128_equal(profile->stacks[found->stack].id, id) ||
		    strcmp(labels_get(labels, "process"), process) != 0)
			continue;
		assert_int_equal(-1, value); // one sample a stack and process
		assert_int_equal(0, found->slot);
		value = found->value;
	}
	return value;
}

TEST(an_exported_profile_has_each_stack_once)
{
	for (int round = 0; round < 10; round++) {
		struct store *store = random_store();
		struct selector selector;
		struct query query = random_query(store, &selector);
		struct profile *profile;
		struct error err;

		query.group_by = NULL;
		assert_int_equal(0, query_profile(&query, &profile, &err));
		for (uint32_t i = 0; i < store->sample_count; i++) {
			const struct memory_sample *sample = &store->samples[i];

			if (sample_selected(&query, sample))
				assert_int_equal(naive_stack_value(&query, sample),
						 profile_stack_value(profile, store, sample));
		}
		int64_t sum = 0, expected = 0;
		for (uint32_t i = 0; i < profile->sample_count; i++)
			sum += profile->samples[i].value;
		for (uint32_t i = 0; i < store->sample_count; i++)
			expected += sample_selected(&query, &store->samples[i])
					    ? sample_value(&store->samples[i], query.range)
					    : 0;
		assert_int_equal(expected, sum);
		profile_free(profile);
		selector_deinit(&selector);
		store_close(store);
	}
}

TEST(a_timeline_has_each_sample_in_its_slots)
{
	for (int round = 0; round < 10; round++) {
		struct store *store = random_store();
		struct selector selector;
		struct query query = random_query(store, &selector);
		uint64_t first_ms = query.range.from_ns / NS_PER_MS;
		uint64_t last_ms = (query.range.to_ns + NS_PER_MS - 1) / NS_PER_MS + 20;
		int64_t sum = 0, expected = 0;
		struct profile *profile;
		struct error err;

		query.group_by = NULL;
		assert_int_equal(0, query_timeline(&query, &profile, &err));
		EXPECT_EQ(NS_PER_MS, profile->slot_ns, "slots of 1 ms");
		for (uint32_t i = 0; i < profile->sample_count; i++) {
			const struct sample *sample = &profile->samples[i];

			sum += sample->value;
			assert_in_range(sample->slot, first_ms, last_ms);
			assert_true(sample->slot + sample->more_slots <= last_ms);
			assert_true(profile->series[sample->series].labels.count > 0);
		}
		for (uint32_t i = 0; i < store->sample_count; i++)
			expected += sample_selected(&query, &store->samples[i])
					    ? sample_value(&store->samples[i], query.range)
					    : 0;
		EXPECT_EQ(expected, sum, "total");
		profile_free(profile);
		selector_deinit(&selector);
		store_close(store);
	}
}

TEST(an_empty_selection_gives_an_empty_answer)
{
	struct store *store = memory_store_new(PARTITION_NS);
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, PARTITION_NS },
			       .group_by = NULL };
	struct flame_tree tree;
	struct query_series_set set;
	struct profile *profile;
	struct top_row *rows;
	struct error err;
	uint32_t count;

	assert_int_equal(0, query_flame_tree(&query, &tree, &err));
	assert_int_equal(1, tree.node_count);
	assert_int_equal(0, read_top(&tree, 0, &rows, &count, &err));
	assert_int_equal(0, count);
	free(rows);
	flame_tree_deinit(&tree);
	assert_int_equal(0, query_series(&query, PARTITION_NS / 10, &set, &err));
	assert_int_equal(1, set.count);
	assert_int_equal(10, set.step_count);
	query_series_set_deinit(&set);
	query.group_by = "node";
	assert_int_equal(0, query_series(&query, PARTITION_NS / 10, &set, &err));
	assert_int_equal(0, set.count);
	query_series_set_deinit(&set);
	assert_int_equal(0, query_profile(&query, &profile, &err));
	assert_int_equal(0, profile->sample_count);
	profile_free(profile);
	assert_int_equal(0, query_timeline(&query, &profile, &err));
	assert_int_equal(0, profile->sample_count);
	profile_free(profile);
	store_close(store);
}

TEST(a_failing_store_fails_the_query)
{
	struct store *store = random_store();
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, 100 * PARTITION_NS },
			       .group_by = "node" };
	struct flame_tree tree = { .node_count = 77 };
	struct profile *profile;
	struct error err;

	store->scan_rc = -EIO;
	assert_int_equal(-EIO, query_flame_tree(&query, &tree, &err));
	assert_int_equal(77, tree.node_count);
	assert_int_equal(-EIO, query_profile(&query, &profile, &err));
	store_close(store);
}

static bool is_gone(void *context)
{
	return *(bool *)context;
}

TEST(a_merge_ends_at_its_deadline)
{
	struct store *store = random_store();
	bool gone = false;
	struct deadline deadline = { .at_ns = 1, .is_gone = is_gone, .context = &gone };
	struct selector selector = { .deadline = &deadline };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, 100 * PARTITION_NS },
			       .group_by = NULL };
	struct flame_tree tree;
	struct error err;

	assert_int_equal(-ETIMEDOUT, query_flame_tree(&query, &tree, &err));
	deadline.at_ns = clock_monotonic_ns() + 100 * NS_PER_SECOND;
	assert_int_equal(0, query_flame_tree(&query, &tree, &err));
	flame_tree_deinit(&tree);
	gone = true;
	assert_int_equal(-ECANCELED, query_flame_tree(&query, &tree, &err));
	store_close(store);
}

TEST(overflowing_values_wrap)
{
	struct store *store = random_store();
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, 100 * PARTITION_NS },
			       .group_by = NULL };
	struct flame_tree tree;
	struct top_row *rows;
	struct error err;
	uint32_t count;

	for (uint32_t i = 0; i < store->sample_count; i++)
		store->samples[i].value = i % 3 ? INT64_MAX : INT64_MIN;
	assert_int_equal(0, query_flame_tree(&query, &tree, &err));
	assert_int_equal(0, read_top(&tree, 0, &rows, &count, &err));
	int64_t cut;
	assert_int_equal(0, flame_tree_truncate(&tree, 10, &cut));
	free(rows);
	flame_tree_deinit(&tree);
	store_close(store);
}

TEST(refuses_expensive_patterns)
{
	struct store *store = memory_store_new(PARTITION_NS);
	struct labels labels = { 0 };
	struct selector selector;
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, PARTITION_NS },
			       .group_by = NULL };
	struct flame_tree tree;
	struct error err;

	assert_int_equal(0, labels_set(&labels, "node", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaabx"));
	struct memory_sample sample = {
		.series = memory_store_add_series(store, &labels, PROFILE_TYPE_CPU),
		.slot_ns = 20000000,
		.value = 1,
	};
	memory_store_add(store, &sample);
	labels_deinit(&labels);
	assert_int_equal(
		0, selector_parse("{node=~\"(a+)+b\"}", SELECTOR_ALL_TENANTS, &selector, &err));
	assert_int_equal(-EINVAL, query_flame_tree(&query, &tree, &err));
	assert_non_null(strstr(err.text, "node takes too long"));
	selector_deinit(&selector);
	store_close(store);
}

RUN_TESTS(cmocka_unit_test(flame_trees_equal_a_naive_walk),
	  cmocka_unit_test(counts_each_slot_of_several_ranges_once),
	  cmocka_unit_test(grouped_trees_equal_a_naive_walk),
	  cmocka_unit_test(the_table_counts_each_value_once),
	  cmocka_unit_test(the_interpreter_runs_python),
	  cmocka_unit_test(group_tables_add_up_to_the_whole),
	  cmocka_unit_test(truncation_keeps_the_largest_nodes),
	  cmocka_unit_test(truncation_keeps_a_tree_that_fits),
	  cmocka_unit_test(an_exported_profile_has_each_stack_once),
	  cmocka_unit_test(a_timeline_has_each_sample_in_its_slots),
	  cmocka_unit_test(an_empty_selection_gives_an_empty_answer),
	  cmocka_unit_test(a_failing_store_fails_the_query),
	  cmocka_unit_test(a_merge_ends_at_its_deadline), cmocka_unit_test(overflowing_values_wrap),
	  cmocka_unit_test(refuses_expensive_patterns))
