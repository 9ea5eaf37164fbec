// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/identity_cache.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/symbols/executable.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/test.h"
#include "tests/unit/agent/elf/elf_writer.h"

#define LATER_NS (2 * IDENTITY_SETTLED_NS)

enum {
	HEADER_BYTES = 64,
	RECORD_BYTES = 168, // of docs/format.md
	BOOT_ID_AT = 8,
	COUNT_AT = 56,
};

/* A cache in a folder of its own, with programs beside it. */
struct setting {
	char folder[64], caches[80], path[96];
	struct identity_cache *cache;
	int process; // its folder in /proc
};

static void write_image(const char *path, int number)
{
	struct elf_image image;

	image_init(&image);
	image.note_id[0] = (uint8_t)number;
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(IMAGE_BYTES, write(fd, &image, IMAGE_BYTES));
}

static void setting_open(struct setting *setting)
{
	snprintf(setting->folder, sizeof(setting->folder), "/tmp/cairn-test-XXXXXX");
	assert_non_null(mkdtemp(setting->folder));
	snprintf(setting->caches, sizeof(setting->caches), "%s/cache", setting->folder);
	snprintf(setting->path, sizeof(setting->path), "%s/program", setting->folder);
	write_image(setting->path, 1);
	setting->process = open("/proc/self", O_PATH | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(0, identity_cache_open(setting->caches, &setting->cache, NULL));
}

static void setting_close(struct setting *setting)
{
	char command[96];

	identity_cache_close(setting->cache);
	close(setting->process);
	snprintf(command, sizeof(command), "rm -r %s", setting->folder);
	assert_int_equal(0, system(command));
}

static void reopen(struct setting *setting)
{
	identity_cache_close(setting->cache);
	assert_int_equal(0, identity_cache_open(setting->caches, &setting->cache, NULL));
}

static struct opened_file opened(const struct setting *setting, int fd)
{
	struct opened_file file = { .fd = fd, .folder = setting->process, .path = "program" };

	assert_true(fd >= 0);
	assert_int_equal(0, fstat(fd, &file.status));
	file.version = file_version_of(&file.status);
	opened_file_find_root(&file);
	return file;
}

static struct opened_file open_program(const struct setting *setting)
{
	return opened(setting, open(setting->path, O_RDONLY | O_CLOEXEC));
}

static bool finds(struct setting *setting, const struct opened_file *file)
{
	struct file_identity identity;

	return identity_cache_find(setting->cache, file, &identity);
}

/* Reads it, and adds it as if it had been written some minutes ago. */
static struct file_identity add(struct setting *setting, const struct opened_file *file)
{
	struct file_identity identity = { 0 };
	struct error err;

	assert_int_equal(0, file_identity_read(file, &identity, &err));
	identity_cache_add(setting->cache, file, &identity, clock_realtime_ns() + LATER_NS);
	return identity;
}

/* What a machine whose /tmp is in memory, or not root's, cannot show. */
static struct file_identity add_program(struct setting *setting, struct opened_file *ret_file)
{
	*ret_file = open_program(setting);
	struct file_identity identity = add(setting, ret_file);

	if (!finds(setting, ret_file))
		SKIP("needs root, and /tmp on a disk");
	return identity;
}

static int open_cache_file(const struct setting *setting, int flags)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/identities", setting->caches);
	return open(path, flags | O_CLOEXEC);
}

TEST(finds_unchanged_files_after_restart)
{
	struct file_identity found = { 0 };
	struct identity_cache_stats stats;
	struct setting setting;
	struct opened_file file;

	setting_open(&setting);
	struct file_identity added = add_program(&setting, &file);
	reopen(&setting);
	assert_true(identity_cache_find(setting.cache, &file, &found));
	assert_string_equal(added.id, found.id);
	assert_string_equal(added.content, found.content);
	assert_string_equal(added.key, found.key);
	identity_cache_read_stats(setting.cache, &stats);
	assert_int_equal(1, stats.found);
	assert_int_equal(0, stats.damaged);
	close(file.fd);
	setting_close(&setting);
}

/* Its owner sets back the modification time, never the change time. */
TEST(never_takes_a_changed_file_from_the_cache)
{
	struct setting setting;
	struct opened_file file;
	struct executable *executable;

	setting_open(&setting);
	struct file_identity before = add_program(&setting, &file);
	const struct timespec times[] = { file.status.st_atim, file.status.st_mtim };
	close(file.fd);
	usleep(20000); // the kernel's clock of files is coarse
	write_image(setting.path, 2);
	assert_int_equal(0, utimensat(AT_FDCWD, setting.path, times, 0));
	reopen(&setting);

	file = open_program(&setting);
	assert_int_equal(times[1].tv_nsec, file.status.st_mtim.tv_nsec);
	assert_int_equal(IMAGE_BYTES, file.status.st_size);
	struct executable_table *table = executable_table_new();
	executable_table_use_identities(table, setting.cache);
	assert_int_equal(0, executable_table_open_of(table, file.fd, setting.process, "program",
						     &executable, NULL));
	assert_string_not_equal(before.key, executable->key);
	assert_false(finds(&setting, &file));
	close(file.fd);
	executable_table_free(table);
	setting_close(&setting);
}

