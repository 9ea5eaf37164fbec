// SPDX-License-Identifier: Apache-2.0
#include "base/symbols/source_archive.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/symbols/source_path.h"
#include "base/text.h"
#include "base/utf8.h"

#define MAGIC "cairn sources 1"

enum { CHUNK_BYTES = 64 << 10, SIZE_DIGITS_MAX = 10 };

bool source_name_is_sound(const char *name)
{
	size_t size = strlen(name);

	for (size_t i = 0; i < size; i++)
		if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
			return false;
	return size <= SOURCE_NAME_BYTES_MAX && utf8_is_valid(name, size);
}

void source_archive_begin(struct buffer *head, const char *service, const char *version)
{
	buffer_printf(head, MAGIC "\nservice %s\nversion %s\n", service, version);
}

void source_archive_add(struct buffer *head, const char *path, uint64_t bytes)
{
	buffer_printf(head, "%llu %s\n", (unsigned long long)bytes, path);
}

/* ---- reading ------------------------------------------------------------------------------- */

/** Read up to the empty line, which is cut off. *ret_bytes: with it. */
static int read_head(int fd, uint64_t bytes, struct buffer *head, uint64_t *ret_bytes,
		     struct error *err)
{
	const uint8_t *end = NULL;

	while (!end) {
		size_t old = head->size,
		       more = bytes - old < CHUNK_BYTES ? bytes - old : CHUNK_BYTES;
		void *room = more && old < SOURCE_ARCHIVE_HEAD_BYTES_MAX ? buffer_extend(head, more)
									 : NULL;

		if (head->rc)
			return error_set(err, -ENOMEM, "out of memory for a list of sources");
		if (!room)
			return error_set(err, more ? -EFBIG : -EBADMSG,
					 more ? "the list of files is longer than 4 MiB"
					      : "not an archive of `cairn upload --sources`: its "
						"list of files does not end");
		if (pread(fd, room, more, (off_t)old) != (ssize_t)more)
			return error_set(err, -EIO, "the archive cannot be read");
		end = memmem(head->bytes + (old ? old - 1 : 0), head->size - (old ? old - 1 : 0),
			     "\n\n", 2);
	}
	*ret_bytes = (uint64_t)(end - head->bytes) + 2;
	head->size = *ret_bytes - 2;
	buffer_append_byte(head, '\0');
	return memchr(head->bytes, '\0', head->size - 1)
		       ? error_set(err, -EBADMSG, "a NUL byte in the list of files")
		       : 0;
}

/** The next line, which becomes a string of its own; NULL at the end. */
static char *next_line(char **at)
{
	char *line = *at, *end = line ? strchr(line, '\n') : NULL;

	if (end)
		*end++ = '\0';
	*at = end;
	return line;
}

static int parse_name(char **at, const char *title, const char **ret_name, struct error *err)
{
	const char *line = next_line(at);

	if (!line || !text_begins_with(line, title) || line[strlen(title)] != ' ' ||
	    !source_name_is_sound(line + strlen(title) + 1))
		return error_set(
			err, -EBADMSG,
			"the archive's %s is missing, longer than %d bytes, or has control "
			"characters",
			title, SOURCE_NAME_BYTES_MAX);
	*ret_name = line + strlen(title) + 1;
	return 0;
}

static int parse_file(struct source_archive *archive, const char *line, uint64_t offset,
		      struct error *err)
{
	const struct source_archive_file *last =
		archive->file_count ? &archive->files[archive->file_count - 1] : NULL;
	size_t digits = strspn(line, "0123456789");
	struct source_archive_file file = { .offset = offset };

	if (digits == 0 || digits > SIZE_DIGITS_MAX || line[digits] != ' ')
		return error_set(err, -EBADMSG, "\"%.60s\" is not the size and path of a file",
				 line);
	file.bytes = strtoull(line, NULL, 10);
	file.path = line + digits + 1;
	if (file.bytes > SOURCE_FILE_BYTES_MAX)
		return error_set(err, -EFBIG, "%.200s: larger than %d MiB", file.path,
				 SOURCE_FILE_BYTES_MAX >> 20);
	if (!source_path_is_plain(file.path))
		return error_set(err, -EBADMSG,
				 "\"%.200s\" is not the path of source code below a folder",
				 file.path);
	if (last && strcmp(last->path, file.path) >= 0)
		return error_set(err, -EBADMSG, "%.200s: files are not sorted by path", file.path);
	int rc = array_reserve(&archive->files, sizeof(file), &archive->file_capacity,
			       archive->file_count, 1, SOURCE_ARCHIVE_FILES_MAX);
	if (rc == -E2BIG)
		return error_set(err, -EFBIG, "more than %d files", SOURCE_ARCHIVE_FILES_MAX);
	if (rc)
		return error_set(err, rc, "out of memory for a list of sources");
	archive->files[archive->file_count++] = file;
	return 0;
}

static int parse(struct source_archive *archive, uint64_t offset, uint64_t bytes, struct error *err)
{
	char *at = (char *)archive->head.bytes;
	const char *line = next_line(&at);

	if (!line || strcmp(line, MAGIC) != 0)
		return error_set(err, -EBADMSG, "not an archive of `cairn upload --sources`");
	int rc = parse_name(&at, "service", &archive->service, err);
	if (!rc)
		rc = parse_name(&at, "version", &archive->version, err);
	while (!rc && (line = next_line(&at))) {
		rc = parse_file(archive, line, offset, err);
		if (!rc)
			offset += archive->files[archive->file_count - 1].bytes;
	}
	if (!rc && offset != bytes)
		rc = error_set(err, -EBADMSG, "the files have not the sizes that the list says");
	return rc;
}

int source_archive_read(int fd, uint64_t bytes, struct source_archive *ret_archive,
			struct error *err)
{
	_cleanup_(source_archive_deinit) struct source_archive archive = { 0 };
	uint64_t head_bytes = 0;
	int rc = bytes > SOURCE_ARCHIVE_BYTES_MAX
			 ? error_set(err, -EFBIG, "the archive is larger than %d MiB",
				     SOURCE_ARCHIVE_BYTES_MAX >> 20)
			 : read_head(fd, bytes, &archive.head, &head_bytes, err);

	if (!rc)
		rc = parse(&archive, head_bytes, bytes, err);
	if (rc)
		return rc;
	*ret_archive = archive;
	archive = (struct source_archive){ 0 };
	return 0;
}

void source_archive_deinit(struct source_archive *archive)
{
	buffer_deinit(&archive->head);
	free(archive->files);
	*archive = (struct source_archive){ 0 };
}

static int compare_path(const void *key, const void *item)
{
	return strcmp(key, ((const struct source_archive_file *)item)->path);
}

const struct source_archive_file *source_archive_find(const struct source_archive *archive,
						      const char *path)
{
	const struct source_archive_file *found = NULL;

	for (path = source_path_longest(path); path && archive->file_count && !found;
	     path = source_path_shorter(path))
		found = bsearch(path, archive->files, archive->file_count, sizeof(*archive->files),
				compare_path);
	return found;
}
