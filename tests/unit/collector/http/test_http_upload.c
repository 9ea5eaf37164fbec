// SPDX-License-Identifier: Apache-2.0
// Subject: collector/http/http_debug_files.c
// Uploads of debug files over real sockets: kept, refused, or aborted.
#include <arpa/inet.h>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/test.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/symbols/debug_elf.h"
#include "collector/http/http_api.h"
#include "collector/http/http_server.h"
#include "collector/symbols/file_process.h"
#include "collector/symbols/elf_process.h"
#include "tests/confined_tests.h"
#include "tests/unit/collector/access/access_fixture.h"
#include "tests/unit/collector/http/waiting.h"

enum {
	ANSWER_BYTES = 4096,
	ANSWER_MS_MAX = 20000,
	CACHE_BYTES = 1 << 20,
	ABORTED_UPLOADS = 50,
	NOTICED_MS_MAX = 10000,
};

/** A server without a store, and our own program as the file to upload. */
struct fixture {
	char folder[40];
	struct confined_launcher *launcher;
	struct symbol_spaces *symbols;
	struct metrics metrics;
	struct http_api api;
	struct http_server *server;
	int port;
	char build_id[DEBUG_ELF_ID_BYTES];
	char *bytes;
	size_t size;
	char answer[ANSWER_BYTES];
};

static void make_program(struct fixture *fixture)
{
	char command[256], path[64];

	snprintf(command, sizeof(command),
		 "cd %s && echo 'int main(void) { return 0; }' > p.c && "
		 "gcc -g -Wl,--build-id p.c -o p",
		 fixture->folder);
	assert_int_equal(0, system(command));
	snprintf(path, sizeof(path), "%s/p", fixture->folder);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	_cleanup_(debug_elf_closep) struct debug_elf *elf = NULL;
	struct stat status;
	assert_int_equal(0, fstat(fd, &status));
	fixture->size = (size_t)status.st_size;
	fixture->bytes = malloc(fixture->size);
	assert_int_equal(fixture->size, pread(fd, fixture->bytes, fixture->size, 0));
	assert_int_equal(0, debug_elf_open(fd, &elf, NULL));
	assert_int_equal(0, debug_elf_build_id(elf, fixture->build_id));
}

static void open_fixture(struct fixture *fixture)
{
	struct error err = { 0 };

	memset(fixture, 0, sizeof(*fixture));
	strcpy(fixture->folder, "/tmp/cairn-upload-XXXXXX");
	assert_non_null(mkdtemp(fixture->folder));
	make_program(fixture);
	fixture->launcher = launch();
	const struct symbol_spaces_options symbols = { .data = fixture->folder,
						       .bytes_max = CACHE_BYTES,
						       .launcher = fixture->launcher };
	assert_int_equal(0, symbol_spaces_open(&symbols, &fixture->symbols, &err));
	fixture->api.metrics = &fixture->metrics;
	fixture->api.symbols = fixture->symbols;
	fixture->api.ready = true;
	const struct http_server_options options = {
		.address = "127.0.0.1:0",
		.threads = 2,
		.context = &fixture->api,
		.is_slow = http_api_is_slow,
		.admit = http_api_admit,
		.handle = http_api_handle,
		.begin_upload = http_api_begin_upload,
		.end_upload = http_api_end_upload,
		.done = http_api_done,
	};
	if (http_server_open(&options, &fixture->server, &fixture->port, &err))
		fail_msg("%s", err.text);
}

static void close_fixture(struct fixture *fixture)
{
	char command[64];

	http_server_close(fixture->server, 2000);
	symbol_spaces_close(fixture->symbols);
	confined_launcher_free(fixture->launcher);
	snprintf(command, sizeof(command), "rm -r %s", fixture->folder);
	assert_int_equal(0, system(command));
	free(fixture->bytes);
}

static int connect_to(const struct fixture *fixture)
{
	const struct sockaddr_in address = {
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)fixture->port),
		.sin_addr = { htonl(INADDR_LOOPBACK) },
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(0, connect(fd, (const struct sockaddr *)&address, sizeof(address)));
	return fd;
}

static void send_all(int fd, const char *bytes, size_t size)
{
	while (size) {
		ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);

		if (sent < 0)
			return; // the server closed: the test looks at what it answered
		bytes += sent;
		size -= (size_t)sent;
	}
}

