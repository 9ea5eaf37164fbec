// SPDX-License-Identifier: Apache-2.0
// The access file: what its lines mean, and which are refused.
#include "tests/unit/collector/access/access_fixture.h"

#define SALT "000102030405060708090a0b0c0d0e0f"
#define HASH SALT SALT

static int read_text(struct access_folder *f, const char *text, struct access_file *file,
		     struct error *err)
{
	access_folder_write(f, text);
	return access_file_read(f->path, file, err);
}

TEST(reads_roles_tenants_and_credentials)
{
	struct access_file file = { 0 };
	struct access_folder f;
	struct error err = { 0 };

	access_folder_open(&f);
	if (read_text(&f,
		      "# a comment\n\n"
		      "fleet ingest shop sha256:" SALT ":" HASH "\n"
		      "*.node.example ingest,upload shop certificate # and why\n"
		      "ann@example.com read,admin * person\n"
		      "ci read - sha256:" SALT ":" HASH,
		      &file, &err))
		fail_msg("%s", err.text);
	EXPECT_EQ(4, file.count, "lines");
	EXPECT_EQ(ACCESS_INGEST, file.entries[0].roles, "roles of fleet");
	EXPECT_STR("shop", file.entries[0].tenant, "tenant of fleet");
	EXPECT_EQ(15, file.entries[0].salt[15], "salt");
	EXPECT_EQ(ACCESS_CERTIFICATE, file.entries[1].kind, "kind");
	EXPECT_EQ(ACCESS_INGEST | ACCESS_UPLOAD, file.entries[1].roles, "roles of nodes");
	EXPECT_EQ(ACCESS_PERSON, file.entries[2].kind, "kind");
	EXPECT_STR("*", file.entries[2].tenant, "tenant of ann");
	EXPECT_STR("", file.entries[3].tenant, "tenant of ci");
	access_file_deinit(&file);
	access_folder_close(&f);
}

static const struct {
	const char *what;
	const char *line;
	const char *error; // a part of it
} refused[] = {
	{ "three words", "a read x", "expected NAME ROLES TENANT CREDENTIAL" },
	{ "five words", "a read x certificate y", "expected NAME" },
	{ "a role", "a write x certificate", "\"write\"" },
	{ "an empty role", "a read,,admin x certificate", "is not a list" },
	{ "a role and more", "a reads x certificate", "is not a list" },
	{ "ingest for all", "a ingest * certificate", "write to one tenant" },
	{ "upload for all", "a upload,read * certificate", "write to one tenant" },
	{ "a hidden folder", "a read .. certificate", "is not a tenant" },
	{ "a path", "a read a/b certificate", "is not a tenant" },
	{ "a pattern of tokens", "*x read t sha256:" SALT ":" HASH, "only names of certificates" },
	{ "everybody", "* read t certificate", "only names of certificates" },
	{ "a star within", "a*b read t person", "only names of certificates" },
	{ "a short hash", "a read t sha256:" SALT ":" SALT, "the credential is none of" },
	{ "a long hash", "a read t sha256:" SALT ":" HASH "0", "the credential is none of" },
	{ "upper case", "a read t sha256:" SALT ":" SALT "0001020304050607080A0B0C0D0E0F10",
	  "none of" },
	{ "no hash", "a read t sha256:", "the credential is none of" },
	{ "a plain secret", "a read t hunter2", "the credential is none of" },
};

TEST(refuses_lines_with_their_number)
{
	struct access_folder f;

	access_folder_open(&f);
	for EACH (row, refused) {
		struct access_file file = { .count = 77 };
		struct error err = { 0 };
		char text[512];

		snprintf(text, sizeof(text), "ok read t certificate\n%s\n", row->line);
		EXPECT_EQ(-EINVAL, read_text(&f, text, &file, &err), row->what);
		EXPECT_EQ(77, file.count, "untouched");
		if (!strstr(err.text, "line 2") || !strstr(err.text, row->error))
			fail_msg("%s: %s", row->what, err.text);
		if (strstr(err.text, "hunter2"))
			fail_msg("the error shows what may be a secret: %s", err.text);
	}
	access_folder_close(&f);
}

TEST(finds_a_token_by_name_and_secret)
{
	struct made_token old = make_token("a.b", "read", "t"),
			  new = make_token("a.b", "read", "t");
	struct made_token other = make_token("c", "read", "t");
	struct access_file file = { 0 };
	struct access_folder f;
	struct error err = { 0 };
	char text[4 * ACCESS_LINE_BYTES], wrong[ACCESS_TOKEN_BYTES];

	access_folder_open(&f);
	snprintf(text, sizeof(text), "%s%s%s", old.line, new.line, other.line);
	assert_int_equal(0, read_text(&f, text, &file, &err));
	assert_ptr_equal(&file.entries[0], access_file_find_token(&file, old.token));
	assert_ptr_equal(&file.entries[1], access_file_find_token(&file, new.token));
	assert_ptr_equal(&file.entries[2], access_file_find_token(&file, other.token));

	// One name's secret is not another's.
	snprintf(wrong, sizeof(wrong), "cairn_c%s", strrchr(old.token, '.'));
	assert_null(access_file_find_token(&file, wrong));
	strcpy(wrong, old.token);
	wrong[strlen(wrong) - 1] ^= 1;
	assert_null(access_file_find_token(&file, wrong));
	wrong[strlen(wrong) - 1] = 0;
	assert_null(access_file_find_token(&file, wrong));
	assert_null(access_file_find_token(&file, ""));
	assert_null(access_file_find_token(&file, "cairn_"));
	assert_null(access_file_find_token(&file, old.token + 1));
	// The stored hash is no token.
	assert_null(strstr(text, strrchr(old.token, '.') + 1));
	access_file_deinit(&file);
	access_folder_close(&f);
}

TEST(finds_names_exactly_then_by_suffix)
{
	struct access_file file = { 0 };
	struct access_folder f;
	struct error err = { 0 };

	access_folder_open(&f);
	assert_int_equal(0, read_text(&f,
				      "*.example ingest a certificate\n"
				      "*.b.example ingest b certificate\n"
				      "x.b.example ingest c certificate\n"
				      "*@example read d person\n",
				      &file, &err));
	EXPECT_STR("c", access_file_find_name(&file, ACCESS_CERTIFICATE, "x.b.example")->tenant,
		   "x");
	EXPECT_STR("b", access_file_find_name(&file, ACCESS_CERTIFICATE, "y.b.example")->tenant,
		   "y");
	EXPECT_STR("a", access_file_find_name(&file, ACCESS_CERTIFICATE, "z.example")->tenant, "z");
	EXPECT_STR("d", access_file_find_name(&file, ACCESS_PERSON, "ann@example")->tenant, "ann");
	assert_null(access_file_find_name(&file, ACCESS_CERTIFICATE, ".example"));
	assert_null(access_file_find_name(&file, ACCESS_CERTIFICATE, "ann@example"));
	assert_null(access_file_find_name(&file, ACCESS_CERTIFICATE, "example"));
	assert_null(access_file_find_name(&file, ACCESS_CERTIFICATE, "*.example.org"));
	access_file_deinit(&file);
	access_folder_close(&f);
}

RUN_TESTS(cmocka_unit_test(reads_roles_tenants_and_credentials),
	  cmocka_unit_test(refuses_lines_with_their_number),
	  cmocka_unit_test(finds_a_token_by_name_and_secret),
	  cmocka_unit_test(finds_names_exactly_then_by_suffix))
