// SPDX-License-Identifier: Apache-2.0
#include "agent/process/mapping.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/elf/foreign_file.h"
#include "agent/process/mapped_file.h"
#include "agent/symbols/executable_symbols.h"
#include "tests/test.h"

#define AT "00400000-00452000 r-xp 00001000 08:02 173521 "

static const struct {
	const char *what;
	const char *line;
	uint32_t count; // mappings that are read from it
	const char *path;
	enum mapping_file file;
} lines[] = {
	{ "a file", AT "     /usr/bin/dbus-daemon", 1, "/usr/bin/dbus-daemon",
	  MAPPING_FILE_UNKNOWN },
	{ "spaces in the path", AT "/a b  c", 1, "/a b  c", MAPPING_FILE_UNKNOWN },
	{ "newline in the path", AT "/a\\012b", 1, "/a\nb", MAPPING_FILE_UNKNOWN },
	{ "backslashes that are the path's own", AT "/a\\0\\013\\01", 1, "/a\\0\\013\\01",
	  MAPPING_FILE_UNKNOWN },
	{ "deleted", AT "/a (deleted)", 1, "/a", MAPPING_FILE_UNKNOWN },
	{ "memory file", AT "/memfd:jit (deleted)", 1, "memfd:jit", MAPPING_FILE_UNKNOWN },
	{ "nothing but deleted", AT " (deleted)", 1, "(deleted)", MAPPING_FILE_UNKNOWN },
	{ "no path", "00400000-00452000 rwxp 00000000 00:00 0 ", 1, "", MAPPING_FILE_NONE },
	{ "no path, no space", "00400000-00452000 rwxp 00000000 00:00 0", 1, "",
	  MAPPING_FILE_NONE },
	{ "vdso", "7fff0000-7fff2000 r-xp 00000000 00:00 0    [vdso]", 1, "[vdso]",
	  MAPPING_FILE_UNKNOWN },
	{ "heap", "7fff0000-7fff2000 rwxp 00000000 00:00 0    [heap]", 1, "[heap]",
	  MAPPING_FILE_NONE },
	{ "vsyscall", "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]", 1,
	  "[vsyscall]", MAPPING_FILE_NONE },
	{ "data", "00400000-00452000 rw-p 00001000 08:02 173521 /a", 0, NULL, 0 },
	{ "backwards", "00452000-00400000 r-xp 00001000 08:02 173521 /a", 0, NULL, 0 },
	{ "empty range", "00400000-00400000 r-xp 00001000 08:02 173521 /a", 0, NULL, 0 },
	{ "17 digits", "00000000000400000-00452000 r-xp 00001000 08:02 173521 /a", 0, NULL, 0 },
	{ "no end", "00400000-", 0, NULL, 0 },
	{ "no rights", "00400000-00452000 ", 0, NULL, 0 },
	{ "rights cut", "00400000-00452000 r-x", 0, NULL, 0 },
	{ "no device", "00400000-00452000 r-xp 00001000 ", 0, NULL, 0 },
	{ "no inode", "00400000-00452000 r-xp 00001000 08:02 ", 0, NULL, 0 },
	{ "capitals", "0040000A-0045200A r-xp 00001000 08:02 1 /a", 0, NULL, 0 },
	{ "minus", "-00400000-00452000 r-xp 00001000 08:02 1 /a", 0, NULL, 0 },
	{ "empty", "", 0, NULL, 0 },
	{ "words", "no such process", 0, NULL, 0 },
};

TEST(reads_a_mapping_or_skips_the_line)
{
	for EACH (row, lines) {
		struct mapping_list *list = mapping_list_new();
		size_t size = strlen(row->line);
		char *line = malloc(size + 1); // of exactly its size

		memcpy(line + 1, row->line, size);
		EXPECT_EQ(0, mapping_list_add_line(list, line + 1, size), row->what);
		EXPECT_EQ(row->count, list->count, row->what);
		if (list->count) {
			EXPECT_STR(row->path, mapping_path(list, &list->mappings[0]), row->what);
			EXPECT_EQ(row->file, list->mappings[0].file, row->what);
		}
		free(line);
		mapping_list_release(list);
	}
}

static struct mapping_list *list_of(const char *text)
{
	int fd = memfd_create("maps", MFD_CLOEXEC);
	struct mapping_list *list = NULL;

