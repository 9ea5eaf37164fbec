// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/executable_symbols.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "agent/elf/elf.h"
#include "agent/guard/work.h"
#include "tests/test.h"
#include "tests/unit/agent/elf/elf_writer.h"

int function_known_by_name(int number);

__attribute__((noinline)) int function_known_by_name(int number)
{
	return number * 3;
}

static struct executable *open_image(struct executable_table *table, const struct elf_image *image)
{
	struct executable *executable = NULL;
	struct error err = { 0 };
	int fd = image_open(image);

	if (executable_table_open(table, fd, "/lib/image.so", &executable, &err))
		fail_msg("%s", err.text);
	close(fd); // the table has its own
	return executable;
}

static void check_name(struct executable_table *table, struct executable *executable,
		       uint64_t offset, const char *name)
{
	struct symbol symbol = { .name = "(none)" };

	executable_find_symbol(table, executable, offset, &symbol);
	assert_string_equal(name, symbol.name);
}

/* Of a build id that begins with 00, in a process's files. */
#define DEBUG_FOLDER \
	"root"       \
	"/usr/lib/debug/.build-id/00"

TEST(demangles_names_and_cuts_versions)
{
	struct executable_table *table = executable_table_new();
	struct elf_image image;

	image_init(&image);
	image_add_symbol(&image, "_ZN4llvm5Value7getNameEv", 0x100, 16, STB_GLOBAL, STT_FUNC);
	image_add_symbol(&image, "memcpy@@GLIBC_2.14", 0x200, 16, STB_GLOBAL, STT_FUNC);
	image_add_symbol(&image, "plain", 0x300, 16, STB_GLOBAL, STT_FUNC);
	struct executable *executable = open_image(table, &image);
	assert_string_equal("000b16212c37424d58636e79848f9aa5b0bbc6d1", executable->id);
	assert_true(executable->has_build_id);
	assert_string_equal("/lib/image.so", executable->path);
	for (int again = 0; again < 2; again++) { // read, then cached
		check_name(table, executable, IMAGE_TEXT + 0x100, "llvm::Value::getName");
		check_name(table, executable, IMAGE_TEXT + 0x200, "memcpy");
		check_name(table, executable, IMAGE_TEXT + 0x300, "plain");
		check_name(table, executable, IMAGE_TEXT + 0x400, "(none)");
	}
	assert_true(executable_table_symbol_bytes(table) > 0);
	executable_table_free(table);
}

TEST(copies_are_one_executable)
{
	struct executable_table *table = executable_table_new();
	struct elf_image image;

	image_init(&image);
	struct executable *one = open_image(table, &image);
	assert_ptr_equal(one, open_image(table, &image)); // another file of the same content
	image.note_id[0]++;
	assert_ptr_not_equal(one, open_image(table, &image));
	image.segments[1].p_type = PT_NULL;
	image.sections[SECTION_NOTE].sh_type = SHT_NULL;
	struct executable *hashed = open_image(table, &image);
	assert_false(hashed->has_build_id);
	assert_int_equal('h', hashed->id[0]);
	assert_int_equal(3, executable_table_count(table));
	executable_table_free(table);
}

/* A build id is a file's own word: anybody's program may have libc's. */
TEST(same_build_id_has_separate_symbols)
{
	struct executable_table *table = executable_table_new();
	struct elf_image image;

	image_init(&image);
	image_add_symbol(&image, "forged", 0x100, 16, STB_GLOBAL, STT_FUNC);
	struct executable *forged = open_image(table, &image);
	check_name(table, forged, IMAGE_TEXT + 0x100, "forged");
	image_init(&image);
	image_add_symbol(&image, "malloc", 0x100, 16, STB_GLOBAL, STT_FUNC);
	struct executable *libc = open_image(table, &image);
	assert_ptr_not_equal(forged, libc);
	assert_string_equal(forged->id, libc->id);
	assert_string_not_equal(forged->key, libc->key);
	check_name(table, libc, IMAGE_TEXT + 0x100, "malloc");
	check_name(table, forged, IMAGE_TEXT + 0x100, "forged");
	executable_table_free(table);
}

