// SPDX-License-Identifier: Apache-2.0
// Any names, kinds and contents of files as the spool's folder that an earlier start of the agent has left: what is not a batch is
// counted and stays, what is one is read or refused, and the next number is free. An entry is its kind, the size of its name, the name, the
// size of its content, the content.

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/ship/sending_note.h"
#include "agent/ship/spool_file.h"
#include "agent/ship/spool_folder.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/fuzz/batch_of_one.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum {
	ENTRIES_MAX = 16,
	NAME_BYTES_MAX = 255,
	PATH_BYTES = 512,
	KIND_NUMBERED = 1 << 3, // the name is a batch's, of a number
	KIND_SOUND = 1 << 4,    // the content is a batch's
	KIND_NOTE = 1 << 5,     // the name is that of the note
};

static const char precious[] = "not the spool's";
static char root[] = "/tmp/cairn-fuzz-spool-XXXXXX";
static char own[PATH_BYTES];
static struct buffer sound; // a file with a batch

static void check(bool holds)
{
	if (!holds)
		abort();
}

// ---- the folder -------------------------------------------------------------------------------

static void for_each_entry(void (*act)(const char *path))
{
	DIR *directory = opendir(own);
	const struct dirent *entry;
	char path[PATH_BYTES + NAME_BYTES_MAX + 2];

	while (directory && (entry = readdir(directory))) {
		if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", own, entry->d_name);
		act(path);
	}
	if (directory)
		closedir(directory);
}

static void remove_entry(const char *path)
{
	if (unlink(path) && errno == EISDIR)
		rmdir(path);
}

static uint32_t entry_count;

static void count_entry(const char *path)
{
	const char *name = strrchr(path, '/') + 1;

	entry_count += strcmp(name, "lock") != 0 && strcmp(name, SENDING_NOTE_NAME) != 0;
}

static void outside(char path[PATH_BYTES])
{
	snprintf(path, PATH_BYTES, "%s/outside", root);
}

static void remove_all(void)
{
	char path[PATH_BYTES];

	for_each_entry(remove_entry);
	rmdir(own);
	outside(path);
	unlink(path);
	rmdir(root);
}

/** A file with a batch as the agent writes it. */
static void make_sound(void)
{
	uint8_t header[SPOOL_FILE_HEADER_BYTES];
	struct batch *batch = batch_of_one();

	check(batch && batch_pack(batch, NULL) == 0);
	spool_file_encode_header(&batch->packed, batch->sample_count, header);
	buffer_append(&sound, header, sizeof(header));
	buffer_append(&sound, batch->packed.bytes, batch->packed.size);
	batch_free(batch);
}

static void begin(void)
{
	char path[PATH_BYTES];

	check(mkdtemp(root) && snprintf(own, sizeof(own), "%s/cairn-spool", root) > 0);
	outside(path);
	_cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	check(fd >= 0 && write(fd, precious, sizeof(precious)) == sizeof(precious));
	make_sound();
	atexit(remove_all);
}

// ---- entries ----------------------------------------------------------------------------------

struct entry {
	uint8_t kind;
	char path[PATH_BYTES + NAME_BYTES_MAX + 2];
	const uint8_t *content;
	size_t size;
};

static void set_name(struct entry *entry, const uint8_t *name, size_t size)
{
	char text[NAME_BYTES_MAX + 1] = SENDING_NOTE_NAME;
	uint64_t number = 0;

	memcpy(&number, name, size < sizeof(number) ? size : sizeof(number));
	if (entry->kind & KIND_NUMBERED)
		snprintf(text, sizeof(text), "%016llx.batch", (unsigned long long)number);
	else if (!(entry->kind & KIND_NOTE))
		snprintf(text, sizeof(text), "%.*s", (int)size, (const char *)name);
	for (char *at = text; *at; at++)
		if (*at == '/')
			*at = '_';
	snprintf(entry->path, sizeof(entry->path), "%s/%s", own, text);
}

/** False: there is no more. */
static bool next_entry(const uint8_t **at, const uint8_t *end, struct entry *ret_entry)
{
	if (end - *at < 3)
		return false;
	ret_entry->kind = (*at)[0];
	size_t name = (*at)[1] < end - *at - 2 ? (*at)[1] : (size_t)(end - *at - 3);
	set_name(ret_entry, *at + 2, name);
	*at += 2 + name;
	ret_entry->size = **at;
	++*at;
	if (ret_entry->size > (size_t)(end - *at))
		ret_entry->size = (size_t)(end - *at);
	ret_entry->content = *at;
	*at += ret_entry->size;
	return true;
}

