// SPDX-License-Identifier: Apache-2.0
// Subject: collector/profile_metrics/function_share.c
// Subject: collector/profile_metrics/profile_metric_file.c
#include "collector/profile_metrics/profile_metrics.h"

#include <errno.h>
#include <unistd.h>

#include "base/contract/profile_types.h"
#include "collector/profile_metrics/function_share.h"
#include "collector/store/rocksdb/rocksdb.h"
#include "tests/unit/collector/store/store_fixture.h"

static void write_text(char path[32], const char *text)
{
	strcpy(path, "/tmp/cairn-metrics-XXXXXX");
	_cleanup_close_ int fd = mkstemp(path);

	assert_int_equal(strlen(text), write(fd, text, strlen(text)));
}

static const struct {
	const char *what, *text, *fault; // NULL: sound
} files[] = {
	{ "two metrics",
	  "- name: json\n  function: 'json\\..*'\n- {name: b, type: off-cpu, query: shop, "
	  "function: x}\n",
	  NULL },
	{ "none", "[]\n", NULL },
	{ "no list", "name: json\n", ":1: expected a list" },
	{ "no metric", "- json\n", ":1: expected a metric" },
	{ "no function", "- name: json\n", ":1: function: missing" },
	{ "no name", "- function: x\n", ":1: name:" },
	{ "a name with a quote", "- name: 'a\"b'\n  function: x\n", ":1: name:" },
	{ "twice", "- {name: a, function: x}\n- {name: a, function: x}\n", ":2: name: there is" },
	{ "a field of others", "- name: a\n  color: red\n", ":2: a metric has" },
	{ "a field twice", "- name: a\n  name: b\n", ":2: the field" },
	{ "a regex", "- name: a\n  function: '('\n", ":1:" },
	{ "a selector", "- {name: a, function: x, query: '{service='}\n", ":1:" },
	{ "a type", "- {name: a, function: x, type: nonsense}\n", ":1:" },
	{ "no stacks", "- {name: a, function: x, type: rss}\n", "has no stacks" },
	{ "a level", "- {name: a, function: x, type: gpu-memory}\n", "level" },
	{ "nested", "- {name: [a], function: x}\n", ":1: expected a text" },
};

TEST(refuses_files_with_a_word)
{
	for EACH (row, files) {
		struct profile_metric_list list;
		struct error err = { 0 };
		char path[32];

		write_text(path, row->text);
		int rc = profile_metric_file_read(path, &list, &err);
		EXPECT_EQ(row->fault ? -EINVAL : 0, rc, row->what);
		if (row->fault && !strstr(err.text, row->fault))
			fail_msg("%s: %s", row->what, err.text);
		profile_metric_list_deinit(&list);
		unlink(path);
	}
}

struct fixture {
	char folder[64], path[32];
	struct store *store;
	struct metrics counters;
	struct profile_metrics *metrics;
};

static void add(struct profile *profile, const char *labels, const char *stack, double at_s,
		int64_t seconds)
{
	uint32_t place = stack_of_text(profile, stack, STACK_END_COMPLETE);

	EXPECT_EQ(0,
		  profile_add_sample(profile, series_of_text(profile, labels, PROFILE_TYPE_CPU),
				     place, (hour_ns(0) + (uint64_t)(at_s * 1e9)) / TEST_SLOT_NS,
				     seconds * (int64_t)NS_PER_SECOND),
		  stack);
}

static void set_up(struct fixture *f, const char *file)
{
	struct profile *profile = test_profile();
	struct error err = { 0 };

	*f = (struct fixture){ 0 };
	directory_new(f->folder);
	const struct store_options options = { .path = f->folder };
	if (rocksdb_store_open(&options, &f->store, &err) < 0)
		fail_msg("%s", err.text);
	// Recursion counts once; the minute before and after do not.
	add(profile, "service=web,node=a", "main;json.loads;parse;json.loads", 61, 3);
	add(profile, "service=web,node=b", "main;render", 119, 9);
	add(profile, "service=we\"b,node=a", "main;json.dumps", 100, 1);
	add(profile, "service=db,node=a", "main;scan", 100, 30);
	add(profile, "service=web,node=a", "main;json.loads", 59, 100);
	add(profile, "service=web,node=a", "main;json.loads", 120, 100);
	append_profile(f->store, 1, 1, profile);
	write_text(f->path, file);
	const struct profile_metrics_options metrics = { .path = f->path,
							 .store = f->store,
							 .metrics = &f->counters };
	EXPECT_EQ(0, profile_metrics_new(&metrics, &f->metrics, &err), err.text);
}

