// SPDX-License-Identifier: Apache-2.0
// The collector's settings: defaults that are safe, and refusals that name the setting.
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"
#include "collector/options.h"

enum { WORDS_MAX = 6 };

static int parse(struct collector_options *options, const char *const words[WORDS_MAX],
		 struct error *err)
{
	char *argv[WORDS_MAX + 2] = { "cairn-collector" };
	enum config_outcome outcome;
	int argc = 1;

	for (int i = 0; i < WORDS_MAX && words[i]; i++)
		argv[argc++] = (char *)words[i];
	return collector_options_parse(options, argc, argv, &outcome, err);
}

TEST(defaults_listen_on_loopback_only)
{
	const char *const words[WORDS_MAX] = { NULL };
	struct collector_options options = { 0 };
	struct error err = { 0 };

	assert_int_equal(0, parse(&options, words, &err));
	EXPECT_STR("127.0.0.1:7171", options.grpc, "grpc");
	EXPECT_STR("127.0.0.1:7070", options.http, "http");
	EXPECT_STR("unix:/var/lib/cairn/admin.sock", options.admin, "admin");
	assert_null(options.http_host);
	EXPECT_STR("/var/lib/cairn", options.data, "data");
	assert_int_equal(7 * 24 * 3600 * NS_PER_SECOND, options.retention_ns);
	assert_int_equal(0, options.memory_bytes);
	assert_int_equal(4, options.grpc_threads);
	assert_int_equal(4, options.http_threads);
	collector_options_deinit(&options);
}

TEST(clickhouse_settings_belong_together)
{
	static const struct {
		const char *words[WORDS_MAX];
		const char *text; // NULL: accepted
	} cases[] = {
		{ { "--store=clickhouse", "--clickhouse=http://a:8123,https://b:8443/" }, NULL },
		{ { "--store=rocksdb" }, NULL },
		{ { "--store=mysql" }, "is not one of rocksdb and clickhouse" },
		{ { "--store=clickhouse" }, "name a server's URL" },
		{ { "--store=clickhouse", "--clickhouse=a:8123" }, "expected URLs such as" },
		{ { "--store=clickhouse", "--clickhouse=http://u:p@a:8123" },
		  "expected URLs such as" },
		{ { "--store=clickhouse", "--clickhouse=http://a:8123/?x" },
		  "expected URLs such as" },
		{ { "--clickhouse=http://a:8123" }, "--clickhouse: needs --store clickhouse" },
		{ { "--clickhouse-cluster=c" }, "--clickhouse-cluster: needs --store clickhouse" },
		{ { "--store=clickhouse", "--clickhouse=http://a:8123",
		    "--clickhouse-database=a.b" },
		  "letters, digits" },
		{ { "--store=clickhouse", "--clickhouse=http://a:8123",
		    "--clickhouse-cluster=a'b" },
		  "letters, digits" },
		{ { "--store=clickhouse", "--clickhouse=http://a:8123", "--backup=/tmp/b" },
		  "docs/clickhouse.md" },
	};

	for EACH (c, cases) {
		struct collector_options options = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(c->text ? -EINVAL : 0, parse(&options, c->words, &err), c->words[0]);
		if (c->text && !strstr(err.text, c->text))
			fail_msg("\"%s\" does not say \"%s\"", err.text, c->text);
		collector_options_deinit(&options);
	}
}

/** What --help prints about @setting; "" if there is none. */
static void read_help(const char *setting, char *ret_text, size_t size)
{
	const char *const words[WORDS_MAX] = { "--help" };
	struct collector_options options = { 0 };
	struct error err = { 0 };
	char *help = NULL;
	size_t help_size = 0;
	FILE *terminal = stdout;

	stdout = open_memstream(&help, &help_size);
	assert_non_null(stdout);
	int rc = parse(&options, words, &err);
	fclose(stdout);
	stdout = terminal;
	assert_int_equal(0, rc);

	const char *begin = strstr(help, setting);
	const char *end = begin ? strstr(begin, "\n      --") : NULL;
	int length = end ? (int)(end - begin) : 0;
	snprintf(ret_text, size, "%.*s", length, length ? begin : "");
	free(help);
	collector_options_deinit(&options);
}

TEST(help_says_that_clickhouse_does_not_downsample)
{
	static const char *const settings[] = { "--seconds-after", "--minutes-after" };

	for EACH (setting, settings) {
		char text[512];

		read_help(*setting, text, sizeof(text));
		if (!strstr(text, "clickhouse"))
			fail_msg("%s: \"%s\" does not name clickhouse", *setting, text);
	}
}

TEST(disk_settings_are_parsed)
{
	const char *const words[WORDS_MAX] = { "--retention-size=2GiB", "--disk-free=3MiB",
					       "--backup=/tmp/b" };
	const char *const both[WORDS_MAX] = { "--backup=/tmp/b", "--restore=/tmp/b" };
	struct collector_options options = { 0 };
	struct error err = { 0 };

	assert_int_equal(0, parse(&options, words, &err));
	assert_int_equal(2ULL << 30, options.retention_bytes);
	assert_int_equal(3 << 20, options.disk_free_bytes);
	EXPECT_STR("/tmp/b", options.backup, "backup");
	collector_options_deinit(&options);
	assert_int_equal(-EINVAL, parse(&options, both, &err));
	assert_non_null(strstr(err.text, "only one at a time"));
	collector_options_deinit(&options);
}