/** Send the head and @size bytes of the program. Returns the answer's status; 0: none came. */
static int ask(struct fixture *fixture, const char *head, size_t size)
{
	_cleanup_close_ int fd = connect_to(fixture);
	size_t got = 0;
	int status = 0;

	send_all(fd, head, strlen(head));
	send_all(fd, fixture->bytes, size);
	for (;;) {
		struct pollfd ready = { .fd = fd, .events = POLLIN };

		assert_int_equal(1, poll(&ready, 1, ANSWER_MS_MAX));
		ssize_t count = recv(fd, fixture->answer + got, ANSWER_BYTES - 1 - got, 0);
		if (count <= 0)
			break;
		got += (size_t)count;
	}
	fixture->answer[got] = '\0';
	sscanf(fixture->answer, "HTTP/1.1 %d", &status);
	return status;
}

static int put(struct fixture *fixture, const char *path, const char *headers, size_t size)
{
	char head[1024];

	snprintf(head, sizeof(head), "PUT %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n%s\r\n",
		 path, headers);
	return ask(fixture, head, size);
}

static int put_program(struct fixture *fixture, const char *build_id)
{
	char path[128], headers[64];

	snprintf(path, sizeof(path), "/api/v1/debug-files/%s", build_id);
	snprintf(headers, sizeof(headers), "Content-Length: %zu\r\n", fixture->size);
	return put(fixture, path, headers, fixture->size);
}

static uint32_t count_files(const struct fixture *fixture)
{
	char path[64];
	uint32_t count = 0;

	snprintf(path, sizeof(path), "%s/debug-files", fixture->folder);
	DIR *folder = opendir(path);
	assert_non_null(folder);
	for (const struct dirent * item; (item = readdir(folder));)
		count += item->d_name[0] != '.';
	closedir(folder);
	return count;
}

static const char *sha256_of_program(const struct fixture *fixture)
{
	static char text[80];
	char command[128];

	snprintf(command, sizeof(command), "sha256sum %s/p", fixture->folder);
	FILE *output = popen(command, "r");
	assert_non_null(output);
	assert_int_equal(1, fscanf(output, "%64s", text));
	pclose(output);
	return text;
}

TEST(keeps_and_lists_uploads)
{
	struct fixture f;

	open_fixture(&f);
	for (int again = 0; again < 2; again++) // the same again changes nothing
		assert_int_equal(201, put_program(&f, f.build_id));
	assert_int_equal(1, count_files(&f));
	int fd = debug_files_find(&symbol_spaces_get(f.symbols, "", NULL)->files, f.build_id);
	assert_true(fd >= 0);
	struct stat status;
	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(f.size + sizeof(struct debug_origin), status.st_size);
	close(fd);
	assert_int_equal(200, ask(&f,
				  "GET /api/v1/debug-files HTTP/1.1\r\nHost: x\r\n"
				  "Connection: close\r\n\r\n",
				  0));
	assert_non_null(strstr(f.answer, f.build_id));
	assert_non_null(strstr(f.answer, "\"bytes_max\":1048576"));
	assert_non_null(strstr(f.answer, "\"who\":\"local\",\"address\":\"127.0.0.1\""));
	assert_non_null(strstr(f.answer, sha256_of_program(&f)));
	close_fixture(&f);
}

TEST(never_replaces_another_file)
{
	struct fixture f;
	char head[256], byte;

	open_fixture(&f);
	assert_int_equal(201, put_program(&f, f.build_id));
	f.bytes[offsetof(Elf64_Ehdr, e_flags)] ^= 1; // the same build id, other content
	assert_int_equal(409, put_program(&f, f.build_id));
	assert_non_null(strstr(f.answer, "uploaded by local at 2"));
	int fd = debug_files_find(&symbol_spaces_get(f.symbols, "", NULL)->files, f.build_id);
	assert_int_equal(1, pread(fd, &byte, 1, offsetof(Elf64_Ehdr, e_flags)));
	assert_int_equal(f.bytes[offsetof(Elf64_Ehdr, e_flags)] ^ 1, byte);
	close(fd);
	assert_int_equal(1, count_files(&f));

	snprintf(head, sizeof(head),
		 "DELETE /api/v1/debug-files/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
		 f.build_id);
	assert_int_equal(200, ask(&f, head, 0)); // an administrator decides
	assert_int_equal(201, put_program(&f, f.build_id));
	close_fixture(&f);
}

