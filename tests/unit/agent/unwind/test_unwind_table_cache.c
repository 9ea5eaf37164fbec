// SPDX-License-Identifier: Apache-2.0
#include "agent/unwind/unwind_table_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/unwind/unwind_table_file.h"
#include "base/cleanup.h"
#include "tests/test.h"

enum { BLOCKS = 3, ROWS = 5 };

/* A folder of its own for each test, and what is needed to look into it. */
struct folder {
	char path[64];
	struct unwind_table_cache *cache;
};

static void folder_open(struct folder *folder, uint64_t bytes_max)
{
	struct error err;

	snprintf(folder->path, sizeof(folder->path), "/tmp/cairn-test-XXXXXX");
	assert_non_null(mkdtemp(folder->path));
	assert_int_equal(0, unwind_table_cache_open(folder->path, bytes_max, &folder->cache, &err));
}

static void path_in(const struct folder *folder, const char *name, char ret_path[160])
{
	assert_true(snprintf(ret_path, 160, "%s/%s", folder->path, name) < 160);
}

/* The names of its files, in no order; "" where there are no more. */
static uint32_t folder_list(const struct folder *folder, char names[][64], uint32_t limit)
{
	DIR *listing = opendir(folder->path);
	struct dirent *entry;
	uint32_t count = 0;

	assert_non_null(listing);
	while ((entry = readdir(listing))) {
		if (entry->d_name[0] == '.')
			continue;
		assert_true(count < limit);
		snprintf(names[count++], 64, "%.63s", entry->d_name);
	}
	closedir(listing);
	return count;
}

static int folder_open_only_file(const struct folder *folder, int flags)
{
	char names[2][64], path[160];

	assert_int_equal(1, folder_list(folder, names, 2));
	path_in(folder, names[0], path);
	int fd = open(path, flags | O_CLOEXEC);
	assert_true(fd >= 0);
	return fd;
}

static void folder_close(struct folder *folder)
{
	char names[64][64], path[160];
	uint32_t count = folder_list(folder, names, 64);

	unwind_table_cache_close(folder->cache);
	for (uint32_t i = 0; i < count; i++) {
		path_in(folder, names[i], path);
		assert_int_equal(0, unlink(path));
	}
	assert_int_equal(0, rmdir(folder->path));
}

/* @salt makes tables differ. */
static struct unwind_table *new_table(uint32_t salt)
{
	static const uint32_t words[BLOCKS + 1 + ROWS] = { 4, 6, 7,
							   9, 1, 100 << TABLE_RULE_BITS | 2,
							   0, 2, 7 << TABLE_RULE_BITS | 1 };
	struct unwind_table *table = calloc(1, sizeof(*table));

	assert_non_null(table);
	*table = (struct unwind_table){ .first_address = 0x401000 + (uint64_t)salt * 4096,
					.block_count = BLOCKS,
					.word_count = ARRAY_SIZE(words),
					.rule_count = 3,
					.row_count = ROWS,
					.unsupported_count = salt };
	table->words = malloc(sizeof(words));
	table->rules = calloc(3, sizeof(*table->rules));
	assert_true(table->words && table->rules);
	memcpy(table->words, words, sizeof(words));
	table->rules[1] = (struct unwind_rule){ .cfa = CFA_REGISTER, .cfa_offset = (int)salt };
	table->rules[2] = (struct unwind_rule){ .cfa = CFA_END };
	return table;
}

static void expect_same(const struct unwind_table *expected, const struct unwind_table *actual)
{
	assert_int_equal(expected->first_address, actual->first_address);
	assert_int_equal(expected->block_count, actual->block_count);
	assert_int_equal(expected->word_count, actual->word_count);
	assert_int_equal(expected->rule_count, actual->rule_count);
	assert_int_equal(expected->row_count, actual->row_count);
	assert_int_equal(expected->unsupported_count, actual->unsupported_count);
	assert_memory_equal(expected->words, actual->words, expected->word_count * 4);
	assert_memory_equal(expected->rules, actual->rules, expected->rule_count * 16);
}

static void add(struct folder *folder, const char *id, uint64_t marks, uint32_t salt)
{
	struct unwind_table *table = new_table(salt);

	assert_int_equal(0, unwind_table_cache_add(folder->cache, id, marks, table));
	unwind_table_free(table);
}

static void expect_found(struct folder *folder, const char *id, uint64_t marks, uint32_t salt)
{
	struct unwind_table *expected = new_table(salt), *found = NULL;

	assert_int_equal(0, unwind_table_cache_find(folder->cache, id, marks, &found));
	expect_same(expected, found);
	unwind_table_free(expected);
	unwind_table_free(found);
}

