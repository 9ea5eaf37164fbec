// SPDX-License-Identifier: Apache-2.0
// Credentials become identities; a credential that is shown must hold.
#include "tests/unit/collector/access/access_fixture.h"

#include <gnutls/gnutls.h>
#include <sys/resource.h>

struct fixture {
	struct access_folder folder;
	struct access *access;
	struct made_token reader, agent;
};

static void open_fixture(struct fixture *f)
{
	struct error err = { 0 };
	char text[4 * ACCESS_LINE_BYTES];

	access_folder_open(&f->folder);
	f->reader = make_token("reader", "read", "shop");
	f->agent = make_token("agent", "ingest", "shop");
	snprintf(text, sizeof(text),
		 "%s%sann@example.com read,admin * person\n*@staff.example.com read shop person\n",
		 f->reader.line, f->agent.line);
	access_folder_write(&f->folder, text);
	const struct access_options options = {
		.file = f->folder.path,
		.proxy_header = "X-User",
		.proxy_from = "10.1.0.0/16,::1",
	};
	if (access_open(&options, &f->access, &err))
		fail_msg("%s", err.text);
}

static void close_fixture(struct fixture *f)
{
	access_close(f->access);
	access_folder_close(&f->folder);
}

/** The identity's key, or "" if it is refused with -EACCES. */
static const char *who(struct fixture *f, const struct access_request *request)
{
	static struct identity identity;
	struct error err = { 0 };

	identity = (struct identity){ 0 };
	int rc = access_identify(f->access, request, &identity, &err);
	if (rc)
		assert_int_equal(-EACCES, rc);
	return identity.key;
}

TEST(without_a_file_everybody_is_local)
{
	const struct access_options options = { 0 };
	const struct access_request request = { .authorization = "Bearer x" };
	struct access *access;
	struct identity identity;
	struct error err = { 0 };

	assert_int_equal(0, access_open(&options, &access, &err));
	assert_false(access_needs_login(access));
	assert_int_equal(0, access_identify(access, &request, &identity, &err));
	EXPECT_STR("local", identity.key, "key");
	EXPECT_STR("*", identity.tenant, "tenant");
	assert_int_equal(0, access_check(&identity, ACCESS_ADMIN, &err));
	access_close(access);
}

TEST(a_token_is_an_identity)
{
	struct fixture f;
	struct identity identity;
	struct error err = { 0 };
	char cookie[2 * ACCESS_TOKEN_BYTES];

	open_fixture(&f);
	const struct access_request request = { .authorization = f.reader.authorization };
	assert_true(access_needs_login(f.access));
	assert_int_equal(0, access_identify(f.access, &request, &identity, &err));
	EXPECT_STR("token:reader", identity.key, "key");
	EXPECT_STR("shop", identity.tenant, "tenant");
	EXPECT_STR("", identity.node, "node");
	assert_int_equal(0, access_check(&identity, ACCESS_READ, &err));
	assert_int_equal(-EPERM, access_check(&identity, ACCESS_INGEST, &err));
	assert_int_equal(-EPERM, access_check(&identity, ACCESS_UPLOAD, &err));
	assert_int_equal(-EPERM, access_check(&identity, ACCESS_ADMIN, &err));

	snprintf(cookie, sizeof(cookie), "theme=dark; " ACCESS_COOKIE "=%s; more=1", f.agent.token);
	EXPECT_STR("token:agent", who(&f, &(struct access_request){ .cookie = cookie }), "cookie");
	close_fixture(&f);
}

TEST(a_wrong_credential_falls_back_to_none)
{
	struct fixture f;
	char cookie[2 * ACCESS_TOKEN_BYTES];

	open_fixture(&f);
	snprintf(cookie, sizeof(cookie), ACCESS_COOKIE "=%s", f.reader.token);
	EXPECT_STR("", who(&f, &(struct access_request){ 0 }), "nothing");
	EXPECT_STR(
		"",
		who(&f, &(struct access_request){ .authorization = "Bearer x", .cookie = cookie }),
		"a wrong header beside a good cookie");
	EXPECT_STR(
		"",
		who(&f, &(struct access_request){ .authorization = "Basic x", .cookie = cookie }),
		"another scheme");
	EXPECT_STR("", who(&f, &(struct access_request){ .authorization = f.reader.token }),
		   "no scheme");
	EXPECT_STR("", who(&f, &(struct access_request){ .cookie = ACCESS_COOKIE "=x" }), "cookie");
	EXPECT_STR("", who(&f, &(struct access_request){ .cookie = "x" ACCESS_COOKIE "=y" }),
		   "other");
	close_fixture(&f);
}

// base64 of "USER:TOKEN"; @user as it is.
static const char *basic(const char *user, const char *token)
{
	static char text[512];
	char plain[256];
	gnutls_datum_t encoded;
	const gnutls_datum_t data = { (unsigned char *)plain,
				      (unsigned int)snprintf(plain, sizeof(plain), "%s%s", user,
							     token) };

	assert_int_equal(0, gnutls_base64_encode2(&data, &encoded));
	snprintf(text, sizeof(text), "Basic %.*s", (int)encoded.size, encoded.data);
	gnutls_free(encoded.data);
	return text;
}

