// SPDX-License-Identifier: Apache-2.0
#include "base/header_file.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/test.h"

static int read_text(const char *text, struct header_list *ret_list, struct error *err)
{
	char path[] = "/tmp/cairn-headers-XXXXXX";
	_cleanup_close_ int fd = mkstemp(path);

	assert_int_equal(strlen(text), write(fd, text, strlen(text)));
	int rc = header_file_read(path, ret_list, err);
	unlink(path);
	return rc;
}

TEST(reads_a_header_a_line)
{
	_cleanup_(header_list_deinit) struct header_list list = { 0 };
	struct error err = { 0 };

	EXPECT_EQ(
		0,
		read_text(
			"# of the tenant\n\nX-Scope-OrgID: shop\r\n authorization :Basic YTpi= \n",
			&list, &err),
		err.text);
	EXPECT_EQ(2, list.count, "headers");
	EXPECT_STR("x-scope-orgid", list.headers[0].name, "name");
	EXPECT_STR("shop", list.headers[0].value, "value");
	EXPECT_STR("authorization", list.headers[1].name, "name");
	EXPECT_STR("Basic YTpi=", list.headers[1].value, "value");
}

static const struct {
	const char *what, *text, *fault;
} hostile[] = {
	{ "no colon", "a: b\nsecret\n", "line 2 is no" },
	{ "no name", ": secret\n", "line 1 is no" },
	{ "a blank in a name", "a b: secret\n", "line 1 is no" },
	{ "no value", "a:  \n", "line 1 has a value" },
	{ "not ASCII", "a: secret\xc3\xa4\n", "line 1 has a value" },
	{ "a pseudo-header", ":path: secret\n", "line 1 is no" },
	{ "gRPC's own", "grpc-timeout: secret\n", "protocol's own" },
	{ "HTTP's own", "Content-Type: secret\n", "protocol's own" },
	{ "encoded bytes", "a-bin: secret\n", "protocol's own" },
	{ "too many",
	  "a:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\na:b\n",
	  "line 17 is one too many" },
};

TEST(refuses_what_no_header_is)
{
	for EACH (row, hostile) {
		struct header_list list = { .count = 7 };
		struct error err = { 0 };

		EXPECT_EQ(-EINVAL, read_text(row->text, &list, &err), row->what);
		EXPECT_EQ(7, list.count, row->what);
		if (!strstr(err.text, row->fault) || strstr(err.text, "secret"))
			fail_msg("%s: %s", row->what, err.text);
	}
}

TEST(refuses_a_file_that_is_too_long)
{
	_cleanup_free_ char *text = calloc(1, HEADER_FILE_BYTES_MAX + 1);
	struct header_list list;
	struct error err = { 0 };

	memset(text, '\n', HEADER_FILE_BYTES_MAX);
	EXPECT_EQ(-EINVAL, read_text(text, &list, &err), "long");
	EXPECT_EQ(-ENOENT, header_file_read("/nowhere", &list, &err), "none");
}

RUN_TESTS(cmocka_unit_test(reads_a_header_a_line), cmocka_unit_test(refuses_what_no_header_is),
	  cmocka_unit_test(refuses_a_file_that_is_too_long))
