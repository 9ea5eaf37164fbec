// SPDX-License-Identifier: Apache-2.0
// Parses selectors and matches labels. The grammar is that of PromQL's label matchers
// (prometheus.io, "Time series selectors").
#include "collector/store/selector.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_names.h"
#include "base/regex.h"

enum {
	// A label value has at most 1024 bytes: a sane pattern needs a few thousand steps.
	REGEX_MATCH_STEPS_MAX = 200000,
	// For all matches of one selector together: patterns just below the limit of steps would
	// otherwise cost that much once per value and matcher.
	REGEX_NS_MAX = 2000000000,
};

/** What a selector's patterns have taken so far. */
struct regex_budget {
	_Atomic uint64_t spent_ns;
	_Atomic(const struct pattern *) exhausted_by; // the pattern that exceeded a limit
	atomic_int rc;                                // not 0: nothing matches any more
	struct deadline *deadline;
};

/** A matcher's pattern. Matching is thread-safe. */
struct pattern {
	struct regex *regex;
	struct regex_budget *budget; // the selector's
};

/** The parser's position; columns count from 1. */
struct scanner {
	const char *text;
	const char *at;
	struct error *err;
};

static void pattern_free(struct pattern *pattern)
{
	if (!pattern)
		return;

	regex_free(pattern->regex);
	free(pattern);
}

static void pattern_freep(struct pattern **pattern)
{
	pattern_free(*pattern);
}

/** @column: the pattern's start in the selector, for @err. */
static int pattern_compile(const char *text, size_t column, struct regex_budget *budget,
			   struct pattern **ret_pattern, struct error *err)
{
	_cleanup_(pattern_freep) struct pattern *pattern = calloc(1, sizeof(*pattern));
	struct error cause = { 0 };

	if (!pattern)
		return error_set(err, -ENOMEM, "out of memory");
	pattern->budget = budget;
	int rc = regex_compile(text, SELECTOR_BYTES_MAX, REGEX_MATCH_STEPS_MAX, &pattern->regex,
			       &cause);
	if (rc == -EINVAL)
		return error_set(err, rc, "column %zu: %s", column, cause.text);
	if (rc)
		return error_set(err, rc, "%s", cause.text);

	*ret_pattern = take(pattern);
	return 0;
}

static void exhaust(struct pattern *pattern)
{
	const struct pattern *none = NULL;

	atomic_compare_exchange_strong(&pattern->budget->exhausted_by, &none, pattern);
	atomic_store(&pattern->budget->rc, -EINVAL);
}

/** Match within the limits of one match, and pay for it. */
static bool match(struct pattern *pattern, const char *value)
{
	struct regex_budget *budget = pattern->budget;
	uint64_t start_ns = clock_monotonic_ns();
	int rc = regex_find(pattern->regex, value, strlen(value), NULL);
	uint64_t took_ns = clock_monotonic_ns() - start_ns;
	uint64_t spent_ns = atomic_fetch_add(&budget->spent_ns, took_ns) + took_ns;

	if (rc < 0 || spent_ns > REGEX_NS_MAX)
		exhaust(pattern);
	return rc > 0;
}

static bool pattern_matches(struct pattern *pattern, const char *value)
{
	struct regex_budget *budget = pattern->budget;

	if (atomic_load_explicit(&budget->rc, memory_order_relaxed))
		return false;
	int rc = deadline_check(budget->deadline, NULL);
	if (rc) {
		atomic_store(&budget->rc, rc);
		return false;
	}
	return match(pattern, value);
}

static int scanner_fail(const struct scanner *scanner, const char *expected)
{
	size_t column = (size_t)(scanner->at - scanner->text) + 1;
	unsigned char next = (unsigned char)*scanner->at;

	if (!next)
		return error_set(scanner->err, -EINVAL, "column %zu: expected %s, found the end",
				 column, expected);
	if (next < ' ' || next >= 0x7f)
		return error_set(scanner->err, -EINVAL,
				 "column %zu: expected %s, found byte 0x%02x", column, expected,
				 next);
	return error_set(scanner->err, -EINVAL, "column %zu: expected %s, found '%c'", column,
			 expected, next);
}

static void scanner_skip_spaces(struct scanner *scanner)
{
	scanner->at += strspn(scanner->at, " \t\r\n");
}

static bool scanner_accept(struct scanner *scanner, const char *word)
{
	size_t size = strlen(word);

	if (strncmp(scanner->at, word, size) != 0)
		return false;

	scanner->at += size;
	return true;
}

static int scan_name(struct scanner *scanner, char **ret_name)
{
	const char *const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	const char *const more = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";

	if (!strspn(scanner->at, letters))
		return scanner_fail(scanner, "a label name or '}'");

	size_t size = strspn(scanner->at, more);
	if (size > LABEL_NAME_BYTES_MAX)
		return error_set(scanner->err, -EINVAL,
				 "column %zu: label name is longer than %d bytes",
				 (size_t)(scanner->at - scanner->text) + 1, LABEL_NAME_BYTES_MAX);

	char *name = strndup(scanner->at, size);
	if (!name)
		return error_set(scanner->err, -ENOMEM, "out of memory");

	scanner->at += size;
	*ret_name = name;
	return 0;
}

