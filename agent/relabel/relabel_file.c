// SPDX-License-Identifier: Apache-2.0
#include "agent/relabel/relabel_file.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/config/yaml_file.h"

#define DEFAULT_SEPARATOR   ";"
#define DEFAULT_REGEX       "(.*)"
#define DEFAULT_REPLACEMENT "$1"
#define LIST_KEY            "relabel_configs"

enum field {
	FIELD_SOURCE_LABELS,
	FIELD_SEPARATOR,
	FIELD_REGEX,
	FIELD_MODULUS,
	FIELD_TARGET_LABEL,
	FIELD_REPLACEMENT,
	FIELD_ACTION,
	FIELD_COUNT,
};

static const char *const field_names[FIELD_COUNT] = {
	[FIELD_SOURCE_LABELS] = "source_labels",
	[FIELD_SEPARATOR] = "separator",
	[FIELD_REGEX] = "regex",
	[FIELD_MODULUS] = "modulus",
	[FIELD_TARGET_LABEL] = "target_label",
	[FIELD_REPLACEMENT] = "replacement",
	[FIELD_ACTION] = "action",
};

#define BIT(field) (1U << (field))

/* Which fields an action needs, and which it may have beside them. */
static const struct {
	const char *name;
	uint32_t needed, allowed;
	bool has_template; // the name that it sets may have variables
} actions[] = {
	[RELABEL_REPLACE] = { "replace", BIT(FIELD_TARGET_LABEL), UINT32_MAX, true },
	[RELABEL_KEEP] = { "keep", 0, UINT32_MAX, false },
	[RELABEL_DROP] = { "drop", 0, UINT32_MAX, false },
	[RELABEL_KEEPEQUAL] = { "keepequal", BIT(FIELD_SOURCE_LABELS) | BIT(FIELD_TARGET_LABEL), 0,
				false },
	[RELABEL_DROPEQUAL] = { "dropequal", BIT(FIELD_SOURCE_LABELS) | BIT(FIELD_TARGET_LABEL), 0,
				false },
	[RELABEL_HASHMOD] = { "hashmod", BIT(FIELD_TARGET_LABEL) | BIT(FIELD_MODULUS), UINT32_MAX,
			      false },
	[RELABEL_LABELMAP] = { "labelmap", 0, UINT32_MAX, true },
	[RELABEL_LABELDROP] = { "labeldrop", BIT(FIELD_REGEX), 0, false },
	[RELABEL_LABELKEEP] = { "labelkeep", BIT(FIELD_REGEX), 0, false },
	[RELABEL_LOWERCASE] = { "lowercase", BIT(FIELD_TARGET_LABEL), ~BIT(FIELD_REPLACEMENT),
				false },
	[RELABEL_UPPERCASE] = { "uppercase", BIT(FIELD_TARGET_LABEL), ~BIT(FIELD_REPLACEMENT),
				false },
};

struct reading {
	const char *path;
	struct yaml_file *yaml;
	struct relabel_rules *rules;
	struct error *err;
};

/* The rule that is being read. */
struct draft {
	struct relabel_rule rule;
	char *regex;
	uint32_t line;                  // where it begins
	uint32_t field_of[FIELD_COUNT]; // the field's line; 0: not given
};

static void draft_deinit(struct draft *draft)
{
	relabel_rule_deinit(&draft->rule);
	free(draft->regex);
}

