// SPDX-License-Identifier: Apache-2.0
// Symbols from a server, from the first request until names are there.
// Subject: base/symbols/debuginfod.h
#include "base/symbols/debuginfod.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/symbols/debug_file.h"
#include "agent/symbols/executable_symbols.h"
#include "base/clock.h"
#include "base/symbols/debug_cache.h"
#include "tests/captured_stderr.h"
#include "tests/test.h"
#include "tests/unit/agent/symbols/debuginfod_double.h"
#include "tests/unit/agent/elf/elf_writer.h"

#define IMAGE_ID "000b16212c37424d58636e79848f9aa5b0bbc6d1" // of elf_writer.h
#define OTHER_ID "ff0b16212c37424d58636e79848f9aa5b0bbc6d1"

enum { CACHE_BYTES = 1 << 20, WAIT_MS = 60000, LONG_S = 600 };

static struct elf_image debug_image; // with the symbols that the other lacks

static int set_up(void **state)
{
	(void)state;
	image_init(&debug_image);
	image_add_symbol(&debug_image, "only_the_server_knows", 0x100, 16, STB_LOCAL, STT_FUNC);
	return 0;
}

static char *make_folder(void)
{
	static char folder[40];

	strcpy(folder, "/tmp/cairn-debuginfod-XXXXXX");
	assert_non_null(mkdtemp(folder));
	return folder;
}

static void remove_folder(const char *folder)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", folder);
	assert_int_equal(0, system(command));
}

static int check_debug_file(void *context, int fd, const char *build_id)
{
	(void)context;
	return debug_file_check_build_id(fd, build_id);
}

static struct debuginfod *client_open(const char *urls, const char *folder)
{
	const struct debuginfod_options options = { .urls = urls,
						    .folder = folder,
						    .cache_bytes = CACHE_BYTES,
						    .check = check_debug_file,
						    .timeout_s = 1 };
	struct debuginfod *client;
	struct error err = { 0 };

	if (debuginfod_open(&options, &client, &err))
		fail_msg("%s", err.text);
	return client;
}

static void wait_for_answers(const struct debuginfod *client, uint64_t count)
{
	uint64_t until_ns = clock_monotonic_ns() + WAIT_MS * NS_PER_MS;
	const struct timespec pause = { .tv_nsec = 2000000 };

	while (debuginfod_answers(client) < count) {
		assert_true(clock_monotonic_ns() < until_ns);
		nanosleep(&pause, NULL);
	}
}

TEST(a_fetched_file_comes_later_and_stays)
{
	struct debuginfod_double server;
	const char *folder = make_folder();

	double_open(&server, ANSWER_FILE, &debug_image, IMAGE_BYTES);
	struct debuginfod *client = client_open(server.url, folder);
	assert_int_equal(-EAGAIN, debuginfod_find(client, IMAGE_ID));
	wait_for_answers(client, 1);
	assert_string_equal("/buildid/" IMAGE_ID "/debuginfo", server.path);
	for (int again = 0; again < 2; again++) { // from this client, and from its successor
		int fd = debuginfod_find(client, IMAGE_ID);

		assert_true(fd >= 0);
		assert_int_equal(0, debug_file_check_build_id(fd, IMAGE_ID));
		close(fd);
		debuginfod_close(client);
		client = client_open(server.url, folder);
	}
	assert_int_equal(1, server.requests);
	debuginfod_close(client);
	double_close(&server);
	remove_folder(folder);
}