static void make_file(const struct entry *entry, mode_t mode)
{
	_cleanup_close_ int fd =
		open(entry->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);

	if (fd < 0)
		return;
	fchmod(fd, mode); // whatever the umask
	if (entry->kind & KIND_SOUND)
		check(write(fd, sound.bytes, sound.size) == (ssize_t)sound.size);
	check(write(fd, entry->content, entry->size) == (ssize_t)entry->size);
}

/** What cannot be made, as a name that is empty or taken, is left out. */
static void make_entry(const struct entry *entry)
{
	char target[PATH_BYTES];

	outside(target);
	switch (entry->kind & 7) {
	case 3:
		make_file(entry, 0666);
		return;
	case 4:
		(void)!symlink(target, entry->path);
		return;
	case 5:
		(void)!mkdir(entry->path, 0700);
		return;
	case 6:
		(void)!mkfifo(entry->path, 0600);
		return;
	case 7:
		(void)!link(target, entry->path);
		return;
	default:
		make_file(entry, 0600);
	}
}

static void make_entries(const uint8_t *bytes, size_t size)
{
	const uint8_t *at = bytes, *end = bytes + size;
	struct entry entry;

	for (int i = 0; i < ENTRIES_MAX && next_entry(&at, end, &entry); i++)
		make_entry(&entry);
}

// ---- the agent's start ------------------------------------------------------------------------

static void check_order(const struct spool_folder_files *files)
{
	for (uint32_t i = 0; i < files->count; i++) {
		check(files->list[i].number && files->list[i].number <= files->last);
		check(!i || files->list[i - 1].number < files->list[i].number);
	}
}

static void read_one(struct spool_folder *folder, uint64_t number)
{
	struct batch *batch = calloc(1, sizeof(*batch));
	struct error err = { 0 };

	check(batch);
	batch->is_found = true;
	uint64_t samples = spool_folder_count_samples(folder, number);
	int rc = spool_folder_begin_sending(folder, number, &err);
	if (!rc)
		rc = spool_folder_read(folder, number, batch, &err);
	check(!rc == !err.text[0]);
	if (!rc) {
		check(batch->packed.bytes && batch->sample_count == samples);
		if (batch_unpack(batch, &err) == 0)
			check(batch->sample_count == batch->profile->sample_count);
	}
	spool_folder_end_sending(folder);
	batch_free(batch);
}

/** A number after all that are there: nothing is overwritten. */
static void write_one(struct spool_folder *folder, uint64_t number)
{
	const struct packed packed = { .bytes = sound.bytes + SPOOL_FILE_HEADER_BYTES,
				       .size = sound.size - SPOOL_FILE_HEADER_BYTES,
				       .message_size = 1 };
	struct batch *batch = calloc(1, sizeof(*batch));
	struct error err = { 0 };
	int rc = spool_folder_write(folder, number, &packed, 1, &err);

	check(batch);
	check(!rc == !err.text[0]);
	// A folder has the name of what is being written.
	check(!rc || rc == -ENOSPC || rc == -EOVERFLOW || rc == -EEXIST);
	if (!rc) {
		check(spool_folder_count_samples(folder, number) == 1);
		check(!spool_folder_read(folder, number, batch, &err));
		spool_folder_remove(folder, number);
	}
	batch_free(batch);
}

static void check_precious(void)
{
	char path[PATH_BYTES], content[2 * sizeof(precious)];

	outside(path);
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	check(fd >= 0 && read(fd, content, sizeof(content)) == sizeof(precious));
	check(memcmp(content, precious, sizeof(precious)) == 0);
}

static void start(struct spool_folder *folder)
{
	struct spool_folder_files files = { 0 }, after = { 0 };
	struct error err = { 0 };

	entry_count = 0;
	for_each_entry(count_entry);
	check(spool_folder_list(folder, &files, &err) == 0);
	check(files.count + files.foreign == entry_count);
	check_order(&files);
	for (uint32_t i = 0; i < files.count; i++)
		read_one(folder, files.list[i].number);
	write_one(folder, files.last + 1);
	for (uint32_t i = 0; i < files.count; i++)
		spool_folder_remove(folder, files.list[i].number);
	check(spool_folder_list(folder, &after, &err) == 0);
	check(!after.count && after.foreign == files.foreign);
	spool_folder_files_deinit(&files);
	spool_folder_files_deinit(&after);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct spool_folder *folder = NULL;
	struct error err = { 0 };

	if (!*own)
		begin();
	for_each_entry(remove_entry);
	if (mkdir(own, 0700))
		check(errno == EEXIST);
	make_entries(bytes, size);
	if (spool_folder_open(root, &folder, &err) == 0)
		start(folder);
	else
		check(err.text[0]); // the lock is no file
	spool_folder_close(folder);
	check_precious();
	return 0;
}
