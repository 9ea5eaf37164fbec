// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/config/config.h"

enum { WORDS_MAX = 12 };

// A program with a setting of each kind.
struct settings {
	char *grpc;
	uint64_t count, interval, spool_size;
	bool quiet;
	struct labels label;
};

static void settings_deinit(struct settings *settings)
{
	free(settings->grpc);
	labels_deinit(&settings->label);
}

// Parse @words, which are apart by spaces and follow the program's name.
static int parse(struct settings *settings, const char *words, char *ret_first_word,
		 struct error *err)
{
	const struct config_option options[] = {
		{ "grpc", 'g', CONFIG_STRING, &settings->grpc, "[::]:4317", 0, 0, "ADDR",
		  "listen" },
		{ "count", 0, CONFIG_UINT, &settings->count, NULL, 1, 100, "N", "how many" },
		{ "interval", 'i', CONFIG_DURATION, &settings->interval, "5s", NS_PER_MS,
		  3600 * NS_PER_SECOND, "TIME", "how often" },
		{ "spool-size", 0, CONFIG_SIZE, &settings->spool_size, "1MiB", 1024, 1 << 30,
		  "SIZE", "how much" },
		{ "quiet", 'q', CONFIG_BOOL, &settings->quiet, NULL, 0, 0, NULL, "say less" },
		{ "label", 'l', CONFIG_LABELS, &settings->label, NULL, 0, 0, "NAME=VALUE",
		  "whose" },
	};
	const struct config_program program = {
		.name = "prog",
		.summary = "A program.",
		.options = options,
		.option_count = ARRAY_SIZE(options),
	};
	_cleanup_free_ char *copy = strdup(words);
	char *argv[WORDS_MAX + 2] = { (char *)"prog" };
	int argc = 1;

	for (char *rest = copy, *word; (word = strsep(&rest, " ")) && argc <= WORDS_MAX;) {
		if (*word)
			argv[argc++] = word;
	}
	enum config_outcome outcome = CONFIG_EXIT;
	int first = 0;
	int rc = config_parse(&program, argc, argv, &outcome, &first, err);
	if (rc == 0 && ret_first_word)
		snprintf(ret_first_word, 64, "%s", first < argc ? argv[first] : "");
	if (rc == 0)
		assert_int_equal(outcome, CONFIG_RUN);
	return rc;
}

static const struct {
	const char *words;
	const char *error; // a part of it; NULL: none
} flags[] = {
	{ "", NULL },
	{ "--grpc :1 --count 100 --interval 1h --spool-size 1GiB --quiet --label a=b", NULL },
	{ "-g:1 -i 20ms -q -l a=b -l c=d", NULL },
	{ "--quiet=false", NULL },
	{ "--intervall 5s", "\"--intervall\"; did you mean \"--interval\"?" },
	{ "--intervla=5s", "\"--intervla\"; did you mean \"--interval\"?" },
	{ "--quite", "did you mean \"--quiet\"?" },
	{ "--confg x", "did you mean \"--config\"?" },
	{ "--versoin", "did you mean \"--version\"?" },
	{ "--frobnicate", "prog --help lists them" },
	{ "---", "there is no setting \"---\"" },
	{ "-z", "there is no flag -z" },
	{ "-qz", "there is no flag -z" },
	{ "--grpc", "--grpc: a value is missing" },
	{ "-i", "-i: a value is missing" },
	{ "--version=1", "this flag takes no value" },
	{ "--quiet=yes", "--quiet: \"yes\" is neither true nor false" },
	{ "--interval 5", "--interval: \"5\" is not a duration; write it as 20ms" },
	{ "-i 5", "--interval: \"5\" is not a duration" },
	{ "--interval 2h", "\"2h\" is above the most allowed, 1h" },
	{ "--interval 1us", "\"1us\" is below the least allowed, 1ms" },
	{ "--spool-size 1KB", "\"1KB\" is below the least allowed, 1KiB" },
	{ "--spool-size big", "\"big\" is not a size; write it as 512, 64MiB or 1GB" },
	{ "--spool-size 99999999TiB", "is too large" },
	{ "--count 0", "below the least allowed, 1" },
	{ "--count 101", "above the most allowed, 100" },
	{ "--count -1", "\"-1\" is not a whole number" },
	{ "--count 1e3", "not a whole number" },
	{ "--count=", "\"\" is not a whole number" },
	{ "--count 99999999999999999999", "is too large" },
	{ "--label x", "--label: label \"x\": write it as name=value" },
	{ "--label 9=x", "the name must be letters" },
	{ "--config /nonexistent/cairn.yaml", "/nonexistent/cairn.yaml: No such file" },
};

