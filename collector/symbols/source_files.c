// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/source_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/text.h"

enum { PATH_BYTES = 4096, ID_BYTES = 2 * DIGEST_BYTES + 1 };

int source_files_open(struct source_files *files, const char *data, uint64_t bytes_max,
		      struct error *err)
{
	char folder[PATH_BYTES];

	snprintf(folder, sizeof(folder), "%s/sources", data);
	files->uploads = 0;
	pthread_mutex_init(&files->lock, NULL);
	return debug_cache_open(&files->cache, folder, bytes_max, err);
}

void source_files_close(struct source_files *files)
{
	debug_cache_close(&files->cache);
}

/* ---- what is kept -------------------------------------------------------------------------- */

struct listing {
	const struct source_files *files;
	kept_archive_fn fn;
	void *context;
};

/** One that is damaged, or was just evicted, is left out. */
static int give(void *context, const char *id, uint64_t bytes, uint64_t used_s)
{
	const struct listing *listing = context;
	_cleanup_(source_archive_deinit) struct source_archive archive = { 0 };
	_cleanup_close_ int fd = debug_cache_look(&listing->files->cache, id);
	struct kept_archive kept = { .id = id, .fd = fd };

	(void)bytes;
	(void)used_s;
	if (fd < 0 || debug_origin_read(fd, &kept.origin))
		return 0;
	int rc = source_archive_read(fd, kept.origin.bytes, &archive, NULL);
	if (rc)
		return rc == -ENOMEM ? rc : 0;
	kept.archive = archive;
	return listing->fn(listing->context, &kept);
}

int source_files_list(const struct source_files *files, kept_archive_fn fn, void *context)
{
	struct listing listing = { files, fn, context };

	return debug_cache_list(&files->cache, give, &listing);
}

/** The one that was not used for the longest time, and how many there are. */
struct oldest {
	char id[ID_BYTES];
	uint64_t used_s;
	uint32_t count;
};

static int look_for_oldest(void *context, const char *id, uint64_t bytes, uint64_t used_s)
{
	struct oldest *oldest = context;

	(void)bytes;
	if (!oldest->count++ || used_s < oldest->used_s) {
		snprintf(oldest->id, sizeof(oldest->id), "%s", id);
		oldest->used_s = used_s;
	}
	return 0;
}

/** Make room for one more. The lock is held. */
static int evict(const struct source_files *files)
{
	struct oldest oldest;

	do {
		oldest = (struct oldest){ 0 };
		int rc = debug_cache_list(&files->cache, look_for_oldest, &oldest);
		if (rc)
			return rc;
		if (oldest.count >= SOURCE_ARCHIVES_MAX)
			debug_cache_remove(&files->cache, oldest.id);
	} while (oldest.count > SOURCE_ARCHIVES_MAX);
	return 0;
}

/* ---- uploads ------------------------------------------------------------------------------- */

int source_files_begin(struct source_files *files, uint64_t bytes, struct source_upload *ret_upload,
		       struct error *err)
{
	struct source_upload upload = { .bytes = bytes };

	if (bytes > SOURCE_ARCHIVE_BYTES_MAX || bytes > files->cache.bytes_max)
		return error_set(err, -EFBIG,
				 "the sources are larger than --sources, or than %d MiB",
				 SOURCE_ARCHIVE_BYTES_MAX >> 20);
	pthread_mutex_lock(&files->lock);
	bool fits = files->uploads < SOURCE_UPLOADS_MAX;
	files->uploads += fits;
	pthread_mutex_unlock(&files->lock);
	if (!fits)
		return error_set(
			err, -EAGAIN,
			"other sources are being received (limit %d at a time); try again in "
			"a moment",
			SOURCE_UPLOADS_MAX);
	int rc = debug_cache_begin(&files->cache, &upload.file);
	if (rc) {
		source_files_drop(files, &upload);
		return error_errno(err, rc, "sources: write");
	}
	*ret_upload = upload;
	return 0;
}

void source_files_drop(struct source_files *files, struct source_upload *upload)
{
	debug_cache_drop(&files->cache, &upload->file);
	pthread_mutex_lock(&files->lock);
	files->uploads--;
	pthread_mutex_unlock(&files->lock);
}

/** Another archive of the same service and version? */
struct rival {
	const struct source_archive *archive;
	const char *id;
	struct error *err;
};

static int compare_kept(void *context, const struct kept_archive *kept)
{
	const struct rival *rival = context;
	const struct source_archive *archive = rival->archive;
	char time_text[32] = "";
	struct tm tm;
	time_t uploaded = (time_t)kept->origin.uploaded_s;

	if (strcmp(kept->id, rival->id) == 0)
		return -EALREADY;
	if (!*archive->version || strcmp(kept->archive.version, archive->version) != 0 ||
	    strcmp(kept->archive.service, archive->service) != 0)
		return 0;
	strftime(time_text, sizeof(time_text), "%FT%TZ", gmtime_r(&uploaded, &tm));
	return error_set(rival->err, -EEXIST,
			 "other sources of version %.60s are kept, uploaded by %.60s at %s as "
			 "%.12s; the role admin may delete them first",
			 archive->version, kept->origin.who, time_text, kept->id);
}

static int check(const struct source_upload *upload, const char *id, struct debug_origin *origin,
		 struct source_archive *ret_archive, struct error *err)
{
	char digest[ID_BYTES];
	int rc = source_archive_read(upload->file.fd, upload->bytes, ret_archive, err);

	if (rc == -EBADMSG)
		err->code = -EINVAL;
	if (rc)
		return err->code;
	text_encode_hex(origin->digest, DIGEST_BYTES, digest);
	return strcmp(digest, id) == 0
		       ? 0
		       : error_set(err, -EINVAL, "the SHA-256 of these bytes is %s", digest);
}

int source_files_keep(struct source_files *files, struct source_upload *upload, const char *id,
		      const char *who, const char *address, struct error *err)
{
	_cleanup_(source_archive_deinit) struct source_archive archive = { 0 };
	struct debug_origin origin;
	int fd = upload->file.fd;
	int rc = debug_origin_make(fd, upload->bytes, who, address, &origin);

	if (rc)
		return error_errno(err, rc, "sources: read");
	rc = check(upload, id, &origin, &archive, err);
	if (rc)
		return rc;
	rc = debug_origin_write(fd, &origin);
	if (!rc && fsync(fd))
		rc = -errno;
	if (rc)
		return error_errno(err, rc, "sources: write");

	struct rival rival = { &archive, id, err };
	pthread_mutex_lock(&files->lock);
	rc = source_files_list(files, compare_kept, &rival);
	if (!rc)
		rc = evict(files);
	if (!rc)
		rc = debug_cache_keep(&files->cache, &upload->file, id);
	pthread_mutex_unlock(&files->lock);
	if (rc == -EALREADY)
		return 0;
	return rc && rc != -EEXIST ? error_errno(err, rc, "sources: keep") : rc;
}

int source_files_remove(struct source_files *files, const char *id)
{
	return debug_cache_remove(&files->cache, id);
}