static int scan_op(struct scanner *scanner, enum matcher_op *ret_op)
{
	// Longer operators first: "=~" begins with "=".
	static const struct {
		const char *word;
		enum matcher_op op;
	} ops[] = {
		{ "=~", MATCH_REGEX },
		{ "!~", MATCH_NOT_REGEX },
		{ "!=", MATCH_NOT_EQUAL },
		{ "=", MATCH_EQUAL },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++) {
		if (scanner_accept(scanner, ops[i].word)) {
			*ret_op = ops[i].op;
			return 0;
		}
	}
	return scanner_fail(scanner, "=, !=, =~ or !~");
}

/** The byte that the escape at the cursor (after the backslash) stands for, or -1. */
static int escaped_byte(char letter)
{
	switch (letter) {
	case 'n':
		return '\n';
	case 't':
		return '\t';
	case 'r':
		return '\r';
	case '\\':
	case '"':
	case '\'':
		return letter;
	default:
		return -1;
	}
}

/** A string in double or single quotes with escapes, or in backticks without. */
static int scan_value(struct scanner *scanner, char **ret_value)
{
	char quote = *scanner->at;

	if (quote != '"' && quote != '\'' && quote != '`')
		return scanner_fail(scanner, "a value in quotes");

	_cleanup_free_ char *value = malloc(strlen(scanner->at) + 1);
	if (!value)
		return error_set(scanner->err, -ENOMEM, "out of memory");

	size_t size = 0;
	for (scanner->at++; *scanner->at != quote; scanner->at++) {
		int byte = (unsigned char)*scanner->at;

		if (!byte)
			return scanner_fail(scanner, "the closing quote");
		if (byte == '\\' && quote != '`') {
			scanner->at++;
			byte = escaped_byte(*scanner->at);
			if (byte < 0)
				return scanner_fail(scanner,
						    "n, t, r, \\ or a quote after the "
						    "backslash (write \\\\ for one backslash, "
						    "or use `backticks`)");
		}
		value[size++] = (char)byte;
	}
	scanner->at++;
	value[size] = '\0';

	*ret_value = take(value);
	return 0;
}

static void matcher_deinit(struct matcher *matcher)
{
	free(matcher->name);
	free(matcher->value);
	pattern_free(matcher->pattern);
	*matcher = (struct matcher){ 0 };
}

static int scan_matcher(struct scanner *scanner, struct regex_budget *budget,
			struct matcher *matcher)
{
	int rc = scan_name(scanner, &matcher->name);
	if (rc)
		return rc;

	scanner_skip_spaces(scanner);
	rc = scan_op(scanner, &matcher->op);
	if (rc)
		return rc;

	scanner_skip_spaces(scanner);
	size_t column = (size_t)(scanner->at - scanner->text) + 1;
	rc = scan_value(scanner, &matcher->value);
	if (rc)
		return rc;
	if (matcher->op != MATCH_REGEX && matcher->op != MATCH_NOT_REGEX)
		return 0;

	struct pattern *pattern = NULL;
	rc = pattern_compile(matcher->value, column, budget, &pattern, scanner->err);
	if (rc)
		return rc;

	matcher->pattern = pattern;
	return 0;
}

/** "{" has been read; reads to "}". A comma after the last matcher is allowed, as in PromQL. */
static int scan_matchers(struct scanner *scanner, struct selector *selector)
{
	for (;;) {
		scanner_skip_spaces(scanner);
		if (scanner_accept(scanner, "}"))
			return 0;
		if (selector->count == SELECTOR_MATCHERS_MAX)
			return error_set(scanner->err, -EINVAL,
					 "column %zu: more than %d matchers; join some with =~",
					 (size_t)(scanner->at - scanner->text) + 1,
					 SELECTOR_MATCHERS_MAX);

		int rc = scan_matcher(scanner, selector->budget,
				      &selector->matchers[selector->count++]);
		if (rc)
			return rc;

		scanner_skip_spaces(scanner);
		if (scanner_accept(scanner, ","))
			continue;
		if (!scanner_accept(scanner, "}"))
			return scanner_fail(scanner, "',' or '}'");
		return 0;
	}
}

/** A bare word is short for {service="word"}. */
static int scan_word(struct scanner *scanner, struct selector *selector)
{
	size_t size = 0;

	while ((unsigned char)scanner->at[size] > ' ' && !strchr("{}=~!,\"'`\\", scanner->at[size]))
		size++;
	if (!size)
		return scanner_fail(scanner, "'{' or a service's name");

	struct matcher *matcher = &selector->matchers[selector->count++];
	matcher->op = MATCH_EQUAL;
	matcher->name = strdup(LABEL_SERVICE);
	matcher->value = strndup(scanner->at, size);
	if (!matcher->name || !matcher->value)
		return error_set(scanner->err, -ENOMEM, "out of memory");

	scanner->at += size;
	return 0;
}

