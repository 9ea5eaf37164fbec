// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/spool_folder.h"

#include <sys/stat.h>

#include "agent/ship/spool_file.h"
#include "base/cleanup.h"
#include "tests/unit/agent/ship/batches.h"
#include "tests/unit/agent/ship/disk_double.h"

static struct spool_folder *open_folder(void)
{
	struct spool_folder *folder = NULL;
	struct error err = { 0 };

	EXPECT_EQ(0, spool_folder_open(disk_folder, &folder, &err), err.text);
	return folder;
}

static int write_one(struct spool_folder *folder, uint64_t number, uint32_t sample_count)
{
	struct batch *batch = packed_batch_of(number, sample_count);
	int rc = spool_folder_write(folder, number, &batch->packed, batch->sample_count, NULL);

	batch_free(batch);
	return rc;
}

/* Returns its number of samples; a negative errno. */
static int64_t read_one(struct spool_folder *folder, uint64_t number)
{
	struct batch *batch = calloc(1, sizeof(*batch));
	int rc = spool_folder_read(folder, number, batch, NULL);

	rc = rc ? rc : batch_unpack(batch, NULL);
	int64_t count = rc ? rc : (int64_t)batch->profile->sample_count;
	batch_free(batch);
	return count;
}

static struct spool_folder_files list(struct spool_folder *folder)
{
	struct spool_folder_files files = { 0 };
	struct error err = { 0 };

	EXPECT_EQ(0, spool_folder_list(folder, &files, &err), err.text);
	return files;
}

static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", disk_own, name);
	return path;
}

static void make_file(const char *name, const char *text, mode_t mode)
{
	int fd = open(path_of(name), O_WRONLY | O_CREAT, mode);

	assert_true(fd >= 0);
	assert_int_equal((ssize_t)strlen(text), write(fd, text, strlen(text)));
	fchmod(fd, mode); // whatever the umask
	close(fd);
}

TEST(the_next_start_finds_batches_in_order)
{
	disk_folder_make();
	struct spool_folder *folder = open_folder();
	for (uint64_t number = 250; number > 240; number--)
		EXPECT_EQ(0, write_one(folder, number, (uint32_t)number), "write");
	spool_folder_close(folder);

	folder = open_folder();
	struct spool_folder_files files = list(folder);
	EXPECT_EQ(10, files.count, "files");
	EXPECT_EQ(250, files.last, "last");
	EXPECT_EQ(0, files.foreign, "the lock is none of them");
	for (uint32_t i = 0; i < files.count; i++) {
		EXPECT_EQ(241 + i, files.list[i].number, "oldest first");
		EXPECT_EQ(241 + i, read_one(folder, files.list[i].number), "samples");
		EXPECT_EQ(241 + i, spool_folder_count_samples(folder, 241 + i),
			  "as its header says");
		spool_folder_remove(folder, files.list[i].number);
	}
	spool_folder_files_deinit(&files);
	files = list(folder);
	EXPECT_EQ(0, files.count, "removed");
	spool_folder_close(folder);
	disk_folder_remove();
}

TEST(only_its_user_may_look_at_batches)
{
	struct stat status;

	disk_folder_make();
	chmod(disk_folder, 01777); // such as /tmp: it stays so
	umask(0);
	struct spool_folder *folder = open_folder();
	EXPECT_EQ(0, write_one(folder, 1, 1), "write");
	EXPECT_EQ(0, stat(disk_folder, &status), "folder");
	EXPECT_EQ(01777, status.st_mode & 07777, "folder");
	EXPECT_EQ(0, stat(disk_own, &status), "own folder");
	EXPECT_EQ(0700, status.st_mode & 07777, "own folder");
	EXPECT_EQ(0, stat(path_of("0000000000000001.batch"), &status), "file");
	EXPECT_EQ(0600, status.st_mode & 07777, "file");
	spool_folder_close(folder);
	disk_folder_remove();
}

TEST(a_second_agent_is_refused)
{
	struct spool_folder *second = NULL;
	struct error err = { 0 };

	disk_folder_make();
	struct spool_folder *folder = open_folder();
	EXPECT_EQ(-EBUSY, spool_folder_open(disk_folder, &second, &err), "second");
	assert_non_null(strstr(err.text, "another agent"));
	spool_folder_close(folder);
	spool_folder_close(open_folder()); // the first has ended
	disk_folder_remove();
}

