// SPDX-License-Identifier: Apache-2.0
// Debug files and names from them: programs are compiled, split and uploaded as people would.
#include "collector/symbols/symbolizer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "collector/symbols/debug_elf.h"
#include "collector/symbols/elf_process.h"
#include "collector/symbols/file_process.h"
#include "tests/confined_tests.h"
#include "tests/test.h"
#include "tests/unit/agent/symbols/debuginfod_double.h"

enum {
	CACHE_BYTES = 64 << 20,
	QUERIES_MAX = 2 * FILE_PROCESS_FIRST_SECONDS,
	WAIT_MS = 10000,
};

static const char source[] = "volatile int sink;\n"
			     "static inline __attribute__((always_inline)) void inner(int n)\n"
			     "{\n"
			     "	sink = n * 3;\n" // line 4
			     "}\n"
			     "__attribute__((noinline)) void outer(int n)\n"
			     "{\n"
			     "	inner(n);\n" // line 8
			     "}\n"
			     "int main(void)\n"
			     "{\n"
			     "	outer(1);\n"
			     "	return 0;\n"
			     "}\n";

struct fixture {
	char folder[40];
	char build_id[DEBUG_ELF_ID_BYTES];
	uint64_t offset; // of outer() in the executable
	struct debug_files files;
	struct confined_launcher *launcher;
	struct symbolizer *symbolizer;
};

static void run(const struct fixture *fixture, const char *command)
{
	char line[512];

	snprintf(line, sizeof(line), "cd %s && %s", fixture->folder, command);
	EXPECT_EQ(0, system(line), command);
}

