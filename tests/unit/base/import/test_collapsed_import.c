// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"
#include "base/export/collapsed.h"
#include "base/import/collapsed_import.h"

static int import(struct importer *importer, const char *text, enum collapsed_counts counts,
		  struct error *err)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	const struct import_source source = { .labels = &labels,
					      .type = PROFILE_TYPE_CPU,
					      .from_ns = 1000 * NS_PER_SECOND,
					      .to_ns = 1010 * NS_PER_SECOND,
					      .value_scale = 10 };

	labels_set(&labels, LABEL_PROCESS, "p");
	assert_int_equal(importer_init(importer, 0, 100), 0);
	return collapsed_import(importer, &source, text, strlen(text), counts, err);
}

TEST(reads_lines_exactly)
{
	static const struct {
		const char *text, *expected, *what;
		enum collapsed_counts counts;
	} rows[] = {
		{ "a;b 2\na 1\n", "p;a 10\np;a;b 20\n", "two", COLLAPSED_COUNTED },
		{ "a;b 2\r\n# a comment\n\n;;a;;b 3", "p;a;b 50\n", "blanks", COLLAPSED_COUNTED },
		{ "void f(int, long) 4\n", "p;void f(int, long) 40\n", "blank in a name",
		  COLLAPSED_COUNTED },
		{ "x (a.py:3);y_[k] 1\n", "p;x (a.py:3);y_[k] 10\n", "kinds", COLLAPSED_COUNTED },
		{ "a;b\na;b\n", "p;a;b 20\n", "uncounted", COLLAPSED_UNCOUNTED },
	};

	for EACH (row, rows) {
		_cleanup_(buffer_deinit) struct buffer text = { 0 };
		struct importer importer;
		struct error err = { 0 };

		EXPECT_EQ(0, import(&importer, row->text, row->counts, &err), row->what);
		collapsed_encode(importer.profile, PROFILE_TYPE_CPU, &text);
		EXPECT_STR(row->expected, buffer_string(&text), row->what);
		importer_deinit(&importer);
	}
}

TEST(names_line_that_is_wrong)
{
	static const struct {
		const char *text, *words;
		int rc;
	} rows[] = {
		{ "a 1\nb\n", "line 2", -EBADMSG },
		{ "a 1\nb x2\n", "line 2", -EBADMSG },
		{ "a 99999999999999999999\n", "line 1", -EBADMSG },
		{ " 12\n", "line 1", -EBADMSG },
		{ "a 9007199254740992\n", "2^53", -EINVAL },
	};

	for EACH (row, rows) {
		struct importer importer;
		struct error err = { 0 };

		EXPECT_EQ(row->rc, import(&importer, row->text, COLLAPSED_COUNTED, &err),
			  row->text);
		if (!strstr(err.text, row->words))
			fail_msg("%s: \"%s\"", row->text, err.text);
		importer_deinit(&importer);
	}
}

TEST(knows_collapsed_stacks)
{
	assert_true(collapsed_is_likely("a;b 1\nc 2\n", 10));
	assert_false(collapsed_is_likely("{\"a\": 1}\n", 9));
	assert_false(collapsed_is_likely("prog 12 1.5: cycles\n a b\n", 25));
	assert_false(collapsed_is_likely("", 0));
}

RUN_TESTS(cmocka_unit_test(reads_lines_exactly), cmocka_unit_test(names_line_that_is_wrong),
	  cmocka_unit_test(knows_collapsed_stacks))
