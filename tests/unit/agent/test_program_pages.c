// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/test.h"

#include "agent/program_pages.h"
#include "base/cleanup.h"

static long read_field(const char *name)
{
	_cleanup_fclose_ FILE *file = fopen("/proc/self/status", "re");
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		if (strncmp(line, name, strlen(name)) == 0)
			return strtol(line + strlen(name), NULL, 10);
	}
	fail_msg("no %s", name);
	return 0;
}

static int written = 41; // in a segment that keeps its pages
static int *const relocated = &written;

TEST(unused_code_is_given_back)
{
	void *library = dlopen("libcrypto.so.3", RTLD_NOW);
	volatile const char *code = library ? dlsym(library, "EVP_sha256") : NULL;

	if (!code)
		SKIP("libcrypto is not installed");
	for (long offset = 0; offset < 1 << 20; offset += 4096)
		(void)code[offset];
	long before = read_field("RssFile:"), own_before = read_field("RssAnon:");

	written++;
	program_pages_release();
	long after = read_field("RssFile:"), own_after = read_field("RssAnon:");
	if (after > before - 1000)
		fail_msg("%ld kB of files before, %ld after", before, after);
	if (own_after < own_before - 100)
		fail_msg("%ld kB of its own before, %ld after", own_before, own_after);
	EXPECT_EQ(42, *relocated, "what was written and relocated");
	dlclose(library);
}

TEST(all_goes_on)
{
	for (int i = 0; i < 100; i++) {
		char *text = NULL;

		program_pages_release();
		assert_true(asprintf(&text, "%d", i) > 0);
		free(text);
	}
}

RUN_TESTS(cmocka_unit_test(unused_code_is_given_back), cmocka_unit_test(all_goes_on))
