// SPDX-License-Identifier: Apache-2.0
// Selectors: what is read, what is refused and where, what matches, what hostile patterns cost.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <dlfcn.h>
#include <errno.h>
#include <pcre2.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/test.h"

#include "base/clock.h"
#include "collector/store/selector.h"

#define REPEAT_16(text) \
	text text text text text text text text text text text text text text text text

static const struct {
	const char *what;
	const char *text;
	uint32_t count;
	const char *name, *value; // of the last matcher
	enum matcher_op op;
} good[] = {
	{ "nothing", "", 0, NULL, NULL, 0 },
	{ "spaces", " \t\n ", 0, NULL, NULL, 0 },
	{ "empty braces", "{}", 0, NULL, NULL, 0 },
	{ "spaced braces", " { } ", 0, NULL, NULL, 0 },
	{ "bare word", "llm", 1, "service", "llm", MATCH_EQUAL },
	{ "bare word with signs", " my-app.v2:8080/x@y ", 1, "service", "my-app.v2:8080/x@y",
	  MATCH_EQUAL },
	{ "bare word beyond ASCII", "dienst-ä", 1, "service", "dienst-ä", MATCH_EQUAL },
	{ "equal", "{node=\"a\"}", 1, "node", "a", MATCH_EQUAL },
	{ "not equal", "{node!=\"a\"}", 1, "node", "a", MATCH_NOT_EQUAL },
	{ "regex", "{node=~\"a.*\"}", 1, "node", "a.*", MATCH_REGEX },
	{ "not regex", "{node!~\"a|b\"}", 1, "node", "a|b", MATCH_NOT_REGEX },
	{ "spaces all over", "{ node = \"a\" , _x1 =~ \"b\" }", 2, "_x1", "b", MATCH_REGEX },
	{ "trailing comma", "{node=\"a\",}", 1, "node", "a", MATCH_EQUAL },
	{ "empty value", "{node=\"\"}", 1, "node", "", MATCH_EQUAL },
	{ "escapes", "{node=\"a\\\"\\\\\\n\\t\\'\"}", 1, "node", "a\"\\\n\t'", MATCH_EQUAL },
	{ "single quotes", "{node='a\"b'}", 1, "node", "a\"b", MATCH_EQUAL },
	{ "backticks keep backslashes", "{node=~`a\\d+`}", 1, "node", "a\\d+", MATCH_REGEX },
	{ "same label twice", "{node=~\"a.*\",node!=\"ab\"}", 2, "node", "ab", MATCH_NOT_EQUAL },
	{ "braces in a value", "{node=\"},{\"}", 1, "node", "},{", MATCH_EQUAL },
};

TEST(parses_selectors)
{
	for EACH (row, good) {
		struct selector selector = { 0 };
		struct error err = { 0 };
		int rc = selector_parse(row->text, SELECTOR_ALL_TENANTS, &selector, &err);

		if (rc)
			fail_msg("%s: %s", row->what, err.text);
		EXPECT_EQ(row->count, selector.count, row->what);
		if (row->count) {
			const struct matcher *last = &selector.matchers[row->count - 1];

			EXPECT_STR(row->name, last->name, row->what);
			EXPECT_STR(row->value, last->value, row->what);
			EXPECT_EQ(row->op, last->op, row->what);
		}
		selector_deinit(&selector);
	}
}

static const struct {
	const char *what;
	const char *text;
	const char *error; // how the text begins
} bad[] = {
	{ "unclosed brace", "{", "column 2: expected a label name or '}', found the end" },
	{ "no operator", "{node}", "column 6: expected =, !=, =~ or !~, found '}'" },
	{ "cut operator", "{node!", "column 6: expected =, !=, =~ or !~, found '!'" },
	{ "double equal", "{node==\"a\"}", "column 7: expected a value in quotes, found '='" },
	{ "no quotes", "{node=a}", "column 7: expected a value in quotes, found 'a'" },
	{ "no closing quote", "{node=\"a}",
	  "column 10: expected the closing quote, found the end" },
	{ "mixed quotes", "{node=\"a'}", "column 11: expected the closing quote" },
	{ "backslash at the end", "{node=\"a\\", "column 10: expected n, t, r" },
	{ "unknown escape", "{node=~\"\\d\"}", "column 10: expected n, t, r" },
	{ "no comma", "{a=\"1\" b=\"2\"}", "column 8: expected ',' or '}', found 'b'" },
	{ "two commas", "{a=\"1\",,}", "column 8: expected a label name or '}', found ','" },
	{ "digit first", "{1a=\"1\"}", "column 2: expected a label name" },
	{ "dash in the name", "{a-b=\"1\"}", "column 3: expected =, !=" },
	{ "text after", "{a=\"1\"} x", "column 9: expected the end" },
	{ "two words", "llm gateway", "column 5: expected the end" },
	{ "word and braces", "llm{node=\"a\"}", "column 4: expected the end" },
	{ "matcher without braces", "node=\"a\"", "column 5: expected the end" },
	{ "control byte", "\x01", "column 1: expected '{' or a service's name, found byte 0x01" },
	{ "control byte within", "{\x7f",
	  "column 2: expected a label name or '}', found byte 0x7f" },
	{ "regex unclosed", "{node=~\"a(\"}", "column 8: regular expression: missing closing" },
	{ "regex range", "{node=~\"[z-a]\"}", "column 8: regular expression: range out of order" },
	{ "regex too large", "{node=~\"((a{1,60000}){1,60000}){1,60000}\"}",
	  "column 8: regular expression: " },
	{ "regex nested deep", "{node=~\"" REPEAT_16("((((") "a" REPEAT_16("))))") "\"}",
	  "column 8: regular expression: parentheses are too deeply nested" },
	{ "regex byte escape", "{node=~`\\C`}", "column 8: regular expression: " },
	{ "regex invalid UTF-8", "{node=~\"\xff\"}", "column 8: regular expression: " },
};