TEST(a_token_is_a_password_too)
{
	struct fixture f;

	open_fixture(&f);
	const struct {
		const char *what, *user, *token, *key;
	} rows[] = {
		{ "its tenant", "shop:", f.reader.token, "token:reader" },
		{ "no user", ":", f.reader.token, "token:reader" },
		{ "another tenant", "other:", f.reader.token, "" },
		{ "another token", "shop:", "x", "" },
		{ "no password", "shop", "", "" },
		{ "too long", "shop:",
		  "0123456789012345678901234567890123456789012345678901234567"
		  "8901234567890123456789012345678901234567890123456789012345",
		  "" },
	};
	for EACH (row, rows)
		EXPECT_STR(row->key,
			   who(&f, &(struct access_request){ .authorization = basic(row->user,
										    row->token) }),
			   row->what);
	EXPECT_STR("", who(&f, &(struct access_request){ .authorization = "Basic \xff!" }),
		   "not base64");
	close_fixture(&f);
}

static const struct {
	const char *address;
	const char *user;
	const char *key;
} proxies[] = {
	{ "10.1.2.3", "ann@example.com", "person:ann@example.com" },
	{ "::ffff:10.1.2.3", "ann@example.com", "person:ann@example.com" },
	{ "::1", "ann@example.com", "person:ann@example.com" },
	{ "10.2.2.3", "ann@example.com", "" },
	{ "::2", "ann@example.com", "" },
	{ "::ffff:10.2.2.3", "ann@example.com", "" },
	{ "10.1.2.3", "bob@example.com", "" },
	{ "10.1.2.3", "ann@staff.example.com", "person:ann@staff.example.com" },
	{ "10.1.2.3", "eve@example.org, ann@staff.example.com", "" },
	{ "10.1.2.3", "eve ann@staff.example.com", "" },
	{ "10.1.2.3", "", "" },
	{ "10.1.2.3", NULL, "" },
	{ "", "ann@example.com", "" },
	{ NULL, "ann@example.com", "" },
};

TEST(only_the_proxy_names_persons)
{
	struct fixture f;

	open_fixture(&f);
	for EACH (row, proxies)
		EXPECT_STR(row->key,
			   who(&f, &(struct access_request){ .address = row->address,
							     .proxy_user = row->user }),
			   row->address ? row->address : "no address");
	EXPECT_STR("",
		   who(&f, &(struct access_request){ .address = "10.1.2.3",
						     .proxy_user = "ann@example.com",
						     .has_more_users = true }),
		   "the client's header beside the proxy's");
	close_fixture(&f);
}

TEST(refuses_proxies_that_are_everybody)
{
	static const char *const lists[] = {
		"0.0.0.0/0", "::/0",       "10.0.0.1/33", "10.0.0",
		"10.0.0.1/", "10.0.0.1/x", "example.com", "10.0.0.1,,x"
	};

	for EACH (list, lists) {
		const struct access_options options = { .proxy_header = "X", .proxy_from = *list };
		struct access *access;
		struct error err = { 0 };

		EXPECT_EQ(-EINVAL, access_open(&options, &access, &err), *list);
	}
	const struct access_options alone = { .proxy_header = "X" };
	struct access *access;
	EXPECT_EQ(-EINVAL, access_open(&alone, &access, NULL), "without addresses");
}

TEST(a_changed_file_is_in_force)
{
	struct fixture f;
	struct error err = { 0 };

	open_fixture(&f);
	struct access_request reader = { .authorization = f.reader.authorization };
	struct access_request agent = { .authorization = f.agent.authorization };
	EXPECT_EQ(0, access_refresh(f.access, &err), "unchanged");
	access_folder_write(&f.folder, f.agent.line);
	EXPECT_STR("token:reader", who(&f, &reader), "before");
	EXPECT_EQ(1, access_refresh(f.access, &err), "changed");
	EXPECT_STR("", who(&f, &reader), "its line is gone");
	EXPECT_STR("token:agent", who(&f, &agent), "its line is there");

	access_folder_write(&f.folder, "damaged\n");
	EXPECT_EQ(-EINVAL, access_refresh(f.access, &err), "damaged");
	EXPECT_EQ(0, access_refresh(f.access, &err), "said once");
	EXPECT_STR("token:agent", who(&f, &agent), "the old lines stay");
	close_fixture(&f);
}

TEST(reads_an_unchanged_file_after_a_passing_error)
{
	struct fixture f;
	struct rlimit limit, none;

	open_fixture(&f);
	struct access_request reader = { .authorization = f.reader.authorization };
	access_folder_write(&f.folder, f.agent.line);
	assert_int_equal(0, getrlimit(RLIMIT_NOFILE, &limit));
	none = (struct rlimit){ 0, limit.rlim_max };
	setrlimit(RLIMIT_NOFILE, &none);
	int first = access_refresh(f.access, NULL), second = access_refresh(f.access, NULL);
	setrlimit(RLIMIT_NOFILE, &limit);
	EXPECT_EQ(-EMFILE, first, "no descriptor");
	EXPECT_EQ(-EMFILE, second, "still none");
	EXPECT_EQ(1, access_refresh(f.access, NULL), "read, though unchanged since");
	EXPECT_STR("", who(&f, &reader), "its line is gone");
	close_fixture(&f);
}

RUN_TESTS(cmocka_unit_test(without_a_file_everybody_is_local),
	  cmocka_unit_test(a_token_is_an_identity), cmocka_unit_test(a_token_is_a_password_too),
	  cmocka_unit_test(a_wrong_credential_falls_back_to_none),
	  cmocka_unit_test(only_the_proxy_names_persons),
	  cmocka_unit_test(refuses_proxies_that_are_everybody),
	  cmocka_unit_test(a_changed_file_is_in_force),
	  cmocka_unit_test(reads_an_unchanged_file_after_a_passing_error))