TEST(flags_are_read_or_refused_with_a_remedy)
{
	for EACH (row, flags) {
		_cleanup_(settings_deinit) struct settings settings = { 0 };
		struct error err = { 0 };
		int rc = parse(&settings, row->words, NULL, &err);

		EXPECT_EQ(row->error != NULL, rc < 0, row->words);
		EXPECT_EQ(rc, err.code, row->words);
		if (row->error && !strstr(err.text, row->error))
			fail_msg("%s: error is \"%s\"", row->words, err.text);
	}
}

TEST(words_after_the_flags_are_left)
{
	static const struct {
		const char *words, *first;
	} rows[] = {
		{ "-q one two", "one" },
		{ "one -q", "one" },
		{ "-q -- --grpc", "--grpc" },
		{ "-q", "" },
		{ "-q --", "" },
		{ "- -q", "-" },
		{ "-- sleep -i nonsense", "sleep" },
	};

	for EACH (row, rows) {
		_cleanup_(settings_deinit) struct settings settings = { 0 };
		struct error err = { 0 };
		char first[64] = "";

		EXPECT_EQ(0, parse(&settings, row->words, first, &err), row->words);
		EXPECT_STR(row->first, first, row->words);
	}
}

TEST(help_and_version_win_over_wrong_values)
{
	uint64_t interval = 0;
	const struct config_option options[] = { { "interval", 0, CONFIG_DURATION, &interval, "5s",
						   0, 0, "TIME", "how often" } };
	const struct config_program program = {
		.name = "prog", .summary = "A program.", .options = options, .option_count = 1
	};
	char *argv[] = { (char *)"prog", (char *)"--interval", (char *)"x", (char *)"--version",
			 NULL };
	enum config_outcome outcome = CONFIG_RUN;
	int first;

	assert_int_equal(config_parse(&program, 4, argv, &outcome, &first, NULL), 0);
	assert_int_equal(outcome, CONFIG_EXIT);
}

TEST(help_lists_every_setting_with_its_default)
{
	static const struct config_option options[] = {
		{ "grpc", 'g', CONFIG_STRING, NULL, "[::]:4317", 0, 0, "ADDR",
		  "where agents connect" },
		{ "quiet", 0, CONFIG_BOOL, NULL, NULL, 0, 0, NULL, "say less" },
		{ "empty", 0, CONFIG_STRING, NULL, "", 0, 0, "X", "nothing by default" },
	};
	const struct config_program program = { .name = "prog",
						.summary = "A program.",
						.notes = "Example:\n  prog",
						.options = options,
						.option_count = ARRAY_SIZE(options) };
	_cleanup_free_ char *text = NULL;
	size_t size;
	FILE *stream = open_memstream(&text, &size);

	config_print_help(&program, stream);
	fclose(stream);
	assert_non_null(strstr(text, "Usage: prog [OPTIONS]\n"));
	assert_non_null(strstr(text, "  -g, --grpc ADDR           where agents connect "
				     "(default [::]:4317)\n"));
	assert_non_null(strstr(text, "      --quiet               say less\n"));
	assert_non_null(strstr(text, "      --empty X             nothing by default\n"));
	assert_non_null(strstr(text, "      --version"));
	assert_non_null(strstr(text, "\nExample:\n  prog\n"));
}

// ---- files ----------------------------------------------------------------------------------

struct file {
	char path[40];
};

static struct file write_file(const char *text, size_t size)
{
	struct file file = { "/tmp/cairn-test-config-XXXXXX" };
	_cleanup_close_ int fd = mkstemp(file.path);

	assert_true(fd >= 0 && write(fd, text, size) == (ssize_t)size);
	return file;
}

static int parse_file(struct settings *settings, const char *text, size_t size, const char *words,
		      struct error *err)
{
	struct file file = write_file(text, size);
	char all[200];

	snprintf(all, sizeof(all), "--config %s %s", file.path, words);
	int rc = parse(settings, all, NULL, err);
	unlink(file.path);
	return rc;
}