TEST(names_come_in_a_later_interval)
{
	struct executable_table *table = executable_table_new();
	struct executable *executable;
	struct debuginfod_double server;
	const char *folder = make_folder();
	struct elf_image stripped;
	struct symbol symbol;

	double_open(&server, ANSWER_FILE, &debug_image, IMAGE_BYTES);
	struct debuginfod *client = client_open(server.url, folder);
	executable_table_use_debuginfod(table, client);
	image_init(&stripped);
	image_add_dynamic(&stripped, "exported", 0x200, 16);
	int fd = image_open(&stripped);
	assert_int_equal(0, executable_table_open(table, fd, "/x", &executable, NULL));
	close(fd);

	uint32_t version = executable->symbols_version;
	assert_int_equal(-ENOENT,
			 executable_find_symbol(table, executable, IMAGE_TEXT + 0x100, &symbol));
	assert_int_equal(0, executable_find_symbol(table, executable, IMAGE_TEXT + 0x200, &symbol));
	assert_string_equal("exported", symbol.name);
	assert_true(executable_may_learn_names(executable));
	wait_for_answers(client, 1);
	executable_table_poll(table);
	assert_int_not_equal(version, executable->symbols_version);
	assert_int_equal(0, executable_find_symbol(table, executable, IMAGE_TEXT + 0x100, &symbol));
	assert_string_equal("only_the_server_knows", symbol.name);
	assert_int_equal(0, executable_find_symbol(table, executable, IMAGE_TEXT + 0x200, &symbol));
	assert_string_equal("exported", symbol.name);
	assert_false(executable_may_learn_names(executable));
	executable_table_free(table);
	debuginfod_close(client);
	double_close(&server);
	remove_folder(folder);
}

TEST(caches_that_a_file_is_missing)
{
	static const struct {
		const char *what;
		enum double_answer answer;
		const char *build_id;
	} rows[] = {
		{ "not found", ANSWER_NOT_FOUND, IMAGE_ID },
		{ "another file", ANSWER_FILE, OTHER_ID },
	};

	for EACH (row, rows) {
		struct debuginfod_double server;
		const char *folder = make_folder();

		double_open(&server, row->answer, &debug_image, IMAGE_BYTES);
		struct debuginfod *client = client_open(server.url, folder);
		EXPECT_EQ(-EAGAIN, debuginfod_find(client, row->build_id), row->what);
		wait_for_answers(client, 1);
		for (int i = 0; i < 3; i++)
			EXPECT_EQ(-ENOENT, debuginfod_find(client, row->build_id), row->what);
		debuginfod_close(client);
		client = client_open(server.url, folder); // and over a restart
		EXPECT_EQ(-ENOENT, debuginfod_find(client, row->build_id), row->what);
		EXPECT_EQ(1, server.requests, row->what);
		debuginfod_close(client);
		double_close(&server);
		remove_folder(folder);
	}
}

TEST(server_errors_are_no_answer_and_block_nobody)
{
	static const struct {
		const char *what;
		enum double_answer answer;
		const char *reason; // in the log: libcurl's words
	} rows[] = {
		{ "busy", ANSWER_ERROR, "The requested URL returned error: 5" },
		{ "silent", ANSWER_SILENCE, "Operation too slow" },
		{ "hangs up", ANSWER_HALF, "transfer closed" },
	};

	for EACH (row, rows) {
		struct capture capture = begin_capture();
		struct debuginfod_double server;
		char log[4096];
		const char *folder = make_folder();

		double_open(&server, row->answer, &debug_image, IMAGE_BYTES);
		struct debuginfod *client = client_open(server.url, folder);
		for (int i = 0; i < 100; i++)
			EXPECT_EQ(-EAGAIN, debuginfod_find(client, IMAGE_ID), row->what);
		wait_for_answers(client, 1);
		// Not requested again at once, and not cached as missing.
		EXPECT_EQ(-EAGAIN, debuginfod_find(client, IMAGE_ID), row->what);
		EXPECT_EQ(1, server.requests, row->what);
		debuginfod_close(client);
		end_capture(&capture, log, sizeof(log));
		if (!strstr(log, "no server answers (") || !strstr(log, row->reason))
			fail_msg("%s: the log says: %s", row->what, log);
		double_close(&server);
		remove_folder(folder);
	}
}

TEST(asks_the_next_server)
{
	struct debuginfod_double first, second;
	const char *folder = make_folder();
	char urls[256];

	double_open(&first, ANSWER_NOT_FOUND, NULL, 0);
	double_open(&second, ANSWER_FILE, &debug_image, IMAGE_BYTES);
	snprintf(urls, sizeof(urls), "ima:permissive %s\t%s", first.url, second.url);
	struct debuginfod *client = client_open(urls, folder);
	assert_int_equal(-EAGAIN, debuginfod_find(client, IMAGE_ID));
	wait_for_answers(client, 1);
	int fd = debuginfod_find(client, IMAGE_ID);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(1, first.requests);
	debuginfod_close(client);
	double_close(&first);
	double_close(&second);
	remove_folder(folder);
}