static int open_file(const struct fixture *fixture, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", fixture->folder, name);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

/* Where outer() is, and what the file is called, from the unstripped program. */
static void look_at_program(struct fixture *fixture)
{
	_cleanup_(debug_elf_closep) struct debug_elf *elf = NULL;
	_cleanup_close_ int fd = open_file(fixture, "p");
	uint64_t address;

	assert_int_equal(0, debug_elf_open(fd, &elf, NULL));
	assert_int_equal(0, debug_elf_build_id(elf, fixture->build_id));
	for (fixture->offset = 0x1000; fixture->offset < 0x2000; fixture->offset++) {
		assert_int_equal(0, debug_elf_address(elf, fixture->offset, &address));
		const char *name = debug_elf_function(elf, address);
		if (name && strcmp(name, "outer") == 0)
			return;
	}
	fail_msg("outer() is nowhere");
}

static void fixture_open(struct fixture *fixture, const char *flags)
{
	char path[64], command[256];
	struct error err = { 0 };

	memset(fixture, 0, sizeof(*fixture));
	strcpy(fixture->folder, "/tmp/cairn-symbolizer-XXXXXX");
	assert_non_null(mkdtemp(fixture->folder));
	snprintf(path, sizeof(path), "%s/p.c", fixture->folder);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs(source, file);
	fclose(file);
	snprintf(command, sizeof(command), "gcc -O1 -g %s -Wl,--build-id p.c -o p", flags);
	run(fixture, command);
	run(fixture,
	    "strip -o stripped p; objcopy --only-keep-debug p p.debug; strip -g -o symbols p");
	look_at_program(fixture);
	fixture->launcher = launch();
	if (debug_files_open(&fixture->files, fixture->folder, CACHE_BYTES, fixture->launcher,
			     &err))
		fail_msg("%s", err.text);
	fixture->symbolizer = symbolizer_new(&fixture->files, NULL, fixture->launcher);
	assert_non_null(fixture->symbolizer);
}

static void fixture_close(struct fixture *fixture)
{
	symbolizer_free(fixture->symbolizer);
	confined_launcher_free(fixture->launcher);
	debug_files_close(&fixture->files);
	run(fixture, "rm -r \"$PWD\"");
}

/* As an upload does. */
static int upload(struct fixture *fixture, const char *name, const char *build_id,
		  struct error *err)
{
	_cleanup_close_ int fd = open_file(fixture, name);
	struct debug_upload received;
	char bytes[4096];
	struct stat status;
	ssize_t count;

	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(
		0, debug_files_begin(&fixture->files, (uint64_t)status.st_size, &received, err));
	while ((count = read(fd, bytes, sizeof(bytes))) > 0)
		assert_int_equal(count, write(received.file.fd, bytes, (size_t)count));
	int rc = debug_files_keep(&fixture->files, &received, build_id, "local", "", err);
	debug_files_drop(&fixture->files, &received);
	return rc;
}

struct answer {
	uint32_t count;
	char names[4][32];
	char files[4][64];
	uint32_t numbers[4];
};

static int keep_place(void *context, const struct source_lines *place)
{
	struct answer *answer = context;

	answer->count = place->count;
	for (uint32_t i = 0; i < place->count && i < 4; i++) {
		snprintf(answer->names[i], sizeof(answer->names[i]), "%s", place->lines[i].name);
		snprintf(answer->files[i], sizeof(answer->files[i]), "%s", place->lines[i].file);
		answer->numbers[i] = place->lines[i].number;
	}
	return 0;
}

static int find(struct fixture *fixture, uint64_t offset, uint64_t budget_ns,
		struct answer *ret_answer)
{
	struct profile *profile = profile_new(1000000);
	struct location location = {
		.id = location_id_of_offset(FRAME_KIND_NATIVE, fixture->build_id, offset),
		.kind = FRAME_KIND_NATIVE,
		.offset = offset,
	};

	*ret_answer = (struct answer){ 0 };
	assert_int_equal(0, profile_add_string(profile, fixture->build_id, &location.build_id));
	int rc = symbolizer_find(fixture->symbolizer, profile, &location, &budget_ns, keep_place,
				 ret_answer);
	profile_free(profile);
	return rc;
}

TEST(names_functions_from_each_kind_of_file)
{
	static const struct {
		const char *what;
		const char *flags;
		const char *file;
		uint32_t count; // of functions at the place
	} rows[] = {
		{ "the program itself", "-no-pie", "p", 2 },
		{ "moved when loaded", "-pie", "p", 2 },
		{ "debug file", "-no-pie", "p.debug", 2 },
		{ "debug file, moved when loaded", "-pie", "p.debug", 2 },
		{ "compressed DWARF", "-gz -no-pie", "p", 2 },
		{ "compressed as GNU tools once did", "-gz=zlib-gnu -no-pie", "p", 2 },
		{ "symbols only", "-no-pie", "symbols", 1 },
	};

	for EACH (row, rows) {
		struct fixture fixture;
		struct answer answer;

		fixture_open(&fixture, row->flags);
		EXPECT_EQ(-ENOENT, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer),
			  row->what);
		EXPECT_EQ(0, upload(&fixture, row->file, fixture.build_id, NULL), row->what);
		for (int again = 0; again < 2; again++) { // read, then remembered
			EXPECT_EQ(0, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer),
				  row->what);
			EXPECT_EQ(row->count, answer.count, row->what);
			EXPECT_STR("outer", answer.names[row->count - 1], row->what);
		}
		if (row->count == 2) {
			EXPECT_STR("inner", answer.names[0], row->what);
			EXPECT_EQ(4, answer.numbers[0], row->what);
			EXPECT_EQ(8, answer.numbers[1], row->what);
			EXPECT_EQ(true, strstr(answer.files[0], "p.c") != NULL, row->what);
		}
		EXPECT_EQ(-ENOENT, find(&fixture, UINT64_MAX, SYMBOLIZER_NS_MAX, &answer),
			  row->what);
		fixture_close(&fixture);
	}
}

TEST(a_query_without_time_left_returns_at_once)
{
	struct fixture fixture;
	struct answer answer;

	fixture_open(&fixture, "-no-pie");
	assert_int_equal(0, upload(&fixture, "p", fixture.build_id, NULL));
	assert_int_equal(-ENOENT, find(&fixture, fixture.offset, 0, &answer));
	assert_int_equal(0, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer));
	assert_int_equal(0, find(&fixture, fixture.offset, 0, &answer)); // it is known by now
	fixture_close(&fixture);
}

TEST(drops_answers_of_deleted_files)
{
	struct fixture fixture;
	struct answer answer;

	fixture_open(&fixture, "-no-pie");
	assert_int_equal(0, upload(&fixture, "p", fixture.build_id, NULL));
	assert_int_equal(0, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer));
	assert_int_equal(0, debug_files_remove(&fixture.files, fixture.build_id));
	symbolizer_clear_cache(fixture.symbolizer);
	assert_int_equal(-ENOENT, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer));
	assert_int_equal(-ENOENT, debug_files_remove(&fixture.files, fixture.build_id));
	assert_int_equal(0, upload(&fixture, "p", fixture.build_id, NULL));
	assert_int_equal(0, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer));
	fixture_close(&fixture);
}

