// SPDX-License-Identifier: Apache-2.0
// The loops of this machine's interpreters, as they are and stripped, and of code that
// only looks like one.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "agent/elf/elf_symbols.h"
#include "agent/python/python_build.h"
#include "agent/python/python_eval_loop.h"
#include "agent/python/python_frame_linkage.h"
#include "base/cleanup.h"
#include "tests/test.h"
#include "tests/unit/agent/elf/elf_writer.h"
#include "tests/unit/agent/python/pythons.h"

static struct unwind_mark marks[UNWIND_MARKS_MAX];

static uint32_t marks_of(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat status;
	struct elf elf;
	uint32_t count = 0;

	assert_true(fd >= 0);
	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
	assert_int_equal(0, python_eval_loop_marks(&elf, marks, &count));
	return count;
}

/* The file that has the loop: the interpreter itself, or the library that it is linked with. */
static bool find_loop_file(const char *python, char *path, size_t size)
{
	char command[PYTHON_PATH_BYTES + 256];

	snprintf(command, sizeof(command),
		 "'%s' -c \"import os, sys; lines = open('/proc/self/maps').read().split('\\n');"
		 "names = [line.split()[-1] for line in lines if 'libpython3.' in line];"
		 "print(names[0] if names else os.path.realpath(sys.executable))\"",
		 python);
	FILE *output = popen(command, "re");
	bool found = output && fgets(path, (int)size, output);

	if (output)
		pclose(output);
	path[strcspn(path, "\n")] = '\0';
	return found;
}

/* Marks ascend, do not overlap, and most of a loop's 30 KiB or more are in them. */
static void check_marks(const char *path, uint32_t count)
{
	uint64_t bytes = 0, before = 0;

	for (uint32_t i = 0; i < count; i++) {
		assert_true(marks[i].start >= before && marks[i].start < marks[i].limit);
		assert_true(marks[i].flags & RULE_PYTHON_EVAL);
		before = marks[i].limit;
		bytes += marks[i].limit - marks[i].start;
	}
	if (bytes < 20000)
		fail_msg("%s: only %llu bytes of the loop were found", path,
			 (unsigned long long)bytes);
}

TEST(finds_loops_of_real_interpreters)
{
	find_pythons();
	if (!python_program_count)
		SKIP("no CPython here");
	for (uint32_t i = 0; i < python_program_count; i++) {
		char path[4096];

		assert_true(find_loop_file(python_programs[i].path, path, sizeof(path)));
		check_marks(path, marks_of(path));
	}
}

/* Parts that no jump leads to are never entered: compilers leave some bytes of them. */
enum { DEAD_PART_BYTES_MAX = 16 };

/* Stripping loses no marks but those of dead parts. */
static void compare_marks(const char *path, const struct unwind_mark *expected,
			  uint32_t expected_count, uint32_t count)
{
	uint32_t at = 0;

	for (uint32_t i = 0; i < expected_count; i++) {
		if (at < count && marks[at].start == expected[i].start) {
			EXPECT_EQ(expected[i].limit, marks[at].limit, path);
			at++;
			continue;
		}
		assert_true(expected[i].limit - expected[i].start <= DEAD_PART_BYTES_MAX);
	}
	EXPECT_EQ(count, at, path);
}

TEST(stripped_interpreters_have_the_same_marks)
{
	char folder[] = "/tmp/cairn-eval-XXXXXX", stripped[64], command[8192];

	find_pythons();
	if (!python_program_count || system("strip --version >/dev/null 2>&1") != 0)
		SKIP("no CPython or no strip here");
	assert_non_null(mkdtemp(folder));
	snprintf(stripped, sizeof(stripped), "%s/python", folder);
	for (uint32_t i = 0; i < python_program_count; i++) {
		static struct unwind_mark expected[UNWIND_MARKS_MAX];
		char path[4096];
		uint32_t count;

		assert_true(find_loop_file(python_programs[i].path, path, sizeof(path)));
		count = marks_of(path);
		memcpy(expected, marks, sizeof(expected));
		snprintf(command, sizeof(command), "strip -o '%s' '%s'", stripped, path);
		assert_int_equal(0, system(command));
		compare_marks(path, expected, count, marks_of(stripped));
		unlink(stripped);
	}
	rmdir(folder);
}

