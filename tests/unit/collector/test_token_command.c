// SPDX-License-Identifier: Apache-2.0
// A new token is printed before it is added.

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collector/access/access_file.h"
#include "collector/token_command.h"
#include "tests/test.h"

static int make_token(char *path, FILE *stream, struct error *err)
{
	const struct collector_options options = {
		.new_token = "fleet", .roles = "ingest", .tenant = "-", .access = path
	};

	return token_command(&options, stream, err);
}

TEST(adds_a_printed_token)
{
	char path[] = "/tmp/cairn-token-XXXXXX", token[ACCESS_TOKEN_BYTES + 1] = "";
	_cleanup_close_ int fd = mkstemp(path);
	_cleanup_fclose_ FILE *stream = tmpfile();
	struct error err = { 0 };
	struct stat file;

	EXPECT_EQ(0, make_token(path, stream, &err), err.text);
	rewind(stream);
	assert_non_null(fgets(token, sizeof(token), stream));
	EXPECT_EQ(true, strcspn(token, "\n") > 20, "a token");
	EXPECT_EQ(0, fstat(fd, &file), "fstat");
	EXPECT_EQ(true, file.st_size > 0, "its line");
	unlink(path);
}

TEST(adds_no_token_that_is_lost)
{
	char path[] = "/tmp/cairn-token-XXXXXX";
	_cleanup_close_ int fd = mkstemp(path);
	_cleanup_fclose_ FILE *full = fopen("/dev/full", "we");
	struct error err = { 0 };
	struct stat file;

	EXPECT_EQ(-ENOSPC, make_token(path, full, &err), "the disk is full");
	EXPECT_STR("cannot write the token: No space left on device; nothing was added", err.text,
		   "message");
	EXPECT_EQ(0, fstat(fd, &file), "fstat");
	EXPECT_EQ(0, file.st_size, "no line was added");
	unlink(path);
}

TEST(prints_no_token_without_file)
{
	char path[] = "/nonexistent/access";
	_cleanup_fclose_ FILE *stream = tmpfile();
	struct error err = { 0 };

	EXPECT_EQ(-ENOENT, make_token(path, stream, &err), "no folder");
	EXPECT_EQ(0, ftell(stream), "nothing was printed");
}

RUN_TESTS(cmocka_unit_test(adds_a_printed_token), cmocka_unit_test(adds_no_token_that_is_lost),
	  cmocka_unit_test(prints_no_token_without_file))
