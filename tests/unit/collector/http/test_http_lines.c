// SPDX-License-Identifier: Apache-2.0
// Subject: collector/http/http_lines.c
// Source lines over HTTP: around what has values, bounded, and what hostile files and paths give.
#include "tests/unit/collector/http/http_fixture.h"

#include <sys/stat.h>

/** The server, with a folder of source code. */
struct source_server {
	struct fixture http;
	char folder[40];
	uint32_t location_count;
};

/** Ten samples of @value at a line of a function f. */
static void add_line(struct source_server *server, const char *path, uint32_t number, int64_t value)
{
	struct store *store = server->http.store;
	struct location location = { .kind = FRAME_KIND_PYTHON, .offset = number };
	struct line line = { .number = number };
	uint32_t at;

	location.id = id128_of(path, strlen(path));
	location.id.low += number;
	assert_int_equal(0, profile_add_string(store->profile, "f", &line.name));
	assert_int_equal(0, profile_add_string(store->profile, path, &line.file));
	assert_int_equal(0, profile_add_location(store->profile, &location, &line, 1, &at));
	memory_store_add(store, &(struct memory_sample){
					.slot_ns = 20000000,
					.time_ns = 1001 * NS_PER_SECOND,
					.locations = { at },
					.location_count = 1,
					.value = value,
				});
}

static void write_text(const struct source_server *server, const char *name, const char *text,
		       size_t size)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/code/%s", server->folder, name);
	FILE *file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(size, fwrite(text, 1, size, file));
	assert_int_equal(0, fclose(file));
}

static void open_server(struct source_server *server)
{
	char code[64];
	struct error err = { 0 };

	open_fixture(&server->http, 1);
	strcpy(server->folder, "/tmp/cairn-lines-XXXXXX");
	assert_non_null(mkdtemp(server->folder));
	snprintf(code, sizeof(code), "%s/code", server->folder);
	assert_int_equal(0, mkdir(code, 0700));
	const struct symbol_spaces_options options = { .data = server->folder,
						       .bytes_max = 1 << 20,
						       .sources_bytes_max = 1 << 20,
						       .source_folders = code };
	if (symbol_spaces_open(&options, &server->http.api.symbols, &err))
		fail_msg("%s", err.text);
}

static void close_server(struct source_server *server)
{
	struct symbol_spaces *symbols = server->http.api.symbols;
	char command[64];

	close_fixture(&server->http);
	symbol_spaces_close(symbols);
	snprintf(command, sizeof(command), "rm -r %s", server->folder);
	assert_int_equal(0, system(command));
}

/** The lines of the first file as "number:self:text,"; *ret_file: the file. */
static json_t *ask_lines(const struct source_server *server, const char *target, char text[1024],
			 const json_t **ret_file)
{
	json_t *root = ask_json(&server->http, target);
	const json_t *file = json_array_get(json_object_get(root, "files"), 0), *line;
	size_t i, used = 0;

	*ret_file = file;
	text[0] = '\0';
	json_array_foreach(json_object_get(file, "lines"), i, line)
	{
		const char *shown = json_string_value(json_object_get(line, "text"));

		used += (size_t)snprintf(text + used, 1024 - used, "%lld:%lld:%.30s,",
					 json_integer_value(json_object_get(line, "line")),
					 json_integer_value(json_object_get(line, "self")),
					 shown ? shown : "-");
		assert_true(used < 1024);
	}
	return root;
}

static const char *string_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

#define ASKED "/api/v1/lines?" RANGE "&function=f%20(a.py)"

TEST(shows_text_around_lines_with_values)
{
	struct source_server server;
	const json_t *file, *source;
	char text[1024];

	open_server(&server);
	add_line(&server, "/srv/a.py", 2, 30);
	add_line(&server, "/srv/a.py", 3, 10);
	add_line(&server, "/srv/a.py", 7, 5);
	add_line(&server, "/srv/a.py", 99, 1);
	static const char code[] = "one\ndef f():\n\tthree\xff<i>\n4\n5\n6\n7\n8\n";
	write_text(&server, "a.py", code, sizeof(code) - 1);
	json_t *root = ask_lines(&server, ASKED "&context=1", text, &file);
	EXPECT_STR(
		"1:0:one,2:30:def f():,3:10:\tthree\xef\xbf\xbd<i>,4:0:4,6:0:6,7:5:7,8:0:8,99:1:-,",
		text, "lines");
	EXPECT_EQ(46, number_at(root, "function_self"), "self");
	EXPECT_EQ(1000000046, number_at(root, "total"), "all");
	EXPECT_EQ(1, number_at(root, "file_count"), "files");
	source = json_object_get(file, "source");
	EXPECT_STR("folder", string_at(source, "from"), "from");
	EXPECT_STR("a.py", string_at(source, "path"), "path");
	assert_true(json_is_true(json_object_get(source, "is_short")));
	assert_true(json_is_true(json_object_get(source, "names_function")));
	assert_true(json_is_false(json_object_get(source, "is_version")));
	json_decref(root);
	root = ask_lines(&server, ASKED "&context=0", text, &file);
	EXPECT_STR("2:30:def f():,3:10:\tthree\xef\xbf\xbd<i>,7:5:7,99:1:-,", text, "no context");
	json_decref(root);
	close_server(&server);
}