TEST(finds_versions_of_real_interpreters)
{
	find_pythons();
	if (!python_program_count)
		SKIP("no CPython here");
	for (uint32_t i = 0; i < python_program_count; i++) {
		struct python_build by_path, by_content;
		struct error err = { 0 };
		struct stat status;
		struct elf elf;
		char path[4096];

		assert_true(find_loop_file(python_programs[i].path, path, sizeof(path)));
		_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_int_equal(0, fstat(fd, &status));
		assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
		EXPECT_EQ(0, python_build_read(&elf, path, &by_path, &err), path);
		EXPECT_EQ(0, python_build_read(&elf, "/usr/bin/renamed", &by_content, &err), path);
		EXPECT_EQ(python_programs[i].minor, by_path.minor, path);
		EXPECT_EQ(python_programs[i].minor, by_content.minor, path);
		assert_true(by_path.code_type != 0);
	}
}

TEST(other_files_have_no_loop)
{
	assert_int_equal(0, marks_of("/proc/self/exe"));
	assert_int_equal(0, marks_of("/bin/sh"));
}

/* A copy of the file in memory, so that it can be broken and mended. */
static int copy_of(const char *path, size_t *ret_size)
{
	_cleanup_close_ int original = open(path, O_RDONLY | O_CLOEXEC);
	int fd = memfd_create("copy", MFD_CLOEXEC);
	struct stat status;
	off_t at = 0;

	assert_true(original >= 0 && fd >= 0);
	assert_int_equal(0, fstat(original, &status));
	while (at < status.st_size)
		assert_true(sendfile(fd, original, &at, (size_t)(status.st_size - at)) > 0);
	*ret_size = (size_t)status.st_size;
	return fd;
}

/* Bytes of headers, symbols, unwind information and code turned: marks stay in order, and it ends. */
TEST(survives_damaged_interpreters)
{
	enum { ROUNDS = 400, DAMAGES = 64 };
	static off_t places[DAMAGES];
	static uint8_t before[DAMAGES];
	uint32_t random = 1, found = 0;
	char path[4096];
	size_t size;

	find_pythons();
	if (!python_program_count || !find_loop_file(python_programs[0].path, path, sizeof(path)))
		SKIP("no CPython here");
	_cleanup_close_ int fd = copy_of(path, &size);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		struct python_build build;
		struct error err = { 0 };
		struct stat status;
		struct elf elf;
		uint32_t count = 0, damages = 1 + round % DAMAGES;

		for (uint32_t i = 0; i < damages; i++) {
			random = random * 1664525 + 1013904223;
			places[i] = random % size;
			if (i % 3 == 0) // headers are at both ends
				places[i] = i % 2 ? random % 4096 : size - 1 - random % 2560;
			uint8_t byte = (uint8_t)(random >> 24);

			assert_int_equal(1, pread(fd, &before[i], 1, places[i]));
			assert_int_equal(1, pwrite(fd, &byte, 1, places[i]));
		}
		assert_int_equal(0, fstat(fd, &status));
		if (!elf_read_headers(fd, &status, &elf, NULL)) {
			python_build_read(&elf, path, &build, &err);
			if (!python_eval_loop_marks(&elf, marks, &count))
				found += count > 0;
		}
		for (uint32_t i = 0; i < count; i++) {
			assert_true(marks[i].start < marks[i].limit);
			assert_true(!i || marks[i].start >= marks[i - 1].limit);
		}
		for (uint32_t i = damages; i > 0; i--)
			assert_int_equal(1, pwrite(fd, &before[i - 1], 1, places[i - 1]));
	}
	assert_true(found > ROUNDS / 10); // most damage is elsewhere
}

struct symbol_case {
	const char *name;
	uint64_t offset, size;
	uint8_t type;
};

