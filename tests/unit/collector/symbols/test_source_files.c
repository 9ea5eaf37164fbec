// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/source_files.h"

#include "tests/unit/collector/symbols/source_fixture.h"

struct seen {
	uint32_t count;
	char names[256]; // "service version who," of each
};

static int see(void *context, const struct kept_archive *kept)
{
	struct seen *seen = context;
	size_t used = strlen(seen->names);

	seen->count++;
	snprintf(seen->names + used, sizeof(seen->names) - used, "%s %s %s,", kept->archive.service,
		 kept->archive.version, kept->origin.who);
	return 0;
}

static uint32_t count(const struct source_fixture *fixture)
{
	struct seen seen = { 0 };

	assert_int_equal(0, source_files_list(&fixture->files, see, &seen));
	return seen.count;
}

TEST(keeps_an_archive_with_its_origin)
{
	struct source_fixture fixture;
	struct seen seen = { 0 };
	struct error err = { 0 };

	open_sources(&fixture);
	if (keep_archive(&fixture, "shop", "1.4", "a.py", "x = 1\n", &err))
		fail_msg("%s", err.text);
	assert_int_equal(0, source_files_list(&fixture.files, see, &seen));
	EXPECT_STR("shop 1.4 token:ci,", seen.names, "names");
	EXPECT_EQ(0, source_files_remove(&fixture.files, fixture.id), "delete");
	EXPECT_EQ(-ENOENT, source_files_remove(&fixture.files, fixture.id), "delete again");
	EXPECT_EQ(-EINVAL, source_files_remove(&fixture.files, "../x"), "no id");
	EXPECT_EQ(0, count(&fixture), "deleted");
	close_sources(&fixture);
}

TEST(first_of_a_version_stays)
{
	struct source_fixture fixture;
	struct error err = { 0 };

	open_sources(&fixture);
	assert_int_equal(0, keep_archive(&fixture, "", "1.4", "a.py", "x = 1\n", &err));
	EXPECT_EQ(0, keep_archive(&fixture, "", "1.4", "a.py", "x = 1\n", &err), "the same");
	EXPECT_EQ(1, count(&fixture), "the same again");
	EXPECT_EQ(-EEXIST, keep_archive(&fixture, "", "1.4", "a.py", "x = 2\n", &err), "other");
	assert_non_null(strstr(err.text, "token:ci"));
	EXPECT_EQ(0, keep_archive(&fixture, "shop", "1.4", "a.py", "x = 2\n", &err), "service");
	EXPECT_EQ(0, keep_archive(&fixture, "", "1.5", "a.py", "x = 2\n", &err), "version");
	EXPECT_EQ(0, keep_archive(&fixture, "", "", "a.py", "x = 2\n", &err), "not said");
	EXPECT_EQ(0, keep_archive(&fixture, "", "", "a.py", "x = 3\n", &err), "not said again");
	EXPECT_EQ(5, count(&fixture), "all");
	close_sources(&fixture);
}

TEST(refuses_what_is_no_archive_or_another)
{
	struct source_fixture fixture;
	struct source_upload upload;
	struct error err = { 0 };

	open_sources(&fixture);
	EXPECT_EQ(-EINVAL,
		  keep_bytes(&fixture,
			     "\x7f"
			     "ELF",
			     4, "x", &err),
		  "no archive");
	EXPECT_EQ(-EFBIG, source_files_begin(&fixture.files, SOURCES_BYTES + 1, &upload, &err),
		  "larger than the limit");
	assert_int_equal(0, source_files_begin(&fixture.files, 5, &upload, &err));
	assert_int_equal(5, write(upload.file.fd, "bytes", 5));
	EXPECT_EQ(-EINVAL, source_files_keep(&fixture.files, &upload, "00ff", "x", "", &err),
		  "another id");
	source_files_drop(&fixture.files, &upload);
	EXPECT_EQ(0, count(&fixture), "nothing");
	close_sources(&fixture);
}

TEST(uploads_at_a_time_are_bounded)
{
	struct source_upload uploads[SOURCE_UPLOADS_MAX + 1];
	struct source_fixture fixture;
	struct error err = { 0 };

	open_sources(&fixture);
	for (int i = 0; i < SOURCE_UPLOADS_MAX; i++)
		assert_int_equal(0, source_files_begin(&fixture.files, 1, &uploads[i], &err));
	EXPECT_EQ(-EAGAIN,
		  source_files_begin(&fixture.files, 1, &uploads[SOURCE_UPLOADS_MAX], &err),
		  "one more");
	source_files_drop(&fixture.files, &uploads[0]);
	EXPECT_EQ(0, source_files_begin(&fixture.files, 1, &uploads[0], &err), "one less");
	for (int i = 0; i < SOURCE_UPLOADS_MAX; i++)
		source_files_drop(&fixture.files, &uploads[i]);
	close_sources(&fixture);
}

TEST(evicts_above_its_count)
{
	struct source_fixture fixture;
	struct error err = { 0 };
	char version[16];

	open_sources(&fixture);
	for (int i = 0; i < SOURCE_ARCHIVES_MAX + 3; i++) {
		snprintf(version, sizeof(version), "v%d", i);
		assert_int_equal(0, keep_archive(&fixture, "", version, "a.py", "x\n", &err));
	}
	EXPECT_EQ(SOURCE_ARCHIVES_MAX, count(&fixture), "kept");
	close_sources(&fixture);
}

RUN_TESTS(cmocka_unit_test(keeps_an_archive_with_its_origin),
	  cmocka_unit_test(first_of_a_version_stays),
	  cmocka_unit_test(refuses_what_is_no_archive_or_another),
	  cmocka_unit_test(uploads_at_a_time_are_bounded), cmocka_unit_test(evicts_above_its_count))