TEST(refuses_wrong_selectors_with_the_column)
{
	for EACH (row, bad) {
		struct selector selector = { .count = 77 };
		struct error err = { 0 };

		EXPECT_EQ(-EINVAL, selector_parse(row->text, SELECTOR_ALL_TENANTS, &selector, &err),
			  row->what);
		EXPECT_EQ(77, selector.count, row->what);
		if (strncmp(err.text, row->error, strlen(row->error)) != 0)
			fail_msg("%s: \"%s\", expected \"%s\"", row->what, err.text, row->error);
	}
}

TEST(selectors_have_limits)
{
	struct selector selector;
	struct error err;
	char *text = malloc(SELECTOR_BYTES_MAX + 2);

	assert_non_null(text);
	memset(text, 'a', SELECTOR_BYTES_MAX + 1);
	text[SELECTOR_BYTES_MAX + 1] = '\0';
	EXPECT_EQ(-EINVAL, selector_parse(text, SELECTOR_ALL_TENANTS, &selector, &err),
		  "one byte too many");
	text[SELECTOR_BYTES_MAX] = '\0';
	EXPECT_EQ(0, selector_parse(text, SELECTOR_ALL_TENANTS, &selector, &err), "longest");
	selector_deinit(&selector);

	char *at = text;
	*at++ = '{';
	for (int i = 0; i < SELECTOR_MATCHERS_MAX; i++)
		at += sprintf(at, "a%d=\"x\",", i);
	strcpy(at, "}");
	EXPECT_EQ(0, selector_parse(text, SELECTOR_ALL_TENANTS, &selector, &err), "most matchers");
	EXPECT_EQ(SELECTOR_MATCHERS_MAX, selector.count, "most matchers");
	selector_deinit(&selector);
	strcpy(at, "b=\"x\"}");
	EXPECT_EQ(-EINVAL, selector_parse(text, SELECTOR_ALL_TENANTS, &selector, &err),
		  "one matcher too many");

	at = text;
	*at++ = '{';
	memset(at, 'n', LABEL_NAME_BYTES_MAX + 1);
	strcpy(at + LABEL_NAME_BYTES_MAX + 1, "=\"\"}");
	EXPECT_EQ(-EINVAL, selector_parse(text, SELECTOR_ALL_TENANTS, &selector, &err),
		  "name too long");
	free(text);
}

static const struct {
	const char *what;
	const char *text;
	const char *node; // NULL: absent
	bool matches;
} matches[] = {
	{ "equal", "{node=\"a\"}", "a", true },
	{ "equal, other", "{node=\"a\"}", "ab", false },
	{ "equal, absent", "{node=\"a\"}", NULL, false },
	{ "absent equals empty", "{node=\"\"}", NULL, true },
	{ "present is not empty", "{node!=\"\"}", "a", true },
	{ "absent is not present", "{node!=\"\"}", NULL, false },
	{ "not equal, absent", "{node!=\"a\"}", NULL, true },
	{ "regex is anchored in front", "{node=~\"b\"}", "ab", false },
	{ "regex is anchored behind", "{node=~\"a\"}", "ab", false },
	{ "longer alternative", "{node=~\"a|ab\"}", "ab", true },
	{ "regex with a tail", "{node=~\"a.*\"}", "ab", true },
	{ "regex, absent as empty", "{node=~\".*\"}", NULL, true },
	{ "regex, at least one", "{node=~\".+\"}", NULL, false },
	{ "dot matches a newline", "{node=~\"a.b\"}", "a\nb", true },
	{ "dollar is the very end", "{node=~\"a$\"}", "a\n", false },
	{ "case-insensitive when told", "{node=~\"(?i)ABC\"}", "abc", true },
	{ "one character of two bytes", "{node=~\".\"}", "ä", true },
	{ "value that was not UTF-8", "{node=~`a\\?`}", "a\xff", true }, // labels make it "a?"
	{ "not regex", "{node!~\"a.*\"}", "b", true },
	{ "not regex, matching", "{node!~\"a.*\"}", "ab", false },
	{ "both hold", "{node=~\"a.*\",node!=\"ab\"}", "ac", true },
	{ "one fails", "{node=~\"a.*\",node!=\"ab\"}", "ab", false },
	{ "other label", "{zone=\"z\"}", "a", false },
};

