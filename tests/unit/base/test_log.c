// SPDX-License-Identifier: Apache-2.0
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "tests/captured_stderr.h"

TEST(a_line_has_time_level_and_message)
{
	struct capture capture = begin_capture();
	char text[4096];

	log_warn("spool: %d batches kept", 7);
	end_capture(&capture, text, sizeof(text));
	assert_non_null(strstr(text, "Z warn  spool: 7 batches kept\n"));
	EXPECT_EQ('T', text[10], "date and time");
	assert_null(strchr(text, '\033')); // not a terminal: no colours
}

TEST(lines_above_the_level_are_dropped)
{
	struct capture capture = begin_capture();
	char text[4096];

	log_debug("dropped by default");
	log_set_level(LOG_LEVEL_ERROR);
	log_warn("dropped too");
	log_error("kept");
	log_set_level(LOG_LEVEL_INFO);
	end_capture(&capture, text, sizeof(text));
	assert_null(strstr(text, "dropped"));
	assert_non_null(strstr(text, " error kept\n"));
}

TEST(hostile_name_forges_no_line)
{
	struct capture capture = begin_capture();
	char text[4096];

	log_info("process %s exited", "x\n2026-01-01T00:00:00.000Z error forged\033[31m\r");
	end_capture(&capture, text, sizeof(text));
	EXPECT_EQ(strlen(text) - 1, strchr(text, '\n') - text, "one line");
	assert_null(strchr(text, '\033'));
	assert_null(strchr(text, '\r'));
}

TEST(cuts_long_message_and_keeps_errno)
{
	struct capture capture = begin_capture();
	_cleanup_free_ char *words = calloc(1, 10000);
	char text[8192];

	memset(words, 'w', 9999);
	errno = EXDEV;
	log_info("%s", words);
	int saved = errno;
	end_capture(&capture, text, sizeof(text));
	EXPECT_EQ(EXDEV, saved, "errno");
	EXPECT_EQ(2047, strlen(text), "cut");
	EXPECT_EQ('\n', text[strlen(text) - 1], "still a line");
}

TEST(levels_have_names)
{
	enum log_level level = LOG_LEVEL_WARN;

	EXPECT_EQ(0, log_level_parse("debug", &level), "debug");
	EXPECT_EQ(LOG_LEVEL_DEBUG, level, "debug");
	EXPECT_EQ(-EINVAL, log_level_parse("loud", &level), "loud");
	EXPECT_EQ(-EINVAL, log_level_parse("", &level), "nothing");
	EXPECT_EQ(LOG_LEVEL_DEBUG, level, "untouched");
}

RUN_TESTS(cmocka_unit_test(a_line_has_time_level_and_message),
	  cmocka_unit_test(lines_above_the_level_are_dropped),
	  cmocka_unit_test(hostile_name_forges_no_line),
	  cmocka_unit_test(cuts_long_message_and_keeps_errno), cmocka_unit_test(levels_have_names))
