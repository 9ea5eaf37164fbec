// SPDX-License-Identifier: Apache-2.0
#include "base/secret_file.h"

#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/path_state.h"
#include "tests/test.h"

static void write_file(const char *path, const char *bytes, size_t size)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_int_equal(size, fwrite(bytes, 1, size, file));
	fclose(file);
}

static const struct {
	const char *what;
	const char *bytes;
	const char *secret; // NULL: refused
} rows[] = {
	{ "a line", "cairn_a.B-c_1\n", "cairn_a.B-c_1" },
	{ "no newline", "abc", "abc" },
	{ "blanks behind", "abc \t\r\n", "abc" },
	{ "only the first line", "abc\nsecond\n", "abc" },
	{ "empty", "", NULL },
	{ "an empty line", "\nabc\n", NULL },
	{ "a blank within", "a b\n", NULL },
	{ "a header's end",
	  "a\x01"
	  "b\n",
	  NULL },
	{ "not ASCII", "a\xc3\xa4\n", NULL },
};

TEST(reads_the_first_line)
{
	char path[] = "/tmp/cairn-secret-XXXXXX";
	_cleanup_close_ int fd = mkstemp(path);

	for EACH (row, rows) {
		char secret[SECRET_BYTES_MAX] = "untouched";
		struct error err = { 0 };

		write_file(path, row->bytes, strlen(row->bytes));
		int rc = secret_file_read(path, secret, &err);
		EXPECT_EQ(row->secret ? 0 : -EINVAL, rc, row->what);
		EXPECT_STR(row->secret ? row->secret : "untouched", secret, row->what);
	}
	unlink(path);
}

TEST(refuses_a_file_that_is_too_long)
{
	char path[] = "/tmp/cairn-secret-XXXXXX", secret[SECRET_BYTES_MAX];
	_cleanup_close_ int fd = mkstemp(path);
	static char bytes[SECRET_BYTES_MAX];
	struct error err = { 0 };

	memset(bytes, 'x', sizeof(bytes));
	write_file(path, bytes, sizeof(bytes));
	EXPECT_EQ(-EINVAL, secret_file_read(path, secret, &err), "too long");
	if (strstr(err.text, "xxxx"))
		fail_msg("the error shows the secret: %s", err.text);
	unlink(path);
	EXPECT_EQ(-ENOENT, secret_file_read(path, secret, &err), "no file");
}

TEST(a_replaced_file_is_another_state)
{
	char path[] = "/tmp/cairn-secret-XXXXXX", other[sizeof(path) + 2];
	_cleanup_close_ int fd = mkstemp(path);

	snprintf(other, sizeof(other), "%s.n", path);
	write_file(path, "one", 3);
	write_file(other, "two", 3);
	struct path_state before = path_state_of(path);
	EXPECT_EQ(true, path_state_equal(before, path_state_of(path)), "as it was");
	assert_int_equal(0, rename(other, path));
	EXPECT_EQ(false, path_state_equal(before, path_state_of(path)), "moved over it");
	unlink(path);
	EXPECT_EQ(true, path_state_equal((struct path_state){ 0 }, path_state_of(path)), "gone");
}

RUN_TESTS(cmocka_unit_test(reads_the_first_line), cmocka_unit_test(refuses_a_file_that_is_too_long),
	  cmocka_unit_test(a_replaced_file_is_another_state))