/* DWARF of namespaces within each other, each with its child for a sibling, too: 2 to the 60th ways through them. */
static const char endless[] = ".section .debug_abbrev,\"\",@progbits\n"
			      "abbrev: .byte 1, 0x11, 1, 0x11, 0x01, 0x12, 0x07, 0, 0\n"
			      "	.byte 2, 0x39, 1, 0x01, 0x13, 0, 0\n"
			      "	.byte 0\n"
			      ".section .debug_info,\"\",@progbits\n"
			      "unit: .long unit_end - version\n"
			      "version: .short 4\n"
			      "	.long abbrev\n"
			      "	.byte 8\n"
			      "	.byte 1\n"
			      "	.quad outer, 0x100\n"
			      "	.rept 60\n"
			      "	.byte 2\n"
			      "	.long . + 4 - unit\n"
			      "	.endr\n"
			      "	.skip 61\n"
			      "unit_end:\n"
			      ".section .note.GNU-stack,\"\",@progbits\n";

TEST(an_endless_file_delays_no_query)
{
	struct fixture fixture;
	struct answer answer;
	char path[64];
	int rc = -ENOENT;

	fixture_open(&fixture, "-no-pie");
	snprintf(path, sizeof(path), "%s/endless.S", fixture.folder);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs(endless, file);
	fclose(file);
	run(&fixture, "gcc -O1 -no-pie -Wl,--build-id p.c endless.S -o f");
	_cleanup_(debug_elf_closep) struct debug_elf *elf = NULL;
	_cleanup_close_ int fd = open_file(&fixture, "f");
	assert_int_equal(0, debug_elf_open(fd, &elf, NULL));
	assert_int_equal(0, debug_elf_build_id(elf, fixture.build_id));
	assert_int_equal(0, upload(&fixture, "f", fixture.build_id, NULL));
	// A query that has no time for it goes without; in the end its symbols are all that is
	// read.
	assert_int_equal(-ENOENT, find(&fixture, fixture.offset, NS_PER_MS, &answer));
	for (int query = 0; rc && query < QUERIES_MAX; query++)
		rc = find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer);
	assert_int_equal(0, rc);
	assert_int_equal(1, answer.count);
	assert_string_equal("outer", answer.names[0]);
	fixture_close(&fixture);
}

/* But for its first page, which has the segments: whoever has mapped the others gets SIGBUS. */
static void cut_kept_file(const struct fixture *fixture)
{
	run(fixture, "truncate -s 4096 debug-files/*");
}

TEST(a_file_that_kills_its_reader_is_reported)
{
	struct error err = { 0 };
	struct fixture fixture;
	struct answer answer;

	fixture_open(&fixture, "-pie");
	assert_int_equal(0, upload(&fixture, "p", fixture.build_id, &err));
	assert_int_equal(0, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer));
	cut_kept_file(&fixture);
	for (uint64_t at = 1; at < 64; at++)
		find(&fixture, fixture.offset + at, SYMBOLIZER_NS_MAX, &answer);
	assert_true(symbolizer_take_failures(fixture.symbolizer, &err) > 0);
	assert_non_null(strstr(err.text, fixture.build_id));
	assert_non_null(strstr(err.text, "ended by signal 7"));
	assert_int_equal(0, symbolizer_take_failures(fixture.symbolizer, &err)); // once
	// Known names stay, and other files are read.
	assert_int_equal(0, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer));
	assert_int_equal(0, debug_files_remove(&fixture.files, fixture.build_id));
	assert_int_equal(0, upload(&fixture, "p.debug", fixture.build_id, &err));
	assert_int_equal(0, find(&fixture, fixture.offset + 1, SYMBOLIZER_NS_MAX, &answer));
	fixture_close(&fixture);
}

TEST(names_come_again_after_the_launcher_died)
{
	struct error err = { 0 };
	struct fixture fixture;
	struct answer answer;

	fixture_open(&fixture, "-pie");
	assert_int_equal(0, upload(&fixture, "p.debug", fixture.build_id, &err));
	assert_int_equal(0, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer));
	kill_launcher(fixture.launcher);
	assert_int_equal(0, find(&fixture, fixture.offset + 1, SYMBOLIZER_NS_MAX, &answer));
	assert_int_equal(2, answer.count);
	assert_string_equal("outer", answer.names[1]);
	fixture_close(&fixture);
}

