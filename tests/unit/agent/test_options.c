// SPDX-License-Identifier: Apache-2.0
#include "agent/options.h"

#include <errno.h>
#include <stdlib.h>

#include "agent/sources/source.h"
#include "base/clock.h"
#include "tests/test.h"

enum { WORDS_MAX = 8 };

static int parse(const char *const *words, struct options *options, struct error *err)
{
	char *argv[WORDS_MAX + 2] = { "cairn-agent" };
	bool exit_now = false;
	int argc = 1;

	for (; words[argc - 1]; argc++)
		argv[argc] = (char *)words[argc - 1];
	return options_parse(argc, argv, options, &exit_now, err);
}

TEST(defaults_are_as_documented)
{
	struct options options;
	struct error err = { 0 };

	EXPECT_EQ(0, parse((const char *[]){ NULL }, &options, &err), err.text);
	EXPECT_STR("127.0.0.1:7171", options.collector, "collector");
	EXPECT_EQ(99, options.frequency_hz, "frequency");
	EXPECT_EQ(5 * NS_PER_SECOND, options.interval_ns, "interval");
	EXPECT_EQ(20 * NS_PER_MS, options.slot_ns, "slot");
	EXPECT_EQ(0, options.pid, "pid");
	EXPECT_EQ(64 << 20, options.spool_bytes, "spool");
	assert_null(options.spool_folder);
	EXPECT_EQ(1 << 30, options.spool_folder_bytes, "spool on disk");
	EXPECT_EQ(LOG_LEVEL_INFO, options.log_level, "log level");
	EXPECT_EQ(SOURCE_WALL | SOURCE_MEMORY | SOURCE_GPU_CALLS, options.sources, "sources");
	EXPECT_EQ(true, options.has_overhead_budget, "a budget");
	EXPECT_EQ(0, (int)options.overhead_budget_percent, "by the machine's size");
	EXPECT_EQ(10 * NS_PER_SECOND, options.overhead_interval_ns, "overhead interval");
	options_deinit(&options);
}

TEST(budget_is_percent_of_one_core)
{
	static const struct {
		const char *word;
		int rc;
		bool has_budget;
		int thousandths; // of a percent
	} cases[] = {
		{ "--overhead-budget=auto", 0, true, 0 },
		{ "--overhead-budget=none", 0, false, 0 },
		{ "--overhead-budget=2", 0, true, 2000 },
		{ "--overhead-budget=0.5", 0, true, 500 },
		{ "--overhead-budget=2.5%", 0, true, 2500 },
		{ "--overhead-budget=150", 0, true, 150000 },
		{ "--overhead-budget=0.1", 0, true, 100 },
		{ "--overhead-budget=0.05", -EINVAL, 0, 0 },
		{ "--overhead-budget=0", -EINVAL, 0, 0 },
		{ "--overhead-budget=-1", -EINVAL, 0, 0 },
		{ "--overhead-budget=nan", -EINVAL, 0, 0 },
		{ "--overhead-budget=inf", -EINVAL, 0, 0 },
		{ "--overhead-budget=1e9", -EINVAL, 0, 0 },
		{ "--overhead-budget=2 percent", -EINVAL, 0, 0 },
		{ "--overhead-budget=%", -EINVAL, 0, 0 },
		{ "--overhead-budget=lots", -EINVAL, 0, 0 },
	};

	for EACH (c, cases) {
		struct options options;
		struct error err = { 0 };

		EXPECT_EQ(c->rc, parse((const char *[]){ c->word, NULL }, &options, &err), c->word);
		if (c->rc) {
			if (!strstr(err.text, "--overhead-budget") || !strstr(err.text, "auto"))
				fail_msg("%s: no help: %s", c->word, err.text);
		} else {
			EXPECT_EQ(c->has_budget, options.has_overhead_budget, c->word);
			EXPECT_EQ(c->thousandths,
				  (int)(1000 * options.overhead_budget_percent + 0.5), c->word);
		}
		options_deinit(&options);
	}
}