static int find(struct folder *folder, const char *id, uint64_t marks)
{
	struct unwind_table *found = NULL;
	int rc = unwind_table_cache_find(folder->cache, id, marks, &found);

	unwind_table_free(found);
	return rc;
}

TEST(finds_a_table_by_id_and_marks)
{
	struct folder folder;

	folder_open(&folder, 1 << 20);
	assert_int_equal(-ENOENT, find(&folder, "abc", 0));
	add(&folder, "abc", 0, 1);
	add(&folder, "abc", 7, 2);
	add(&folder, "../../etc/passwd", 0, 3);
	expect_found(&folder, "abc", 0, 1);
	expect_found(&folder, "abc", 7, 2);
	expect_found(&folder, "../../etc/passwd", 0, 3);
	assert_int_equal(-ENOENT, find(&folder, "abd", 0));
	assert_int_equal(-ENOENT, find(&folder, "abc", 1));
	folder_close(&folder);
}

TEST(keeps_an_empty_table)
{
	struct unwind_table empty = { 0 }, *found = NULL;
	struct folder folder;

	folder_open(&folder, 1 << 20);
	assert_int_equal(0, unwind_table_cache_add(folder.cache, "none", 0, &empty));
	assert_int_equal(0, unwind_table_cache_find(folder.cache, "none", 0, &found));
	assert_int_equal(0, found->block_count);
	unwind_table_free(found);
	folder_close(&folder);
}

TEST(refuses_invalid_ids)
{
	struct folder folder;
	char long_id[UNWIND_TABLE_ID_MAX + 2];

	memset(long_id, 'x', sizeof(long_id));
	long_id[sizeof(long_id) - 1] = '\0';
	folder_open(&folder, 1 << 20);
	assert_int_equal(-ENAMETOOLONG, find(&folder, "", 0));
	assert_int_equal(-ENAMETOOLONG, find(&folder, long_id, 0));
	long_id[UNWIND_TABLE_ID_MAX] = '\0';
	add(&folder, long_id, 0, 4);
	expect_found(&folder, long_id, 0, 4);
	folder_close(&folder);
}

TEST(ignores_tables_of_another_build)
{
	struct unwind_table_key key = { .id = "abc", .builder = 1 }, other = key;
	struct unwind_table *table = new_table(1), *found = NULL;
	int fd = memfd_create("table", MFD_CLOEXEC);

	other.builder = 2;
	assert_int_equal(0, unwind_table_file_write(fd, &key, table));
	uint64_t size = unwind_table_file_bytes(table);
	assert_int_equal(0, lseek(fd, 0, SEEK_SET));
	assert_int_equal(-EBADMSG, unwind_table_file_read(fd, size, &other, &found));
	assert_int_equal(0, lseek(fd, 0, SEEK_SET));
	assert_int_equal(0, unwind_table_file_read(fd, size, &key, &found));
	expect_same(table, found);
	unwind_table_free(table);
	unwind_table_free(found);
	close(fd);
}

TEST(a_table_outlives_the_agent)
{
	struct folder folder;
	struct error err;

	folder_open(&folder, 1 << 20);
	add(&folder, "abc", 0, 1);
	unwind_table_cache_close(folder.cache);
	assert_int_equal(0, unwind_table_cache_open(folder.path, 1 << 20, &folder.cache, &err));
	expect_found(&folder, "abc", 0, 1);
	folder_close(&folder);
}

TEST(notices_each_altered_byte)
{
	struct folder folder;
	struct stat status;

	folder_open(&folder, 1 << 20);
	add(&folder, "abc", 0, 1);
	int fd = folder_open_only_file(&folder, O_RDONLY);
	assert_int_equal(0, fstat(fd, &status));
	close(fd);
	for (off_t at = 0; at < status.st_size; at++) {
		uint8_t byte;

		fd = folder_open_only_file(&folder, O_RDWR);
		assert_int_equal(1, pread(fd, &byte, 1, at));
		byte ^= 0x10;
		assert_int_equal(1, pwrite(fd, &byte, 1, at));
		close(fd);
		EXPECT_EQ(-ENOENT, find(&folder, "abc", 0), "altered");
		add(&folder, "abc", 0, 1); // it was removed, and can be kept again
	}
	expect_found(&folder, "abc", 0, 1);
	folder_close(&folder);
}