static int scan_selector(struct scanner *scanner, struct selector *selector)
{
	scanner_skip_spaces(scanner);
	if (!*scanner->at)
		return 0;

	int rc = scanner_accept(scanner, "{") ? scan_matchers(scanner, selector)
					      : scan_word(scanner, selector);
	if (rc)
		return rc;

	scanner_skip_spaces(scanner);
	return *scanner->at ? scanner_fail(scanner, "the end (a selector is {name=\"value\", ...} "
						    "or one service's name)")
			    : 0;
}

static int add_tenant(struct selector *selector, const char *tenant, struct error *err)
{
	struct matcher *matcher = &selector->matchers[selector->count++];

	*matcher = (struct matcher){ .op = MATCH_EQUAL, .is_tenant = true };
	matcher->name = strdup(LABEL_TENANT);
	matcher->value = strdup(tenant);
	return matcher->name && matcher->value ? 0 : error_set(err, -ENOMEM, "out of memory");
}

const char *selector_tenant(const struct selector *selector)
{
	return selector->count && selector->matchers[0].is_tenant ? selector->matchers[0].value
								  : SELECTOR_ALL_TENANTS;
}

int selector_check_tenant(const struct selector *selector, struct error *err)
{
	return selector->all_tenants || (selector->count && selector->matchers[0].is_tenant)
		       ? 0
		       : error_set(err, -EPERM,
				   "the selector is of no tenant: a fault of the collector");
}

int selector_parse(const char *text, const char *tenant, struct selector *ret_selector,
		   struct error *err)
{
	_cleanup_(selector_deinit) struct selector selector = { 0 };
	struct scanner scanner = { .text = text, .at = text, .err = err };

	if (strlen(text) > SELECTOR_BYTES_MAX)
		return error_set(err, -EINVAL, "column %d: a selector has at most %d bytes",
				 SELECTOR_BYTES_MAX + 1, SELECTOR_BYTES_MAX);

	selector.matchers = calloc(SELECTOR_MATCHERS_MAX, sizeof(*selector.matchers));
	selector.budget = calloc(1, sizeof(*selector.budget));
	if (!selector.matchers || !selector.budget)
		return error_set(err, -ENOMEM, "out of memory");

	selector.all_tenants = tenant == SELECTOR_ALL_TENANTS;
	int rc = selector.all_tenants ? 0 : add_tenant(&selector, tenant, err);
	if (!rc)
		rc = scan_selector(&scanner, &selector);
	if (rc)
		return rc;

	*ret_selector = selector;
	selector = (struct selector){ 0 };
	return 0;
}

void selector_deinit(struct selector *selector)
{
	for (uint32_t i = 0; i < selector->count; i++)
		matcher_deinit(&selector->matchers[i]);
	free(selector->matchers);
	free(selector->budget);
	*selector = (struct selector){ 0 };
}

struct selector selector_with(const struct selector *selector, const char *name, const char *value,
			      struct matcher matchers[SELECTOR_MATCHERS_MAX + 1])
{
	struct selector narrowed = *selector;

	narrowed.matchers = matchers;
	if (selector->count)
		memcpy(matchers, selector->matchers, selector->count * sizeof(matchers[0]));
	if (value)
		matchers[narrowed.count++] = (struct matcher){
			.name = (char *)name,
			.op = MATCH_EQUAL,
			.value = (char *)value,
		};
	return narrowed;
}

void selector_set_deadline(struct selector *selector, struct deadline *deadline)
{
	selector->deadline = deadline;
	selector->budget->deadline = deadline;
}

bool matcher_matches(const struct matcher *matcher, const char *value)
{
	if (!value)
		value = "";

	switch (matcher->op) {
	case MATCH_EQUAL:
		return strcmp(value, matcher->value) == 0;
	case MATCH_NOT_EQUAL:
		return strcmp(value, matcher->value) != 0;
	case MATCH_REGEX:
		return pattern_matches(matcher->pattern, value);
	case MATCH_NOT_REGEX:
		return !pattern_matches(matcher->pattern, value);
	}
	return false;
}

bool selector_matches(const struct selector *selector, const struct labels *labels)
{
	for (uint32_t i = 0; i < selector->count; i++) {
		const struct matcher *matcher = &selector->matchers[i];

		if (!matcher_matches(matcher, labels_get(labels, matcher->name)))
			return false;
	}
	return true;
}

int selector_check_cost(const struct selector *selector, struct error *err)
{
	const struct pattern *exhausted =
		selector->budget ? atomic_load(&selector->budget->exhausted_by) : NULL;

	for (uint32_t i = 0; i < selector->count; i++) {
		if (exhausted && selector->matchers[i].pattern == exhausted)
			return error_set(
				err, -EINVAL,
				"the regular expression for %s takes too long; use a simpler "
				"one, without nested repetition",
				selector->matchers[i].name);
	}
	return deadline_check(selector->deadline, err);
}
