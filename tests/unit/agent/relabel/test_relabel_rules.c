// SPDX-License-Identifier: Apache-2.0
// Rules on labels, row by row as Prometheus has them, and what cairn refuses beyond.
#include "agent/relabel/relabel_rules.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/unit/agent/relabel/rules_file.h"

/* a=foo b=bar c=baz, service=web node=n1 process=p, and two meta labels. */
static const struct {
	const char *what, *rules;
	const char *label, *value; // NULL: absent
} cases[] = {
	{ "replaces",
	  "- {source_labels: [a], regex: f(.*), target_label: d, replacement: 'ch${1}-$1'}", "d",
	  "choo-oo" },
	{ "joins sources", "- {source_labels: [a, b], regex: '.*;(.*)', target_label: d}", "d",
	  "bar" },
	{ "joins by another text",
	  "- {source_labels: [a, none, b], separator: '--', target_label: d}", "d", "foo----bar" },
	{ "is anchored", "- {source_labels: [a], regex: o, target_label: d, replacement: x}", "d",
	  NULL },
	{ "does nothing without a match",
	  "- {source_labels: [a], regex: x, target_label: a, replacement: y}", "a", "foo" },
	{ "an empty value removes", "- {source_labels: [a], target_label: b, replacement: ''}", "b",
	  NULL },
	{ "an absent source is empty", "- {source_labels: [none], target_label: b}", "b", NULL },
	{ "without sources", "- {target_label: d, replacement: static}", "d", "static" },
	{ "a group that is not there",
	  "- {source_labels: [a], target_label: d, replacement: 'x$7y${9}z'}", "d", "xz" },
	{ "a name takes all letters", "- {source_labels: [a], target_label: d, replacement: '$1x'}",
	  "d", NULL },
	{ "named groups",
	  "- {source_labels: [a], regex: '(?P<n>f)oo', target_label: d, replacement: '${n}$n'}",
	  "d", "ff" },
	{ "a leading zero is a name",
	  "- {source_labels: [a], target_label: d, replacement: 'x$01'}", "d", "x" },
	{ "dollars", "- {source_labels: [a], target_label: d, replacement: '$$1$-${1'}", "d",
	  "$1$-${1" },
	{ "the whole match", "- {source_labels: [a], target_label: d, replacement: '<$0>'}", "d",
	  "<foo>" },
	{ "a target by template", "- {source_labels: [a], target_label: 'x_${1}'}", "x_foo",
	  "foo" },
	{ "a target that becomes no name",
	  "- {source_labels: [dash], target_label: '${1}', replacement: x}", "foo-", NULL },
	{ "hashmod, as Prometheus has it",
	  "- {source_labels: [c], target_label: d, action: hashmod, modulus: 1000}", "d", "976" },
	{ "hashmod of several",
	  "- {source_labels: [a, b], target_label: d, action: hashmod, modulus: 18446744073709551}",
	  "d", NULL },
	{ "labelmap", "- {action: labelmap, regex: __meta_(.+)_label_(.+), replacement: '${1}_$2'}",
	  "pod_team", "core" },
	{ "the last of two names wins",
	  "- {target_label: a, replacement: later}\n- {action: labelmap, regex: '(?:[abc])()', "
	  "replacement: m$1}",
	  "m", "later" },
	{ "a map sees what was there before it",
	  "- {action: labelmap, regex: a(.*), replacement: 'aa$1'}", "aaa", NULL },
	{ "a value that looks like a variable",
	  "- {target_label: x, replacement: '$$1'}\n- {source_labels: [x], target_label: 'q${1}'}",
	  "q$1", NULL },
	{ "labelmap keeps the original", "- {action: labelmap, regex: (a), replacement: 'x_$1'}",
	  "a", "foo" },
	{ "labeldrop", "- {action: labeldrop, regex: a|b}", "b", NULL },
	{ "labeldrop leaves others", "- {action: labeldrop, regex: a|b}", "c", "baz" },
	{ "labelkeep", "- {action: labelkeep, regex: a}", "b", NULL },
	{ "labelkeep keeps", "- {action: labelkeep, regex: a}", "a", "foo" },
	{ "a series keeps its owner", "- {action: labelkeep, regex: a}", "node", "n1" },
	{ "a service is not dropped", "- {action: labeldrop, regex: .*}", "service", "web" },
	{ "an empty service is none", "- {target_label: service, replacement: ''}", "service",
	  "web" },
	{ "lowercase", "- {source_labels: [__meta_upper], target_label: d, action: lowercase}", "d",
	  "äÄx" },
	{ "uppercase",
	  "- {source_labels: [a, b], separator: '', target_label: d, action: uppercase}", "d",
	  "FOOBAR" },
	{ "uppercase of nothing removes",
	  "- {source_labels: [none], target_label: a, action: uppercase}", "a", NULL },
	{ "service by a rule", "- {source_labels: [__meta_pod_label_team], target_label: service}",
	  "service", "core" },
	{ "version by a rule", "- {target_label: version, replacement: v1}", "version", "v1" },
	{ "hidden labels go", "- {target_label: __tmp, replacement: x}", "__tmp", NULL },
	{ "meta labels go", "- {target_label: d, replacement: x}", "__meta_upper", NULL },
	{ "a hidden label on its way",
	  "- {source_labels: [a], target_label: __tmp}\n- {source_labels: [__tmp], target_label: "
	  "d}",
	  "d", "foo" },
	{ "the node by a template", "- {source_labels: [a], target_label: 'nod${2}e'}", "node",
	  "n1" },
	{ "the node by a map", "- {action: labelmap, regex: '(?:a)(.*)', replacement: 'node$1'}",
	  "node", "n1" },
	{ "the tenant by a map",
	  "- {action: labelmap, regex: '(?:a)(.*)', replacement: 'tenant$1'}", "tenant", NULL },
	{ "a group of a value that is not UTF-8 any more",
	  "- {source_labels: [__meta_upper], regex: '(.).*', target_label: d}", "d", "ä" },
};