static const struct symbol_case loop_symbols[] = {
	{ "_PyEval_EvalFrameDefault", 0x100, 0x200, STT_FUNC },
	{ "_PyEval_EvalFrameDefault.cold", 0x800, 0x80, STT_FUNC },
	{ "_PyEval_EvalFrameDefault.part.0", 0x300, 0x40, STT_FUNC }, // goes on from the first
	{ "_PyEval_EvalFrameDefaultly", 0x900, 0x10, STT_FUNC },
	{ "_PyEval_EvalFrameDefault.data", 0xa00, 0x10, STT_OBJECT },
	{ "_TAIL_CALL_BINARY_OP", 0x400, 0x30, STT_FUNC },
	{ "_TAIL_CALL_LOAD_FAST", 0x430, 0x30, STT_FUNC },
	{ "_TAIL_CALL_nothing", 0x500, 0, STT_FUNC },
	{ "main", 0x600, 0x30, STT_FUNC },
	{ "Py_NewRef", 0x700, 0x10, STT_FUNC },
};

static const struct unwind_mark loop_marks[] = {
	{ 0x100, 0x340, RULE_PYTHON_EVAL },
	{ 0x400, 0x460, RULE_PYTHON_EVAL | RULE_PYTHON_OPCODE },
	{ 0x800, 0x880, RULE_PYTHON_EVAL },
};

static void check_pieces(const struct elf_image *image)
{
	_cleanup_close_ int fd = image_open(image);
	struct stat status;
	struct elf elf;
	uint32_t count;

	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
	assert_int_equal(0, python_eval_loop_marks(&elf, marks, &count));
	assert_int_equal(ARRAY_SIZE(loop_marks), count);
	for (uint32_t i = 0; i < count; i++) {
		EXPECT_EQ(IMAGE_ADDRESS + loop_marks[i].start, marks[i].start, "start");
		EXPECT_EQ(IMAGE_ADDRESS + loop_marks[i].limit, marks[i].limit, "limit");
		EXPECT_EQ(loop_marks[i].flags, marks[i].flags, "flags");
	}
}

TEST(marks_all_pieces_of_a_loop)
{
	struct elf_image image;

	image_init(&image);
	image_add_dynamic(&image, "", 0, 0);
	image_add_dynamic(&image, "_PyEval_EvalFrameDefault", 0x100, 0x200);
	for EACH (symbol, loop_symbols)
		image_add_symbol(&image, symbol->name, symbol->offset, symbol->size, STB_LOCAL,
				 symbol->type);
	check_pieces(&image);
}

TEST(finds_the_loop_of_static_executables)
{
	struct elf_image image;
	struct python_build build;
	struct error err = { 0 };
	struct stat status;
	struct elf elf;

	image_init(&image);
	for EACH (symbol, loop_symbols)
		image_add_symbol(&image, symbol->name, symbol->offset, symbol->size, STB_LOCAL,
				 symbol->type);
	image_add_symbol(&image, "_PyRuntime", 0xc00, 0x100, STB_LOCAL, STT_OBJECT);
	image_add_symbol(&image, "PyCode_Type", 0xd00, 0x100, STB_LOCAL, STT_OBJECT);
	check_pieces(&image);
	_cleanup_close_ int fd = image_open(&image);
	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
	assert_int_equal(0, python_build_read(&elf, "/usr/bin/python3.12", &build, &err));
	assert_int_equal(12, build.minor);
	assert_int_equal(IMAGE_ADDRESS + 0xc00, build.runtime);
	assert_int_equal(IMAGE_ADDRESS + 0xd00, build.code_type);
}

/* ---- where the frame is linked, up to 3.9 ------------------------------------------------------- */

#define LINK       0x49, 0x89, 0x5e, 0x18                         // mov %rbx,0x18(%r14)
#define LINK_R12   0x49, 0x89, 0x5c, 0x24, 0x18                   // mov %rbx,0x18(%r12)
#define UNLINK     0x49, 0x89, 0x46, 0x18                         // mov %rax,0x18(%r14)
#define UNLINK_R12 0x49, 0x89, 0x44, 0x24, 0x18                   // mov %rax,0x18(%r12)
#define TO_STACK   0x48, 0x89, 0x4c, 0x24, 0x18                   // mov %rcx,0x18(%rsp)
#define CHECK      0xe8, 1, 2, 3, 4                               // call
#define LEAVE      0x48, 0x83, 0xc4, 0x68, 0x5b, 0x41, 0x5e, 0xc3 // add $0x68,%rsp; pop; pop; ret
#define NOP        0x90