	assert_int_equal(strlen(text), write(fd, text, strlen(text)));
	assert_int_equal(0, lseek(fd, 0, SEEK_SET));
	assert_int_equal(0, mapping_list_read(fd, &list));
	close(fd);
	return list;
}

TEST(finds_the_mapping_around_an_address)
{
	struct mapping_list *list = list_of("1000-2000 r-xp 00000000 08:02 1 /a\n"
					    "2000-3000 rw-p 00000000 08:02 1 /a\n"
					    "3000-4000 r-xp 00005000 08:02 1 /a\n"
					    "4000-6000 r-xp 00000000 08:02 2 /b\n");
	static const struct {
		const char *what;
		uint64_t address;
		uint64_t start; // 0: none
	} rows[] = {
		{ "below", 0xfff, 0 },        { "first", 0x1000, 0x1000 },
		{ "last", 0x1fff, 0x1000 },   { "data", 0x2000, 0 },
		{ "second", 0x3000, 0x3000 }, { "third", 0x4000, 0x4000 },
		{ "end", 0x5fff, 0x4000 },    { "above", 0x6000, 0 },
		{ "top", UINT64_MAX, 0 },
	};

	assert_int_equal(3, list->count);
	for EACH (row, rows) {
		struct mapping *mapping = mapping_list_find(list, row->address);

		EXPECT_EQ(row->start, mapping ? mapping->start : 0, row->what);
	}
	assert_int_equal(list->mappings[0].path, list->mappings[1].path); // kept once
	assert_null(mapping_list_find(NULL, 1));
	mapping_list_release(list);
}

TEST(leaves_out_unordered_mappings)
{
	struct mapping_list *list = list_of("3000-4000 r-xp 00000000 08:02 1 /a\n"
					    "1000-2000 r-xp 00000000 08:02 1 /a\n"
					    "3800-5000 r-xp 00000000 08:02 1 /a\n"
					    "5000-6000 r-xp 00000000 08:02 1 /a\n");

	assert_int_equal(2, list->count);
	assert_int_equal(0x5000, list->mappings[1].start);
	mapping_list_release(list);
}

TEST(bounds_many_and_long_lines)
{
	enum { LINES = MAPPINGS_MAX + 100 };
	int fd = memfd_create("maps", MFD_CLOEXEC);
	FILE *stream = fdopen(fd, "w+");
	struct mapping_list *list;

	for (uint64_t i = 0; i < 200000; i++) // one line longer than what is read at once
		fputc('x', stream);
	fputc('\n', stream);
	for (uint64_t i = 1; i < LINES; i++)
		fprintf(stream, "%llx-%llx r-xp 00000000 08:02 %llu /lib/%llu\n",
			(unsigned long long)i << 12, (unsigned long long)(i + 1) << 12,
			(unsigned long long)i, (unsigned long long)i);
	rewind(stream);
	assert_int_equal(0, mapping_list_read(fd, &list));
	assert_int_equal(MAPPINGS_MAX, list->count);
	assert_string_equal("/lib/60000",
			    mapping_path(list, mapping_list_find(list, 60000ULL << 12)));
	mapping_list_release(list);

	rewind(stream);
	assert_int_equal(0, ftruncate(fd, 0));
	fprintf(stream, "1000-2000 r-xp 00000000 08:02 1 /");
	for (int i = 0; i < 10000; i++)
		fputc('y', stream);
	fputc('\n', stream);
	rewind(stream);
	assert_int_equal(0, mapping_list_read(fd, &list));
	assert_int_equal(MAPPING_PATH_BYTES_MAX - 1,
			 strlen(mapping_path(list, &list->mappings[0])));
	mapping_list_release(list);
	fclose(stream);
}

TEST(a_new_list_inherits_opened_files)
{
	struct executable_table *table = executable_table_new();
	struct executable *executable;
	int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct mapping_list *old = list_of("1000-2000 r-xp 00000000 08:02 1 /a\n"
					   "3000-4000 r-xp 00000000 08:02 1 /a\n");
	struct mapping_list *list = list_of("0-1000 r-xp 00000000 08:02 1 /a\n"
					    "1000-2000 r-xp 00000000 08:02 1 /a\n"
					    "3000-4000 r-xp 00000000 08:02 7 /a\n");

	assert_int_equal(0, executable_table_open(table, fd, "x", &executable, NULL));
	for (int i = 0; i < 2; i++) {
		old->mappings[i].executable = executable_hold(executable);
		old->mappings[i].file = MAPPING_FILE_OPENED;
	}
	mapping_list_inherit(list, old);
	assert_int_equal(MAPPING_FILE_UNKNOWN, list->mappings[0].file);
	assert_ptr_equal(executable, list->mappings[1].executable);
	assert_int_equal(MAPPING_FILE_UNKNOWN, list->mappings[2].file); // another inode
	assert_false(mapping_list_equals(list, old));
	assert_true(mapping_list_equals(old, old));
	mapping_list_release(old);
	executable_table_trim(table);
	assert_false(executable_wants_file(executable)); // held by the new list
	mapping_list_release(list);
	close(fd);
	executable_table_free(table);
}