/** Begin an upload of @size bytes and send none. */
static int begin_upload(const struct fixture *f, size_t size)
{
	char head[256];
	int fd = connect_to(f);

	snprintf(head, sizeof(head),
		 "PUT /api/v1/debug-files/%s HTTP/1.1\r\nHost: x\r\nContent-Length: %zu\r\n\r\n",
		 f->build_id, size);
	send_all(fd, head, strlen(head));
	return fd;
}

static void wait_for_files(const struct fixture *f, uint32_t count)
{
	WAIT_WHILE(count_files(f) != count);
}

TEST(reserves_room_before_it_receives)
{
	struct fixture f;
	int fds[DEBUG_UPLOADS_MAX];

	open_fixture(&f);
	fds[0] = begin_upload(&f, CACHE_BYTES);
	wait_for_files(&f, 1);
	assert_int_equal(503, put_program(&f, f.build_id)); // all bytes are taken
	assert_non_null(strstr(f.answer, "Retry-After: "));
	close(fds[0]);
	wait_for_files(&f, 0);
	for (uint32_t i = 0; i < DEBUG_UPLOADS_MAX; i++) {
		fds[i] = begin_upload(&f, 100);
		wait_for_files(&f, i + 1);
	}
	assert_int_equal(503, put_program(&f, f.build_id)); // all places are taken
	for (uint32_t i = 0; i < DEBUG_UPLOADS_MAX; i++)
		close(fds[i]);
	wait_for_files(&f, 0);
	assert_int_equal(201, put_program(&f, f.build_id));
	close_fixture(&f);
}

TEST(reads_uploads_in_confined_processes_only)
{
	struct fixture f;

	open_fixture(&f);
	memset(f.bytes + sizeof(Elf64_Ehdr), 0xff, f.size - sizeof(Elf64_Ehdr));
	assert_int_equal(400, put_program(&f, f.build_id));
	confined_launcher_free(f.launcher); // its processes can no longer be started
	f.launcher = NULL;
	symbol_spaces_get(f.symbols, "", NULL)->files.launcher = NULL;
	assert_int_equal(503, put_program(&f, f.build_id));
	assert_int_equal(0, count_files(&f));
	close_fixture(&f);
}

TEST(refuses_files_of_another_build_id)
{
	struct fixture f;

	open_fixture(&f);
	assert_int_equal(400, put_program(&f, "abcdef"));
	assert_non_null(strstr(f.answer, f.build_id)); // what it really is
	assert_int_equal(400, put_program(&f, "ABCDEF"));
	assert_int_equal(405, put_program(&f, "..%2fx")); // a slash is none of a build id
	assert_int_equal(400, put_program(&f, "abc"));
	assert_int_equal(405, put_program(&f, "ab/cd"));
	f.bytes[0] = 'x';
	assert_int_equal(400, put_program(&f, f.build_id));
	assert_int_equal(0, count_files(&f));
	close_fixture(&f);
}

TEST(refuses_bodies_of_wrong_size)
{
	static const struct {
		const char *what;
		const char *headers;
		int status;
	} rows[] = {
		{ "no size", "", 411 },
		{ "chunks", "Transfer-Encoding: chunked\r\n", 411 },
		{ "larger than the cache", "Content-Length: 1048577\r\n", 413 },
		{ "enormous", "Content-Length: 18446744073709551615\r\n", 413 },
	};
	struct fixture f;
	char path[128];

	open_fixture(&f);
	snprintf(path, sizeof(path), "/api/v1/debug-files/%s", f.build_id);
	for EACH (row, rows)
		EXPECT_EQ(row->status, put(&f, path, row->headers, 0), row->what);
	assert_int_equal(0, count_files(&f));
	close_fixture(&f);
}

TEST(an_aborted_upload_leaves_nothing)
{
	struct fixture f;

	open_fixture(&f);
	for (int i = 0; i < ABORTED_UPLOADS; i++) {
		uint64_t begin_ns = clock_monotonic_ns();
		int fd = begin_upload(&f, f.size);
		send_all(fd, f.bytes, f.size / 2);
		wait_for_files(&f, 1); // being received
		close(fd);             // often before the server reads what was sent
		wait_for_files(&f, 0);
		EXPECT_EQ(true, clock_monotonic_ns() - begin_ns < NOTICED_MS_MAX * NS_PER_MS,
			  "noticed before the time to receive is over");
	}
	close_fixture(&f);
}