static int __attribute__((format(printf, 3, 4)))
fail(const struct reading *reading, uint32_t line, const char *format, ...)
{
	char text[ERROR_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return error_set(reading->err, -EINVAL, "%.150s:%u: %s", reading->path, line, text);
}

static int fail_memory(const struct reading *reading)
{
	return error_set(reading->err, -ENOMEM, "%.150s: out of memory", reading->path);
}

static int next(struct reading *reading)
{
	return yaml_file_next(reading->yaml, reading->err);
}

static uint32_t line_of(const struct reading *reading)
{
	return yaml_file_line(reading->yaml);
}

/* ---- scalars -------------------------------------------------------------------------------- */

static int read_text(struct reading *reading, const char *field, char **ret_text)
{
	size_t size;
	const char *text = yaml_file_text(reading->yaml, &size);

	if (yaml_file_node(reading->yaml) != YAML_NODE_SCALAR)
		return fail(reading, line_of(reading), "%s: expected a text", field);
	if (strlen(text) != size)
		return fail(reading, line_of(reading), "%s: there is a NUL character in the text",
			    field);
	if (!yaml_file_is_quoted(reading->yaml) &&
	    (!size || strcmp(text, "~") == 0 || strcasecmp(text, "null") == 0))
		return fail(reading, line_of(reading),
			    "%s: there is no value; write '' for an empty text", field);
	if (size >= RELABEL_TEXT_BYTES_MAX)
		return fail(reading, line_of(reading), "%s: longer than %d bytes", field,
			    RELABEL_TEXT_BYTES_MAX - 1);
	*ret_text = strdup(text);
	return *ret_text ? 0 : fail_memory(reading);
}

static int read_source(struct reading *reading, struct draft *draft)
{
	struct relabel_rule *rule = &draft->rule;
	const char *field = field_names[FIELD_SOURCE_LABELS];

	if (rule->source_count == RELABEL_SOURCES_MAX)
		return fail(reading, line_of(reading), "%s: more than %d", field,
			    RELABEL_SOURCES_MAX);
	int rc = read_text(reading, field, &rule->sources[rule->source_count]);
	if (rc)
		return rc;
	const char *name = rule->sources[rule->source_count++];
	return relabel_is_name(name)
		       ? 0
		       : fail(reading, line_of(reading),
			      "%s: \"%.60s\" is no label's name: letters, digits and _", field,
			      name);
}

static int read_sources(struct reading *reading, struct draft *draft)
{
	if (yaml_file_node(reading->yaml) != YAML_NODE_LIST)
		return fail(reading, line_of(reading), "source_labels: expected a list: [service]");
	for (;;) {
		int rc = next(reading);

		if (rc || yaml_file_node(reading->yaml) == YAML_NODE_LIST_END)
			return rc;
		rc = read_source(reading, draft);
		if (rc)
			return rc;
	}
}

static int read_modulus(struct reading *reading, struct draft *draft)
{
	_cleanup_free_ char *text = NULL;
	int rc = read_text(reading, field_names[FIELD_MODULUS], &text);

	if (rc)
		return rc;
	size_t digits = strspn(text, "0123456789");
	draft->rule.modulus = digits < 20 ? strtoull(text, NULL, 10) : 0;
	return text[digits] || !draft->rule.modulus
		       ? fail(reading, line_of(reading),
			      "modulus: \"%.40s\" is no number of 1 or more", text)
		       : 0;
}

static int read_action(struct reading *reading, struct draft *draft)
{
	_cleanup_free_ char *text = NULL;
	int rc = read_text(reading, field_names[FIELD_ACTION], &text);

	if (rc)
		return rc;
	for (size_t i = 0; i < ARRAY_SIZE(actions); i++)
		if (strcasecmp(actions[i].name, text) == 0) {
			draft->rule.action = (enum relabel_action)i;
			return 0;
		}
	return fail(reading, line_of(reading),
		    "action: \"%.40s\" is none of replace, keep, drop, keepequal, dropequal, "
		    "hashmod, labelmap, labeldrop, labelkeep, lowercase and uppercase",
		    text);
}

/* ---- one rule ------------------------------------------------------------------------------- */

static int read_field(struct reading *reading, enum field field, struct draft *draft)
{
	struct relabel_rule *rule = &draft->rule;

	switch (field) {
	case FIELD_SOURCE_LABELS:
		return read_sources(reading, draft);
	case FIELD_SEPARATOR:
		return read_text(reading, field_names[field], &rule->separator);
	case FIELD_REGEX:
		return read_text(reading, field_names[field], &draft->regex);
	case FIELD_MODULUS:
		return read_modulus(reading, draft);
	case FIELD_TARGET_LABEL:
		return read_text(reading, field_names[field], &rule->target);
	case FIELD_REPLACEMENT:
		return read_text(reading, field_names[field], &rule->replacement);
	case FIELD_ACTION:
		return read_action(reading, draft);
	case FIELD_COUNT:
		break;
	}
	return 0;
}

static int find_field(struct reading *reading, struct draft *draft, enum field *ret_field)
{
	_cleanup_free_ char *name = NULL;
	int rc = read_text(reading, "a field's name", &name);

	for (size_t i = 0; i < FIELD_COUNT && !rc; i++) {
		if (strcmp(field_names[i], name) != 0)
			continue;
		if (draft->field_of[i])
			return fail(reading, line_of(reading), "%s: was set on line %u already",
				    name, draft->field_of[i]);
		draft->field_of[i] = line_of(reading);
		*ret_field = (enum field)i;
		return 0;
	}
	return rc ? rc
		  : fail(reading, line_of(reading),
			 "\"%.40s\" is no field of a rule: source_labels, separator, regex, "
			 "modulus, target_label, replacement, action",
			 name);
}

static bool is_given(const struct draft *draft, enum field field)
{
	return draft->field_of[field] != 0;
}

/* Prometheus lets a default be written out. */
static bool is_default(const struct draft *draft, enum field field)
{
	switch (field) {
	case FIELD_SEPARATOR:
		return strcmp(draft->rule.separator, DEFAULT_SEPARATOR) == 0;
	case FIELD_REGEX:
		return strcmp(draft->regex, DEFAULT_REGEX) == 0;
	case FIELD_REPLACEMENT:
		return strcmp(draft->rule.replacement, DEFAULT_REPLACEMENT) == 0;
	default:
		return false;
	}
}

static int check_fields(const struct reading *reading, const struct draft *draft)
{
	const enum relabel_action action = draft->rule.action;

	for (size_t i = 0; i < FIELD_COUNT; i++) {
		uint32_t bit = BIT(i);

		if (actions[action].needed & bit && !is_given(draft, i))
			return fail(reading, draft->line, "action %s needs %s",
				    actions[action].name, field_names[i]);
		if (i != FIELD_ACTION && is_given(draft, i) && !is_default(draft, i) &&
		    !((actions[action].needed | actions[action].allowed) & bit))
			return fail(reading, draft->field_of[i],
				    "%s: action %s has none; remove it", field_names[i],
				    actions[action].name);
	}
	return 0;
}

/* What sets the name of a label; NULL: the action sets none. */
static const char *name_of(const struct draft *draft, enum field *ret_field)
{
	const struct relabel_rule *rule = &draft->rule;
	bool is_map = rule->action == RELABEL_LABELMAP;

	*ret_field = is_map ? FIELD_REPLACEMENT : FIELD_TARGET_LABEL;
	if (is_map)
		return rule->replacement;
	return actions[rule->action].needed & BIT(FIELD_TARGET_LABEL) ? rule->target : NULL;
}

/* What a name with variables becomes is known when the rule is applied. */
static int check_name(const struct reading *reading, const struct draft *draft)
{
	enum relabel_action action = draft->rule.action;
	enum field field;
	const char *name = name_of(draft, &field);
	uint32_t line = is_given(draft, field) ? draft->field_of[field] : draft->line;

	if (!name || (actions[action].has_template && relabel_has_variable(name) &&
		      relabel_may_be_name(name)))
		return 0;
	if (!relabel_is_name(name))
		return fail(reading, line,
			    "%s: \"%.60s\" is no label's name: letters, digits and _",
			    field_names[field], name);
	if (action == RELABEL_KEEPEQUAL || action == RELABEL_DROPEQUAL || relabel_may_set(name))
		return 0;
	return fail(reading, line,
		    "%s: \"%.60s\" is cairn's own label; set another, or remove it by labeldrop",
		    field_names[field], name);
}

static int compile(const struct reading *reading, struct draft *draft)
{
	struct error cause = { 0 };
	uint32_t line = is_given(draft, FIELD_REGEX) ? draft->field_of[FIELD_REGEX] : draft->line;
	int rc = regex_compile(draft->regex, RELABEL_TEXT_BYTES_MAX, RELABEL_MATCH_STEPS_MAX,
			       &draft->rule.regex, &cause);

	if (rc == -EINVAL)
		return fail(reading, line, "regex: %s", cause.text);
	if (rc)
		return fail_memory(reading);
	if (regex_group_count(draft->rule.regex) >= REGEX_GROUPS_MAX)
		return fail(reading, line, "regex: more than %d groups; write (?:…) for some",
			    REGEX_GROUPS_MAX - 1);
	return 0;
}

static int set_default(char **text, const char *value)
{
	if (!*text)
		*text = strdup(value);
	return *text ? 0 : -ENOMEM;
}

static int finish_rule(struct reading *reading, struct draft *draft)
{
	struct relabel_rules *rules = reading->rules;
	int rc = check_fields(reading, draft);

	if (rc)
		return rc;
	if (set_default(&draft->rule.separator, DEFAULT_SEPARATOR) ||
	    set_default(&draft->rule.replacement, DEFAULT_REPLACEMENT) ||
	    set_default(&draft->regex, DEFAULT_REGEX))
		return fail_memory(reading);
	rc = check_name(reading, draft);
	if (!rc)
		rc = compile(reading, draft);
	if (rc)
		return rc;
	rc = array_reserve(&rules->rules, sizeof(*rules->rules), &rules->capacity, rules->count, 1,
			   RELABEL_RULES_MAX);
	if (rc == -E2BIG)
		return fail(reading, draft->line, "more than %d rules", RELABEL_RULES_MAX);
	if (rc)
		return fail_memory(reading);
	rules->rules[rules->count++] = draft->rule;
	draft->rule = (struct relabel_rule){ 0 };
	return 0;
}

static int read_rule(struct reading *reading)
{
	_cleanup_(draft_deinit) struct draft draft = { .line = line_of(reading) };

	if (yaml_file_node(reading->yaml) != YAML_NODE_MAPPING)
		return fail(reading, draft.line,
			    "expected a rule, as in \"- action: drop\" with its fields below");
	for (;;) {
		enum field field = FIELD_COUNT;
		int rc = next(reading);

		if (rc)
			return rc;
		if (yaml_file_node(reading->yaml) == YAML_NODE_MAPPING_END)
			return finish_rule(reading, &draft);
		rc = find_field(reading, &draft, &field);
		if (!rc)
			rc = next(reading);
		if (!rc)
			rc = read_field(reading, field, &draft);
		if (rc)
			return rc;
	}
}

/* ---- the file ------------------------------------------------------------------------------- */

static int read_list(struct reading *reading)
{
	if (yaml_file_node(reading->yaml) != YAML_NODE_LIST)
		return fail(reading, line_of(reading),
			    "expected a list of rules, each with \"- \" before its first field");
	for (;;) {
		int rc = next(reading);

		if (rc || yaml_file_node(reading->yaml) == YAML_NODE_LIST_END)
			return rc;
		rc = read_rule(reading);
		if (rc)
			return rc;
	}
}

static int read_mapping(struct reading *reading)
{
	for (bool has_list = false;; has_list = true) {
		_cleanup_free_ char *key = NULL;
		uint32_t line;
		int rc = next(reading);

		if (rc || yaml_file_node(reading->yaml) == YAML_NODE_MAPPING_END)
			return rc;
		line = line_of(reading);
		rc = read_text(reading, LIST_KEY, &key);
		if (!rc && (strcmp(key, LIST_KEY) != 0 || has_list))
			rc = fail(reading, line, "\"%.40s\": only " LIST_KEY " belongs here, once",
				  key);
		if (!rc)
			rc = next(reading);
		if (!rc)
			rc = read_list(reading);
		if (rc)
			return rc;
	}
}

static int read_rules(struct reading *reading)
{
	int rc = next(reading);

	if (!rc && yaml_file_node(reading->yaml) == YAML_NODE_END)
		return 0; // comments only
	if (!rc && yaml_file_node(reading->yaml) == YAML_NODE_MAPPING)
		rc = read_mapping(reading);
	else if (!rc)
		rc = read_list(reading);
	while (!rc && yaml_file_node(reading->yaml) != YAML_NODE_END)
		rc = next(reading); // a second document is an error
	return rc;
}

int relabel_file_read(const char *path, struct relabel_rules **ret_rules, struct error *err)
{
	_cleanup_(yaml_file_closep) struct yaml_file *yaml = NULL;
	_cleanup_(relabel_rules_freep) struct relabel_rules *rules = calloc(1, sizeof(*rules));
	int rc = rules ? yaml_file_open("relabel rules", path, RELABEL_FILE_BYTES_MAX, &yaml, err)
		       : error_set(err, -ENOMEM, "out of memory");

	if (rc)
		return rc;
	struct reading reading = { path, yaml, rules, err };
	rc = read_rules(&reading);
	if (rc)
		return rc;
	if (!rules->count)
		return error_set(err, -EINVAL, "%.150s: there is no rule in it", path);
	*ret_rules = take(rules);
	return 0;
}
