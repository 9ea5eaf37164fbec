// SPDX-License-Identifier: Apache-2.0
// The file of limits: which value a tenant has, and which files are refused.
// Subject: collector/limits/tenant_limit.c
#include "collector/limits/limit_file.h"

#include <errno.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/test.h"

static int read_text(const char *text, struct limit_file *ret_file, struct error *err)
{
	char path[] = "/tmp/cairn-limits-XXXXXX";
	_cleanup_close_ int fd = mkstemp(path);

	assert_int_equal(strlen(text), write(fd, text, strlen(text)));
	int rc = limit_file_read(path, ret_file, err);
	unlink(path);
	return rc;
}

static const char sound[] = "defaults:\n"
			    "  ingest-rate: 4MiB\n"
			    "  query-range: 7d\n"
			    "tenants:\n"
			    "  shop:\n"
			    "    ingest-rate: 1MiB\n"
			    "    series: 0\n"
			    "    label-value-bytes: 64\n"
			    "  \"-\": {stack-depth: 32}\n"
			    "  \"*\": {query-memory: 64MiB, query-range: 0}\n";

static const struct {
	const char *what, *tenant;
	enum tenant_limit limit;
	uint64_t value;
	uint32_t line;
} values[] = {
	{ "its own", "shop", LIMIT_INGEST_RATE, 1 << 20, 6 },
	{ "the file's", "shop", LIMIT_QUERY_RANGE, 7 * 86400 * NS_PER_SECOND, 3 },
	{ "0 is the default", "shop", LIMIT_SERIES, TENANT_SERIES_DEFAULT, 0 },
	{ "the declared one", "shop", LIMIT_STACK_DEPTH, 1024, 0 },
	{ "another tenant", "bank", LIMIT_INGEST_RATE, 4 << 20, 2 },
	{ "its name begins so", "shopping", LIMIT_LABEL_VALUE, 1024, 0 },
	{ "no tenant", "", LIMIT_STACK_DEPTH, 32, 9 },
	{ "all tenants", "*", LIMIT_QUERY_MEMORY, 64 << 20, 10 },
	{ "0 is the file's default", "*", LIMIT_QUERY_RANGE, 7 * 86400 * NS_PER_SECOND, 3 },
	{ "none", "bank", LIMIT_QUERY_MEMORY, 0, 0 },
};

TEST(a_tenants_own_value_comes_first)
{
	_cleanup_(limit_file_deinit) struct limit_file file = { 0 };
	struct error err = { 0 };

	if (read_text(sound, &file, &err))
		fail_msg("%s", err.text);
	for EACH (row, values) {
		struct tenant_values found;

		limit_file_find(&file, row->tenant, &found);
		EXPECT_EQ(row->value, found.of[row->limit], row->what);
		EXPECT_EQ(row->line, found.line[row->limit], row->what);
	}
}

static const struct {
	const char *what, *text, *fault; // NULL: sound
} files[] = {
	{ "empty", "", NULL },
	{ "a comment", "# nothing yet\n", NULL },
	{ "no limits", "defaults: {}\ntenants: {}\n", NULL },
	{ "a word", "shop\n", ":1: expected defaults or tenants" },
	{ "a section of others", "tenant:\n  shop: {}\n", ":1: expected defaults or tenants" },
	{ "a section twice", "defaults: {}\ndefaults: {}\n", ":2: the section is there" },
	{ "a tenant twice", "tenants:\n  a: {}\n  a: {}\n", ":3: the tenant was named" },
	{ "a limit twice", "defaults:\n  series: 5\n  series: 6\n", ":3: the limit was set" },
	{ "an unknown limit", "defaults: {rate: 5}\n", "is none of ingest-rate, ingest-burst" },
	{ "no tenant's name", "tenants: {'../etc': {}}\n", "is not a tenant" },
	{ "a list", "tenants: [shop]\n", "expected tenants" },
	{ "a value alone", "tenants: {shop: 5}\n", "expected limits" },
	{ "nested", "defaults: {series: {a: 5}}\n", "expected a name or a value" },
	{ "no size", "defaults: {ingest-rate: fast}\n", "ingest-rate" },
	{ "no duration", "defaults: {query-range: 5}\n", "query-range" },
	{ "too much", "defaults: {stack-depth: 1025}\n", "stack-depth" },
	{ "too little", "defaults: {stack-depth: 1}\n", "stack-depth: at least 16, or 0" },
	{ "negative", "defaults: {series: -1}\n", "series" },
	{ "a second document", "defaults: {}\n---\ndefaults: {}\n", "second document" },
	{ "an alias", "defaults: &a {series: 5}\ntenants: {shop: *a}\n", "expected limits" },
	{ "no YAML", "defaults: {series: 5\n", "not YAML" },
};

TEST(refuses_files_with_a_word)
{
	for EACH (row, files) {
		_cleanup_(limit_file_deinit) struct limit_file file = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(row->fault ? -EINVAL : 0, read_text(row->text, &file, &err), row->what);
		if (row->fault && !strstr(err.text, row->fault))
			fail_msg("%s: %s", row->what, err.text);
	}
}

TEST(tenants_are_bounded)
{
	_cleanup_(buffer_deinit) struct buffer text = { 0 };
	struct limit_file file = { 0 };
	struct error err = { 0 };

	buffer_append_string(&text, "tenants:\n");
	for (int i = 0; i <= LIMIT_FILE_TENANTS_MAX; i++)
		buffer_printf(&text, "  t%d: {}\n", i);
	EXPECT_EQ(-EINVAL, read_text(buffer_string(&text), &file, &err), "one too many");
	assert_non_null(strstr(err.text, "more than 4096 tenants"));
	assert_null(file.tenants);
}

TEST(writes_values_as_people_do)
{
	static const struct {
		enum tenant_limit limit;
		uint64_t value;
		const char *text;
	} rows[] = {
		{ LIMIT_INGEST_RATE, 4 << 20, "4 MiB" },
		{ LIMIT_INGEST_RATE, 1536, "1536 bytes" },
		{ LIMIT_INGEST_BURST, 3ULL << 30, "3 GiB" },
		{ LIMIT_QUERY_RANGE, 7 * 86400 * NS_PER_SECOND, "7d" },
		{ LIMIT_QUERY_RANGE, 90 * 60 * NS_PER_SECOND, "90m" },
		{ LIMIT_SERIES, 5000, "5000" },
	};

	for EACH (row, rows) {
		char text[TENANT_LIMIT_TEXT_BYTES];

		EXPECT_STR(row->text, tenant_limit_text(row->limit, row->value, text), row->text);
	}
	for (int i = 0; i < TENANT_LIMITS; i++)
		EXPECT_EQ(i, tenant_limit_of_name(tenant_limit_spec((enum tenant_limit)i)->name),
			  tenant_limit_spec((enum tenant_limit)i)->name);
}

RUN_TESTS(cmocka_unit_test(a_tenants_own_value_comes_first),
	  cmocka_unit_test(refuses_files_with_a_word), cmocka_unit_test(tenants_are_bounded),
	  cmocka_unit_test(writes_values_as_people_do))