static const struct {
	const char *what;
	const char *text;
	const char *error; // a part of it; NULL: none
} files[] = {
	{ "empty", "", NULL },
	{ "comments only", "# nothing\n---\n# here\n", NULL },
	{ "every kind",
	  "grpc: ':1'\ncount: 7\ninterval: 20ms\nspool-size: 2MiB\nquiet: true\nlabel: {a: b, c: "
	  "'d,e'}\n",
	  NULL },
	{ "labels as a list", "label:\n  - a=b\n  - c=d\n", NULL },
	{ "labels on a line", "label: a=b,c=d\n", NULL },
	{ "unknown name", "grpc: x\nintervall: 5s\n",
	  ":2: there is no setting \"intervall\"; did you mean \"interval\"?" },
	{ "underscore for a dash", "spool_size: 1MiB\n", "did you mean \"spool-size\"?" },
	{ "wrong value", "\n\ninterval: soon\n", ":3: interval: \"soon\" is not a duration" },
	{ "no value", "interval:\n", ":1: interval: \"\" is not a duration" },
	{ "given twice", "quiet: true\nquiet: true\n", ":2: \"quiet\" was set on line 1 already" },
	{ "a list for one value", "grpc: [a, b]\n", ":1: grpc: expected a single value" },
	{ "a mapping for one value", "grpc:\n  host: a\n", "grpc: expected a single value" },
	{ "deep labels", "label:\n  a:\n    b: c\n", ":3: label: expected the value of a label" },
	{ "deep list", "label: [[a]]\n", "label: expected name=value" },
	{ "a label without a name", "label: {'': x}\n", "the name must be letters" },
	{ "a list at the top", "- a\n", ":1: expected settings" },
	{ "a word at the top", "hello\n", ":1: expected settings" },
	{ "a mapping as name", "{a: b}: c\n", "the name of a setting" },
	{ "an alias", "grpc: &x a\nlabel: *x\n", "label: expected a mapping" },
	{ "two documents", "quiet: true\n---\nquiet: false\n", ":2: a second document" },
	{ "not YAML", "grpc: 'a\n", ": this is not YAML" },
	{ "a tab for indentation", "label:\n\ta: b\n", ": this is not YAML" },
	{ "bytes that are no text", "grpc: \xff\xfe\x01\n", ": this is not YAML" },
	{ "a NUL in the value", "grpc: \"a\\0b\"\n", ":1: grpc: there is a NUL character" },
};

TEST(files_are_read_or_refused_with_the_line)
{
	for EACH (row, files) {
		_cleanup_(settings_deinit) struct settings settings = { 0 };
		struct error err = { 0 };
		int rc = parse_file(&settings, row->text, strlen(row->text), "", &err);

		if ((row->error == NULL) != (rc == 0) ||
		    !strstr(err.text, row->error ? row->error : ""))
			fail_msg("%s: %d, error is \"%s\"", row->what, rc, err.text);
	}
}

TEST(a_huge_file_is_refused)
{
	_cleanup_(settings_deinit) struct settings settings = { 0 };
	_cleanup_free_ char *text = malloc(2 << 20);
	struct error err = { 0 };

	memset(text, '#', 2 << 20);
	EXPECT_EQ(-EFBIG, parse_file(&settings, text, 2 << 20, "", &err), "2 MiB");
	assert_non_null(strstr(err.text, "larger than 1024 KiB"));
}

TEST(deep_nesting_ends_at_the_first_level)
{
	_cleanup_(settings_deinit) struct settings settings = { 0 };
	_cleanup_free_ char *text = malloc(1 << 20);
	struct error err = { 0 };

	memset(text, '[', 1 << 20);
	memcpy(text, "grpc: ", 6);
	EXPECT_EQ(-EINVAL, parse_file(&settings, text, 1 << 20, "", &err), "a million brackets");
}

TEST(random_files_never_harm)
{
	static const char *const pieces[] = { "grpc", "label", ": ", "\n", "  ",  "- ", "a=b",
					      "{",    "}",     "[",  "]",  "'",   "\"", "&x",
					      "*x",   "#",     "?",  "|",  "---", "\t", ",",
					      "!!",   "\xff",  "%",  "0" };

	srandom(6);
	for (int round = 0; round < 2000; round++) {
		_cleanup_(settings_deinit) struct settings settings = { 0 };
		_cleanup_(buffer_deinit) struct buffer text = { 0 };
		struct error err = { 0 };

		for (int i = (int)random() % 30; i > 0; i--)
			buffer_append_string(&text, pieces[(size_t)random() % ARRAY_SIZE(pieces)]);
		int rc = parse_file(&settings, buffer_string(&text), text.size, "", &err);
		EXPECT_EQ(rc != 0, err.text[0] != 0, "an error has words");
	}
}

// ---- the order of sources ---------------------------------------------------------------------