static const struct {
	const char *what;
	uint8_t code[64];
	uint32_t count;
	uint64_t ranges[6];
} linkings[] = {
	{ "linked and unlinked",
	  { NOP, LINK, NOP, NOP, UNLINK, CHECK, LEAVE, NOP },
	  2,
	  { 0, 5, 11, 24 } },
	{ "by r12, which takes a byte more",
	  { NOP, LINK_R12, NOP, NOP, UNLINK_R12, CHECK, LEAVE, NOP },
	  2,
	  { 0, 6, 13, 26 } },
	{ "the end is shared with another path",
	  { NOP, LINK, UNLINK, CHECK, 0xeb, 2, NOP, NOP, LEAVE, NOP },
	  3,
	  { 0, 5, 9, 16, 18, 26 } },
	{ "the end is before",
	  { LINK, NOP, LEAVE, UNLINK, CHECK, 0xeb, 0xed, NOP },
	  3,
	  { 0, 4, 17, 24, 5, 13 } },
	{ "variables on the stack are not the thread's frame",
	  { TO_STACK, LINK, TO_STACK, CHECK, LEAVE, UNLINK, CHECK, LEAVE },
	  2,
	  { 0, 9, 31, 44 } },
	{ "another register's word is not the thread's",
	  { LINK, UNLINK_R12, CHECK, LEAVE, UNLINK, CHECK, LEAVE },
	  2,
	  { 0, 4, 26, 39 } },
	{ "never unlinked: only the beginning is known", { LINK, NOP, NOP, LEAVE }, 1, { 0, 4 } },
	{ "unlinked, but not before a return",
	  { LINK, UNLINK, CHECK, 0x31, 0xc0, LEAVE },
	  1,
	  { 0, 4 } },
	{ "a jump out of the function", { LINK, UNLINK, CHECK, 0xe9, 0, 0, 0, 0x7f }, 1, { 0, 4 } },
	{ "a jump before the function", { LINK, UNLINK, 0xeb, 0x80 }, 1, { 0, 4 } },
	{ "no link at all", { NOP, NOP, LEAVE }, 0, { 0 } },
};

TEST(finds_code_without_a_linked_frame)
{
	for EACH (row, linkings) {
		struct python_unlinked ranges[PYTHON_UNLINKED_MAX];
		uint32_t count =
			python_frame_linkage_find(row->code, sizeof(row->code), 0x1000, ranges);

		EXPECT_EQ(row->count, count, row->what);
		for (uint32_t i = 0; i < count; i++) {
			EXPECT_EQ(0x1000 + row->ranges[2 * i], ranges[i].start, row->what);
			EXPECT_EQ(0x1000 + row->ranges[2 * i + 1], ranges[i].limit, row->what);
		}
	}
}

TEST(survives_code_cut_anywhere)
{
	for EACH (row, linkings) {
		for (size_t size = 0; size <= sizeof(row->code); size++) {
			struct python_unlinked ranges[PYTHON_UNLINKED_MAX];
			_cleanup_free_ uint8_t *code = malloc(size + !size);

			memcpy(code, row->code, size);
			for (uint32_t i = python_frame_linkage_find(code, size, 0, ranges); i; i--)
				assert_true(ranges[i - 1].limit <= size);
		}
	}
}

RUN_TESTS(cmocka_unit_test(finds_loops_of_real_interpreters),
	  cmocka_unit_test(stripped_interpreters_have_the_same_marks),
	  cmocka_unit_test(finds_versions_of_real_interpreters),
	  cmocka_unit_test(other_files_have_no_loop),
	  cmocka_unit_test(survives_damaged_interpreters),
	  cmocka_unit_test(marks_all_pieces_of_a_loop),
	  cmocka_unit_test(finds_the_loop_of_static_executables),
	  cmocka_unit_test(finds_code_without_a_linked_frame),
	  cmocka_unit_test(survives_code_cut_anywhere))