TEST(a_written_file_names_nothing_more)
{
	struct executable_table *table = executable_table_new();
	struct executable *executable;
	struct elf_image image;
	struct file_version version;

	image_init(&image);
	image_add_symbol(&image, "one", 0x100, 16, STB_GLOBAL, STT_FUNC);
	uint32_t name = image_add_symbol(&image, "two", 0x200, 16, STB_GLOBAL, STT_FUNC)->st_name;
	int fd = image_open(&image);
	assert_int_equal(0, executable_table_open(table, fd, "x", &executable, NULL));
	check_name(table, executable, IMAGE_TEXT + 0x100, "one");
	usleep(20000); // the kernel's clock of files is coarse
	assert_int_equal(3,
			 pwrite(fd, "bad", 3, (off_t)(offsetof(struct elf_image, names) + name)));
	check_name(table, executable, IMAGE_TEXT + 0x200, "(none)");
	assert_true(executable_wants_file(executable));
	assert_int_equal(-ENOENT, executable_open_file(executable, &version));

	struct executable *written;
	assert_int_equal(0, executable_table_open(table, fd, "x", &written, NULL));
	assert_ptr_not_equal(executable, written);
	assert_ptr_equal(executable, open_image(table, &image)); // an unwritten copy
	check_name(table, executable, IMAGE_TEXT + 0x200, "two");
	close(fd);
	executable_table_free(table);
}

/* A package upgrade unlinks libraries that run: that changes their change time. */
TEST(a_renamed_file_goes_on_naming)
{
	struct executable_table *table = executable_table_new();
	struct executable *executable;
	struct elf_image image;
	struct file_version version;

	image_init(&image);
	image_add_symbol(&image, "one", 0x100, 16, STB_GLOBAL, STT_FUNC);
	int fd = image_open(&image);
	assert_int_equal(0, executable_table_open(table, fd, "x", &executable, NULL));
	for (int i = 0; i < 10; i++) {
		usleep(20000); // the kernel's clock of files is coarse
		assert_int_equal(0, fchmod(fd, i % 2 ? 0600 : 0640));
		int copy = executable_open_file(executable, &version);
		// Not for ever: somebody may do it to keep the agent busy.
		EXPECT_EQ(i < 4, copy >= 0, "is the same file");
		if (copy >= 0)
			close(copy);
		else
			assert_true(executable_wants_file(executable));
	}
	close(fd);
	executable_table_free(table);
}