TEST(a_silent_server_does_not_delay_exit)
{
	struct debuginfod_double server;
	const char *folder = make_folder();
	const struct timespec pause = { .tv_nsec = 1000000 };

	double_open(&server, ANSWER_SILENCE, NULL, 0);
	const struct debuginfod_options options = { .urls = server.url,
						    .folder = folder,
						    .cache_bytes = CACHE_BYTES,
						    .check = check_debug_file,
						    .timeout_s = LONG_S };
	struct debuginfod *client;
	assert_int_equal(0, debuginfod_open(&options, &client, NULL));
	uint64_t begin_ns = clock_monotonic_ns();
	for (int i = 0; i < 100 || (!server.requests && i < WAIT_MS); i++) {
		EXPECT_EQ(-EAGAIN, debuginfod_find(client, IMAGE_ID), "not yet");
		nanosleep(&pause, NULL);
	}
	debuginfod_close(client);
	assert_true(clock_monotonic_ns() - begin_ns < LONG_S / 2 * NS_PER_SECOND);
	double_close(&server);
	remove_folder(folder);
}

TEST(refuses_invalid_server_urls)
{
	static const char *const rows[] = {
		"", "   ", "ftp://x", "ima:enforcing", "x", "http://a b"
	};
	const char *folder = make_folder();

	for EACH (row, rows) {
		const struct debuginfod_options options = { .urls = *row,
							    .folder = folder,
							    .cache_bytes = CACHE_BYTES,
							    .check = check_debug_file };
		struct debuginfod *client;
		struct error err = { 0 };

		EXPECT_EQ(-EINVAL, debuginfod_open(&options, &client, &err), *row);
		assert_non_null(strstr(err.text, "debuginfod"));
	}
	const struct debuginfod_options options = { .urls = "http://x", .folder = "/dev/null/x" };
	struct debuginfod *client;
	struct error err = { 0 };
	assert_int_equal(-ENOTDIR, debuginfod_open(&options, &client, &err));
	remove_folder(folder);
}

/* ---- the cache ----------------------------------------------------------------------------- */

static void keep(const struct debug_cache *cache, const char *build_id, size_t size)
{
	char *bytes = calloc(1, size);
	struct debug_cache_file file;

	assert_int_equal(0, debug_cache_begin(cache, &file));
	memset(bytes, 'x', size);
	assert_int_equal(size, write(file.fd, bytes, size));
	fsync(file.fd); // so that its blocks are counted
	free(bytes);
	assert_int_equal(0, debug_cache_keep(cache, &file, build_id));
}

static void age(const char *folder, const char *build_id, time_t seconds)
{
	struct timespec times[2] = { { .tv_sec = time(NULL) - seconds },
				     { .tv_sec = time(NULL) - seconds } };
	char path[128];

	snprintf(path, sizeof(path), "%s/%s.debug", folder, build_id);
	assert_int_equal(0, utimensat(AT_FDCWD, path, times, 0));
}