/* Odd or hostile content: nothing of it is read, removed or followed. */
TEST(what_is_not_a_batch_is_left_alone)
{
	struct stat status;

	disk_folder_make();
	assert_int_equal(0, mkdir(disk_own, 0700));
	make_file("precious", "not a batch", 0600);
	make_file("0000000000000003.batch", "not a batch", 0600);
	make_file("0000000000000004.batch", "others may write", 0666);
	make_file("5.batch", "no name of ours", 0600);
	make_file("000000000000000G.batch", "no number", 0600);
	make_file("0000000000000000.batch", "never used", 0600);
	make_file("ffffffffffffffff.batch", "no number after it", 0600);
	assert_int_equal(0, mkdir(path_of("0000000000000006.batch"), 0700));
	assert_int_equal(0, symlink("precious", path_of("0000000000000007.batch")));
	assert_int_equal(0, symlink("/etc/passwd", path_of("0000000000000008.batch")));
	assert_int_equal(0, mkfifo(path_of("0000000000000009.batch"), 0600));
	make_file("unfinished", "an agent was killed", 0600);
	if (geteuid() == 0) {
		make_file("000000000000000a.batch", "of another user", 0600);
		assert_int_equal(0, chown(path_of("000000000000000a.batch"), 65534, 65534));
	}

	struct spool_folder *folder = open_folder();
	struct spool_folder_files files = list(folder);
	EXPECT_EQ(1, files.count, "one looks like ours");
	EXPECT_EQ(3, files.list[0].number, "number");
	EXPECT_EQ(geteuid() == 0 ? 11 : 10, files.foreign, "the others");
	assert_true(files.last >= 9); // a new batch takes nobody's place
	EXPECT_EQ(-EBADMSG, read_one(folder, 3), "not a batch");
	EXPECT_EQ(-EPERM, read_one(folder, 4), "others may write");
	EXPECT_EQ(-EPERM, read_one(folder, 6), "a folder");
	EXPECT_EQ(-ELOOP, read_one(folder, 8), "a link");
	EXPECT_EQ(-EPERM, read_one(folder, 9), "a FIFO: nobody waits for its writer");
	EXPECT_EQ(0, stat(path_of("precious"), &status), "still there");
	EXPECT_EQ(-1, stat(path_of("unfinished"), &status), "removed");
	spool_folder_files_deinit(&files);
	spool_folder_close(folder);
	disk_folder_remove();
}

/* In a folder that others may write to, they may be the first. */
TEST(a_folder_of_others_is_refused)
{
	struct spool_folder *folder = NULL;
	struct error err = { 0 };

	disk_folder_make();
	assert_int_equal(0, symlink("/tmp", disk_own));
	assert_true(spool_folder_open(disk_folder, &folder, &err) < 0);
	unlink(disk_own);
	close(open(disk_own, O_WRONLY | O_CREAT, 0600));
	EXPECT_EQ(-ENOTDIR, spool_folder_open(disk_folder, &folder, &err), "a file");
	unlink(disk_own);
	assert_int_equal(0, mkdir(disk_own, 0700));
	assert_int_equal(0, symlink("/tmp/cairn-nothing", path_of("lock")));
	EXPECT_EQ(-ELOOP, spool_folder_open(disk_folder, &folder, &err), "a lock elsewhere");
	unlink(path_of("lock"));
	if (geteuid() == 0) {
		assert_int_equal(0, chown(disk_own, 65534, 65534));
		EXPECT_EQ(-EPERM, spool_folder_open(disk_folder, &folder, &err), "another user's");
		assert_non_null(strstr(err.text, "65534"));
	}
	assert_null(folder);
	disk_folder_remove();
}

TEST(a_huge_file_is_not_read)
{
	disk_folder_make();
	assert_int_equal(0, mkdir(disk_own, 0700));
	make_file("0000000000000001.batch", "", 0600);
	assert_int_equal(0, truncate(path_of("0000000000000001.batch"), 1LL << 40));
	struct spool_folder *folder = open_folder();
	EXPECT_EQ(-EBADMSG, read_one(folder, 1), "read");
	EXPECT_EQ(0, spool_folder_count_samples(folder, 1), "samples");
	spool_folder_close(folder);
	disk_folder_remove();
}

