// SPDX-License-Identifier: Apache-2.0
// Callers and callees against a naive walk over each sample: random stacks with recursion and inlined calls.
#include "tests/unit/collector/query/query_fixture.h"

enum { PATHS_MAX = 4096 };

/** Values by path, joined: "f/1|g/2|". */
struct sums {
	char paths[PATHS_MAX][1024];
	int64_t values[PATHS_MAX];
	uint32_t count;
};

static void sums_add(struct sums *sums, const char *path, int64_t value)
{
	uint32_t at = 0;

	while (at < sums->count && strcmp(sums->paths[at], path) != 0)
		at++;
	if (at == sums->count) {
		assert_true(at < PATHS_MAX);
		snprintf(sums->paths[sums->count++], sizeof(sums->paths[0]), "%s", path);
		sums->values[at] = 0;
	}
	sums->values[at] += value;
}

static int64_t sums_at(const struct sums *sums, const char *path)
{
	for (uint32_t i = 0; i < sums->count; i++) {
		if (strcmp(sums->paths[i], path) == 0)
			return sums->values[i];
	}
	return 0;
}

static size_t join(char *text, size_t size, size_t used, const char *name, enum frame_kind kind)
{
	return used + (size_t)snprintf(text + used, size - used, "%s/%d|", name, (int)kind);
}

/** Add @sample's value for each part of its stack at both sides of the outermost @function. */
static void add_naive(struct sums *callers, struct sums *callees, const struct path *path,
		      const char *function, int64_t value)
{
	uint32_t at = 0;
	char text[1024];
	size_t used = 0;

	while (at < path->count && strcmp(path->names[at], function) != 0)
		at++;
	if (at == path->count)
		return;
	sums_add(callers, "", value);
	for (uint32_t i = at; i-- > 0;) {
		used = join(text, sizeof(text), used, path->names[i], path->kinds[i]);
		sums_add(callers, text, value);
	}
	sums_add(callees, "", value);
	used = 0;
	for (uint32_t i = at + 1; i < path->count; i++) {
		used = join(text, sizeof(text), used, path->names[i], path->kinds[i]);
		sums_add(callees, text, value);
	}
}

/** Each node's total is that of its path, there are as many paths, and what is below adds up. */
static void expect_sums(const struct sums *sums, const struct flame_tree *tree, const char *what)
{
	char **paths = calloc(tree->node_count, sizeof(*paths));
	int64_t *below = calloc(tree->node_count, sizeof(*below));

	EXPECT_EQ(sums->count ? sums->count : 1, tree->node_count, what);
	for (uint32_t i = 0; i < tree->node_count; i++) {
		const struct flame_node *node = &tree->nodes[i];

		assert_true(
			(i ? asprintf(&paths[i], "%s%s/%d|", paths[node->parent],
				      string_table_get(&tree->strings, node->name), (int)node->kind)
			   : asprintf(&paths[i], "%s", "")) >= 0);
		if (i)
			below[node->parent] += node->total;
		EXPECT_EQ(sums_at(sums, paths[i]), node->total, what);
	}
	for (uint32_t i = 0; i < tree->node_count; i++)
		free(paths[i]);
	for (uint32_t i = 0; i < tree->node_count; i++)
		EXPECT_EQ(tree->nodes[i].total, tree->nodes[i].self + below[i], what);
	free(paths);
	free(below);
}

TEST(callers_and_callees_equal_a_naive_walk)
{
	static const char *const functions[] = { "f", "g_[k]", "run (a.py:10)", "y+0x0", "nobody" };
	struct sums *callers = malloc(sizeof(*callers)), *callees = malloc(sizeof(*callees));
	uint32_t found = 0;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		const char *function = functions[round % ARRAY_SIZE(functions)];
		struct store *store = random_store();
		struct selector selector;
		struct query query = random_query(store, &selector);
		struct flame_tree tree, above, below;
		struct path path;
		struct error err;

		query.group_by = NULL;
		callers->count = callees->count = 0;
		for (uint32_t i = 0; i < store->sample_count; i++) {
			const struct memory_sample *sample = &store->samples[i];

			if (!sample_selected(&query, sample) || !sample_value(sample, query.range))
				continue;
			path_of(store, sample, NULL, &path);
			add_naive(callers, callees, &path, function,
				  sample_value(sample, query.range));
		}
		found += callers->count;
		assert_int_equal(0, query_flame_tree(&query, &tree, &err));
		assert_int_equal(0,
				 flame_tree_callers(&tree, function, NULL, &above, &below, &err));
		expect_sums(callers, &above, function);
		expect_sums(callees, &below, function);
		flame_tree_deinit(&above);
		flame_tree_deinit(&below);
		flame_tree_deinit(&tree);
		selector_deinit(&selector);
		store_close(store);
	}
	assert_true(found > ROUNDS); // the functions did occur
	free(callers);
	free(callees);
}

TEST(callers_end_at_the_deadline)
{
	struct store *store = random_store();
	struct deadline past = { .at_ns = 1 };
	struct selector selector = { 0 };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, 100 * PARTITION_NS } };
	struct flame_tree tree, above, below;
	struct error err = { 0 };

	assert_int_equal(0, query_flame_tree(&query, &tree, &err));
	assert_int_equal(-ETIMEDOUT, flame_tree_callers(&tree, "f", &past, &above, &below, &err));
	flame_tree_deinit(&tree);
	store_close(store);
}

RUN_TESTS(cmocka_unit_test(callers_and_callees_equal_a_naive_walk),
	  cmocka_unit_test(callers_end_at_the_deadline))