TEST(labels_match_as_in_promql)
{
	for EACH (row, matches) {
		struct selector selector;
		struct labels labels = { 0 };
		struct error err = { 0 };

		assert_int_equal(0, labels_set(&labels, "service", "llm"));
		if (row->node)
			assert_int_equal(0, labels_set(&labels, "node", row->node));
		EXPECT_EQ(0, selector_parse(row->text, SELECTOR_ALL_TENANTS, &selector, &err),
			  row->what);
		EXPECT_EQ(row->matches, selector_matches(&selector, &labels), row->what);
		EXPECT_EQ(0, selector_check_cost(&selector, &err), row->what);
		selector_deinit(&selector);
		labels_deinit(&labels);
	}
}

static const char *const hostile[] = {
	"{node=~\"(a+)+b\"}",
	"{node=~\"(a*)*(a*)*(a*)*b\"}",
	"{node=~\"(a|aa)+b\"}",
	"{node!~\"(a|a?)+b\"}",
	"{node=~\"(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)(.*)x\"}",
	"{node=~\"(?R)?a\"}",
	"{node=~\"(*LIMIT_MATCH=4000000000)(a+)+b\"}",
	"{node=~\"((a{0,99}){0,99})+b\"}",
};

/** Many a's, and at the end what PCRE2 looks for first, or it would not try at all. */
static void fill_hostile(char value[LABEL_VALUE_BYTES_MAX + 1])
{
	memset(value, 'a', LABEL_VALUE_BYTES_MAX);
	memcpy(value + LABEL_VALUE_BYTES_MAX - 3, "bx.", 4);
}

TEST(stops_hostile_patterns_early)
{
	char value[LABEL_VALUE_BYTES_MAX + 1];

	fill_hostile(value);
	for EACH (text, hostile) {
		struct selector selector;
		struct error err = { 0 };
		uint64_t start_ns = clock_thread_cpu_ns();

		assert_int_equal(0, selector_parse(*text, SELECTOR_ALL_TENANTS, &selector, &err));
		for (int i = 0; i < 100000; i++)
			matcher_matches(&selector.matchers[0], value);
		// 2 s are allowed to all matches together; the rest is a slow machine's.
		if (clock_thread_cpu_ns() - start_ns > 15 * NS_PER_SECOND)
			fail_msg("%s took too long", *text);
		selector_deinit(&selector);
	}
}

// ---- doubles of the clock and of PCRE2 ----------------------------------------------------------------

static uint64_t match_takes_ns, clock_ahead_ns;
static uint32_t match_count;

/** Interposed: the machine's clock, ahead by what matches have taken. */
int clock_gettime(clockid_t clock, struct timespec *ret_time)
{
	int rc = (int)syscall(SYS_clock_gettime, clock, ret_time);

	ret_time->tv_sec += (time_t)(clock_ahead_ns / NS_PER_SECOND);
	return rc;
}

/** Interposed: counts, and takes as long as the test says. */
int pcre2_match_8(const pcre2_code_8 *code, PCRE2_SPTR8 subject, PCRE2_SIZE size, PCRE2_SIZE start,
		  uint32_t options, pcre2_match_data_8 *data, pcre2_match_context_8 *context)
{
	static typeof(pcre2_match_8) *match;

	match = match ? match : (typeof(match))dlsym(RTLD_NEXT, "pcre2_match_8");
	match_count++;
	clock_ahead_ns += match_takes_ns;
	return match(code, subject, size, start, options, data, context);
}

TEST(all_patterns_share_one_budget)
{
	struct selector selector;
	struct error err = { 0 };
	char text[SELECTOR_MATCHERS_MAX * 20] = "{";

	for (int i = 0; i < SELECTOR_MATCHERS_MAX; i++)
		sprintf(text + strlen(text), "%sl%d=~\"x.*\"", i ? "," : "", i);
	strcat(text, "}");
	assert_int_equal(0, selector_parse(text, SELECTOR_ALL_TENANTS, &selector, &err));
	match_count = 0;
	match_takes_ns = NS_PER_SECOND;
	for (int i = 0; i < SELECTOR_MATCHERS_MAX; i++)
		for (int value = 0; value < 100; value++)
			matcher_matches(&selector.matchers[i], "xyz");
	match_takes_ns = 0;
	EXPECT_EQ(2, match_count, "matches of a second each");
	assert_int_equal(-EINVAL, selector_check_cost(&selector, &err));
	assert_non_null(strstr(err.text, "for l0 takes too long"));
	selector_deinit(&selector);
}