TEST(notices_each_truncation_and_addition)
{
	struct folder folder;
	struct stat status;

	folder_open(&folder, 1 << 20);
	add(&folder, "abc", 0, 1);
	int fd = folder_open_only_file(&folder, O_RDONLY);
	assert_int_equal(0, fstat(fd, &status));
	close(fd);
	for (off_t size = 0; size <= status.st_size + 1; size++) {
		if (size == status.st_size)
			continue;
		fd = folder_open_only_file(&folder, O_RDWR);
		assert_int_equal(0, ftruncate(fd, size));
		close(fd);
		EXPECT_EQ(-ENOENT, find(&folder, "abc", 0), "cut");
		add(&folder, "abc", 0, 1);
	}
	folder_close(&folder);
}

TEST(refuses_a_file_under_another_name)
{
	char names[2][64], one[160], other[160];
	struct folder folder;

	folder_open(&folder, 1 << 20);
	add(&folder, "abc", 0, 1);
	assert_int_equal(1, folder_list(&folder, names, 2));
	path_in(&folder, names[0], one);
	snprintf(other, sizeof(other), "%s/kept", folder.path);
	assert_int_equal(0, rename(one, other));
	add(&folder, "abd", 0, 2);
	assert_int_equal(2, folder_list(&folder, names, 2));
	path_in(&folder, strcmp(names[0], "kept") == 0 ? names[1] : names[0], one);
	assert_int_equal(0, rename(other, one)); // abc's table where abd's was
	assert_int_equal(-ENOENT, find(&folder, "abd", 0));
	folder_close(&folder);
}

TEST(does_not_follow_links)
{
	char names[2][64], one[160], other[160];
	struct folder folder;
	struct error err;

	folder_open(&folder, 1 << 20);
	add(&folder, "abc", 0, 1);
	assert_int_equal(1, folder_list(&folder, names, 2));
	path_in(&folder, names[0], one);
	snprintf(other, sizeof(other), "%s/other", folder.path);

	assert_int_equal(0, link(one, other)); // somebody else may write to it
	assert_int_equal(-ENOENT, find(&folder, "abc", 0));
	assert_int_equal(0, unlink(one));
	assert_int_equal(0, symlink(other, one));
	assert_int_equal(-ENOENT, find(&folder, "abc", 0));
	add(&folder, "abc", 0, 1); // takes the link's place
	expect_found(&folder, "abc", 0, 1);

	struct unwind_table_cache *linked = NULL;
	assert_int_equal(0, unlink(other));
	snprintf(other, sizeof(other), "%s-link", folder.path);
	assert_int_equal(0, symlink(folder.path, other));
	assert_true(unwind_table_cache_open(other, 1 << 20, &linked, &err) < 0);
	assert_int_equal(0, unlink(other));
	folder_close(&folder);
}

TEST(gives_permissions_to_nobody_else)
{
	struct folder folder;
	struct stat status;
	struct error err;

	folder_open(&folder, 1 << 20);
	add(&folder, "abc", 0, 1);
	int fd = folder_open_only_file(&folder, O_RDONLY);
	assert_int_equal(0, fstat(fd, &status));
	close(fd);
	assert_int_equal(0600, status.st_mode & 07777);

	assert_int_equal(0, chmod(folder.path, 0777));
	unwind_table_cache_close(folder.cache);
	assert_int_equal(0, unwind_table_cache_open(folder.path, 1 << 20, &folder.cache, &err));
	assert_int_equal(0, stat(folder.path, &status));
	assert_int_equal(0700, status.st_mode & 07777);
	folder_close(&folder);
}

TEST(refuses_a_folder_of_another_user)
{
	char path[] = "/tmp/cairn-test-XXXXXX";
	struct unwind_table_cache *cache;
	struct error err;

	if (geteuid() != 0)
		SKIP("needs root, to give a folder away");
	assert_non_null(mkdtemp(path));
	assert_int_equal(0, chown(path, 65534, 65534));
	assert_int_equal(-EPERM, unwind_table_cache_open(path, 1 << 20, &cache, &err));
	assert_int_equal(0, rmdir(path));
}

TEST(creates_missing_folders)
{
	char path[] = "/tmp/cairn-test-XXXXXX", inner[64];
	struct unwind_table_cache *cache;
	struct stat status;
	struct error err;

	assert_non_null(mkdtemp(path));
	snprintf(inner, sizeof(inner), "%s/a/b", path);
	assert_int_equal(0, unwind_table_cache_open(inner, 1 << 20, &cache, &err));
	assert_int_equal(0, stat(inner, &status));
	assert_int_equal(0700, status.st_mode & 07777);
	unwind_table_cache_close(cache);
	assert_int_equal(0, rmdir(inner));
	snprintf(inner, sizeof(inner), "%s/a", path);
	assert_int_equal(0, rmdir(inner));
	assert_int_equal(0, rmdir(path));
}