TEST(without_a_launcher_nothing_is_named)
{
	struct error err = { 0 };
	struct fixture fixture;
	struct answer answer;

	fixture_open(&fixture, "-pie");
	assert_int_equal(0, upload(&fixture, "p.debug", fixture.build_id, &err));
	symbolizer_free(fixture.symbolizer);
	fixture.symbolizer = symbolizer_new(&fixture.files, NULL, NULL);
	assert_int_equal(-ENOENT, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer));
	assert_int_equal(1, symbolizer_take_failures(fixture.symbolizer, &err));
	assert_non_null(strstr(err.text, "no confined processes here"));
	fixture_close(&fixture);
}

TEST(uses_a_better_file_once_uploaded)
{
	struct fixture fixture;
	struct answer answer;

	fixture_open(&fixture, "-no-pie");
	assert_int_equal(0, upload(&fixture, "symbols", fixture.build_id, NULL));
	assert_int_equal(0, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer));
	assert_int_equal(1, answer.count);
	assert_int_equal(-EEXIST, upload(&fixture, "p", fixture.build_id, NULL));
	assert_int_equal(0, debug_files_remove(&fixture.files, fixture.build_id));
	assert_int_equal(0, upload(&fixture, "p", fixture.build_id, NULL));
	assert_int_equal(0, find(&fixture, fixture.offset + 1, SYMBOLIZER_NS_MAX, &answer));
	assert_int_equal(2, answer.count);
	fixture_close(&fixture);
}

/* As the collector opens one. */
static int check_debug_file(void *launcher, int fd, const char *build_id)
{
	return debug_file_check(launcher, fd, build_id, NULL);
}

static struct debuginfod *client_open(const struct fixture *fixture, const char *url)
{
	char folder[64];
	const struct debuginfod_options options = { .urls = url,
						    .folder = folder,
						    .cache_bytes = CACHE_BYTES,
						    .check = check_debug_file,
						    .check_context = fixture->launcher,
						    .timeout_s = 1 };
	struct debuginfod *client;
	struct error err = { 0 };

	snprintf(folder, sizeof(folder), "%s/fetched", fixture->folder);
	if (debuginfod_open(&options, &client, &err))
		fail_msg("%s", err.text);
	return client;
}

static void wait_for_answer(const struct debuginfod *client)
{
	uint64_t until_ns = clock_monotonic_ns() + WAIT_MS * NS_PER_MS;

	while (!debuginfod_answers(client)) {
		assert_true(clock_monotonic_ns() < until_ns);
		usleep(2000);
	}
}

TEST(fetches_missing_files_from_debuginfod)
{
	static uint8_t bytes[256 << 10];
	struct debuginfod_double server;
	struct fixture fixture;
	struct answer answer;

	fixture_open(&fixture, "-pie");
	int fd = open_file(&fixture, "p.debug");
	ssize_t size = pread(fd, bytes, sizeof(bytes), 0);
	assert_true(size > 0 && size < (ssize_t)sizeof(bytes));
	close(fd);
	double_open(&server, ANSWER_FILE, bytes, (size_t)size);
	struct debuginfod *client = client_open(&fixture, server.url);
	symbolizer_free(fixture.symbolizer);
	fixture.symbolizer = symbolizer_new(&fixture.files, client, fixture.launcher);
	// Nobody waits for it: a later query has the names.
	assert_int_equal(-ENOENT, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer));
	wait_for_answer(client);
	assert_int_equal(0, find(&fixture, fixture.offset, SYMBOLIZER_NS_MAX, &answer));
	assert_int_equal(2, answer.count);
	assert_string_equal("inner", answer.names[0]);
	assert_string_equal("outer", answer.names[1]);
	assert_int_equal(8, answer.numbers[1]);
	assert_int_equal(1, server.requests);
	symbolizer_free(take(fixture.symbolizer));
	debuginfod_close(client);
	double_close(&server);
	fixture_close(&fixture);
}

