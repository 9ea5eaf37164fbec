// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/source_line_reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "agent/symbols/executable_symbols.h"
#include "agent/symbols/source_line_worker.h"
#include "base/cleanup.h"
#include "tests/confined_tests.h"
#include "tests/test.h"
#include "tests/unit/agent/elf/section_file.h"

enum { WAIT_MS = 20000, CACHED_LINES_MAX = 4096 };

/* Two functions, one inlined into the other, on lines that are known. */
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

struct program {
	char folder[32];
	char path[64];
};

static void run(const char *format, const char *folder, const char *more)
{
	char command[1024];

	snprintf(command, sizeof(command), format, folder, more);
	assert_int_equal(0, system(command));
}

static void program_new(struct program *program, const char *flags)
{
	char path[64];

	strcpy(program->folder, "/tmp/cairn-lines-XXXXXX");
	assert_non_null(mkdtemp(program->folder));
	snprintf(path, sizeof(path), "%s/p.c", program->folder);
	snprintf(program->path, sizeof(program->path), "%s/p", program->folder);
	FILE *file = fopen(path, "we");
	assert_non_null(file);
	fputs(source, file);
	fclose(file);
	run("cd %s && gcc -O1 %s -no-pie -Wl,--build-id p.c -o p", program->folder, flags);
}

static void program_end(const struct program *program)
{
	run("rm -r %s%s", program->folder, "");
}

struct fixture {
	struct executable_table *executables;
	struct executable *executable;
	struct confined_launcher *launcher;
	struct source_line_reader *reader;
};

