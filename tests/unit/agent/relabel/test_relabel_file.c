// SPDX-License-Identifier: Apache-2.0
#include "agent/relabel/relabel_file.h"

#include <errno.h>
#include <stdlib.h>

#include "tests/unit/agent/relabel/rules_file.h"

static const struct {
	const char *what, *text;
	uint32_t count;
	enum relabel_action action; // of the last rule
} good[] = {
	{ "a list", "- {source_labels: [a], target_label: b}\n- {regex: a, action: labeldrop}", 2,
	  RELABEL_LABELDROP },
	{ "Prometheus's key", "relabel_configs:\n- source_labels: [a, b]\n  target_label: c\n", 1,
	  RELABEL_REPLACE },
	{ "comments",
	  "# rules\n- action: drop # all of kube-system\n  source_labels: [namespace]\n", 1,
	  RELABEL_DROP },
	{ "upper case", "- {action: KeepEqual, source_labels: [a], target_label: b}", 1,
	  RELABEL_KEEPEQUAL },
	{ "JSON",
	  "[{\"action\":\"hashmod\",\"source_labels\":[\"pod\"],\"target_label\":\"s\","
	  "\"modulus\":8}]",
	  1, RELABEL_HASHMOD },
	{ "defaults written out", "- {action: labelkeep, regex: a, separator: ;, replacement: $1}",
	  1, RELABEL_LABELKEEP },
	{ "a template", "- {action: labelmap, regex: x_(.+), replacement: node}", 0, 0 },
	{ "its own names compared",
	  "- {action: dropequal, source_labels: [namespace], target_label: pod}", 1,
	  RELABEL_DROPEQUAL },
	{ "no text", "- {source_labels: [a], target_label: b, replacement: ''}", 1,
	  RELABEL_REPLACE },
};

TEST(reads_rules)
{
	for EACH (row, good) {
		struct relabel_rules *rules = NULL;
		struct error err = { 0 };
		int rc = read_rules(row->text, &rules, &err);

		if (!row->count) {
			EXPECT_EQ(-EINVAL, rc, row->what);
			continue;
		}
		if (rc)
			fail_msg("%s: %s", row->what, err.text);
		EXPECT_EQ(row->count, rules->count, row->what);
		EXPECT_EQ(row->action, rules->rules[rules->count - 1].action, row->what);
		relabel_rules_free(rules);
	}
}

TEST(fills_in_prometheus_defaults)
{
	struct relabel_rules *rules = NULL;

	assert_int_equal(0, read_rules("- target_label: a", &rules, NULL));
	assert_string_equal(";", rules->rules[0].separator);
	assert_string_equal("$1", rules->rules[0].replacement);
	assert_int_equal(RELABEL_REPLACE, rules->rules[0].action);
	assert_int_equal(1, regex_find(rules->rules[0].regex, "a\nb", 3, NULL));
	relabel_rules_free(rules);
}

static const struct {
	const char *what, *text, *error; // how the error begins
} bad[] = {
	{ "nothing", "", "rules: there is no rule in it" },
	{ "comments only", "# none\n", "rules: there is no rule in it" },
	{ "an empty list", "[]", "rules: there is no rule in it" },
	{ "no YAML", "- regex: 'a\n", "rules:2: this is not YAML" },
	{ "a text", "abc", "rules:1: expected a list of rules" },
	{ "another key", "rules: []", "rules:1: \"rules\": only relabel_configs belongs here" },
	{ "the key twice", "relabel_configs: [{target_label: a}]\nrelabel_configs: []",
	  "rules:2: \"relabel_configs\": only" },
	{ "no list below the key", "relabel_configs: {}", "rules:1: expected a list of rules" },
	{ "a rule that is a text", "- a\n", "rules:1: expected a rule" },
	{ "a second document", "- {target_label: a}\n---\n- {target_label: b}\n",
	  "rules:2: a second document" },
	{ "an unknown field", "- target: a\n",
	  "rules:1: \"target\" is no field of a rule: source_" },
	{ "a field twice", "- target_label: a\n  target_label: b\n",
	  "rules:2: target_label: was set on line 1 already" },
	{ "an unknown action", "- action: rename\n",
	  "rules:1: action: \"rename\" is none of replace," },
	{ "sources that are no list", "- source_labels: a\n",
	  "rules:1: source_labels: expected a list" },
	{ "a source that is no name", "- source_labels: [a-b]\n",
	  "rules:1: source_labels: \"a-b\" is no label's name" },
	{ "a list for a text", "- target_label: [a]\n", "rules:1: target_label: expected a text" },
	{ "an alias", "- target_label: &a b\n- target_label: *a\n",
	  "rules:2: target_label: expected a text" },
	{ "no value", "- target_label:\n", "rules:1: target_label: there is no value; write ''" },
	{ "null", "- {target_label: a, replacement: null}\n",
	  "rules:1: replacement: there is no value" },
	{ "a NUL", "- target_label: \"a\\0b\"\n", "rules:1: target_label: there is a NUL" },
	{ "no target", "- action: replace\n", "rules:1: action replace needs target_label" },
	{ "no modulus", "- action: hashmod\n  target_label: a\n",
	  "rules:1: action hashmod needs modulus" },
	{ "modulus 0", "- modulus: 0\n", "rules:1: modulus: \"0\" is no number of 1" },
	{ "modulus below 0", "- modulus: -1\n", "rules:1: modulus: \"-1\" is no number" },
	{ "modulus past 64 bits", "- modulus: 99999999999999999999\n", "rules:1: modulus: \"9999" },
	{ "labeldrop of all", "- action: labeldrop\n", "rules:1: action labeldrop needs regex" },
	{ "labeldrop of a value", "- action: labeldrop\n  regex: a\n  source_labels: [b]\n",
	  "rules:3: source_labels: action labeldrop has none; remove it" },
	{ "dropequal with a regex",
	  "- {action: dropequal, source_labels: [a], target_label: b, regex: c}",
	  "rules:1: regex: action dropequal has none" },
	{ "lowercase with a replacement", "- {action: lowercase, target_label: b, replacement: c}",
	  "rules:1: replacement: action lowercase has none" },
	{ "a wrong regex", "- target_label: a\n  regex: a(\n",
	  "rules:2: regex: regular expression: missing" },
	{ "a target that is no name", "- target_label: a-b\n",
	  "rules:1: target_label: \"a-b\" is no label's name" },
	{ "an empty target", "- target_label: ''\n",
	  "rules:1: target_label: \"\" is no label's name" },
	{ "a target with a variable that is no name", "- target_label: '$1-'\n",
	  "rules:1: target_label: \"$1-\" is no label's name" },
	{ "a target with a dollar", "- target_label: 'x$$'\n",
	  "rules:1: target_label: \"x$$\" is no label's name" },
	{ "a variable where none may be", "- {action: hashmod, modulus: 2, target_label: x_$1}",
	  "rules:1: target_label: \"x_$1\" is no label's name" },
	{ "a map to no name", "- {action: labelmap, replacement: '$1-$2'}",
	  "rules:1: replacement: \"$1-$2\" is no label's name" },
	{ "the node", "- source_labels: [pod]\n  target_label: node\n",
	  "rules:2: target_label: \"node\" is cairn's own label; set another" },
	{ "a tenant", "- target_label: tenant\n",
	  "rules:1: target_label: \"tenant\" is cairn's own" },
	{ "the process", "- {action: uppercase, target_label: process}",
	  "rules:1: target_label: \"process\" is cairn's own" },
	{ "the pod", "- {action: hashmod, modulus: 2, target_label: pod_uid}",
	  "rules:1: target_label: \"pod_uid\" is cairn's own" },
	{ "a map to the node", "- action: labelmap\n  replacement: node\n",
	  "rules:2: replacement: \"node\" is cairn's own" },
};