static uint32_t polls_left;

static bool is_gone(void *context)
{
	(void)context;
	return !polls_left--;
}

TEST(ends_when_nobody_waits_for_the_answer)
{
	struct selector selector;
	struct error err = { 0 };
	struct deadline deadline = { .is_gone = is_gone };

	assert_int_equal(0, selector_parse("{node=~\"a.*\"}", NULL, &selector, &err));
	selector_set_deadline(&selector, &deadline);
	match_count = 0;
	polls_left = 10;
	for (int i = 0; i < 1000; i++)
		EXPECT_EQ(i < 10, matcher_matches(&selector.matchers[0], "abc"),
			  "as long as wanted");
	EXPECT_EQ(10, match_count, "matches");
	assert_int_equal(-ECANCELED, selector_check_cost(&selector, &err));
	selector_deinit(&selector);
}

TEST(ends_at_its_deadline)
{
	struct selector selector;
	struct error err = { 0 };
	struct deadline deadline = { 0 };

	assert_int_equal(0, selector_parse("{a=~\"x.*\"}", NULL, &selector, &err));
	deadline.at_ns = clock_monotonic_ns() + 1;
	selector_set_deadline(&selector, &deadline);
	match_count = 0;
	clock_ahead_ns += NS_PER_SECOND;
	assert_false(matcher_matches(&selector.matchers[0], "xyz"));
	EXPECT_EQ(0, match_count, "matches");
	assert_int_equal(-ETIMEDOUT, selector_check_cost(&selector, &err));
	selector_deinit(&selector);
}

TEST(reports_a_pattern_that_was_stopped)
{
	struct selector selector;
	struct error err = { 0 };
	char value[LABEL_VALUE_BYTES_MAX + 1];

	fill_hostile(value);
	assert_int_equal(
		0, selector_parse("{node=~\"(a+)+b\"}", SELECTOR_ALL_TENANTS, &selector, &err));
	assert_int_equal(0, selector_check_cost(&selector, &err));
	assert_false(matcher_matches(&selector.matchers[0], value));
	assert_int_equal(-EINVAL, selector_check_cost(&selector, &err));
	assert_non_null(strstr(err.text, "for node takes too long"));
	selector_deinit(&selector);
}

static const struct {
	const char *text;
	const char *tenant;
	const char *label; // the series' tenant; NULL: none
	bool matches;
} tenants[] = {
	{ "", "a", "a", true },
	{ "", "a", "b", false },
	{ "", "a", NULL, false },
	{ "", "", NULL, true },
	{ "", "", "a", false },
	{ "", SELECTOR_ALL_TENANTS, "a", true },
	{ "", SELECTOR_ALL_TENANTS, NULL, true },
	{ "{tenant=\"b\"}", "a", "a", false },
	{ "{tenant=\"b\"}", "a", "b", false },
	{ "{tenant=~\".*\"}", "a", "b", false },
	{ "{tenant!=\"a\"}", "a", "b", false },
	{ "{tenant=\"b\"}", SELECTOR_ALL_TENANTS, "b", true },
	{ "llm", "a", "b", false },
};

TEST(matches_its_tenant_only)
{
	for EACH (row, tenants) {
		struct selector selector = { 0 };
		struct labels labels = { 0 };
		struct error err = { 0 };

		assert_int_equal(0, labels_set(&labels, "service", "llm"));
		assert_int_equal(0, labels_set(&labels, "tenant", row->label ? row->label : ""));
		assert_int_equal(0, selector_parse(row->text, row->tenant, &selector, &err));
		EXPECT_EQ(row->matches, selector_matches(&selector, &labels), row->text);
		if (row->tenant)
			EXPECT_STR(row->tenant, selector_tenant(&selector), row->text);
		else
			assert_null(selector_tenant(&selector));
		selector_deinit(&selector);
		labels_deinit(&labels);
	}
}

RUN_TESTS(cmocka_unit_test(matches_its_tenant_only), cmocka_unit_test(parses_selectors),
	  cmocka_unit_test(refuses_wrong_selectors_with_the_column),
	  cmocka_unit_test(selectors_have_limits), cmocka_unit_test(labels_match_as_in_promql),
	  cmocka_unit_test(stops_hostile_patterns_early),
	  cmocka_unit_test(all_patterns_share_one_budget),
	  cmocka_unit_test(ends_when_nobody_waits_for_the_answer),
	  cmocka_unit_test(ends_at_its_deadline),
	  cmocka_unit_test(reports_a_pattern_that_was_stopped))