static void tear_down(struct fixture *f)
{
	profile_metrics_close(f->metrics);
	store_close(f->store);
	directory_remove(f->folder);
	unlink(f->path);
}

static void expect_text(struct fixture *f, uint64_t at_s, const char *const *parts, bool is_there)
{
	struct buffer text = { 0 };

	profile_metrics_encode(f->metrics, hour_ns(0) + at_s * NS_PER_SECOND, &text);
	for (; *parts; parts++)
		if ((strstr(buffer_string(&text), *parts) != NULL) != is_there)
			fail_msg("%s: %s", *parts, buffer_string(&text));
	buffer_deinit(&text);
}

TEST(says_what_a_function_has_of_each_service)
{
	static const char *const rows[] = {
		"cairn_profile_function_share{metric=\"json\",service=\"web\"} 0.25\n",
		"cairn_profile_function_share{metric=\"json\",service=\"we\\\"b\"} 1\n",
		"cairn_profile_function_rate{metric=\"json\",service=\"web\"} 0.05\n",
		"cairn_profile_function_share{metric=\"scan\",service=\"db\"} 1\n", NULL
	};
	static const char *const others[] = { "{metric=\"scan\",service=\"web\"}", NULL };
	static const char *const without[] = { "{metric=\"json\",service=\"db\"}", NULL };
	static const char *const frames[] = { "_share{", "_rate{", NULL };
	struct fixture f;

	set_up(&f, "- {name: json, function: 'json\\..*'}\n"
		   "- {name: scan, function: scan, query: db}\n");
	expect_text(&f, 151, frames, false);
	EXPECT_EQ(0, profile_metrics_look(f.metrics, hour_ns(0) + 151 * NS_PER_SECOND), "failures");
	expect_text(&f, 151, rows, true);
	expect_text(&f, 151, others, false);
	expect_text(&f, 151, without, false);
	tear_down(&f);
}

TEST(leaves_out_what_is_stale)
{
	static const char *const rows[] = { "{metric=\"json\",service=\"web\"}", NULL };
	static const char *const failures[] = { "failures_total{metric=\"json\"} 0\n", NULL };
	struct fixture f;

	set_up(&f, "- {name: json, function: 'json\\..*'}\n");
	profile_metrics_look(f.metrics, hour_ns(0) + 151 * NS_PER_SECOND);
	expect_text(&f, 120 + PROFILE_METRIC_STALE_S - 1, rows, true);
	expect_text(&f, 120 + PROFILE_METRIC_STALE_S, rows, false);
	expect_text(&f, 120 + PROFILE_METRIC_STALE_S, failures, true);
	tear_down(&f);
}

static bool is_gone(void *context)
{
	return ++*(uint32_t *)context > 2;
}

/* A tree may have millions of names, and each match thousands of steps. */
TEST(ends_with_its_deadline)
{
	struct flame_node nodes[8] = { { 0 } };
	struct flame_tree tree = { .nodes = nodes, .node_count = 8, .grouped = true };
	struct function_share *shares = NULL;
	struct regex *regex = NULL;
	struct error err = { 0 };
	uint32_t asked = 0, count = 0;
	struct deadline deadline = { .is_gone = is_gone, .context = &asked };

	assert_int_equal(0, string_table_init(&tree.strings));
	assert_int_equal(0, regex_compile("x", 8, 100, &regex, &err));
	for (uint32_t i = 2; i < 8; i++)
		nodes[i].parent = i - 1;
	EXPECT_EQ(-ECANCELED, function_shares_of(&tree, regex, &deadline, &shares, &count), "gone");
	assert_in_range(asked, 3, 4);
	EXPECT_EQ(0, function_shares_of(&tree, regex, NULL, &shares, &count), "without");
	free(shares);
	regex_free(regex);
	string_table_deinit(&tree.strings);
}

RUN_TESTS(cmocka_unit_test(refuses_files_with_a_word),
	  cmocka_unit_test(says_what_a_function_has_of_each_service),
	  cmocka_unit_test(leaves_out_what_is_stale), cmocka_unit_test(ends_with_its_deadline))