static const struct {
	const char *what;
	uint64_t size_mib, free_mib;
	uint64_t kept_mib, room_mib;
} rooms[] = {
	{ "a tenth is kept free", 1000, 300, 100, 200 },
	{ "less than a tenth is free", 1000, 99, 100, 0 },
	{ "at most 10 GiB are kept free", 4 << 20, 100 << 10, 10 << 10, 90 << 10 },
};

TEST(a_part_of_the_disk_is_kept_free)
{
	disk_folder_make();
	struct spool_folder *folder = open_folder();
	for EACH (row, rooms) {
		struct statvfs status = { .f_frsize = 1 << 20,
					  .f_blocks = row->size_mib,
					  .f_bavail = row->free_mib };

		EXPECT_EQ(row->kept_mib, spool_folder_kept_free(&status) >> 20, row->what);
		EXPECT_EQ(row->room_mib, spool_folder_room(&status) >> 20, row->what);
		disk_set((struct disk_double){ .folder = disk_folder,
					       .has_size = true,
					       .size = row->size_mib << 20,
					       .free_bytes = row->free_mib << 20 });
		EXPECT_EQ(row->room_mib ? 0 : -ENOSPC, write_one(folder, 1, 1), row->what);
	}
	spool_folder_close(folder);
	disk_folder_remove();
}

/* Each call that a write makes fails once, with each errno that a disk has. */
TEST(failed_write_leaves_nothing)
{
	static const int errors[] = { EIO, ENOSPC, EROFS, EDQUOT };

	for EACH (error, errors) {
		unsigned int good = 0;

		for (bool is_written = false; !is_written; good++) {
			disk_folder_make();
			struct spool_folder *folder = open_folder();

			disk_set((struct disk_double){
				.folder = disk_folder, .error = *error, .good = good });
			int rc = write_one(folder, 1, 100);
			disk_set((struct disk_double){ 0 });
			is_written = rc == 0;
			assert_true(rc == 0 || rc == -*error);
			spool_folder_close(folder);

			folder = open_folder();
			struct spool_folder_files files = list(folder);
			EXPECT_EQ(is_written, files.count, "all or nothing");
			EXPECT_EQ(0, files.foreign, "and no rest of it");
			if (is_written)
				EXPECT_EQ(100, read_one(folder, 1), "samples");
			spool_folder_files_deinit(&files);
			spool_folder_close(folder);
			disk_folder_remove();
		}
		assert_true(good > 4); // statvfs, open, write, rename
	}
}

TEST(short_writes_are_continued)
{
	disk_folder_make();
	struct spool_folder *folder = open_folder();
	disk_set((struct disk_double){ .folder = disk_folder, .short_write = 7 });
	EXPECT_EQ(0, write_one(folder, 1, 500), "write");
	disk_set((struct disk_double){ 0 });
	EXPECT_EQ(500, read_one(folder, 1), "samples");
	spool_folder_close(folder);
	disk_folder_remove();
}

TEST(a_read_that_fails_is_an_error)
{
	disk_folder_make();
	struct spool_folder *folder = open_folder();
	EXPECT_EQ(0, write_one(folder, 1, 500), "write");
	for (unsigned int good = 0; good < 2; good++) {
		disk_set((struct disk_double){ .folder = disk_folder, .error = EIO, .good = good });
		EXPECT_EQ(-EIO, read_one(folder, 1), "open or read");
	}
	disk_set((struct disk_double){ 0 });
	EXPECT_EQ(500, read_one(folder, 1), "it passes");
	EXPECT_EQ(-ENOENT, read_one(folder, 2), "none");
	spool_folder_close(folder);
	disk_folder_remove();
}

RUN_TESTS(cmocka_unit_test(the_next_start_finds_batches_in_order),
	  cmocka_unit_test(only_its_user_may_look_at_batches),
	  cmocka_unit_test(a_second_agent_is_refused),
	  cmocka_unit_test(what_is_not_a_batch_is_left_alone),
	  cmocka_unit_test(a_folder_of_others_is_refused),
	  cmocka_unit_test(a_huge_file_is_not_read),
	  cmocka_unit_test(a_part_of_the_disk_is_kept_free),
	  cmocka_unit_test(failed_write_leaves_nothing),
	  cmocka_unit_test(short_writes_are_continued),
	  cmocka_unit_test(a_read_that_fails_is_an_error))