/* As if the file had been used @seconds ago. */
static void make_older(const struct folder *folder, int seconds)
{
	char names[64][64], path[160];
	uint32_t count = folder_list(folder, names, 64);

	for (uint32_t i = 0; i < count; i++) {
		struct stat status;
		struct timespec times[2] = { 0 };

		path_in(folder, names[i], path);
		assert_int_equal(0, stat(path, &status));
		times[0].tv_nsec = UTIME_OMIT;
		times[1].tv_sec = status.st_mtim.tv_sec - seconds;
		assert_int_equal(0, utimensat(AT_FDCWD, path, times, 0));
	}
}

TEST(evicts_least_recently_used_files)
{
	struct unwind_table *table = new_table(0);
	uint64_t bytes = 72 + UNWIND_TABLE_ID_MAX + 3 * 16 + table->word_count * 4;
	struct folder folder;
	char id[16];

	folder_open(&folder, 8 * bytes);
	for (uint32_t i = 0; i < 8; i++) {
		snprintf(id, sizeof(id), "id%u", i);
		add(&folder, id, 0, i);
		make_older(&folder, 10);
	}
	expect_found(&folder, "id0", 0, 0); // used now: 1 and 2 are the oldest
	make_older(&folder, 10);
	add(&folder, "id8", 0, 8);
	expect_found(&folder, "id0", 0, 0);
	expect_found(&folder, "id8", 0, 8);
	assert_int_equal(-ENOENT, find(&folder, "id1", 0));
	assert_int_equal(-ENOENT, find(&folder, "id2", 0));
	expect_found(&folder, "id3", 0, 3);

	struct unwind_table large = *table;
	large.word_count = 1000;
	assert_int_equal(-EFBIG, unwind_table_cache_add(folder.cache, "large", 0, &large));
	unwind_table_free(table);
	folder_close(&folder);
}

TEST(removes_leftovers_of_a_dead_agent)
{
	struct folder folder;
	struct error err;
	char path[160], names[2][64];

	folder_open(&folder, 1 << 20);
	snprintf(path, sizeof(path), "%s/1-0.new", folder.path);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	unwind_table_cache_close(folder.cache);
	assert_int_equal(0, unwind_table_cache_open(folder.path, 1 << 20, &folder.cache, &err));
	assert_int_equal(1, folder_list(&folder, names, 2)); // it may still be written to
	make_older(&folder, 2 * 3600);
	unwind_table_cache_close(folder.cache);
	assert_int_equal(0, unwind_table_cache_open(folder.path, 1 << 20, &folder.cache, &err));
	assert_int_equal(0, folder_list(&folder, names, 2));
	folder_close(&folder);
}

TEST(hashes_marks_and_their_order)
{
	struct unwind_mark one[] = { { 0x1000, 0x2000, 1 }, { 0x3000, 0x4000, 1 } };
	struct unwind_mark other[] = { { 0x1000, 0x2000, 1 }, { 0x3000, 0x4001, 1 } };

	memset(&((uint8_t *)&one[0])[17], 0xaa, 7); // padding
	assert_true(unwind_marks_hash(one, 2) != unwind_marks_hash(other, 2));
	assert_true(unwind_marks_hash(one, 1) == unwind_marks_hash(other, 1));
	assert_true(unwind_marks_hash(one, 0) == unwind_marks_hash(NULL, 0));
}

RUN_TESTS(cmocka_unit_test(finds_a_table_by_id_and_marks), cmocka_unit_test(keeps_an_empty_table),
	  cmocka_unit_test(refuses_invalid_ids), cmocka_unit_test(ignores_tables_of_another_build),
	  cmocka_unit_test(a_table_outlives_the_agent), cmocka_unit_test(notices_each_altered_byte),
	  cmocka_unit_test(notices_each_truncation_and_addition),
	  cmocka_unit_test(refuses_a_file_under_another_name),
	  cmocka_unit_test(does_not_follow_links),
	  cmocka_unit_test(gives_permissions_to_nobody_else),
	  cmocka_unit_test(refuses_a_folder_of_another_user),
	  cmocka_unit_test(creates_missing_folders),
	  cmocka_unit_test(evicts_least_recently_used_files),
	  cmocka_unit_test(removes_leftovers_of_a_dead_agent),
	  cmocka_unit_test(hashes_marks_and_their_order))
