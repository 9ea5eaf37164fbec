// SPDX-License-Identifier: Apache-2.0
// The administrator's listener beside one that is fully occupied.
#include "tests/unit/collector/http/http_fixture.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "collector/http/http_admin.h"

struct admin {
	struct fixture query; // the listener for queries
	char folder[40], path[80], address[90];
	struct http_server *server;
};

static void open_admin(struct admin *admin)
{
	struct error err = { 0 };
	int port;

	open_fixture(&admin->query, 1);
	strcpy(admin->folder, "/tmp/cairn-admin-XXXXXX");
	assert_non_null(mkdtemp(admin->folder));
	snprintf(admin->path, sizeof(admin->path), "%s/admin.sock", admin->folder);
	snprintf(admin->address, sizeof(admin->address), "unix:%s", admin->path);
	const struct http_server_options options = {
		.setting = "admin",
		.address = admin->address,
		.threads = 1,
		.context = &admin->query.api,
		.admit = http_admin_admit,
		.is_slow = http_admin_is_slow,
		.handle = http_admin_handle,
		.done = http_api_done,
	};
	if (http_server_open(&options, &admin->server, &port, &err))
		fail_msg("%s", err.text);
}

static void close_admin(struct admin *admin)
{
	http_server_close(admin->server, 2000);
	close_fixture(&admin->query);
	unlink(admin->path);
	rmdir(admin->folder);
}

/** The status of the answer at the Unix socket. */
static int ask_admin(const struct admin *admin, const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), status = 0;
	char request[128];
	size_t size;

	strcpy(address.sun_path, admin->path);
	assert_int_equal(0, connect(fd, (struct sockaddr *)&address, sizeof(address)));
	snprintf(request, sizeof(request),
		 "GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", path);
	send_text(fd, request, strlen(request));
	char *answer = receive_all(fd, &size);
	close(fd);
	assert_non_null(answer);
	sscanf(answer, "HTTP/1.1 %d", &status);
	free(answer);
	return status;
}

/** Is the query listener's probe not answered? */
static bool is_full(const struct admin *admin)
{
	static const char request[] =
		"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
	int fd = connect_to(admin->query.port);
	size_t size;

	send_text(fd, request, sizeof(request) - 1);
	char *answer = receive_all(fd, &size);
	bool full = answer && !size;
	free(answer);
	close(fd);
	return full;
}

TEST(answers_while_the_other_listener_is_full)
{
	enum { CONNECTIONS = HTTP_CONNECTIONS_MAX };
	static int clients[CONNECTIONS];
	struct rlimit limit;
	struct admin admin;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	open_admin(&admin);
	for (size_t i = 0; i < CONNECTIONS; i++)
		clients[i] = connect_to(admin.query.port);
	assert_true(is_full(&admin));

	assert_int_equal(200, ask_admin(&admin, "/readyz"));
	assert_int_equal(200, ask_admin(&admin, "/healthz"));
	assert_int_equal(200, ask_admin(&admin, "/metrics"));
	assert_int_equal(404, ask_admin(&admin, "/api/v1/labels"));
	for (size_t i = 0; i < CONNECTIONS; i++)
		close(clients[i]);
	close_admin(&admin);
}

TEST(its_socket_is_for_one_user)
{
	struct admin admin;
	struct stat status;

	open_admin(&admin);
	assert_int_equal(0, stat(admin.path, &status));
	assert_int_equal(0600, status.st_mode & 07777);
	close_admin(&admin);
}

TEST(takes_over_a_socket_that_was_left)
{
	char folder[] = "/tmp/cairn-admin-XXXXXX", address[64];
	struct error err = { 0 };
	int first = -1, second = -1, port = 7;

	assert_non_null(mkdtemp(folder));
	snprintf(address, sizeof(address), "unix:%s/admin.sock", folder);
	assert_int_equal(0, http_listen(address, "admin", &first, &port, &err));
	assert_int_equal(0, port);
	assert_int_equal(-EADDRINUSE, http_listen(address, "admin", &second, &port, &err));
	assert_non_null(strstr(err.text, "--admin"));
	close(first); // as if its process had been killed
	assert_int_equal(0, http_listen(address, "admin", &second, &port, &err));
	close(second);
	unlink(address + 5);
	rmdir(folder);
}

TEST(accepts_longer_paths_than_a_socket_address)
{
	char folder[] = "/tmp/cairn-admin-XXXXXX", path[300], address[330];
	struct error err = { 0 };
	int fd = -1, port;

	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/%0150d", folder, 0);
	assert_int_equal(0, mkdir(path, 0700));
	snprintf(address, sizeof(address), "unix:%s/admin.sock", path);
	assert_int_equal(0, http_listen(address, "admin", &fd, &port, &err));
	close(fd);
	unlink(address + 5);
	rmdir(path);
	rmdir(folder);
}

RUN_TESTS(cmocka_unit_test(answers_while_the_other_listener_is_full),
	  cmocka_unit_test(its_socket_is_for_one_user),
	  cmocka_unit_test(takes_over_a_socket_that_was_left),
	  cmocka_unit_test(accepts_longer_paths_than_a_socket_address))