TEST(survives_random_bytes)
{
	srand(4);
	for (int round = 0; round < 20000; round++) {
		struct mapping_list *list = mapping_list_new();
		char line[120];
		int size = snprintf(line, sizeof(line), "%s/lib (deleted)", AT);

		for (int i = 0; i < 4; i++)
			line[rand() % size] = "0f-: x\\\n/\0\xff"[rand() % 11];
		assert_int_equal(0, mapping_list_add_line(list, line, (size_t)(rand() % size)));
		mapping_list_release(list);
	}
}

/* ---- files ---------------------------------------------------------------------------------- */

static struct mapping_list *own_mappings(void)
{
	int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct mapping_list *list = NULL;

	assert_int_equal(0, mapping_list_read(fd, &list));
	close(fd);
	return list;
}

TEST(opens_mapped_files_by_mapping_and_path)
{
	int folder = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct mapping_list *list = own_mappings();
	struct mapping *mapping = mapping_list_find(list, (uintptr_t)own_mappings);
	struct stat expected, status;

	assert_non_null(mapping);
	assert_int_equal(0, stat("/proc/self/exe", &expected));
	int fd = mapped_file_open(folder, list, mapping);
	if (fd == -EPERM)
		SKIP("needs CAP_CHECKPOINT_RESTORE to open map_files");
	assert_true(fd >= 0);
	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(expected.st_ino, status.st_ino);
	close(fd);

	char path[4096] = "";
	assert_true(readlink("/proc/self/exe", path, sizeof(path) - 1) > 0);
	fd = foreign_file_open(folder, path, expected.st_ino);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(-ESTALE, foreign_file_open(folder, path, expected.st_ino + 1));
	mapping_list_release(list);
	close(folder);
}

TEST(opens_a_deleted_file_by_its_mapping)
{
	int folder = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[] = "/tmp/cairn-mapping-XXXXXX";
	int file = mkstemp(path);

	assert_true(file >= 0);
	assert_int_equal(4, write(file, "code", 4));
	void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
	if (code == MAP_FAILED) {
		unlink(path);
		SKIP("/tmp is mounted noexec");
	}
	unlink(path);
	struct mapping_list *list = own_mappings();
	struct mapping *mapping = mapping_list_find(list, (uintptr_t)code);
	char bytes[4];

	assert_string_equal(path, mapping_path(list, mapping));
	int fd = mapped_file_open(folder, list, mapping);
	if (fd == -EPERM || fd == -ENOENT)
		SKIP("needs CAP_CHECKPOINT_RESTORE to open map_files");
	assert_true(fd >= 0);
	assert_int_equal(4, read(fd, bytes, 4));
	assert_memory_equal("code", bytes, 4);
	close(fd);
	munmap(code, 4096);
	mapping_list_release(list);
	close(file);
	close(folder);
}

TEST(the_vdso_is_a_file_with_symbols)
{
	struct executable_table *table = executable_table_new();
	struct mapping_list *list = own_mappings();
	struct executable *executable = NULL;
	struct symbol symbol;
	uint32_t vdso = 0;

	while (vdso < list->count && strcmp(mapping_path(list, &list->mappings[vdso]), "[vdso]"))
		vdso++;
	if (vdso == list->count)
		SKIP("this kernel maps no vdso");
	int fd = mapped_file_open_vdso();
	assert_true(fd >= 0);
	assert_int_equal(0, executable_table_open(table, fd, "[vdso]", &executable, NULL));
	close(fd);

	uint64_t found = 0, size = list->mappings[vdso].limit - list->mappings[vdso].start;
	for (uint64_t offset = 0; offset < size; offset += 16)
		if (executable_find_symbol(table, executable, offset, &symbol) == 0)
			found += strstr(symbol.name, "gettime") != NULL;
	assert_true(found > 0);
	mapping_list_release(list);
	executable_table_free(table);
}