TEST(refuses_files_without_symbols_with_the_reason)
{
	static const struct {
		const char *what;
		const char *make; // "f"
		bool other_id;
		const char *words;
	} rows[] = {
		{ "stripped", "cp stripped f", false, "stripped" },
		{ "another's", "cp p f", true, "the file's build id is" },
		{ "text", "echo text > f", false, "not an ELF file" },
		{ "empty", ": > f", false, "not an ELF file" },
		{ "no build id", "objcopy --remove-section=.note.gnu.build-id p f", false,
		  "no build id" },
		{ "cut", "head -c 5000 p > f", false, "" },
		{ "a bomb",
		  "gcc -O1 -g -gz p.c -o f -Wl,--build-id=0xabcd && python3 -c \""
		  "import re,struct,sys;b=bytearray(open('f','rb').read());"
		  "o=struct.unpack_from('<Q',b,40)[0];n=struct.unpack_from('<H',b,60)[0];\n"
		  "for i in range(n):\n"
		  "  s=o+64*i\n"
		  "  if struct.unpack_from('<Q',b,s+8)[0]&0x800:\n"
		  "    struct.pack_into('<Q',b,struct.unpack_from('<Q',b,s+24)[0]+8,1<<40)\n"
		  "open('f','wb').write(b)\"",
		  false, "unpack to more than" },
		{ "a bomb as GNU tools once packed",
		  "gcc -O1 -g -gz=zlib-gnu p.c -o f -Wl,--build-id=0xabcd && python3 -c \""
		  "b=open('f','rb').read().replace(b'ZLIB'+bytes(4),b'ZLIB'+bytes([0,0,1,0]));"
		  "open('f','wb').write(b)\"",
		  false, "unpack to more than" },
	};

	for EACH (row, rows) {
		struct fixture fixture;
		struct error err = { 0 };

		fixture_open(&fixture, "-no-pie");
		run(&fixture, row->make);
		EXPECT_EQ(-EINVAL,
			  upload(&fixture, "f", row->other_id ? "abcdef" : fixture.build_id, &err),
			  row->what);
		if (!strstr(err.text, row->words))
			fail_msg("%s: \"%s\"", row->what, err.text);
		// Nothing is left of it.
		run(&fixture, "test -z \"$(ls debug-files)\"");
		fixture_close(&fixture);
	}
}

TEST(survives_damaged_files)
{
	struct fixture fixture;
	struct answer answer;
	static uint8_t bytes[64 << 10];

	fixture_open(&fixture, "-no-pie");
	int fd = open_file(&fixture, "p");
	ssize_t size = pread(fd, bytes, sizeof(bytes), 0);
	assert_true(size > 0 && size < (ssize_t)sizeof(bytes));
	close(fd);
	srandom(17);
	for (int round = 0; round < 300; round++) {
		struct debug_upload received;
		int file;

		assert_int_equal(
			0, debug_files_begin(&fixture.files, (uint64_t)size, &received, NULL));
		file = received.file.fd;
		assert_int_equal(size, write(file, bytes, (size_t)size));
		for (int i = 0; i < 20; i++) {
			uint8_t byte = (uint8_t)random();

			// Behind the code, where symbols, DWARF and section headers are.
			assert_int_equal(
				1, pwrite(file, &byte, 1, 0x3000 + random() % (size - 0x3000)));
		}
		debug_files_remove(&fixture.files, fixture.build_id);
		if (debug_files_keep(&fixture.files, &received, fixture.build_id, "local", "",
				     NULL) == 0)
			for (uint64_t at = 0; at < 64; at++)
				find(&fixture, fixture.offset + at, SYMBOLIZER_NS_MAX, &answer);
		debug_files_drop(&fixture.files, &received);
	}
	fixture_close(&fixture);
}

SERVE_CONFINED(serve_confined, &symbol_task, &dwarf_task, &elf_task)

RUN_TESTS_AFTER(serve_confined, cmocka_unit_test(names_functions_from_each_kind_of_file),
		cmocka_unit_test(drops_answers_of_deleted_files),
		cmocka_unit_test(a_query_without_time_left_returns_at_once),
		cmocka_unit_test(an_endless_file_delays_no_query),
		cmocka_unit_test(a_file_that_kills_its_reader_is_reported),
		cmocka_unit_test(names_come_again_after_the_launcher_died),
		cmocka_unit_test(without_a_launcher_nothing_is_named),
		cmocka_unit_test(uses_a_better_file_once_uploaded),
		cmocka_unit_test(fetches_missing_files_from_debuginfod),
		cmocka_unit_test(refuses_files_without_symbols_with_the_reason),
		cmocka_unit_test(survives_damaged_files))
