// SPDX-License-Identifier: Apache-2.0
#include "agent/relabel/relabel_rules.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nettle/md5.h>

#include "agent/relabel/relabel_set.h"
#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/text.h"
#include "base/utf8.h"

#define HIDDEN_PREFIX "__"

/* ---- life ---------------------------------------------------------------------------------- */

void relabel_rule_deinit(struct relabel_rule *rule)
{
	for (uint32_t i = 0; i < rule->source_count; i++)
		free(rule->sources[i]);
	free(rule->separator);
	free(rule->target);
	free(rule->replacement);
	regex_free(rule->regex);
	*rule = (struct relabel_rule){ 0 };
}

void relabel_rules_free(struct relabel_rules *rules)
{
	if (!rules)
		return;
	for (uint32_t i = 0; i < rules->count; i++)
		relabel_rule_deinit(&rules->rules[i]);
	free(rules->rules);
	free(rules);
}

/* ---- names ---------------------------------------------------------------------------------- */

static bool is_one_of(const char *name, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* Words about a process that may be said in other words. */
static const char *const settable[] = { LABEL_SERVICE, LABEL_VERSION, LABEL_WORKLOAD,
					LABEL_WORKLOAD_KIND };
/* Without them a series has no owner. */
static const char *const kept[] = { LABEL_SERVICE, LABEL_NODE, LABEL_PROCESS };

bool relabel_may_set(const char *name)
{
	return !label_is_reserved(name) || is_one_of(name, settable, ARRAY_SIZE(settable));
}

/* As Go's regexp: "$name" or "${name}", of letters, digits and '_'. Returns the size of it all; 0: a plain '$'. */
static size_t scan_variable(const char *at, const char **ret_name, size_t *ret_size)
{
	bool has_brace = at[1] == '{';
	const char *name = at + 1 + has_brace;
	size_t size = 0;

	while (isalnum((unsigned char)name[size]) || name[size] == '_')
		size++;
	if (!size || (has_brace && name[size] != '}'))
		return 0;
	*ret_name = name;
	*ret_size = size;
	return 1 + size + 2 * has_brace;
}

bool relabel_has_variable(const char *text)
{
	const char *name;
	size_t size;

	for (const char *at = text; (at = strchr(at, '$')); at++)
		if (scan_variable(at, &name, &size))
			return true;
	return false;
}

static bool is_name_character(char c, bool is_first)
{
	return (unsigned char)c < 0x80 &&
	       (isalpha((unsigned char)c) || c == '_' || (!is_first && isdigit((unsigned char)c)));
}

bool relabel_may_be_name(const char *text)
{
	const char *at = text, *name;
	size_t size;

	while (*at) {
		size_t length = *at == '$' ? scan_variable(at, &name, &size) : 0;

		if (!length && !is_name_character(*at, at == text))
			return false;
		at += length ? length : 1;
	}
	return at > text;
}

bool relabel_is_name(const char *text)
{
	return relabel_may_be_name(text) && !relabel_has_variable(text);
}

/* ---- variables in a replacement --------------------------------------------------------------- */

/* -1: there is none. A number with a leading zero is a name. */
static int group_of_variable(const struct regex *regex, const char *name, size_t size)
{
	char text[REGEX_GROUPS_MAX * 2];

	if (size >= sizeof(text))
		return -1;
	memcpy(text, name, size);
	text[size] = '\0';
	if (strspn(text, "0123456789") < size || (size > 1 && text[0] == '0'))
		return regex_group_of_name(regex, text);
	return size > 4 ? -1 : (int)strtol(text, NULL, 10);
}

/* A value is cut where a label's would be. */
struct expansion {
	const struct regex *regex;
	const struct regex_match *match;
	const char *text; // that matched
};

static void expand(const struct expansion *expansion, const char *template, char *ret_text,
		   size_t ret_size)
{
	struct buffer out = { .size_max = RELABEL_TEXT_BYTES_MAX };

	for (const char *at = template; *at;) {
		const char *name;
		size_t size, length = *at == '$' ? scan_variable(at, &name, &size) : 0;

		if (length) {
			int group = group_of_variable(expansion->regex, name, size);

			if (group >= 0 && (size_t)group < expansion->match->count)
				buffer_append(&out,
					      expansion->text +
						      expansion->match->groups[group].begin,
					      expansion->match->groups[group].end -
						      expansion->match->groups[group].begin);
			at += length;
			continue;
		}
		buffer_append_byte(&out, (uint8_t)*at);
		at += at[0] == '$' && at[1] == '$' ? 2 : 1;
	}
	size_t size = out.size < ret_size ? out.size : ret_size - 1;

	if (size)
		memcpy(ret_text, out.bytes, size);
	ret_text[size] = '\0';
	buffer_deinit(&out);
}

/* ---- one rule ------------------------------------------------------------------------------- */

/* One process's labels on their way through the rules. */
struct relabeling {
	struct relabel_set set;
	struct relabel_stats *stats;
	char joined[RELABEL_TEXT_BYTES_MAX]; // a rule's source values
	bool is_dropped;
};

/* Returns 1, 0, or -ENOMEM. */
static int find(struct relabeling *relabeling, const struct relabel_rule *rule, const char *text,
		struct regex_match *ret_match)
{
	int rc = regex_find(rule->regex, text, strlen(text), ret_match);

	if (rc != -E2BIG)
		return rc;
	relabeling->stats->matches_stopped++;
	return 0;
}

static int put(struct relabeling *relabeling, const char *name, const char *value)
{
	char clean[LABEL_VALUE_BYTES_MAX + 1];
	size_t size = utf8_cut(value, strlen(value), sizeof(clean) - 1);

	memcpy(clean, value, size);
	clean[size] = '\0';
	utf8_clean(clean);
	int rc = relabel_set_put(&relabeling->set, name, clean);
	if (rc != -E2BIG)
		return rc;
	relabeling->stats->labels_dropped++;
	return 0;
}

static void join_sources(struct relabeling *relabeling, const struct relabel_rule *rule)
{
	size_t size = 0;

	relabeling->joined[0] = '\0';
	for (uint32_t i = 0; i < rule->source_count && size < sizeof(relabeling->joined); i++)
		size += (size_t)snprintf(relabeling->joined + size,
					 sizeof(relabeling->joined) - size, "%s%s",
					 i ? rule->separator : "",
					 relabel_set_get(&relabeling->set, rule->sources[i]));
}

static int replace(struct relabeling *relabeling, const struct relabel_rule *rule)
{
	char name[META_LABEL_NAME_BYTES_MAX + 1], value[RELABEL_TEXT_BYTES_MAX];
	struct regex_match match;
	int rc = find(relabeling, rule, relabeling->joined, &match);

	if (rc <= 0)
		return rc;
	const struct expansion expansion = { rule->regex, &match, relabeling->joined };

	expand(&expansion, rule->target, name, sizeof(name));
	if (!relabel_is_name(name)) {
		relabeling->stats->labels_dropped += name[0] != '\0';
		return 0;
	}
	expand(&expansion, rule->replacement, value, sizeof(value));
	return put(relabeling, name, value);
}

static int set_case(struct relabeling *relabeling, const struct relabel_rule *rule,
		    int (*convert)(int c))
{
	for (char *at = relabeling->joined; *at; at++)
		if ((unsigned char)*at < 0x80)
			*at = (char)convert(*at);
	return put(relabeling, rule->target, relabeling->joined);
}

/* The last 8 bytes of the MD5 sum, as Prometheus takes them: both give a process the same shard. */
static int hash(struct relabeling *relabeling, const struct relabel_rule *rule)
{
	uint8_t digest[MD5_DIGEST_SIZE];
	struct md5_ctx context;
	uint64_t sum = 0;
	char text[24];

	md5_init(&context);
	md5_update(&context, strlen(relabeling->joined), (const uint8_t *)relabeling->joined);
	md5_digest(&context, sizeof(digest), digest);
	for (size_t i = sizeof(digest) - sizeof(sum); i < sizeof(digest); i++)
		sum = sum << 8 | digest[i];
	snprintf(text, sizeof(text), "%" PRIu64, sum % rule->modulus);
	return put(relabeling, rule->target, text);
}

/* Returns a negative errno, or 0 or more. */
static int map_name(struct relabeling *relabeling, const struct relabel_rule *rule,
		    const struct relabel_label *label, struct relabel_set *made)
{
	char name[META_LABEL_NAME_BYTES_MAX + 1];
	struct regex_match match;
	int rc = find(relabeling, rule, label->name, &match);

	if (rc <= 0)
		return rc;
	const struct expansion expansion = { rule->regex, &match, label->name };

	expand(&expansion, rule->replacement, name, sizeof(name));
	if (relabel_is_name(name))
		return relabel_set_put(made, name, label->value);
	relabeling->stats->labels_dropped++;
	return 0;
}

/* What the rule makes is not mapped again. */
static int map_names(struct relabeling *relabeling, const struct relabel_rule *rule)
{
	struct relabel_set made = { 0 };
	int rc = 0;

	for (uint32_t i = 0; i < relabeling->set.count && rc >= 0; i++)
		rc = map_name(relabeling, rule, &relabeling->set.labels[i], &made);
	for (uint32_t i = 0; i < made.count && rc >= 0; i++)
		rc = put(relabeling, made.labels[i].name, made.labels[i].value);
	relabel_set_deinit(&made);
	return rc < 0 ? rc : 0;
}

static int drop_names(struct relabeling *relabeling, const struct relabel_rule *rule, bool matching)
{
	for (uint32_t i = 0; i < relabeling->set.count;) {
		int rc = find(relabeling, rule, relabeling->set.labels[i].name, NULL);

		if (rc < 0)
			return rc;
		if ((rc > 0) == matching)
			relabel_set_remove_at(&relabeling->set, i);
		else
			i++;
	}
	return 0;
}

static bool equals_target(const struct relabeling *relabeling, const struct relabel_rule *rule)
{
	return strcmp(relabel_set_get(&relabeling->set, rule->target), relabeling->joined) == 0;
}

static int apply(struct relabeling *relabeling, const struct relabel_rule *rule)
{
	int rc = 0;

	join_sources(relabeling, rule);
	switch (rule->action) {
	case RELABEL_REPLACE:
		return replace(relabeling, rule);
	case RELABEL_KEEP:
	case RELABEL_DROP:
		rc = find(relabeling, rule, relabeling->joined, NULL);
		relabeling->is_dropped = rc >= 0 && (rc > 0) == (rule->action == RELABEL_DROP);
		return rc < 0 ? rc : 0;
	case RELABEL_KEEPEQUAL:
		relabeling->is_dropped = !equals_target(relabeling, rule);
		return 0;
	case RELABEL_DROPEQUAL:
		relabeling->is_dropped = equals_target(relabeling, rule);
		return 0;
	case RELABEL_HASHMOD:
		return hash(relabeling, rule);
	case RELABEL_LABELMAP:
		return map_names(relabeling, rule);
	case RELABEL_LABELDROP:
		return drop_names(relabeling, rule, true);
	case RELABEL_LABELKEEP:
		return drop_names(relabeling, rule, false);
	case RELABEL_LOWERCASE:
		return set_case(relabeling, rule, tolower);
	case RELABEL_UPPERCASE:
		return set_case(relabeling, rule, toupper);
	}
	return 0;
}

/* ---- all rules ------------------------------------------------------------------------------ */

static bool has_source(const struct relabel_rule *rule, const char *name)
{
	for (uint32_t i = 0; i < rule->source_count; i++)
		if (strcmp(rule->sources[i], name) == 0)
			return true;
	return false;
}

static bool reads_label(const struct relabel_rule *rule, const char *name)
{
	if (rule->action == RELABEL_LABELMAP)
		return regex_find(rule->regex, name, strlen(name), NULL) > 0;
	if (rule->action == RELABEL_KEEPEQUAL || rule->action == RELABEL_DROPEQUAL)
		return has_source(rule, name) || strcmp(rule->target, name) == 0;
	return has_source(rule, name);
}

bool relabel_rules_read_label(const struct relabel_rules *rules, const char *name)
{
	for (uint32_t i = 0; rules && i < rules->count; i++)
		if (reads_label(&rules->rules[i], name))
			return true;
	return false;
}

static int fill(struct relabel_set *set, const struct labels *labels,
		const struct meta_labels *meta)
{
	const char *name, *value;
	size_t at = 0;
	int rc = 0;

	for (uint32_t i = 0; i < labels->count && !rc; i++)
		rc = relabel_set_put(set, labels->pairs[i].name, labels->pairs[i].value);
	while (!rc && meta_labels_next(meta, &at, &name, &value))
		rc = relabel_set_put(set, name, value);
	relabel_set_begin(set);
	return rc;
}

/* Only -ENOMEM is a failure. */
static int keep_label(struct labels *result, const char *name, const char *value,
		      struct relabel_stats *stats)
{
	int rc = labels_set(result, name, value);

	if (rc && rc != -ENOMEM)
		stats->labels_dropped++;
	return rc == -ENOMEM ? rc : 0;
}

static int keep_owner(struct labels *result, const struct labels *before,
		      const struct relabel_set *set, struct relabel_stats *stats)
{
	int rc = 0;

	for (size_t i = 0; i < ARRAY_SIZE(kept) && !rc; i++) {
		const char *value = relabel_may_set(kept[i]) ? relabel_set_get(set, kept[i]) : "";

		if (!value[0])
			value = labels_get(before, kept[i]);
		if (value)
			rc = keep_label(result, kept[i], value, stats);
	}
	return rc;
}

static int keep_others(struct labels *result, const struct labels *before,
		       const struct relabel_set *set, struct relabel_stats *stats)
{
	int rc = 0;

	for (uint32_t i = 0; i < set->count && !rc; i++) {
		const char *name = set->labels[i].name, *value = set->labels[i].value;
		const char *own = labels_get(before, name);

		if (text_begins_with(name, HIDDEN_PREFIX))
			continue;
		if (!relabel_may_set(name) && (!own || strcmp(own, value) != 0)) {
			stats->labels_dropped++;
			value = own;
		}
		if (value && !is_one_of(name, kept, ARRAY_SIZE(kept)))
			rc = keep_label(result, name, value, stats);
	}
	return rc;
}

int relabel_rules_apply(const struct relabel_rules *rules, const struct labels *labels,
			const struct meta_labels *meta, struct labels *ret_labels,
			bool *ret_is_dropped, struct relabel_stats *stats)
{
	struct relabeling relabeling = { .stats = stats };
	_cleanup_(labels_deinit) struct labels result = { 0 };
	int rc = fill(&relabeling.set, labels, meta);

	for (uint32_t i = 0; i < rules->count && !rc && !relabeling.is_dropped; i++)
		rc = apply(&relabeling, &rules->rules[i]);
	if (!rc)
		rc = keep_owner(&result, labels, &relabeling.set, stats);
	if (!rc)
		rc = keep_others(&result, labels, &relabeling.set, stats);
	relabel_set_deinit(&relabeling.set);
	if (rc)
		return -ENOMEM;
	*ret_is_dropped = relabeling.is_dropped;
	*ret_labels = result;
	result = (struct labels){ 0 };
	return 0;
}