TEST(stays_below_the_root_and_off_pipes)
{
	int folder = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	char path[] = "/tmp/cairn-root-XXXXXX", name[64];

	assert_non_null(mkdtemp(path));
	snprintf(name, sizeof(name), "%s/magic", path);
	assert_int_equal(0, symlink("/proc/self/exe", name));
	assert_int_equal(-ELOOP, foreign_file_open(folder, name, 0));
	unlink(name);
	snprintf(name, sizeof(name), "%s/pipe", path);
	assert_int_equal(0, mkfifo(name, 0600));
	assert_int_equal(-ENOEXEC, foreign_file_open(folder, name, 0));
	unlink(name);
	assert_int_equal(-ENOEXEC, foreign_file_open(folder, "/dev/zero", 0));
	assert_int_equal(-ENOENT, foreign_file_open(folder, "/no/such/file", 0));
	rmdir(path);
	close(folder);
}

static const struct {
	const char *what;
	const char *line;
	bool jit;
} codes[] = {
	{ "a library", AT "/usr/lib/libc.so.6", false },
	{ "anonymous", "00400000-00452000 r-xp 00000000 00:00 0", true },
	{ "named anonymous", "00400000-00452000 r-xp 00000000 00:00 0 [anon:v8]", true },
	{ "the heap", "00400000-00452000 rwxp 00000000 00:00 0 [heap]", true },
	{ "a memory file", AT "/memfd:doublemapper (deleted)", true },
	{ "shared anonymous", AT "/dev/zero (deleted)", true },
	{ "System V memory", AT "/SYSV00000000 (deleted)", true },
	{ "a jitdump's marker", AT "/tmp/jit-12.dump", true },
	{ "a folder called so", AT "/tmp/jit-12.dump/x", false },
	{ "another dump", AT "/tmp/jit-12.dumper", false },
	{ "the vdso", "7fff0000-7fff2000 r-xp 00000000 00:00 0 [vdso]", false },
	{ "uprobes", "7fff0000-7fff2000 --xp 00000000 00:00 0 [uprobes]", false },
	{ "vsyscall", "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]", false },
};

TEST(tells_jit_code_from_files)
{
	for EACH (row, codes) {
		struct mapping_list *list = mapping_list_new();

		mapping_list_add_line(list, row->line, strlen(row->line));
		EXPECT_EQ(1, list->count, row->what);
		EXPECT_EQ(row->jit, mapping_is_jit(list, &list->mappings[0]), row->what);
		mapping_list_release(list);
	}
}

static int put(struct mapping_list *list, uint64_t start, uint64_t limit, uint64_t inode,
	       const char *path)
{
	struct mapping mapping = {
		.start = start,
		.limit = limit,
		.file_offset = start,
		.inode = inode,
	};

	return mapping_list_put(list, &mapping, path, "");
}

TEST(a_new_mapping_covers_old_ones)
{
	struct mapping_list *list = mapping_list_new();

	assert_int_equal(1, put(list, 0x1000, 0x9000, 1, "/a"));
	assert_int_equal(1, put(list, 0x3000, 0x4000, 2, "/b (deleted)")); // into the middle
	assert_int_equal(3, list->count);
	assert_string_equal("/b", mapping_path(list, mapping_list_find(list, 0x3000)));
	assert_string_equal("/a", mapping_path(list, mapping_list_find(list, 0x2fff)));
	assert_string_equal("/a", mapping_path(list, mapping_list_find(list, 0x4000)));
	assert_int_equal(0x4000, mapping_list_find(list, 0x4000)->file_offset);
	assert_int_equal(1, put(list, 0x2000, 0x5000, 0, "")); // over parts of three
	assert_int_equal(3, list->count);
	assert_int_equal(MAPPING_FILE_NONE, mapping_list_find(list, 0x3000)->file);
	assert_int_equal(0x5000, mapping_list_find(list, 0x5000)->file_offset);
	assert_int_equal(1, put(list, 0, 0x10000, 3, "/memfd:x (deleted)")); // over all
	assert_int_equal(1, list->count);
	assert_string_equal("memfd:x", mapping_path(list, list->mappings));
	assert_int_equal(1, put(list, 0x10000, 0x11000, 0, "[vdso]")); // beside
	assert_int_equal(2, list->count);
	assert_int_equal(MAPPING_FILE_UNKNOWN, list->mappings[1].file);
	mapping_list_release(list);
}

