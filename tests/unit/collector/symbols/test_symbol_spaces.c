// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/symbol_spaces.h"

#include <errno.h>
#include <sys/stat.h>

#include "tests/test.h"

#include "base/memory_account.h"

static const char *const bad[] = {
	"..", ".hidden", "a/b", "/etc",
	"0123456789012345678901234567890123456789012345678901234567890123"
};

TEST(each_tenant_has_its_own)
{
	char folder[] = "/tmp/cairn-spaces-XXXXXX", path[64], command[64];
	struct symbol_spaces *spaces;
	struct error err = { 0 };
	struct stat status;

	assert_non_null(mkdtemp(folder));
	const struct symbol_spaces_options options = { .data = folder, .bytes_max = 1 << 20 };
	assert_int_equal(0, symbol_spaces_open(&options, &spaces, &err));
	struct symbol_space *none = symbol_spaces_get(spaces, "", &err);
	struct symbol_space *a = symbol_spaces_get(spaces, "a", &err);
	assert_non_null(none);
	assert_non_null(a);
	assert_ptr_not_equal(none, a);
	assert_ptr_not_equal(a, symbol_spaces_get(spaces, "b", &err));
	assert_ptr_equal(a, symbol_spaces_get(spaces, "a", &err));
	assert_ptr_equal(none, symbol_spaces_get(spaces, "*", &err));
	snprintf(path, sizeof(path), "%s/tenants/a/debug-files", folder);
	assert_int_equal(0, stat(path, &status));
	for EACH (name, bad)
		if (symbol_spaces_get(spaces, *name, &err))
			fail_msg("\"%s\" has a space", *name);
	symbol_spaces_close(spaces);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(0, system(command));
}

TEST(no_query_pays_for_a_space)
{
	char folder[] = "/tmp/cairn-spaces-XXXXXX", command[64];
	struct byte_budget budget = { .bytes_max = 64 << 20 };
	struct symbol_spaces *spaces;
	struct memory_account account;
	struct error err = { 0 };

	assert_non_null(mkdtemp(folder));
	const struct symbol_spaces_options options = { .data = folder, .bytes_max = 1 << 20 };
	assert_int_equal(0, symbol_spaces_open(&options, &spaces, &err));
	memory_account_begin(&account, &budget);
	void *own = malloc(1000);
	assert_non_null(symbol_spaces_get(spaces, "a", &err));
	size_t used = account.bytes_used;
	free(own);
	memory_account_end(&account);
	assert_true(used >= 1000 && used < 2000);
	symbol_spaces_close(spaces);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(0, system(command));
}

TEST(their_number_is_bounded)
{
	char folder[] = "/tmp/cairn-spaces-XXXXXX", name[16], command[64];
	struct symbol_spaces *spaces;
	struct error err = { 0 };

	assert_non_null(mkdtemp(folder));
	const struct symbol_spaces_options options = { .data = folder, .bytes_max = 1 << 20 };
	assert_int_equal(0, symbol_spaces_open(&options, &spaces, &err));
	for (int i = 1; i < SYMBOL_SPACES_MAX; i++) {
		snprintf(name, sizeof(name), "t%d", i);
		assert_non_null(symbol_spaces_get(spaces, name, &err));
	}
	assert_null(symbol_spaces_get(spaces, "one-more", &err));
	EXPECT_EQ(-E2BIG, err.code, err.text);
	assert_non_null(symbol_spaces_get(spaces, "t1", &err));
	symbol_spaces_close(spaces);
	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(0, system(command));
}

RUN_TESTS(cmocka_unit_test(each_tenant_has_its_own), cmocka_unit_test(no_query_pays_for_a_space),
	  cmocka_unit_test(their_number_is_bounded))