TEST(refuses_wrong_rules_with_line_and_field)
{
	for EACH (row, bad) {
		struct relabel_rules *rules = NULL;
		struct error err = { 0 };

		EXPECT_EQ(-EINVAL, read_rules(row->text, &rules, &err), row->what);
		assert_null(rules);
		if (strncmp(err.text, row->error, strlen(row->error)) != 0)
			fail_msg("%s: \"%s\", expected \"%s\"", row->what, err.text, row->error);
	}
}

static char *repeated(const char *head, const char *text, int count, const char *tail)
{
	char *all = malloc(strlen(head) + strlen(text) * (size_t)count + strlen(tail) + 1);
	char *at = all;

	assert_non_null(all);
	at = stpcpy(at, head);
	for (int i = 0; i < count; i++)
		at = stpcpy(at, text);
	strcpy(at, tail);
	return all;
}

static void expect_error(char *text, int rc, const char *part)
{
	struct relabel_rules *rules = NULL;
	struct error err = { 0 };

	EXPECT_EQ(rc, read_rules(text, &rules, &err), part);
	if (!strstr(err.text, part))
		fail_msg("\"%s\" has no \"%s\"", err.text, part);
	free(text);
	relabel_rules_free(rules);
}

TEST(files_have_limits)
{
	expect_error(repeated("", "- {target_label: a}\n", RELABEL_RULES_MAX, ""), 0, "");
	expect_error(repeated("", "- {target_label: a}\n", RELABEL_RULES_MAX + 1, ""), -EINVAL,
		     ":129: more than 128 rules");
	expect_error(repeated("- {source_labels: [", "a,", RELABEL_SOURCES_MAX + 1,
			      "], target_label: b}"),
		     -EINVAL, "source_labels: more than 16");
	expect_error(repeated("- regex: ", "a", RELABEL_TEXT_BYTES_MAX, "\n"), -EINVAL,
		     "regex: longer than 4095 bytes");
	expect_error(repeated("- {target_label: b, regex: \"", "(a)", REGEX_GROUPS_MAX, "\"}"),
		     -EINVAL, "regex: more than 31 groups");
	expect_error(repeated("", "# a comment\n", RELABEL_FILE_BYTES_MAX / 12 + 1, ""), -EFBIG,
		     "larger than 256 KiB");
	expect_error(repeated("", "[", 20000, ""), -EINVAL, "expected a rule");
}

TEST(names_a_missing_file)
{
	struct relabel_rules *rules = NULL;
	struct error err = { 0 };

	assert_int_equal(-ENOENT, relabel_file_read("/nonexistent/rules.yaml", &rules, &err));
	assert_non_null(strstr(err.text, "relabel rules /nonexistent/rules.yaml: No such file"));
}

RUN_TESTS(cmocka_unit_test(reads_rules), cmocka_unit_test(fills_in_prometheus_defaults),
	  cmocka_unit_test(refuses_wrong_rules_with_line_and_field),
	  cmocka_unit_test(files_have_limits), cmocka_unit_test(names_a_missing_file))