/* @has_root: the program's folder is that of its process, with a root of its own. */
static void fixture_open(struct fixture *fixture, const struct program *program, bool has_root)
{
	int fd = open(program->path, O_RDONLY | O_CLOEXEC);
	int folder = has_root ? open(program->folder, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

	assert_true(fd >= 0);
	fixture->executables = executable_table_new();
	assert_int_equal(0, executable_table_open_of(fixture->executables, fd, folder,
						     program->path, &fixture->executable, NULL));
	close(fd);
	if (folder >= 0)
		close(folder);
	fixture->launcher = launch();
	fixture->reader = source_line_reader_new(fixture->executables, fixture->launcher, NULL);
	assert_non_null(fixture->reader);
}

static void fixture_close(struct fixture *fixture)
{
	source_line_reader_free(fixture->reader);
	confined_launcher_free(fixture->launcher);
	executable_table_free(fixture->executables);
}

/* The first offset at which the function's symbol is @name. */
static uint64_t offset_of(struct fixture *fixture, const char *name)
{
	struct symbol symbol;

	for (uint64_t offset = 0x1000; offset < 0x2000; offset++)
		if (executable_find_symbol(fixture->executables, fixture->executable, offset,
					   &symbol) == 0 &&
		    strcmp(symbol.name, name) == 0)
			return offset;
	fail_msg("%s is nowhere", name);
	return 0;
}

/* As find, but wait for it. */
static int find(struct fixture *fixture, uint64_t offset, struct source_lines *ret_place)
{
	int rc = source_line_reader_find(fixture->reader, fixture->executable, offset, ret_place);

	if (rc != -EAGAIN)
		return rc;
	assert_true(source_line_reader_wait(fixture->reader, WAIT_MS));
	return source_line_reader_find(fixture->reader, fixture->executable, offset, ret_place);
}

TEST(finds_an_inlined_call_with_its_caller)
{
	struct source_lines place;
	struct fixture fixture;
	struct program program;

	program_new(&program, "-g");
	fixture_open(&fixture, &program, false);
	uint64_t offset = offset_of(&fixture, "outer");
	assert_int_equal(-EAGAIN, source_line_reader_find(fixture.reader, fixture.executable,
							  offset, &place));
	assert_int_equal(0, find(&fixture, offset, &place));
	assert_int_equal(2, place.count);
	assert_string_equal("inner", place.lines[0].name);
	assert_string_equal("p.c", strrchr(place.lines[0].file, '/') + 1);
	assert_int_equal(4, place.lines[0].number);
	assert_string_equal("outer", place.lines[1].name);
	assert_int_equal(8, place.lines[1].number);
	assert_true(place.start_offset <= offset);
	assert_true(source_line_reader_bytes(fixture.reader) > 0);
	fixture_close(&fixture);
	program_end(&program);
}

TEST(finds_a_nested_function)
{
	struct source_lines place;
	struct fixture fixture;
	struct program program;

	program_new(&program, "-g");
	run("cd %s && echo 'int outer(int n) { auto twice = [n](int x) __attribute__((noinline)) "
	    "{ return x * n; }; return twice(n) + twice(2); } int main() { return outer(1); }' "
	    "> p.cc && g++ -O1 -g -no-pie -Wl,--build-id p.cc -o p%s",
	    program.folder, "");
	fixture_open(&fixture, &program, false);
	uint64_t offset = offset_of(&fixture, "outer(int)::{lambda(int)#1}::operator()");
	assert_int_equal(0, find(&fixture, offset, &place));
	assert_int_equal(1, place.count);
	assert_non_null(strstr(place.lines[0].name, "operator()"));
	assert_int_equal(1, place.lines[0].number);
	fixture_close(&fixture);
	program_end(&program);
}

TEST(instructions_of_one_line_share_a_start)
{
	struct source_lines first, second;
	struct fixture fixture;
	struct program program;

	program_new(&program, "-g");
	fixture_open(&fixture, &program, false);
	uint64_t offset = offset_of(&fixture, "outer");
	assert_int_equal(0, find(&fixture, offset, &first));
	assert_int_equal(0, find(&fixture, offset + 1, &second));
	assert_int_equal(first.start_offset, second.start_offset);
	fixture_close(&fixture);
	program_end(&program);
}

TEST(answers_that_there_are_no_lines)
{
	struct source_lines place;
	struct fixture fixture;
	struct program program;

	program_new(&program, "-g0");
	fixture_open(&fixture, &program, false);
	assert_int_equal(-ENOENT, find(&fixture, offset_of(&fixture, "outer"), &place));
	assert_int_equal(-ENOENT, find(&fixture, UINT64_MAX, &place));
	fixture_close(&fixture);
	program_end(&program);
}

/* Most files of a node are stripped: without rest each would be opened, and read by a process, for each new address. */
TEST(retries_lineless_file_later)
{
	struct source_lines place;
	struct fixture fixture;
	struct program program;

	program_new(&program, "-g");
	run("cd %s && objcopy --only-keep-debug p p.debug && strip --strip-debug p && "
	    "objcopy --add-gnu-debuglink=p.debug p && mv p.debug elsewhere%s",
	    program.folder, "");
	fixture_open(&fixture, &program, false);
	uint64_t offset = offset_of(&fixture, "outer");
	EXPECT_EQ(-ENOENT,
		  source_line_reader_find(fixture.reader, fixture.executable, offset, &place),
		  "known at once: nothing is read");
	run("cd %s && mv elsewhere p.debug%s", program.folder, "");
	EXPECT_EQ(-ENOENT, find(&fixture, offset, &place), "a debug file that came a moment later");
	fixture.executable->symbols_version++;
	EXPECT_EQ(0, find(&fixture, offset, &place), "it has new symbols");
	EXPECT_STR("inner", place.lines[0].name, "and lines");
	fixture_close(&fixture);
	program_end(&program);
}

TEST(reads_lines_from_the_debug_file)
{
	struct source_lines place;
	struct fixture fixture;
	struct program program;

	program_new(&program, "-g");
	run("cd %s && mkdir -p root%s && objcopy --only-keep-debug p p.debug && "
	    "strip --strip-all p && objcopy --add-gnu-debuglink=p.debug p && "
	    "mv p.debug root$(pwd)",
	    program.folder, program.folder);
	fixture_open(&fixture, &program, true);
	assert_int_equal(0, find(&fixture, offset_of(&fixture, "outer"), &place));
	assert_int_equal(2, place.count);
	assert_string_equal("inner", place.lines[0].name);
	fixture_close(&fixture);
	program_end(&program);
}

TEST(reads_shared_dwarf)
{
	struct source_lines place;
	struct fixture fixture;
	struct program program;

	if (system("dwz --version > /dev/null 2>&1"))
		SKIP("dwz is not installed");
	program_new(&program, "-g");
	run("cd %s && R=root/usr/lib/debug && mkdir -p $R/.dwz $R%s && sed s/outer/other/ p.c > "
	    "q.c && printf 'struct a { int i; struct b { long l; char c[9]; struct a *a; } b[4]; };"
	    "struct a *volatile both(struct b *b);struct a *volatile shared;' > s.h && "
	    "for x in p q; do gcc -O1 -g -no-pie -include s.h -Wl,--build-id $x.c -o $x; done && "
	    "for x in p q; do objcopy --only-keep-debug $x $x.debug; done && "
	    "dwz -m $R/.dwz/common -M ../../.dwz/common p.debug q.debug && "
	    "readelf -S p.debug | grep -q altlink && strip --strip-all p && "
	    "objcopy --add-gnu-debuglink=p.debug p && mv p.debug $R$(pwd)",
	    program.folder, program.folder);
	fixture_open(&fixture, &program, true);
	assert_int_equal(0, find(&fixture, offset_of(&fixture, "outer"), &place));
	assert_int_equal(2, place.count);
	assert_string_equal("inner", place.lines[0].name);
	fixture_close(&fixture);
	program_end(&program);
}

/* ---- the worker ---------------------------------------------------------------------------- */

struct seen {
	uint32_t count, last;
};

static void count_place(void *context, uint32_t index, const struct source_lines *place)
{
	struct seen *seen = context;

	seen->count++;
	seen->last = index;
	assert_true(place->count >= 1 && place->count <= SOURCE_LINES_MAX);
	for (uint32_t i = 0; i < place->count; i++) {
		assert_true(strlen(place->lines[i].name) < SOURCE_NAME_BYTES);
		assert_true(strlen(place->lines[i].file) < SOURCE_NAME_BYTES);
	}
}

static struct confined_launcher *launcher; // ends with this program

/* Every byte of the text at @size places of the file @fd. */
static int ask_for_all(int fd, struct seen *seen)
{
	static uint64_t offsets[CACHED_LINES_MAX];
	struct error err = { 0 };
	const struct line_request request = {
		.fd = fd, .debug_fd = -1, .alt_fd = -1, .offsets = offsets, .count = 1024
	};

	for (uint32_t i = 0; i < request.count; i++)
		offsets[i] = 0x1000 + i;
	*seen = (struct seen){ 0 };
	if (!launcher)
		launcher = launch();
	return source_line_worker_run(launcher, &request, count_place, seen, &err);
}

TEST(damaged_dwarf_only_harms_the_worker)
{
	enum { BYTES = 64 << 10 };
	static uint8_t good[BYTES], bad[BYTES];
	struct program program;
	uint32_t broken = 0, fewer = 0;
	struct seen seen;

	program_new(&program, "-g");
	int fd = open(program.path, O_RDONLY | O_CLOEXEC);
	ssize_t size = pread(fd, good, sizeof(good), 0);
	assert_true(size > 0 && size < BYTES);
	assert_int_equal(0, ask_for_all(fd, &seen));
	uint32_t all = seen.count;
	assert_true(all > 10);
	close(fd);
	srandom(11);
	for (int round = 0; round < 60; round++) {
		memcpy(bad, good, (size_t)size);
		// Of the second half of the file, where the DWARF is.
		for (int i = 0; i < 40; i++)
			bad[size / 2 + random() % (size / 2)] = (uint8_t)random();
		fd = memfd_create("damaged", MFD_CLOEXEC);
		assert_int_equal(size, write(fd, bad, (size_t)size));
		int rc = ask_for_all(fd, &seen);
		EXPECT_EQ(true, rc == 0 || rc == -EIO, "an answer");
		broken += rc != 0;
		fewer += seen.count < all;
		close(fd);
	}
	printf("# of 60 damaged files the helper died of %u, %u had fewer lines\n", broken, fewer);
	program_end(&program);
}

TEST(truncation_during_reading_only_harms_the_worker)
{
	struct program program;
	struct seen seen;

	program_new(&program, "-g");
	int fd = open(program.path, O_RDWR | O_CLOEXEC);
	struct stat status;
	assert_int_equal(0, fstat(fd, &status));
	for (off_t size = status.st_size; size > 0; size -= 997) {
		assert_int_equal(0, ftruncate(fd, size));
		int rc = ask_for_all(fd, &seen);
		EXPECT_EQ(true, rc == 0 || rc == -EIO, "an answer");
	}
	close(fd);
	program_end(&program);
}

TEST(refuses_files_of_other_machines)
{
	struct seen seen;
	int fd = memfd_create("text", MFD_CLOEXEC);

	assert_int_equal(5, write(fd, "hello", 5));
	assert_int_equal(-EIO, ask_for_all(fd, &seen));
	assert_int_equal(0, seen.count);
	close(fd);
}

TEST(refuses_too_many_offsets)
{
	const struct line_request request = { .count = LINE_WORKER_OFFSETS_MAX + 1 };
	struct error err = { 0 };

	assert_int_equal(-E2BIG, source_line_worker_run(NULL, &request, count_place, NULL, &err));
}

SERVE_CONFINED(serve_confined, &source_line_task)

RUN_TESTS_AFTER(serve_confined, cmocka_unit_test(finds_an_inlined_call_with_its_caller),
		cmocka_unit_test(finds_a_nested_function),
		cmocka_unit_test(instructions_of_one_line_share_a_start),
		cmocka_unit_test(answers_that_there_are_no_lines),
		cmocka_unit_test(retries_lineless_file_later),
		cmocka_unit_test(reads_lines_from_the_debug_file),
		cmocka_unit_test(reads_shared_dwarf),
		cmocka_unit_test(damaged_dwarf_only_harms_the_worker),
		cmocka_unit_test(truncation_during_reading_only_harms_the_worker),
		cmocka_unit_test(refuses_files_of_other_machines),
		cmocka_unit_test(refuses_too_many_offsets))