TEST(wakers_need_services_and_the_wall_profile)
{
	static const struct {
		const char *words[3];
		int rc;
	} cases[] = {
		{ { "--wakers=checkout" }, 0 },
		{ { "--wakers=checkout,llm" }, 0 },
		{ { "--wakers=checkout", "--profiles=cpu,memory" }, -EINVAL },
		{ { "--wakers=" }, -EINVAL },
		{ { "--wakers=a,,b" }, -EINVAL },
		{ { "--wakers=a," }, -EINVAL },
		{ { "--wakers=,a" }, -EINVAL },
		{ { "--wakers=a, b" }, -EINVAL },
	};

	for EACH (c, cases) {
		struct options options;
		struct error err = { 0 };

		EXPECT_EQ(c->rc, parse(c->words, &options, &err), c->words[0]);
		if (!c->rc)
			EXPECT_EQ(SOURCE_WAKERS, options.sources & SOURCE_WAKERS, c->words[0]);
		else
			assert_non_null(strstr(err.text, "--wakers"));
		options_deinit(&options);
	}
}

TEST(profiles_are_a_list_of_words)
{
	static const struct {
		const char *word;
		int rc;
		uint32_t sources;
	} cases[] = {
		{ "--profiles=cpu", 0, 0 },
		{ "--profiles=wall", 0, SOURCE_WALL },
		{ "--profiles=memory,cpu", 0, SOURCE_MEMORY },
		{ "--profiles=cpu,wall,memory", 0, SOURCE_WALL | SOURCE_MEMORY },
		{ "--profiles=gpu", 0, SOURCE_GPU_CALLS },
		{ "--profiles=", -EINVAL, 0 },
		{ "--profiles=cpu,", -EINVAL, 0 },
		{ "--profiles=cpu wall", -EINVAL, 0 },
		{ "--profiles=walls", -EINVAL, 0 },
		{ "--profiles=wal", -EINVAL, 0 },
	};

	for EACH (c, cases) {
		struct options options;
		struct error err = { 0 };

		EXPECT_EQ(c->rc, parse((const char *[]){ c->word, NULL }, &options, &err), c->word);
		if (!c->rc)
			EXPECT_EQ(c->sources, options.sources, c->word);
		else if (!strstr(err.text, "none of cpu, wall, memory and gpu"))
			fail_msg("%s: no help: %s", c->word, err.text);
		options_deinit(&options);
	}
}

TEST(resource_attributes_are_patterns)
{
	struct options options;
	struct error err = { 0 };

	EXPECT_EQ(0,
		  parse((const char *[]){ "--resource-attributes=team.name,k8s.*", NULL }, &options,
			&err),
		  err.text);
	EXPECT_STR("team.name,k8s.*", options.attribute_patterns, "patterns");
	options_deinit(&options);
	EXPECT_EQ(-EINVAL,
		  parse((const char *[]){ "--resource-attributes=a b", NULL }, &options, &err),
		  "a blank");
	if (!strstr(err.text, "--resource-attributes") || !strstr(err.text, "team.*"))
		fail_msg("no help: %s", err.text);
	options_deinit(&options);
}

TEST(thread_names_are_folded_or_exact)
{
	struct options options;
	struct error err = { 0 };

	EXPECT_EQ(0, parse((const char *[]){ NULL }, &options, &err), err.text);
	EXPECT_EQ(false, options.exact_thread_names, "the default");
	options_deinit(&options);
	EXPECT_EQ(0, parse((const char *[]){ "--thread-names=exact", NULL }, &options, &err),
		  err.text);
	EXPECT_EQ(true, options.exact_thread_names, "exact");
	options_deinit(&options);
	EXPECT_EQ(-EINVAL, parse((const char *[]){ "--thread-names=all", NULL }, &options, &err),
		  "all");
	options_deinit(&options);
}

TEST(flags_change_settings)
{
	struct options options;
	struct error err = { 0 };

	EXPECT_EQ(
		0,
		parse((const char *[]){ "--collector=[::1]:9", "--interval=1s", "--label=env=prod",
					"-l", "team=ml", "--log-level=warn", "--spool=1GiB",
					"--spool-dir=/var/lib/cairn-agent", NULL },
		      &options, &err),
		err.text);
	EXPECT_STR("[::1]:9", options.collector, "collector");
	EXPECT_EQ(NS_PER_SECOND, options.interval_ns, "interval");
	EXPECT_STR("prod", labels_get(&options.labels, "env"), "label");
	EXPECT_STR("ml", labels_get(&options.labels, "team"), "second label");
	EXPECT_EQ(LOG_LEVEL_WARN, options.log_level, "log level");
	EXPECT_EQ(1 << 30, options.spool_bytes, "spool");
	EXPECT_STR("/var/lib/cairn-agent", options.spool_folder, "folder of the spool");
	options_deinit(&options);
}