TEST(says_why_there_is_no_text)
{
	static const struct {
		const char *path, *missing;
	} rows[] = {
		{ "/srv/a.py", "not_found" },
		{ "/srv/../../etc/a.py", "not_found" },
		{ "", "no_path" },
	};
	char text[1024];

	for EACH (row, rows) {
		struct source_server server;
		const json_t *file;

		open_server(&server);
		add_line(&server, row->path, 2, 30);
		json_t *root = ask_lines(&server,
					 *row->path ? ASKED : "/api/v1/lines?" RANGE "&function=f",
					 text, &file);
		EXPECT_STR("2:30:-,", text, row->path);
		EXPECT_STR(row->missing, string_at(file, "missing"), row->path);
		json_decref(root);
		close_server(&server);
	}
}

TEST(binary_files_are_no_text)
{
	struct source_server server;
	const json_t *file;
	char text[1024];

	open_server(&server);
	add_line(&server, "/srv/a.py", 1, 30);
	write_text(&server, "a.py",
		   "\x7f"
		   "ELF\0\n",
		   6);
	json_t *root = ask_lines(&server, ASKED, text, &file);
	EXPECT_STR("not_text", string_at(file, "missing"), "binary");
	EXPECT_STR("1:30:-,", text, "lines");
	json_decref(root);
	close_server(&server);
}

TEST(answers_are_bounded)
{
	static char code[1 << 20];
	struct source_server server;
	const json_t *file, *line;

	open_server(&server);
	for (uint32_t i = 1; i <= 300; i++)
		add_line(&server, "/srv/a.py", i * 10, 1);
	add_line(&server, "/srv/a.py", UINT32_MAX, 1);
	memset(code, '\n', sizeof(code));
	memset(code, 'x', 5000); // the first line
	write_text(&server, "a.py", code, sizeof(code));
	add_line(&server, "/srv/a.py", 1, 1);
	json_t *root = ask_json(&server.http, ASKED "&context=20");
	file = json_array_get(json_object_get(root, "files"), 0);
	EXPECT_EQ(2000, json_array_size(json_object_get(file, "lines")), "lines");
	line = json_array_get(json_object_get(file, "lines"), 0);
	EXPECT_EQ(400, strlen(string_at(line, "text")), "bytes of a line");
	json_decref(root);
	for (uint32_t i = 0; i < 12; i++) {
		char path[32];

		snprintf(path, sizeof(path), "/srv/%u/a.py", i);
		add_line(&server, path, 1, 1);
	}
	root = ask_json(&server.http, ASKED);
	EXPECT_EQ(8, json_array_size(json_object_get(root, "files")), "files");
	EXPECT_EQ(13, number_at(root, "file_count"), "all files");
	json_decref(root);
	close_server(&server);
}

TEST(function_is_required_and_may_be_unknown)
{
	struct source_server server;

	open_server(&server);
	struct answer answer = ask(&server.http, "GET", "/api/v1/lines?" RANGE, "");
	EXPECT_EQ(400, answer.status, "no function");
	assert_non_null(strstr(answer.body, "\"field\":\"function\""));
	free(answer.bytes);
	answer = ask(&server.http, "GET", ASKED "&context=21", "");
	EXPECT_EQ(400, answer.status, "context");
	free(answer.bytes);
	json_t *root = ask_json(&server.http, "/api/v1/lines?" RANGE "&function=nobody");
	EXPECT_EQ(0, json_array_size(json_object_get(root, "files")), "no files");
	json_decref(root);
	close_server(&server);
}

RUN_TESTS(cmocka_unit_test(shows_text_around_lines_with_values),
	  cmocka_unit_test(says_why_there_is_no_text), cmocka_unit_test(binary_files_are_no_text),
	  cmocka_unit_test(answers_are_bounded),
	  cmocka_unit_test(function_is_required_and_may_be_unknown))
