// SPDX-License-Identifier: Apache-2.0
// Lines of functions against a naive walk over each sample: random stacks with recursion and inlined calls.
#include "collector/query/function_lines.h"

#include "tests/unit/collector/query/query_fixture.h"

enum { KEYS_MAX = 256 };

/** A line's key, "service|version|path|kind|number", or with number -1 a file's. */
struct sums {
	char keys[KEYS_MAX][128];
	int64_t self[KEYS_MAX], total[KEYS_MAX];
	uint32_t count;
};

static uint32_t sums_find(struct sums *sums, const char *key)
{
	uint32_t at = 0;

	while (at < sums->count && strcmp(sums->keys[at], key) != 0)
		at++;
	if (at == sums->count) {
		assert_true(at < KEYS_MAX);
		snprintf(sums->keys[at], sizeof(sums->keys[0]), "%s", key);
		sums->self[at] = sums->total[at] = 0;
		sums->count++;
	}
	return at;
}

/** Add @value once to the total of @key; @seen: the keys of this sample. */
static void add_once(struct sums *sums, struct sums *seen, const char *key, int64_t value,
		     bool is_leaf)
{
	uint32_t at = sums_find(sums, key), before = seen->count;

	sums_find(seen, key);
	sums->total[at] += seen->count > before ? value : 0;
	sums->self[at] += is_leaf ? value : 0;
}

static void add_naive(const struct store *store, const struct memory_sample *sample,
		      const char *function, int64_t value, struct sums *sums, struct sums *seen)
{
	const char *service = labels_get(&store->series[sample->series].labels, "service");
	const char *version = labels_get(&store->series[sample->series].labels, "version");
	char title[160], file[96], key[128];

	seen->count = 0;
	for (uint32_t i = sample->location_count; i-- > 0;) {
		const struct location *location = &store->profile->locations[sample->locations[i]];
		uint32_t lines = location->line_count ? location->line_count : 1;

		for (uint32_t at = lines; at-- > 0;) {
			const struct line *line =
				location->line_count
					? &store->profile->lines[location->first_line + at]
					: &(const struct line){ 0 };

			frame_title(store->profile, location, at, FRAME_LINES_NONE, title,
				    sizeof(title));
			if (strcmp(title, function) != 0)
				continue;
			bool is_leaf = i == 0 && at == 0;
			snprintf(file, sizeof(file), "%s|%s|%s|%d", service, version ? version : "",
				 profile_string(store->profile, line->file), location->kind);
			snprintf(key, sizeof(key), "%s|%u", file, line->number);
			add_once(sums, seen, key, value, is_leaf);
			snprintf(key, sizeof(key), "%s|-1", file);
			add_once(sums, seen, key, value, is_leaf);
			add_once(sums, seen, "function", value, is_leaf);
		}
	}
}

static const char *text_of(const struct function_lines *lines, uint32_t number)
{
	return string_table_get(&lines->strings, number);
}

static void expect_key(struct sums *sums, const char *key, int64_t self, int64_t total)
{
	uint32_t count = sums->count, at = sums_find(sums, key);

	EXPECT_EQ(count, sums->count, key);
	EXPECT_EQ(sums->self[at], self, key);
	EXPECT_EQ(sums->total[at], total, key);
}

static void expect_lines(struct sums *sums, const struct function_lines *lines, const char *what)
{
	uint32_t keys = lines->file_count + lines->line_count;
	char name[96], key[128];

	EXPECT_EQ(sums->count, keys ? keys + 1 : 0, what);
	if (keys)
		expect_key(sums, "function", lines->self, lines->total);
	for (uint32_t i = 0; i < lines->file_count; i++) {
		const struct function_file *file = &lines->files[i];

		snprintf(name, sizeof(name), "%s|%s|%s|%d", text_of(lines, file->service),
			 text_of(lines, file->version), text_of(lines, file->path), file->kind);
		snprintf(key, sizeof(key), "%s|-1", name);
		expect_key(sums, key, file->self, file->total);
		if (i)
			assert_true(file[-1].self >= file->self);
		for (uint32_t at = 0; at < file->line_count; at++) {
			const struct function_line *line = &lines->lines[file->first_line + at];

			EXPECT_EQ(i, line->file, "lines lie with their file");
			if (at)
				assert_true(line[-1].number < line->number);
			snprintf(key, sizeof(key), "%s|%u", name, line->number);
			expect_key(sums, key, line->self, line->total);
		}
	}
}

/** random_store() with two versions. */
static struct store *versioned_store(void)
{
	struct store *store = random_store();

	for (uint32_t i = 0; i < store->series_count; i++)
		if (i % 4)
			assert_int_equal(0, labels_set(&store->series[i].labels, "version",
						       i % 4 == 1 ? "1.3" : "1.4"));
	return store;
}

TEST(lines_equal_a_naive_walk)
{
	static const char *const functions[] = { "f", "g_[k]", "run (a.py)", "y+0x0", "nobody" };
	struct sums *sums = malloc(sizeof(*sums)), *seen = malloc(sizeof(*seen));
	uint32_t found = 0;

	for (uint32_t round = 0; round < ROUNDS; round++) {
		const char *function = functions[round % ARRAY_SIZE(functions)];
		struct store *store = versioned_store();
		struct selector selector;
		struct query query = random_query(store, &selector);
		struct function_lines lines;
		struct error err;
		int64_t whole = 0;

		sums->count = 0;
		for (uint32_t i = 0; i < store->sample_count; i++) {
			const struct memory_sample *sample = &store->samples[i];
			int64_t value = sample_value(sample, query.range);

			if (!sample_selected(&query, sample) || !value)
				continue;
			whole += value;
			add_naive(store, sample, function, value, sums, seen);
		}
		found += sums->count;
		if (query_function_lines(&query, function, &lines, &err))
			fail_msg("%s", err.text);
		EXPECT_EQ(whole, lines.whole, function);
		expect_lines(sums, &lines, function);
		function_lines_deinit(&lines);
		selector_deinit(&selector);
		store_close(store);
	}
	assert_true(found > ROUNDS); // the functions did occur
	free(sums);
	free(seen);
}

TEST(lines_end_at_the_deadline)
{
	struct store *store = random_store();
	struct deadline past = { .at_ns = 1 };
	struct selector selector = { .deadline = &past };
	struct query query = { .store = store,
			       .selector = &selector,
			       .type = PROFILE_TYPE_CPU,
			       .range = { 0, 100 * PARTITION_NS } };
	struct function_lines lines;
	struct error err = { 0 };

	EXPECT_EQ(-ETIMEDOUT, query_function_lines(&query, "f", &lines, &err), "past");
	store_close(store);
}

RUN_TESTS(cmocka_unit_test(lines_equal_a_naive_walk), cmocka_unit_test(lines_end_at_the_deadline))