TEST(a_repeated_event_changes_nothing)
{
	struct mapping_list *list = mapping_list_new();
	struct mapping mapping = { .start = 0x1000, .limit = 0x2000 };

	assert_int_equal(1, put(list, 0x5000, 0x9000, 7, "/a"));
	assert_int_equal(0, put(list, 0x5000, 0x9000, 7, "/a"));
	assert_int_equal(1, put(list, 0x5000, 0x9000, 8, "/a")); // replaced by another file
	assert_int_equal(1, put(list, 0x5000, 0xa000, 8, "/a"));
	assert_int_equal(0, put(list, 0x5000, 0x5000, 8, "/a")); // empty
	assert_int_equal(1, mapping_list_put(list, &mapping, "/c", "abcd"));
	assert_int_equal(0, mapping_list_put(list, &mapping, "/c", "abcd"));
	assert_string_equal("abcd", mapping_build_id(list, list->mappings));
	assert_int_equal(MAPPING_FILE_UNKNOWN, list->mappings[0].file);
	assert_int_equal(1, mapping_list_put(list, &mapping, "/c", "abce"));
	assert_int_equal(2, list->count);
	mapping_list_release(list);
}

/* Every page has the mapping that was put last. */
TEST(the_last_mapping_counts_in_any_order)
{
	enum { PAGES = 64, ROUNDS = 20000 };
	struct mapping_list *list = mapping_list_new();
	uint64_t pages[PAGES] = { 0 };

	srand(7);
	for (uint64_t round = 1; round < ROUNDS; round++) {
		uint64_t first = (uint64_t)rand() % PAGES;
		uint64_t end = first + 1 + (uint64_t)rand() % (round % 3 ? 4 : PAGES);
		char path[32];

		end = end > PAGES ? PAGES : end;
		snprintf(path, sizeof(path), "/file%u", (unsigned)round);
		assert_int_equal(1, put(list, first, end, round, path));
		for (uint64_t page = first; page < end; page++)
			pages[page] = round;
		for (uint64_t page = 0; page < PAGES; page++) {
			const struct mapping *mapping = mapping_list_find(list, page);

			assert_int_equal(pages[page], mapping ? mapping->inode : 0);
			if (!mapping)
				continue;
			snprintf(path, sizeof(path), "/file%u", (unsigned)pages[page]);
			assert_string_equal(path, mapping_path(list, mapping));
			assert_int_equal(page, page - mapping->start + mapping->file_offset);
		}
		if (round % 1000 == 0) {
			struct mapping_list *copy = mapping_list_copy(list);

			assert_true(mapping_list_equals(copy, list));
			mapping_list_release(list);
			list = copy;
		}
	}
	assert_true(list->texts_capacity < 64 << 10); // those of replaced mappings were freed
	mapping_list_release(list);
}

TEST(bounds_mappings_from_events)
{
	struct mapping_list *list = mapping_list_new();

	for (uint64_t i = 0; i < MAPPINGS_MAX; i++)
		assert_int_equal(1, put(list, 2 * i, 2 * i + 1, 1, "/a"));
	assert_int_equal(-E2BIG, put(list, UINT64_MAX - 1, UINT64_MAX, 1, "/a"));
	assert_int_equal(1, put(list, 0, UINT64_MAX, 1, "/b"));
	assert_int_equal(1, list->count);
	mapping_list_release(list);
}

RUN_TESTS(cmocka_unit_test(a_new_mapping_covers_old_ones),
	  cmocka_unit_test(a_repeated_event_changes_nothing),
	  cmocka_unit_test(the_last_mapping_counts_in_any_order),
	  cmocka_unit_test(bounds_mappings_from_events),
	  cmocka_unit_test(tells_jit_code_from_files),
	  cmocka_unit_test(reads_a_mapping_or_skips_the_line),
	  cmocka_unit_test(finds_the_mapping_around_an_address),
	  cmocka_unit_test(leaves_out_unordered_mappings),
	  cmocka_unit_test(bounds_many_and_long_lines),
	  cmocka_unit_test(a_new_list_inherits_opened_files),
	  cmocka_unit_test(survives_random_bytes),
	  cmocka_unit_test(opens_mapped_files_by_mapping_and_path),
	  cmocka_unit_test(opens_a_deleted_file_by_its_mapping),
	  cmocka_unit_test(the_vdso_is_a_file_with_symbols),
	  cmocka_unit_test(stays_below_the_root_and_off_pipes))