TEST(caches_executables)
{
	struct setting setting;
	struct opened_file file;
	struct executable *executable;
	struct identity_cache_stats stats;

	setting_open(&setting);
	struct file_identity identity = add_program(&setting, &file);
	reopen(&setting);
	struct executable_table *table = executable_table_new();
	executable_table_use_identities(table, setting.cache);
	assert_int_equal(0, executable_table_open_of(table, file.fd, setting.process, "program",
						     &executable, NULL));
	assert_string_equal(identity.key, executable->key);
	identity_cache_read_stats(setting.cache, &stats);
	assert_int_equal(1, stats.found);
	close(file.fd);
	executable_table_free(table);
	setting_close(&setting);
}

static void others_write(struct opened_file *file)
{
	assert_int_equal(0, fchmod(file->fd, 0757));
}

static void group_writes(struct opened_file *file)
{
	assert_int_equal(0, fchmod(file->fd, 0775));
}

static void is_somebodys(struct opened_file *file)
{
	assert_int_equal(0, fchown(file->fd, 65534, 65534));
}

static void is_in_memory(struct opened_file *file)
{
	struct elf_image image;

	image_init(&image);
	close(file->fd);
	file->fd = image_open(&image);
}

static void is_of_a_container(struct opened_file *file)
{
	(void)file;
}

TEST(keeps_nothing_that_may_change_unseen)
{
	static const struct {
		const char *what;
		void (*make)(struct opened_file *file);
		bool keeps_root;
	} rows[] = {
		{ "others may write it", others_write, true },
		{ "its group may write it", group_writes, true },
		{ "not root's", is_somebodys, true },
		{ "in memory", is_in_memory, true },
		{ "of a container", is_of_a_container, false },
	};
	struct setting setting;
	struct opened_file file;

	setting_open(&setting);
	add_program(&setting, &file);
	close(file.fd);
	for EACH (row, rows) {
		unlink(setting.path);
		write_image(setting.path, 3);
		file = open_program(&setting);
		row->make(&file);
		file = opened(&setting, file.fd);
		file.has_host_root = row->keeps_root;
		add(&setting, &file);
		file.has_host_root = true;
		EXPECT_EQ(false, finds(&setting, &file), row->what);
		close(file.fd);
	}
	setting_close(&setting);
}

TEST(rejects_entries_writable_by_others)
{
	struct setting setting;
	struct opened_file file;

	setting_open(&setting);
	add_program(&setting, &file);
	file.status.st_mode |= S_IWOTH;
	assert_false(finds(&setting, &file));
	file.status.st_mode &= ~(mode_t)S_IWOTH;
	file.has_host_root = false;
	assert_false(finds(&setting, &file));
	close(file.fd);
	setting_close(&setting);
}

/* A write within one tick of the kernel's clock, or to a dirty page, leaves the change time. */
TEST(keeps_nothing_that_changed_a_moment_ago)
{
	struct file_identity identity = { 0 };
	struct setting setting;

	setting_open(&setting);
	struct opened_file file = open_program(&setting);
	assert_int_equal(0, file_identity_read(&file, &identity, NULL));
	identity_cache_add(setting.cache, &file, &identity, clock_realtime_ns());
	assert_false(finds(&setting, &file));
	close(file.fd);
	setting_close(&setting);
}

TEST(ignores_another_boot_and_another_build)
{
	static const struct {
		const char *what;
		off_t at;
	} rows[] = { { "boot", BOOT_ID_AT }, { "build", BOOT_ID_AT + 40 }, { "format", 0 } };
	struct setting setting;
	struct opened_file file;

	for EACH (row, rows) {
		setting_open(&setting);
		add_program(&setting, &file);
		assert_int_equal(0, identity_cache_save(setting.cache));
		int fd = open_cache_file(&setting, O_WRONLY);
		assert_int_equal(1, pwrite(fd, "!", 1, row->at));
		close(fd);
		reopen(&setting);
		EXPECT_EQ(false, finds(&setting, &file), row->what);
		close(file.fd);
		setting_close(&setting);
	}
}