static struct labels labels;
static struct meta_labels meta;
static struct relabel_stats stats;

static void set_up(void)
{
	static const char *const pairs[][2] = { { "a", "foo" },   { "b", "bar" },
						{ "c", "baz" },   { "service", "web" },
						{ "node", "n1" }, { "process", "p" },
						{ "dash", "a-b" } };

	for EACH (pair, pairs)
		assert_int_equal(0, labels_set(&labels, (*pair)[0], (*pair)[1]));
	assert_int_equal(0, meta_labels_add(&meta, "__meta_pod_label_", "team", "core"));
	assert_int_equal(0, meta_labels_add(&meta, "__meta_upper", "", "äÄX"));
	stats = (struct relabel_stats){ 0 };
}

static void tear_down(void)
{
	labels_deinit(&labels);
	meta_labels_deinit(&meta);
}

static bool apply(const char *text, struct labels *ret_labels, const char *what)
{
	struct relabel_rules *rules = NULL;
	struct error err = { 0 };
	bool is_dropped = true;

	if (read_rules(text, &rules, &err))
		fail_msg("%s: %s", what, err.text);
	assert_int_equal(
		0, relabel_rules_apply(rules, &labels, &meta, ret_labels, &is_dropped, &stats));
	relabel_rules_free(rules);
	return is_dropped;
}

TEST(rules_mean_what_they_mean_in_prometheus)
{
	set_up();
	for EACH (row, cases) {
		struct labels result = { 0 };

		EXPECT_EQ(false, apply(row->rules, &result, row->what), row->what);
		const char *value = labels_get(&result, row->label);
		if (row->value)
			EXPECT_STR(row->value, value ? value : "(absent)", row->what);
		else if (value && strcmp(row->what, "hashmod of several") != 0)
			fail_msg("%s: it is there: %s", row->what, value);
		labels_deinit(&result);
	}
	tear_down();
}

static const struct {
	const char *what, *rules;
	bool is_dropped;
} verdicts[] = {
	{ "drop", "- {source_labels: [a], regex: fo+, action: drop}", true },
	{ "no drop", "- {source_labels: [a], regex: fo, action: drop}", false },
	{ "keep", "- {source_labels: [a, b], regex: foo;bar, action: keep}", false },
	{ "no keep", "- {source_labels: [a], regex: o+, action: keep}", true },
	{ "drop of an absent label", "- {source_labels: [none], regex: '', action: drop}", true },
	{ "keepequal", "- {source_labels: [a], target_label: b, action: keepequal}", true },
	{ "keepequal of absent ones", "- {source_labels: [x], target_label: y, action: keepequal}",
	  false },
	{ "dropequal", "- {source_labels: [a], target_label: a, action: dropequal}", true },
	{ "no dropequal", "- {source_labels: [a], target_label: b, action: dropequal}", false },
	{ "drop by what a rule made",
	  "- {source_labels: [a], target_label: __x}\n- {source_labels: [__x], regex: foo, action: "
	  "drop}",
	  true },
	{ "nothing after a drop keeps it",
	  "- {source_labels: [a], action: drop}\n- {source_labels: [a], action: keep}", true },
};

TEST(keeps_and_drops_processes)
{
	set_up();
	for EACH (row, verdicts) {
		struct labels result = { 0 };

		EXPECT_EQ(row->is_dropped, apply(row->rules, &result, row->what), row->what);
		labels_deinit(&result);
	}
	tear_down();
}

TEST(counts_labels_it_refuses)
{
	struct labels result = { 0 };

	set_up();
	apply("- {source_labels: [a], target_label: 'nod${2}e'}", &result, "the node");
	EXPECT_EQ(1, stats.labels_dropped, "the node");
	labels_deinit(&result);
	apply("- {source_labels: [dash], target_label: '$1'}", &result, "no name");
	EXPECT_EQ(2, stats.labels_dropped, "no name");
	labels_deinit(&result);
	tear_down();
}

