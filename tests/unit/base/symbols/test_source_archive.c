// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/source_archive.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/test.h"

#define BEGIN "cairn sources 1\nservice shop\nversion 1.4\n"

static int read_text(const char *text, size_t size, struct source_archive *ret_archive,
		     struct error *err)
{
	_cleanup_close_ int fd = memfd_create("archive", MFD_CLOEXEC);

	assert_true(fd >= 0 && write(fd, text, size) == (ssize_t)size);
	return source_archive_read(fd, size, ret_archive, err);
}

TEST(reads_what_was_written)
{
	struct buffer bytes = { 0 };
	struct source_archive archive;
	struct error err = { 0 };

	source_archive_begin(&bytes, "shop", "1.4");
	source_archive_add(&bytes, "app/model.py", 3);
	source_archive_add(&bytes, "run.py", 2);
	buffer_append_string(&bytes, "\nabcde");
	if (read_text((const char *)bytes.bytes, bytes.size, &archive, &err))
		fail_msg("%s", err.text);
	EXPECT_STR("shop", archive.service, "service");
	EXPECT_STR("1.4", archive.version, "version");
	EXPECT_EQ(2, archive.file_count, "files");
	EXPECT_EQ(bytes.size - 5, archive.files[0].offset, "offset");
	EXPECT_EQ(bytes.size - 2, archive.files[1].offset, "offset");
	EXPECT_STR("app/model.py", source_archive_find(&archive, "/srv/x/app/model.py")->path,
		   "whole path");
	EXPECT_STR("run.py", source_archive_find(&archive, "run.py")->path, "root");
	assert_null(source_archive_find(&archive, "/srv/model.py"));
	assert_null(source_archive_find(&archive, "/srv/app/model.py/../../other.py"));
	source_archive_deinit(&archive);
	buffer_deinit(&bytes);
}

static const struct {
	const char *what, *text;
	int rc;
} rows[] = {
	{ "without files", BEGIN "\n", 0 },
	{ "without names", "cairn sources 1\nservice \nversion \n\n", 0 },
	{ "an empty file", BEGIN "0 a.c\n\n", 0 },
	{ "nothing", "", -EBADMSG },
	{ "another file", "PK\3\4\n\n", -EBADMSG },
	{ "no end", BEGIN "1 a.c\n", -EBADMSG },
	{ "no version", "cairn sources 1\nservice a\n1 a.c\n\nx", -EBADMSG },
	{ "a control character in a name", "cairn sources 1\nservice \x1b[0m\nversion \n\n",
	  -EBADMSG },
	{ "no UTF-8 in a name", "cairn sources 1\nservice \xff\nversion \n\n", -EBADMSG },
	{ "no size", BEGIN "a.c\n\n", -EBADMSG },
	{ "a negative size", BEGIN "-1 a.c\n\n", -EBADMSG },
	{ "a size of 20 digits", BEGIN "18446744073709551615 a.c\n\n", -EBADMSG },
	{ "a large file", BEGIN "4194305 a.c\n\n", -EFBIG },
	{ "too few bytes", BEGIN "2 a.c\n\nx", -EBADMSG },
	{ "too many bytes", BEGIN "2 a.c\n\nxyz", -EBADMSG },
	{ "up", BEGIN "1 ../a.c\n\nx", -EBADMSG },
	{ "absolute", BEGIN "1 /etc/a.c\n\nx", -EBADMSG },
	{ "hidden", BEGIN "1 .git/a.c\n\nx", -EBADMSG },
	{ "no source", BEGIN "1 etc/shadow\n\nx", -EBADMSG },
	{ "twice", BEGIN "1 a.c\n1 a.c\n\nxy", -EBADMSG },
	{ "unsorted", BEGIN "1 b.c\n1 a.c\n\nxy", -EBADMSG },
};

TEST(refuses_what_is_no_archive)
{
	for EACH (row, rows) {
		struct source_archive archive = { 0 };
		struct error err = { 0 };

		EXPECT_EQ(row->rc, read_text(row->text, strlen(row->text), &archive, &err),
			  row->what);
		EXPECT_EQ(row->rc, err.code, row->what);
		source_archive_deinit(&archive);
	}
}

TEST(refuses_a_zero_byte)
{
	static const char text[] = BEGIN "1 a\0.c\n\nx";
	struct source_archive archive;
	struct error err = { 0 };

	EXPECT_EQ(-EBADMSG, read_text(text, sizeof(text) - 1, &archive, &err), err.text);
}

TEST(long_lists_are_refused)
{
	struct buffer bytes = { 0 };
	struct source_archive archive;
	struct error err = { 0 };
	char path[32];

	source_archive_begin(&bytes, "", "");
	for (uint32_t i = 0; i <= SOURCE_ARCHIVE_FILES_MAX; i++) {
		snprintf(path, sizeof(path), "f%08u.c", i);
		source_archive_add(&bytes, path, 0);
	}
	buffer_append_byte(&bytes, '\n');
	EXPECT_EQ(-EFBIG, read_text((const char *)bytes.bytes, bytes.size, &archive, &err),
		  "files");
	buffer_clear(&bytes);
	source_archive_begin(&bytes, "", "");
	memset(buffer_extend(&bytes, SOURCE_ARCHIVE_HEAD_BYTES_MAX + (1 << 20)), 'a',
	       SOURCE_ARCHIVE_HEAD_BYTES_MAX + (1 << 20));
	EXPECT_EQ(-EFBIG, read_text((const char *)bytes.bytes, bytes.size, &archive, &err),
		  "bytes");
	buffer_deinit(&bytes);
}

RUN_TESTS(cmocka_unit_test(reads_what_was_written), cmocka_unit_test(refuses_what_is_no_archive),
	  cmocka_unit_test(refuses_a_zero_byte), cmocka_unit_test(long_lists_are_refused))