static bool is_kept(const struct debug_cache *cache, const char *build_id)
{
	int fd = debug_cache_find(cache, build_id);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

TEST(evicts_the_least_recently_used_file)
{
	const char *folder = make_folder();
	struct debug_cache cache;

	assert_int_equal(0, debug_cache_open(&cache, folder, 100 << 10, NULL));
	keep(&cache, "aa", 40 << 10);
	keep(&cache, "bb", 40 << 10);
	age(folder, "aa", 100);
	age(folder, "bb", 200);
	assert_true(is_kept(&cache, "bb")); // used now
	keep(&cache, "cc", 40 << 10);
	assert_false(is_kept(&cache, "aa"));
	assert_true(is_kept(&cache, "bb"));
	assert_true(is_kept(&cache, "cc"));

	struct debug_cache_file file;
	assert_int_equal(0, debug_cache_begin(&cache, &file));
	char *big = calloc(1, 200 << 10);
	assert_int_equal(200 << 10, write(file.fd, big, 200 << 10));
	fsync(file.fd);
	free(big);
	assert_int_equal(-EFBIG,
			 debug_cache_keep(&cache, &file, "dd")); // nothing is evicted for it
	assert_true(is_kept(&cache, "bb"));
	debug_cache_close(&cache);
	remove_folder(folder);
}

TEST(a_cached_miss_expires_after_an_hour)
{
	const char *folder = make_folder();
	struct debug_cache cache;

	assert_int_equal(0, debug_cache_open(&cache, folder, CACHE_BYTES, NULL));
	assert_int_equal(0, debug_cache_refuse(&cache, "aa"));
	assert_int_equal(-ENODATA, debug_cache_find(&cache, "aa"));
	age(folder, "aa", DEBUG_CACHE_REFUSAL_S + 1);
	assert_int_equal(-ENOENT, debug_cache_find(&cache, "aa"));
	debug_cache_close(&cache);
	remove_folder(folder);
}

TEST(refuses_names_without_build_id_and_links)
{
	static const char *const rows[] = { "", "../x", "AB", "a/b", "h12" };
	const char *folder = make_folder();
	struct debug_cache cache;
	char path[128];

	assert_int_equal(0, debug_cache_open(&cache, folder, CACHE_BYTES, NULL));
	for EACH (row, rows) {
		EXPECT_EQ(-EINVAL, debug_cache_find(&cache, *row), *row);
		EXPECT_EQ(-EINVAL, debug_cache_refuse(&cache, *row), *row);
	}
	snprintf(path, sizeof(path), "%s/aa.debug", folder);
	assert_int_equal(0, symlink("/etc/passwd", path));
	assert_int_equal(-ELOOP, debug_cache_find(&cache, "aa"));
	debug_cache_close(&cache);
	remove_folder(folder);
}

static int count_file(void *context, const char *build_id, uint64_t bytes, uint64_t used_s)
{
	uint32_t *count = context;

	assert_string_equal("aa", build_id);
	assert_int_equal(1000, bytes);
	assert_true(used_s > 1700000000);
	++*count;
	return 0;
}

TEST(lists_cached_files)
{
	const char *folder = make_folder();
	struct debug_cache cache;
	uint32_t count = 0;

	assert_int_equal(0, debug_cache_open(&cache, folder, CACHE_BYTES, NULL));
	keep(&cache, "aa", 1000);
	assert_int_equal(0, debug_cache_refuse(&cache, "bb")); // no file
	assert_int_equal(0, debug_cache_list(&cache, count_file, &count));
	assert_int_equal(1, count);
	debug_cache_close(&cache);
	remove_folder(folder);
}

TEST(removes_leftovers_at_start)
{
	const char *folder = make_folder();
	struct debug_cache cache;
	char path[128];

	assert_int_equal(0, debug_cache_open(&cache, folder, CACHE_BYTES, NULL));
	struct debug_cache_file file;
	assert_int_equal(0, debug_cache_begin(&cache, &file));
	close(file.fd);
	snprintf(path, sizeof(path), "%s/%s", folder, file.name);
	debug_cache_close(&cache);
	assert_int_equal(0, access(path, F_OK));
	assert_int_equal(0, debug_cache_open(&cache, folder, CACHE_BYTES, NULL));
	assert_int_equal(-1, access(path, F_OK));
	debug_cache_close(&cache);
	remove_folder(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fetched_file_comes_later_and_stays),
		cmocka_unit_test(names_come_in_a_later_interval),
		cmocka_unit_test(caches_that_a_file_is_missing),
		cmocka_unit_test(server_errors_are_no_answer_and_block_nobody),
		cmocka_unit_test(asks_the_next_server),
		cmocka_unit_test(a_silent_server_does_not_delay_exit),
		cmocka_unit_test(refuses_invalid_server_urls),
		cmocka_unit_test(evicts_the_least_recently_used_file),
		cmocka_unit_test(a_cached_miss_expires_after_an_hour),
		cmocka_unit_test(refuses_names_without_build_id_and_links),
		cmocka_unit_test(lists_cached_files),
		cmocka_unit_test(removes_leftovers_at_start),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
