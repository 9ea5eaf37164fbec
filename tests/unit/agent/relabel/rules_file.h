// SPDX-License-Identifier: Apache-2.0
// For tests: a file of relabel rules in memory.
#pragma once

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/relabel/relabel_file.h"
#include "tests/test.h"

/** As relabel_file_read() of a file with this text; its path in errors is "rules". */
static inline int read_rules(const char *text, struct relabel_rules **ret_rules, struct error *err)
{
	char path[64];
	int fd = memfd_create("rules", 0);

	assert_true(fd >= 0);
	assert_int_equal(strlen(text), write(fd, text, strlen(text)));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	int rc = relabel_file_read(path, ret_rules, err);
	char *at = err ? strstr(err->text, path) : NULL;

	if (at) {
		size_t size = strlen(path);

		memcpy(at, "rules", 5);
		memmove(at + 5, at + size, strlen(at + size) + 1);
	}
	close(fd);
	return rc;
}
