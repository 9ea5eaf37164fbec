// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/source_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

/* ---- which file ---------------------------------------------------------------------------- */

struct search {
	struct source_text *texts;
	uint32_t count;
};

static void take_upload(struct source_text *text, const struct kept_archive *kept,
			const struct source_archive_file *file, bool is_version)
{
	text->origin = SOURCE_UPLOAD;
	text->is_version = is_version;
	text->bytes = file->bytes;
	text->offset = file->offset;
	text->upload = kept->origin;
	snprintf(text->found, sizeof(text->found), "%s", file->path);
	snprintf(text->id, sizeof(text->id), "%s", kept->id);
	snprintf(text->of_service, sizeof(text->of_service), "%s", kept->archive.service);
	snprintf(text->of_version, sizeof(text->of_version), "%s", kept->archive.version);
}

static bool is_better(const struct source_text *text, const struct source_archive_file *file,
		      uint64_t uploaded_s)
{
	size_t size = strlen(file->path), found_size = strlen(text->found);

	return size != found_size ? size > found_size : uploaded_s > text->upload.uploaded_s;
}

static void consider(struct source_text *text, const struct kept_archive *kept)
{
	const struct source_archive *archive = &kept->archive;
	bool is_version = *archive->version && strcmp(archive->version, text->version) == 0;

	if (*archive->service && strcmp(archive->service, text->service) != 0)
		return;
	const struct source_archive_file *file = source_archive_find(archive, text->path);
	if (!file || (text->origin && is_version < text->is_version))
		return;
	if (!text->origin || is_version > text->is_version) {
		text->others = 0;
		take_upload(text, kept, file, is_version);
		return;
	}
	text->others++;
	if (is_better(text, file, kept->origin.uploaded_s))
		take_upload(text, kept, file, is_version);
}

static int on_archive(void *context, const struct kept_archive *kept)
{
	const struct search *search = context;

	for (uint32_t i = 0; i < search->count; i++)
		consider(&search->texts[i], kept);
	return 0;
}

static void look_into_folders(const struct source_folders *folders, const char *tenant,
			      struct source_text *text)
{
	struct source_folder_file file;

	if (text->is_version || source_folders_find(folders, tenant, text->path, &file))
		return;
	if (text->origin && strlen(file.path) <= strlen(text->found)) {
		close(file.fd);
		return;
	}
	text->origin = SOURCE_FOLDER;
	text->fd = file.fd;
	text->bytes = file.bytes;
	text->modified_s = file.modified_s;
	text->others = file.others;
	snprintf(text->found, sizeof(text->found), "%s", file.path);
}

int source_texts_find(const struct source_files *files, const struct source_folders *folders,
		      const char *tenant, struct source_text *texts, uint32_t count)
{
	struct search search = { texts, count };

	for (uint32_t i = 0; i < count; i++)
		texts[i].fd = -1;
	int rc = source_files_list(files, on_archive, &search);
	for (uint32_t i = 0; !rc && i < count; i++)
		look_into_folders(folders, tenant, &texts[i]);
	return rc;
}

void source_text_deinit(struct source_text *text)
{
	cleanup_closep(&text->fd);
	text->fd = -1;
}

/* ---- its text ------------------------------------------------------------------------------ */

int source_text_read(const struct source_files *files, const struct source_text *text,
		     struct buffer *bytes)
{
	bool is_upload = text->origin == SOURCE_UPLOAD;
	_cleanup_close_ int upload = is_upload ? debug_cache_find(&files->cache, text->id) : -1;
	int fd = is_upload ? upload : text->fd;

	if (fd < 0)
		return -ENOENT;
	if (text->bytes > SOURCE_FILE_BYTES_MAX)
		return -EBADMSG;
	void *room = buffer_extend(bytes, text->bytes);
	if (!room)
		return bytes->rc;
	if (pread(fd, room, text->bytes, is_upload ? (off_t)text->offset : 0) !=
	    (ssize_t)text->bytes)
		return -ENOENT; // it was cut
	return memchr(room, '\0', text->bytes) ? -EBADMSG : 0;
}

static bool is_of_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || (unsigned char)c >= 0x80;
}

/** The last name in "Model.forward (model.py)", "ns::Class<int>::method(char)"; 0 bytes: it ends in none. */
static const char *bare_name(const char *function, size_t *ret_size)
{
	size_t end = strcspn(function, " (<");
	size_t begin = end;

	while (begin && is_of_word(function[begin - 1]))
		begin--;
	*ret_size = end - begin;
	return function + begin;
}

bool source_text_names(const struct buffer *bytes, const char *function)
{
	size_t size;
	const char *name = bare_name(function, &size);
	const char *at = (const char *)bytes->bytes, *end = at + bytes->size;

	if (size == 0)
		return true;
	while (at && (at = memmem(at, (size_t)(end - at), name, size))) {
		bool begins = at == (const char *)bytes->bytes || !is_of_word(at[-1]);

		at += size;
		if (begins && (at == end || !is_of_word(*at)))
			return true;
	}
	return false;
}

bool source_cursor_seek(struct source_cursor *cursor, uint32_t number, const char **ret_line,
			uint32_t *ret_size)
{
	while (cursor->at < cursor->end) {
		const char *line = cursor->at;
		size_t left = (size_t)(cursor->end - line);
		const char *end = memchr(line, '\n', left);
		size_t size = end ? (size_t)(end - line) : left;

		cursor->at = line + size + (end != NULL);
		if (++cursor->number != number)
			continue;
		*ret_line = line;
		*ret_size = (uint32_t)(size && line[size - 1] == '\r' ? size - 1 : size);
		return true;
	}
	return false;
}