TEST(drops_and_counts_damaged_entries)
{
	static const struct {
		const char *what;
		off_t at;
		const char *bytes;
		off_t size; // then the file ends
		uint64_t damaged;
	} rows[] = {
		{ "content", HEADER_BYTES + 130, "!!", HEADER_BYTES + RECORD_BYTES, 1 },
		{ "version", HEADER_BYTES + 8, "!!", HEADER_BYTES + RECORD_BYTES, 1 },
		{ "truncated", COUNT_AT, "\1", HEADER_BYTES + RECORD_BYTES - 1, 1 },
		{ "count", COUNT_AT, "\xff\xff\xff\xff\xff\xff\xff\x7f", HEADER_BYTES,
		  IDENTITIES_MAX },
		{ "header", 0, "c", HEADER_BYTES - 1, 0 },
	};
	struct identity_cache_stats stats;
	struct setting setting;
	struct opened_file file;

	for EACH (row, rows) {
		setting_open(&setting);
		add_program(&setting, &file);
		assert_int_equal(0, identity_cache_save(setting.cache));
		int fd = open_cache_file(&setting, O_WRONLY);
		ssize_t size = (ssize_t)strlen(row->bytes);
		assert_int_equal(size, pwrite(fd, row->bytes, (size_t)size, row->at));
		assert_int_equal(0, ftruncate(fd, row->size));
		close(fd);
		reopen(&setting);
		EXPECT_EQ(false, finds(&setting, &file), row->what);
		identity_cache_read_stats(setting.cache, &stats);
		EXPECT_EQ(row->damaged, stats.damaged, row->what);
		close(file.fd);
		setting_close(&setting);
	}
}

TEST(believes_no_cache_that_others_may_write)
{
	struct setting setting;
	struct opened_file file;
	struct stat status;

	setting_open(&setting);
	add_program(&setting, &file);
	assert_int_equal(0, identity_cache_save(setting.cache));
	assert_int_equal(0, chmod(setting.caches, 0777));
	int fd = open_cache_file(&setting, O_RDONLY);
	assert_int_equal(0, fchmod(fd, 0666));
	close(fd);
	reopen(&setting);
	assert_false(finds(&setting, &file));
	assert_int_equal(0, stat(setting.caches, &status));
	assert_int_equal(0700, status.st_mode & 0777);
	close(file.fd);
	setting_close(&setting);
}

TEST(two_programs_keep_each_others_entries)
{
	struct identity_cache *other = NULL;
	struct file_identity identity;
	struct setting setting;
	struct opened_file file;
	char path[112];

	setting_open(&setting);
	assert_int_equal(0, identity_cache_open(setting.caches, &other, NULL));
	add_program(&setting, &file);
	snprintf(path, sizeof(path), "%s-2", setting.path);
	write_image(path, 2);
	struct opened_file second = opened(&setting, open(path, O_RDONLY | O_CLOEXEC));
	identity = (struct file_identity){ 0 };
	assert_int_equal(0, file_identity_read(&second, &identity, NULL));
	identity_cache_add(other, &second, &identity, clock_realtime_ns() + LATER_NS);
	identity_cache_close(other);
	reopen(&setting); // writes the first's
	assert_true(finds(&setting, &file));
	assert_true(finds(&setting, &second));
	close(file.fd);
	close(second.fd);
	setting_close(&setting);
}

/* Made up: only the version tells them apart. */
static void add_many(struct setting *setting, const struct opened_file *file, uint32_t count,
		     uint64_t first)
{
	const struct file_identity identity = { .id = "00", .content = "11" };
	struct opened_file copy = *file;

	for (uint32_t i = 0; i < count; i++) {
		copy.version.inode = first + i;
		identity_cache_add(setting->cache, &copy, &identity,
				   clock_realtime_ns() + LATER_NS);
	}
}

TEST(keeps_those_used_last_within_its_limit)
{
	struct setting setting;
	struct opened_file file;
	struct stat status;

	setting_open(&setting);
	add_program(&setting, &file);
	struct opened_file used = file, unused = file, new = file;
	used.version.inode = (1ULL << 40) + IDENTITIES_MAX - 2; // the last that there is space for
	unused.version.inode = 1ULL << 40;
	new.version.inode = 1ULL << 41;
	add_many(&setting, &file, IDENTITIES_MAX, 1ULL << 40);
	reopen(&setting);
	assert_true(finds(&setting, &used));
	add_many(&setting, &file, IDENTITIES_MAX - 1, 1ULL << 41);
	reopen(&setting);
	assert_true(finds(&setting, &used));
	assert_true(finds(&setting, &new));
	assert_false(finds(&setting, &unused));
	int fd = open_cache_file(&setting, O_RDONLY);
	assert_int_equal(0, fstat(fd, &status));
	assert_int_equal(HEADER_BYTES + IDENTITIES_MAX * RECORD_BYTES, status.st_size);
	close(fd);
	close(file.fd);
	setting_close(&setting);
}

RUN_TESTS(cmocka_unit_test(finds_unchanged_files_after_restart),
	  cmocka_unit_test(never_takes_a_changed_file_from_the_cache),
	  cmocka_unit_test(caches_executables),
	  cmocka_unit_test(keeps_nothing_that_may_change_unseen),
	  cmocka_unit_test(rejects_entries_writable_by_others),
	  cmocka_unit_test(keeps_nothing_that_changed_a_moment_ago),
	  cmocka_unit_test(ignores_another_boot_and_another_build),
	  cmocka_unit_test(drops_and_counts_damaged_entries),
	  cmocka_unit_test(believes_no_cache_that_others_may_write),
	  cmocka_unit_test(two_programs_keep_each_others_entries),
	  cmocka_unit_test(keeps_those_used_last_within_its_limit))