/** A request without a body as @token. Returns its status. */
static int ask_as(struct fixture *f, const struct made_token *token, const char *method,
		  const char *path)
{
	char head[ACCESS_TOKEN_BYTES + 256];

	snprintf(head, sizeof(head),
		 "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: %s\r\n\r\n",
		 method, path, token->authorization);
	return ask(f, head, 0);
}

static int put_as(struct fixture *f, const struct made_token *token)
{
	char head[ACCESS_TOKEN_BYTES + 512];

	snprintf(head, sizeof(head),
		 "PUT /api/v1/debug-files/%s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
		 "Authorization: %s\r\nContent-Length: %zu\r\n\r\n",
		 f->build_id, token->authorization, f->size);
	return ask(f, head, f->size);
}

static bool lists(struct fixture *f, const struct made_token *token)
{
	EXPECT_EQ(200, ask_as(f, token, "GET", "/api/v1/debug-files"), "list");
	return strstr(f->answer, f->build_id);
}

TEST(tenants_have_files_of_their_own)
{
	struct made_token shop = make_token("shop", "read,upload,admin", "shop");
	struct made_token bank = make_token("bank", "read,upload", "bank");
	struct made_token ops = make_token("ops", "read,admin", "*");
	struct access_folder folder;
	char text[4 * ACCESS_LINE_BYTES], path[128];
	struct error err = { 0 };
	struct fixture f;

	open_fixture(&f);
	access_folder_open(&folder);
	snprintf(text, sizeof(text), "%s%s%s", shop.line, bank.line, ops.line);
	access_folder_write(&folder, text);
	const struct access_options options = { .file = folder.path };
	assert_int_equal(0, access_open(&options, &f.api.access, &err));
	snprintf(path, sizeof(path), "/api/v1/debug-files/%s", f.build_id);

	EXPECT_EQ(201, put_as(&f, &shop), "shop's");
	EXPECT_EQ(true, lists(&f, &shop), "its own");
	EXPECT_EQ(false, lists(&f, &bank), "another's");
	EXPECT_EQ(false, lists(&f, &ops), "no tenant's");
	EXPECT_EQ(403, put_as(&f, &ops), "no role");
	EXPECT_EQ(201, put_as(&f, &bank), "bank's");
	EXPECT_EQ(403, ask_as(&f, &bank, "DELETE", path), "no admin");
	EXPECT_EQ(404, ask_as(&f, &ops, "DELETE", path), "not of its space");
	EXPECT_EQ(200, ask_as(&f, &shop, "DELETE", path), "its own");
	EXPECT_EQ(404, ask_as(&f, &shop, "DELETE", path), "again");
	EXPECT_EQ(false, lists(&f, &shop), "deleted");
	EXPECT_EQ(true, lists(&f, &bank), "bank's is still there");
	http_server_close(f.server, 2000);
	f.server = NULL;
	access_close(f.api.access);
	access_folder_close(&folder);
	close_fixture(&f);
}

TEST(allows_put_for_debug_files_only)
{
	struct fixture f;

	open_fixture(&f);
	assert_int_equal(405, put(&f, "/api/v1/merge", "Content-Length: 1\r\n", 1));
	assert_int_equal(405, put(&f, "/", "Content-Length: 1\r\n", 1));
	assert_int_equal(405, ask(&f,
				  "GET /api/v1/debug-files/abcd HTTP/1.1\r\nHost: x\r\n"
				  "Connection: close\r\n\r\n",
				  0));
	assert_non_null(strstr(f.answer, "Allow: PUT, DELETE\r\n"));
	f.api.ready = false;
	assert_int_equal(503, put_program(&f, f.build_id));
	close_fixture(&f);
}

SERVE_CONFINED(serve_confined, &elf_task, &dwarf_task)

RUN_TESTS_AFTER(serve_confined, cmocka_unit_test(keeps_and_lists_uploads),
		cmocka_unit_test(never_replaces_another_file),
		cmocka_unit_test(reserves_room_before_it_receives),
		cmocka_unit_test(reads_uploads_in_confined_processes_only),
		cmocka_unit_test(refuses_files_of_another_build_id),
		cmocka_unit_test(refuses_bodies_of_wrong_size),
		cmocka_unit_test(an_aborted_upload_leaves_nothing),
		cmocka_unit_test(tenants_have_files_of_their_own),
		cmocka_unit_test(allows_put_for_debug_files_only))