/* What a container has under /usr/lib/debug names nobody else's functions. */
TEST(container_debug_file_is_private)
{
	char root[] = "/tmp/cairn-root-XXXXXX", command[512];
	struct executable_table *table = executable_table_new();
	struct executable *contained, *libc;
	static struct elf_image debug;
	struct elf_image image;

	assert_non_null(mkdtemp(root));
	snprintf(command, sizeof(command), "mkdir -p %s/%s", root, DEBUG_FOLDER);
	assert_int_equal(0, system(command));
	snprintf(command, sizeof(command), "%s/%s/%s.debug", root, DEBUG_FOLDER,
		 "0b16212c37424d58636e79848f9aa5b0bbc6d1");
	image_init(&debug);
	image_add_symbol(&debug, "forged", 0x100, 16, STB_GLOBAL, STT_FUNC);
	int fd = open(command, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	assert_int_equal(IMAGE_BYTES, write(fd, &debug, IMAGE_BYTES));
	close(fd);

	image_init(&image);
	fd = image_open(&image);
	int folder = open(root, O_PATH | O_DIRECTORY | O_CLOEXEC);
	for (int again = 0; again < 2; again++) {
		assert_int_equal(
			0, executable_table_open_of(table, fd, folder, "x", &contained, NULL));
		check_name(table, contained, IMAGE_TEXT + 0x100, "forged");
	}
	// The same file, mapped outside of the container.
	assert_int_equal(0, executable_table_open_of(table, fd, -1, "x", &libc, NULL));
	assert_ptr_not_equal(contained, libc);
	check_name(table, libc, IMAGE_TEXT + 0x100, "(none)");
	assert_int_equal(2, executable_table_count(table));
	close(fd);
	close(folder);
	snprintf(command, sizeof(command), "rm -r %s", root);
	assert_int_equal(0, system(command));
	executable_table_free(table);
}

static struct executable *open_with_mode(struct executable_table *table,
					 const struct elf_image *image, mode_t mode, uid_t owner)
{
	struct executable *executable = NULL;
	int fd = image_open(image);

	assert_int_equal(0, fchmod(fd, mode));
	if (owner && fchown(fd, owner, 0))
		executable = NULL; // not root: nothing is of the system
	assert_int_equal(0, executable_table_open(table, fd, "x", &executable, NULL));
	close(fd);
	return executable;
}

TEST(finds_system_files_by_build_id)
{
	struct executable_table *table = executable_table_new();
	struct elf_image image;

	if (geteuid() != 0)
		SKIP("needs root");
	image_init(&image);
	const char *id = open_with_mode(table, &image, 0777, 0)->id;
	assert_null(executable_table_find_system_file(table, id));
	image.text[0] = 1;
	open_with_mode(table, &image, 0755, 1000);
	assert_null(executable_table_find_system_file(table, id));
	image.text[0] = 2;
	struct executable *libc = open_with_mode(table, &image, 0755, 0);
	assert_ptr_equal(libc, executable_table_find_system_file(table, id));
	image.text[0] = 3;
	open_with_mode(table, &image, 0755, 1000);
	assert_ptr_equal(libc, executable_table_find_system_file(table, id));
	image.text[0] = 4;
	open_with_mode(table, &image, 0755, 0);
	assert_null(executable_table_find_system_file(table, id)); // which one is it?
	executable_table_free(table);
}

TEST(finds_a_known_file_by_stat)
{
	struct executable_table *table = executable_table_new();
	struct executable *executable;
	struct elf_image image;
	struct stat status;

	image_init(&image);
	int fd = image_open(&image);
	assert_int_equal(0, fstat(fd, &status));
	assert_null(executable_table_find_file(table, &status));
	assert_int_equal(0, executable_table_open(table, fd, "x", &executable, NULL));
	assert_ptr_equal(executable, executable_table_find_file(table, &status));
	status.st_mtim.tv_nsec++;
	assert_null(executable_table_find_file(table, &status));
	status.st_mtim.tv_nsec--; // as its owner may
	status.st_ctim.tv_nsec++;
	assert_null(executable_table_find_file(table, &status));
	close(fd);
	executable_table_free(table);
}

TEST(trimming_closes_files_without_holders)
{
	struct executable_table *table = executable_table_new();
	struct elf_image image;

	image_init(&image);
	image_add_symbol(&image, "one", 0x100, 16, STB_GLOBAL, STT_FUNC);
	image_add_symbol(&image, "two", 0x200, 16, STB_GLOBAL, STT_FUNC);
	struct executable *executable = executable_hold(open_image(table, &image));
	executable_table_trim(table);
	assert_false(executable_wants_file(executable));
	check_name(table, executable, IMAGE_TEXT + 0x100, "one");

	executable_release(executable);
	executable_table_trim(table);
	assert_true(executable_wants_file(executable));
	check_name(table, executable, IMAGE_TEXT + 0x100, "one"); // cached
	check_name(table, executable, IMAGE_TEXT + 0x200, "(none)");

	assert_ptr_equal(executable, open_image(table, &image));
	assert_false(executable_wants_file(executable));
	check_name(table, executable, IMAGE_TEXT + 0x200, "two");
	executable_table_free(table);
}

static uint32_t count_descriptors(void)
{
	uint32_t count = 0;

	for (int fd = 0; fd < 4 * EXECUTABLE_FILES_OPEN_MAX; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

TEST(bounds_open_files_and_reopens_them)
{
	struct executable_table *table = executable_table_new();
	struct executable *first = NULL, *executable;
	uint32_t before = count_descriptors();
	struct elf_image image;

	image_init(&image);
	for (uint32_t i = 0; i < EXECUTABLE_FILES_OPEN_MAX + 100; i++) {
		memcpy(image.note_id, &i, sizeof(i));
		executable = executable_hold(open_image(table, &image));
		first = first ? first : executable;
	}
	assert_int_equal(EXECUTABLE_FILES_OPEN_MAX, count_descriptors() - before);
	assert_true(executable_wants_file(first)); // the least recently used
	assert_false(executable_wants_file(executable));
	memset(image.note_id, 0, sizeof(uint32_t));
	assert_ptr_equal(first, open_image(table, &image));
	assert_false(executable_wants_file(first));
	executable_table_free(table);
	assert_int_equal(before, count_descriptors());
}

TEST(evicts_executables_without_holders)
{
	struct executable_table *table = executable_table_new();
	struct executable *held = NULL, *executable;
	struct elf_image image;
	struct error err = { 0 };
	int fd, rc;

	image_init(&image);
	for (uint32_t i = 0; i < EXECUTABLES_MAX; i++) {
		memcpy(image.note_id, &i, sizeof(i));
		fd = image_open_cut(&image, IMAGE_TEXT + IMAGE_TEXT_BYTES);
		rc = executable_table_open(table, fd, "x", &executable, NULL);
		assert_int_equal(0, rc);
		if (i == 0)
			held = executable_hold(executable);
		close(fd);
	}
	image.note_id[8]++;
	fd = image_open(&image);
	assert_int_equal(-ENOSPC, executable_table_open(table, fd, "x", &executable, &err));
	executable_table_trim(table);
	assert_true(executable_table_count(table) < EXECUTABLES_MAX);
	assert_memory_equal("00000000", held->id, 8);
	assert_int_equal(0, executable_table_open(table, fd, "x", &executable, NULL));
	close(fd);
	executable_table_free(table);
}

static int open_executable_for(struct executable_table *table, struct work_budget *budget,
			       struct elf_image *image, uint32_t id,
			       struct executable **ret_executable)
{
	struct work work;

	memcpy(image->note_id, &id, sizeof(id));
	int fd = image_open_cut(image, IMAGE_TEXT + IMAGE_TEXT_BYTES);
	assert_true(work_begin(&work, budget, "identifying files"));
	int rc = executable_table_open(table, fd, "x", ret_executable, NULL);
	work_end(&work);
	close(fd);
	return rc;
}

/* And hold it. */
static int open_for(struct executable_table *table, struct work_budget *budget,
		    struct elf_image *image, uint32_t id)
{
	struct executable *executable;
	int rc = open_executable_for(table, budget, image, id, &executable);

	if (!rc)
		executable_hold(executable);
	return rc;
}

TEST(one_payer_leaves_executables_to_others)
{
	struct executable_table *table = executable_table_new();
	struct work_pool pool = { .process_ns = UINT64_MAX / 4, .total_ns = UINT64_MAX / 4 };
	struct work_budget many, other;
	struct executable *shared;
	struct elf_image image;
	uint32_t count = 0;

	image_init(&image);
	work_budget_init(&many, &pool, 10, 1);
	work_budget_init(&other, &pool, 11, 1);
	while (count < EXECUTABLES_MAX && open_for(table, &many, &image, count) == 0)
		count++;
	EXPECT_EQ(EXECUTABLES_MAX / 2, count, "of the first payer");
	EXPECT_EQ(0, open_for(table, &other, &image, EXECUTABLES_MAX), "another's");
	for (uint32_t id = 0; id < 2; id++) {
		assert_int_equal(0, open_executable_for(table, &many, &image, id, &shared));
		executable_table_charge(table, shared, many.payer);
		EXPECT_EQ(-ENOSPC, open_for(table, &many, &image, count), "they are its own");
		for (int again = 0; again < 2; again++)
			executable_table_charge(table, shared, other.payer);
	}
	// It may have as many as it leaves: two files of several make room for one more.
	EXPECT_EQ(0, open_for(table, &many, &image, count), "two files are of several now");
	EXPECT_EQ(-ENOSPC, open_for(table, &many, &image, count + 1), "and no more");
	executable_table_free(table);
}

/* Who has two containers shares all files between them. */
TEST(two_payers_leave_executables_to_others)
{
	struct executable_table *table = executable_table_new();
	struct work_pool pool = { .process_ns = UINT64_MAX / 4, .total_ns = UINT64_MAX / 4 };
	struct work_budget first, second, other;
	struct executable *shared;
	struct elf_image image;
	uint32_t count = 0, others = 0;

	image_init(&image);
	work_budget_init(&first, &pool, 10, 1);
	work_budget_init(&second, &pool, 11, 1);
	work_budget_init(&other, &pool, 12, 1);
	for (int turn = 0; turn < 2; turn++) // when the first may have no more, the second goes on
		while (open_executable_for(table, turn ? &second : &first, &image, count,
					   &shared) == 0) {
			executable_hold(shared);
			executable_table_charge(table, shared, first.payer);
			executable_table_charge(table, shared, second.payer);
			count++;
		}
	while (open_for(table, &other, &image, count + others) == 0)
		others++;
	EXPECT_EQ(true, others >= EXECUTABLES_MAX / 16, "another payer's");
	executable_table_free(table);
}

enum { LARGE_FILES = 8, LARGE_SYMBOLS = 1 << 20 };

/* Files with 12 MiB of symbols each. */
static void open_large(struct executable_table *table,
		       struct executable *ret_executables[LARGE_FILES])
{
	static struct elf_image image;
	Elf64_Sym *symbols = calloc(LARGE_SYMBOLS, sizeof(*symbols));
	size_t size = LARGE_SYMBOLS * sizeof(*symbols);

	image_init(&image);
	image.segments[0].p_filesz = LARGE_SYMBOLS;
	image.sections[SECTION_SYMTAB].sh_offset = IMAGE_BYTES;
	image.sections[SECTION_SYMTAB].sh_size = size;
	for (uint32_t i = 0; i < LARGE_SYMBOLS; i++)
		symbols[i] = image_symbol(&image, "", i, 1, STB_GLOBAL, STT_FUNC),
		image.names_size = 1, symbols[i].st_name = 2, symbols[i].st_shndx = 60000;
	memcpy(image.names + 2, "it", 3);
	for (int i = 0; i < LARGE_FILES; i++) {
		image.note_id[0] = (uint8_t)i;
		int fd = image_open(&image);
		assert_int_equal(size, write(fd, symbols, size));
		assert_int_equal(0,
				 executable_table_open(table, fd, "x", &ret_executables[i], NULL));
		close(fd);
	}
	free(symbols);
}

TEST(one_payer_leaves_time_for_others_symbols)
{
	enum { READS_MAX = 10000 };
	struct executable_table *table = executable_table_new();
	struct executable *executables[LARGE_FILES];
	struct symbol symbol;
	int rc = 0;

	open_large(table, executables);
	for (int i = 1; i < LARGE_FILES; i++)
		executables[i]->payer = 7;
	executables[0]->payer = 8;
	// They do not fit the memory together: each is read again.
	for (int i = 0; !rc && i < READS_MAX; i++)
		rc = executable_find_symbol(table, executables[1 + i % (LARGE_FILES - 1)],
					    IMAGE_TEXT + 77, &symbol);
	EXPECT_EQ(-EAGAIN, rc, "the first payer's");
	EXPECT_EQ(0, executable_find_symbol(table, executables[0], IMAGE_TEXT + 77, &symbol),
		  "another's");
	uint32_t version = executables[0]->symbols_version;
	executable_table_poll(table);
	EXPECT_EQ(version, executables[0]->symbols_version, "nothing new for the other");
	executable_table_free(table);
}

TEST(symbol_tables_stay_within_their_memory)
{
	struct executable_table *table = executable_table_new();
	struct executable *executables[LARGE_FILES];

	open_large(table, executables);
	for (int i = 0; i < LARGE_FILES; i++) {
		executable_table_poll(table); // however slow this machine is at reading them
		check_name(table, executables[i], IMAGE_TEXT + 77, "it");
		assert_true(executable_table_symbol_bytes(table) <
			    EXECUTABLE_SYMBOL_MEMORY_MAX + (1 << 20));
	}
	executable_table_poll(table);
	check_name(table, executables[0], IMAGE_TEXT + 78, "it"); // evicted, read again
	executable_table_free(table);
}

TEST(refuses_other_files_with_their_path)
{
	struct executable_table *table = executable_table_new();
	struct executable *executable = NULL;
	struct error err = { 0 };
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);

	assert_int_equal(-ENOEXEC, executable_table_open(table, fd, "/x/y", &executable, &err));
	assert_non_null(strstr(err.text, "/x/y"));
	assert_null(executable);
	assert_int_equal(0, executable_table_count(table));
	close(fd);
	executable_table_free(table);
}

static void check_loaded(struct executable_table *table, const void *function, const char *name)
{
	struct executable *executable;
	struct symbol symbol = { .name = "(none)" };
	struct stat status;
	struct elf elf;
	Dl_info library;

	assert_true(dladdr(function, &library));
	int fd = open(library.dli_fname, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(0, elf_read_headers(fd, &status, &elf, NULL));
	uint64_t address = (uintptr_t)function - (uintptr_t)library.dli_fbase;
	uint64_t offset = elf_file_offset(elf_find_code(&elf, address), address);
	assert_int_equal(0, executable_table_open(table, fd, library.dli_fname, &executable, NULL));
	assert_int_equal(0, executable_find_symbol(table, executable, offset + 1, &symbol));
	assert_string_equal(name, symbol.name);
	assert_int_equal(offset, symbol.start_offset);
	assert_true(symbol.size > 1);
	close(fd);
}

TEST(reads_this_program_and_its_libraries)
{
	struct executable_table *table = executable_table_new();

	check_loaded(table, function_known_by_name, "function_known_by_name");
	check_loaded(table, dlsym(RTLD_DEFAULT, "lfind"), "lfind");
	check_loaded(table, dlsym(RTLD_DEFAULT, "_cmocka_run_group_tests"),
		     "_cmocka_run_group_tests");
	assert_int_equal(3, executable_table_count(table));
	executable_table_free(table);
}

RUN_TESTS(cmocka_unit_test(demangles_names_and_cuts_versions),
	  cmocka_unit_test(copies_are_one_executable),
	  cmocka_unit_test(same_build_id_has_separate_symbols),
	  cmocka_unit_test(a_written_file_names_nothing_more),
	  cmocka_unit_test(a_renamed_file_goes_on_naming),
	  cmocka_unit_test(container_debug_file_is_private),
	  cmocka_unit_test(finds_system_files_by_build_id),
	  cmocka_unit_test(finds_a_known_file_by_stat),
	  cmocka_unit_test(trimming_closes_files_without_holders),
	  cmocka_unit_test(bounds_open_files_and_reopens_them),
	  cmocka_unit_test(evicts_executables_without_holders),
	  cmocka_unit_test(one_payer_leaves_executables_to_others),
	  cmocka_unit_test(two_payers_leave_executables_to_others),
	  cmocka_unit_test(one_payer_leaves_time_for_others_symbols),
	  cmocka_unit_test(symbol_tables_stay_within_their_memory),
	  cmocka_unit_test(refuses_other_files_with_their_path),
	  cmocka_unit_test(reads_this_program_and_its_libraries))