TEST(stops_a_pattern_that_takes_too_long)
{
	struct labels result = { 0 };
	char value[LABEL_VALUE_BYTES_MAX + 1];

	set_up();
	memset(value, 'a', sizeof(value) - 1);
	memcpy(value + sizeof(value) - 4, "bx.", 4);
	assert_int_equal(0, labels_set(&labels, "a", value));
	EXPECT_EQ(true,
		  apply("- {source_labels: [a], regex: (a+)+b, action: keep}", &result, "keep"),
		  "keep");
	EXPECT_EQ(1, stats.matches_stopped, "stopped");
	labels_deinit(&result);
	tear_down();
}

TEST(a_process_has_32_labels_and_its_owner)
{
	struct labels result = { 0 };
	char name[16];

	set_up();
	for (int i = 0; i < 100; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		assert_int_equal(0, meta_labels_add(&meta, "__meta_", name, "x"));
	}
	apply("- {action: labelmap, regex: __meta_(.+)}", &result, "many");
	EXPECT_EQ(LABELS_MAX, result.count, "labels");
	EXPECT_STR("web", labels_get(&result, "service"), "service");
	EXPECT_STR("n1", labels_get(&result, "node"), "node");
	EXPECT_STR("p", labels_get(&result, "process"), "process");
	assert_true(stats.labels_dropped >= 70);
	labels_deinit(&result);
	tear_down();
}

TEST(values_are_cut_between_characters)
{
	struct labels result = { 0 };
	char value[META_LABEL_VALUE_BYTES_MAX + 1];

	set_up();
	memset(value, 'a', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	assert_int_equal(0, meta_labels_add(&meta, "__meta_long", "", value));
	apply("- {source_labels: [__meta_long, __meta_long, __meta_long, __meta_long, "
	      "__meta_long], "
	      "regex: '(.*)', replacement: 'x${1}ä', target_label: d}",
	      &result, "long");
	EXPECT_EQ(LABEL_VALUE_BYTES_MAX, strlen(labels_get(&result, "d")), "size");
	labels_deinit(&result);
	tear_down();
}

TEST(knows_which_labels_rules_read)
{
	struct relabel_rules *rules = NULL;

	assert_int_equal(
		0, read_rules("- {source_labels: [__meta_a], target_label: b}\n"
			      "- {action: labelmap, regex: __meta_x_(.+)}\n"
			      "- {action: keepequal, source_labels: [c], target_label: __meta_t}\n"
			      "- {action: labeldrop, regex: .*}",
			      &rules, NULL));
	assert_true(relabel_rules_read_label(rules, "__meta_a"));
	assert_true(relabel_rules_read_label(rules, "__meta_x_y"));
	assert_true(relabel_rules_read_label(rules, "__meta_t"));
	assert_false(relabel_rules_read_label(rules, "__meta_b"));
	assert_false(relabel_rules_read_label(rules, "b"));
	assert_false(relabel_rules_read_label(NULL, "__meta_a"));
	relabel_rules_free(rules);
}

TEST(meta_labels_are_bounded)
{
	struct meta_labels many = { 0 }, large = { 0 }, both = { 0 };
	char value[META_LABEL_VALUE_BYTES_MAX * 2];
	const char *name, *text;
	size_t at = 0;

	memset(value, 'v', sizeof(value) - 1);
	value[sizeof(value) - 1] = '\0';
	for (int i = 0; i < META_LABELS_MAX + 5; i++)
		assert_int_equal(0, meta_labels_add(&many, "__meta_", "a.b/ä", "v\xff\n"));
	for (int i = 0; i < 20; i++)
		assert_int_equal(0, meta_labels_add(&large, "__meta_", "x", value));
	EXPECT_EQ(META_LABELS_MAX, many.count, "many");
	EXPECT_EQ(5, many.dropped, "many");
	assert_true(meta_labels_next(&many, &at, &name, &text));
	EXPECT_STR("__meta_a_b___", name, "name");
	EXPECT_STR("v??", text, "value");
	EXPECT_EQ(15, large.count, "large");
	EXPECT_EQ(5, large.dropped, "large");
	assert_true(large.pairs.size <= META_LABELS_BYTES_MAX);
	assert_int_equal(0, meta_labels_add_all(&both, &large));
	assert_true(both.count == 15 && both.pairs.size == large.pairs.size);
	assert_true(meta_labels_equal(&both, &large) && !meta_labels_equal(&many, &large));
	meta_labels_deinit(&many);
	meta_labels_deinit(&large);
	meta_labels_deinit(&both);
}

RUN_TESTS(cmocka_unit_test(rules_mean_what_they_mean_in_prometheus),
	  cmocka_unit_test(keeps_and_drops_processes), cmocka_unit_test(counts_labels_it_refuses),
	  cmocka_unit_test(stops_a_pattern_that_takes_too_long),
	  cmocka_unit_test(a_process_has_32_labels_and_its_owner),
	  cmocka_unit_test(values_are_cut_between_characters),
	  cmocka_unit_test(knows_which_labels_rules_read),
	  cmocka_unit_test(meta_labels_are_bounded))
