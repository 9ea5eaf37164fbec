// SPDX-License-Identifier: Apache-2.0
#include "cli/source_pack.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/symbols/source_archive.h"
#include "base/symbols/source_path.h"
#include "base/text.h"
#include "base/tls/digest.h"

struct packed_file {
	char *from; // to read it
	char *path; // in the archive
	uint64_t bytes;
};

struct packing {
	const struct source_pack_options *options;
	struct packed_file *files;
	uint32_t file_count, file_capacity;
	uint32_t too_large;
	uint64_t bytes;
};

static void packing_deinit(struct packing *packing)
{
	for (uint32_t i = 0; i < packing->file_count; i++) {
		free(packing->files[i].from);
		free(packing->files[i].path);
	}
	free(packing->files);
}

/** The path of @below, a path below the folder, in the archive. The caller's; NULL: out of memory. */
static char *archive_path(const struct source_pack_options *options, const char *below)
{
	const char *at = options->at ? options->at : "";
	char *path = NULL;

	at += strspn(at, "/");
	size_t size = strlen(at);
	while (size && at[size - 1] == '/')
		size--;
	return asprintf(&path, "%.*s%s%s", (int)size, at, size ? "/" : "", below) < 0 ? NULL : path;
}

static int add_file(struct packing *packing, const FTSENT *entry, const char *below,
		    struct error *err)
{
	struct packed_file file = { .bytes = (uint64_t)entry->fts_statp->st_size };
	_cleanup_free_ char *path = archive_path(packing->options, below);

	if (path && !source_path_is_plain(path))
		return 0;
	if (file.bytes > SOURCE_FILE_BYTES_MAX) {
		packing->too_large++;
		return 0;
	}
	int rc = path ? array_reserve(&packing->files, sizeof(file), &packing->file_capacity,
				      packing->file_count, 1, SOURCE_ARCHIVE_FILES_MAX)
		      : -ENOMEM;
	if (!rc && !(file.from = strdup(entry->fts_path)))
		rc = -ENOMEM;
	if (rc == -E2BIG)
		return error_set(err, -EFBIG, "more than %d source files: name a folder within it",
				 SOURCE_ARCHIVE_FILES_MAX);
	if (rc)
		return error_set(err, rc, "out of memory");
	file.path = take(path);
	packing->bytes += file.bytes;
	packing->files[packing->file_count++] = file;
	return 0;
}

static int read_folder(struct packing *packing, struct error *err)
{
	char *const folders[] = { (char *)packing->options->folder, NULL };
	size_t root = strlen(packing->options->folder);
	FTS *tree = fts_open(folders, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR | FTS_XDEV, NULL);
	FTSENT *entry;
	int rc = tree ? 0 : error_errno(err, -errno, "cannot be read");

	while (!rc && (entry = fts_read(tree))) {
		bool is_root = entry->fts_level == FTS_ROOTLEVEL;

		if (!is_root && entry->fts_name[0] == '.')
			fts_set(tree, entry, FTS_SKIP);
		else if (is_root && entry->fts_info != FTS_D && entry->fts_info != FTS_DP)
			rc = error_set(err, -EINVAL, "not a folder that can be read");
		else if (entry->fts_info == FTS_DNR || entry->fts_info == FTS_ERR)
			rc = error_errno(err, -entry->fts_errno, "%s", entry->fts_path);
		else if (entry->fts_info == FTS_F)
			rc = add_file(packing, entry,
				      entry->fts_path + root + strspn(entry->fts_path + root, "/"),
				      err);
	}
	if (tree)
		fts_close(tree);
	return rc;
}

static int compare_paths(const void *left, const void *right)
{
	return strcmp(((const struct packed_file *)left)->path,
		      ((const struct packed_file *)right)->path);
}

static int copy_file(const struct packed_file *file, FILE *into, struct error *err)
{
	_cleanup_close_ int fd = open(file->from, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char block[64 << 10];
	uint64_t left = file->bytes;

	if (fd < 0)
		return error_errno(err, -errno, "%s", file->from);
	while (left) {
		ssize_t count = read(fd, block, left < sizeof(block) ? left : sizeof(block));

		if (count <= 0)
			return count ? error_errno(err, -errno, "%s", file->from)
				     : error_set(err, -EIO, "%s: changed while it was read",
						 file->from);
		if (fwrite(block, 1, (size_t)count, into) != (size_t)count)
			return error_errno(err, -errno, "write a temporary file");
		left -= (uint64_t)count;
	}
	return 0;
}

static int write_archive(const struct packing *packing, FILE *into, uint64_t *ret_bytes,
			 struct error *err)
{
	_cleanup_(buffer_deinit) struct buffer head = { .size_max = SOURCE_ARCHIVE_HEAD_BYTES_MAX };

	source_archive_begin(&head, packing->options->service, packing->options->version);
	for (uint32_t i = 0; i < packing->file_count; i++)
		source_archive_add(&head, packing->files[i].path, packing->files[i].bytes);
	buffer_append_byte(&head, '\n');
	if (head.rc || head.size + packing->bytes > SOURCE_ARCHIVE_BYTES_MAX)
		return error_set(err, head.rc == -ENOMEM ? head.rc : -EFBIG,
				 "more than %d MiB of source code: name a folder within it",
				 SOURCE_ARCHIVE_BYTES_MAX >> 20);
	if (fwrite(head.bytes, 1, head.size, into) != head.size)
		return error_errno(err, -errno, "write a temporary file");
	for (uint32_t i = 0; i < packing->file_count; i++) {
		int rc = copy_file(&packing->files[i], into, err);
		if (rc)
			return rc;
	}
	*ret_bytes = head.size + packing->bytes;
	return fflush(into) ? error_errno(err, -errno, "write a temporary file") : 0;
}

static int pack_files(struct packing *packing, struct source_pack *pack, struct error *err)
{
	_cleanup_fclose_ FILE *file = tmpfile();
	uint8_t digest[DIGEST_BYTES];
	int rc = file ? write_archive(packing, file, &pack->bytes, err)
		      : error_errno(err, -errno, "make a temporary file");

	if (rc)
		return rc;
	rc = digest_of_file(fileno(file), pack->bytes, digest);
	pack->fd = rc ? -1 : fcntl(fileno(file), F_DUPFD_CLOEXEC, 0);
	if (rc || pack->fd < 0)
		return error_errno(err, rc ? rc : -errno, "read a temporary file");
	text_encode_hex(digest, DIGEST_BYTES, pack->id);
	return 0;
}

int source_pack(const struct source_pack_options *options, struct source_pack *ret_pack,
		struct error *err)
{
	_cleanup_(packing_deinit) struct packing packing = { .options = options };
	int rc = read_folder(&packing, err);

	if (!rc && !packing.file_count)
		rc = error_set(err, -ENOENT, "no source code is in it");
	if (rc)
		return rc;
	struct source_pack pack = { .file_count = packing.file_count,
				    .too_large = packing.too_large };
	qsort(packing.files, packing.file_count, sizeof(*packing.files), compare_paths);
	rc = pack_files(&packing, &pack, err);
	if (!rc)
		*ret_pack = pack;
	return rc;
}