TEST(warns_of_slips_in_variables)
{
	const struct config_option options[] = {
		{ .name = "collector" }, { .name = "spool-size" }, { .name = "label" },
		{ .name = "pid" },       { .name = "tls-cert" },
	};
	const struct config_program program = { .name = "prog",
						.options = options,
						.option_count = ARRAY_SIZE(options) };
	char *variables[] = {
		(char *)"CAIRN_COLECTOR=x", // named
		(char *)"CAIRN_SPOLSIZE=1", // named
		(char *)"CAIRN_COLLECTOR=x",
		(char *)"CAIRN_COLLECTOR_HTTP=x",          // of other programs
		(char *)"CAIRN_COLLECTOR_PORT_7171_TCP=x", // Kubernetes', of a Service
		(char *)"CAIRN_RELABEL=x",
		(char *)"CAIRN_TLS_CRL=x",
		(char *)"CAIRN_PIT=x",
		(char *)"CAIRN_TEST_FULL=1",
		(char *)"CAIRN_",
		(char *)"COLECTOR=x",
		NULL,
	};
	char text[400] = "";
	_cleanup_fclose_ FILE *stream = fmemopen(text, sizeof(text), "w");

	config_warn_of_slips(&program, variables, stream);
	fflush(stream);
	EXPECT_STR("prog: warning: the variable CAIRN_COLECTOR sets nothing; did you mean "
		   "CAIRN_COLLECTOR?\n"
		   "prog: warning: the variable CAIRN_SPOLSIZE sets nothing; did you mean "
		   "CAIRN_SPOOL_SIZE?\n",
		   text, "warnings");
}

TEST(flags_win_over_environment_over_file_over_default)
{
	static const char file[] =
		"interval: 2s\ngrpc: file\ncount: 2\nlabel: {a: file, b: file, c: file}\n";
	_cleanup_(settings_deinit) struct settings settings = { 0 };
	struct error err = { 0 };

	setenv("CAIRN_INTERVAL", "3s", 1);
	setenv("CAIRN_GRPC", "environment", 1);
	setenv("CAIRN_LABEL", "b=environment,,c=environment", 1);
	setenv("CAIRN_SPOOL_SIZE", "", 1); // empty: as if absent
	setenv("CAIRN_SOMETHING_ELSE", "is not ours", 1);
	int rc = parse_file(&settings, file, strlen(file), "--interval 4s -l c=flag", &err);
	unsetenv("CAIRN_INTERVAL");
	unsetenv("CAIRN_GRPC");
	unsetenv("CAIRN_LABEL");
	unsetenv("CAIRN_SPOOL_SIZE");
	unsetenv("CAIRN_SOMETHING_ELSE");

	EXPECT_EQ(0, rc, err.text);
	EXPECT_EQ(4 * NS_PER_SECOND, settings.interval, "flag");
	EXPECT_STR("environment", settings.grpc, "environment");
	EXPECT_EQ(2, settings.count, "file");
	EXPECT_EQ(1 << 20, settings.spool_size, "default");
	EXPECT_STR("file", labels_get(&settings.label, "a"), "label of the file");
	EXPECT_STR("environment", labels_get(&settings.label, "b"), "label of the environment");
	EXPECT_STR("flag", labels_get(&settings.label, "c"), "label of the flag");
}

TEST(environment_errors_name_the_variable)
{
	_cleanup_(settings_deinit) struct settings settings = { 0 };
	struct file file = write_file("count: 9\n", 9);
	struct error err = { 0 };

	setenv("CAIRN_CONFIG", file.path, 1);
	EXPECT_EQ(0, parse(&settings, "", NULL, &err), "CAIRN_CONFIG");
	EXPECT_EQ(9, settings.count, "of the file");
	setenv("CAIRN_SPOOL_SIZE", "x", 1);
	EXPECT_EQ(-EINVAL, parse(&settings, "", NULL, &err), "CAIRN_SPOOL_SIZE");
	unsetenv("CAIRN_CONFIG");
	unsetenv("CAIRN_SPOOL_SIZE");
	unlink(file.path);
	assert_non_null(strstr(err.text, "CAIRN_SPOOL_SIZE: \"x\" is not a size"));
}

RUN_TESTS(cmocka_unit_test(warns_of_slips_in_variables),
	  cmocka_unit_test(flags_are_read_or_refused_with_a_remedy),
	  cmocka_unit_test(words_after_the_flags_are_left),
	  cmocka_unit_test(help_and_version_win_over_wrong_values),
	  cmocka_unit_test(help_lists_every_setting_with_its_default),
	  cmocka_unit_test(files_are_read_or_refused_with_the_line),
	  cmocka_unit_test(a_huge_file_is_refused),
	  cmocka_unit_test(deep_nesting_ends_at_the_first_level),
	  cmocka_unit_test(random_files_never_harm),
	  cmocka_unit_test(flags_win_over_environment_over_file_over_default),
	  cmocka_unit_test(environment_errors_name_the_variable))