TEST(settings_are_parsed)
{
	const char *const words[WORDS_MAX] = { "--data=/tmp/d", "--retention=2h",
					       "--memory=1GiB", "--http-threads=8",
					       "--admin=none",  "--http-host=a,b" };
	struct collector_options options = { 0 };
	struct error err = { 0 };

	assert_int_equal(0, parse(&options, words, &err));
	EXPECT_STR("/tmp/d", options.data, "data");
	assert_int_equal(7200 * NS_PER_SECOND, options.retention_ns);
	assert_int_equal(1 << 30, options.memory_bytes);
	assert_int_equal(8, options.http_threads);
	assert_null(options.admin);
	EXPECT_STR("a,b", options.http_host, "http-host");
	collector_options_deinit(&options);
}

static const struct {
	const char *word;
	const char *text; // a part of the error
} refused[] = {
	{ "--retention=10m", "retention" },
	{ "--retention=x", "retention" },
	{ "--memory=1MiB", "memory" },
	{ "--http-threads=0", "http-threads" },
	{ "--http-threads=65", "http-threads" },
	{ "--grpc-threads=-1", "grpc-threads" },
	{ "--log-level=loud", "log-level" },
	{ "--data=", "data" },
	{ "--port=80", "port" },
	{ "now", "unexpected argument \"now\"" },
};

TEST(wrong_settings_are_refused_by_name)
{
	for EACH (row, refused) {
		const char *const words[WORDS_MAX] = { row->word };
		struct collector_options options = { 0 };
		struct error err = { 0 };

		assert_true(parse(&options, words, &err) < 0);
		if (!strstr(err.text, row->text))
			fail_msg("%s: %s", row->word, err.text);
		collector_options_deinit(&options);
	}
}

#define PUBLIC "--http=0.0.0.0:7070"
#define CERT   "--tls-cert=/c"
#define KEY    "--tls-key=/k"
#define ACCESS "--access=/a"

static const struct {
	const char *words[WORDS_MAX];
	const char *error; // a part of it; NULL: accepted
} addresses[] = {
	{ { PUBLIC }, "neither TLS nor a login" },
	{ { "--grpc=0.0.0.0:7171" }, "--grpc 0.0.0.0:7171: other machines can reach it" },
	{ { "--grpc=[::]:7171" }, "--insecure" },
	{ { ":7070" }, "unexpected" },
	{ { "--http=:7070" }, "neither TLS nor a login" },
	{ { "--http=example.com:7070" }, "neither TLS nor a login" },
	{ { PUBLIC, CERT, KEY }, "there is no login" },
	{ { PUBLIC, ACCESS }, "there is no TLS" },
	{ { PUBLIC, CERT, KEY, ACCESS }, NULL },
	{ { PUBLIC, "--insecure" }, NULL },
	{ { "--http=127.0.0.1:0", "--grpc=[::1]:0" }, NULL },
	{ { "--http=localhost:0", "--grpc=unix:/tmp/x" }, NULL },
	{ { ACCESS }, NULL },
	{ { CERT }, "belong together" },
	{ { KEY }, "belong together" },
	{ { "--tls-client-ca=/a", ACCESS }, "--tls-client-ca: needs --tls-cert" },
	{ { "--admin=foo" }, "--admin: \"foo\" is not an address" },
	{ { "--admin=none" }, NULL },
	{ { "--http=:99999" }, "--http: " },
	{ { "--spike-scan=5s" }, "--spike-scan: at least 10s" },
	{ { "--spike-scan=0s" }, NULL },
	{ { "--spike-scan=0s", "--spike-webhook=http://a/" }, "needs --spike-scan" },
	{ { "--spike-webhook=alertmanager:9093" }, "--spike-webhook: expected http://" },
	{ { "--page-url=cairn.example" }, "--page-url: expected http://" },
	{ { "--grpc=foo" }, "--grpc: " },
	{ { "--new-token=fleet" }, "--new-token: needs --roles" },
	{ { "--tls-crl=/a", CERT, KEY, ACCESS }, "--tls-crl: needs --tls-client-ca" },
	{ { "--tls-client-ca=/a", CERT, KEY }, "needs --access" },
	{ { "--proxy-header=X", "--proxy-from=::1" }, "--proxy-header: needs --access" },
};

TEST(what_others_reach_needs_tls_and_login)
{
	for EACH (row, addresses) {
		struct collector_options options = { 0 };
		struct error err = { 0 };
		int rc = parse(&options, row->words, &err);

		EXPECT_EQ(row->error != NULL, rc < 0, row->words[0]);
		if (row->error && !strstr(err.text, row->error))
			fail_msg("%s: %s", row->words[0], err.text);
		collector_options_deinit(&options);
	}
}

RUN_TESTS(cmocka_unit_test(what_others_reach_needs_tls_and_login),
	  cmocka_unit_test(defaults_listen_on_loopback_only),
	  cmocka_unit_test(clickhouse_settings_belong_together),
	  cmocka_unit_test(help_says_that_clickhouse_does_not_downsample),
	  cmocka_unit_test(disk_settings_are_parsed), cmocka_unit_test(settings_are_parsed),
	  cmocka_unit_test(wrong_settings_are_refused_by_name))