static const struct {
	const char *word;
	const char *named; // what the error must name
} wrong[] = {
	{ "--collector=nowhere", "--collector" },
	{ "--collector=:7171", "--collector" },
	{ "--interval=0s", "interval" },
	{ "--interval=61s", "interval" },
	{ "--interval=5", "interval" },
	{ "--slot=9ms", "slot" },
	{ "--slot=2s", "slot" },
	{ "--frequency=0", "frequency" },
	{ "--frequency=1001", "frequency" },
	{ "--frequency=x", "frequency" },
	{ "--pid=0", "pid" },
	{ "--pid=-1", "pid" },
	{ "--label=novalue", "label" },
	{ "--label=9=x", "label" },
	{ "--spool=1", "spool" },
	{ "--spool=5GiB", "spool" },
	{ "--spool-disk=1", "spool-disk" },
	{ "--log-level=loud", "log-level" },
	{ "--log-levle=info", "--log-level" },
	{ "--admin=foo", "--admin" },
	{ "word", "word" },
};

TEST(names_the_wrong_setting)
{
	for EACH (row, wrong) {
		struct options options;
		struct error err = { 0 };

		if (!parse((const char *[]){ row->word, NULL }, &options, &err))
			fail_msg("%s was accepted", row->word);
		if (!strstr(err.text, row->named))
			fail_msg("%s: \"%s\" does not name %s", row->word, err.text, row->named);
		options_deinit(&options);
	}
}

TEST(a_token_needs_tls_or_loopback)
{
	static const struct {
		const char *words[4];
		int rc;
	} cases[] = {
		{ { "--token-file=/t" }, 0 },
		{ { "--token-file=/t", "--collector=collector.example:7171" }, -EINVAL },
		{ { "--token-file=/t", "--collector=10.0.0.1:7171" }, -EINVAL },
		{ { "--token-file=/t", "--collector=10.0.0.1:7171", "--tls-ca=/c" }, 0 },
		{ { "--token-file=/t", "--collector=10.0.0.1:7171", "--insecure" }, 0 },
		{ { "--collector=10.0.0.1:7171" }, 0 },
	};

	for EACH (row, cases) {
		struct options options;
		struct error err = { 0 };

		EXPECT_EQ(row->rc, parse(row->words, &options, &err), row->words[1]);
		if (row->rc && !strstr(err.text, "--tls-ca"))
			fail_msg("no remedy: %s", err.text);
		options_deinit(&options);
	}
}

TEST(parses_limits_of_boosts)
{
	static const struct {
		const char *word;
		int rc;
		uint32_t hz;
		int thousandths; // of a percent
	} cases[] = {
		{ "--log-level=info", 0, 999, 0 },          { "--boost-hz=0", 0, 0, 0 },
		{ "--boost-hz=1000", 0, 1000, 0 },          { "--boost-hz=1001", -EINVAL, 0, 0 },
		{ "--boost-hz=4294967296", -EINVAL, 0, 0 }, { "--boost-hz=-1", -EINVAL, 0, 0 },
		{ "--boost-budget=auto", 0, 999, 0 },       { "--boost-budget=2.5%", 0, 999, 2500 },
		{ "--boost-budget=none", -EINVAL, 0, 0 },   { "--boost-budget=0", -EINVAL, 0, 0 },
		{ "--boost-budget=nan", -EINVAL, 0, 0 },
	};

	for EACH (c, cases) {
		struct options options;
		struct error err = { 0 };
		int rc = parse((const char *[]){ c->word, NULL }, &options, &err);

		EXPECT_EQ(c->rc != 0, rc != 0, c->word);
		if (!c->rc) {
			EXPECT_EQ(c->hz, options.boost_hz, c->word);
			EXPECT_EQ(c->thousandths, options.boost_budget_percent * 1000, c->word);
		}
		options_deinit(&options);
	}
}

RUN_TESTS(cmocka_unit_test(parses_limits_of_boosts),
	  cmocka_unit_test(a_token_needs_tls_or_loopback),
	  cmocka_unit_test(defaults_are_as_documented),
	  cmocka_unit_test(budget_is_percent_of_one_core),
	  cmocka_unit_test(wakers_need_services_and_the_wall_profile),
	  cmocka_unit_test(profiles_are_a_list_of_words),
	  cmocka_unit_test(resource_attributes_are_patterns),
	  cmocka_unit_test(thread_names_are_folded_or_exact),
	  cmocka_unit_test(flags_change_settings), cmocka_unit_test(names_the_wrong_setting))
