// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/debug_files.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collector/symbols/elf_process.h"

enum { PATH_BYTES = 4096 };

int debug_files_open(struct debug_files *files, const char *data, uint64_t bytes_max,
		     struct confined_launcher *launcher, struct error *err)
{
	char folder[PATH_BYTES];

	snprintf(folder, sizeof(folder), "%s/debug-files", data);
	atomic_init(&files->version, 1);
	files->launcher = launcher;
	files->uploads = 0;
	files->upload_bytes = 0;
	pthread_mutex_init(&files->lock, NULL);
	return debug_cache_open(&files->cache, folder, bytes_max, err);
}

void debug_files_close(struct debug_files *files)
{
	debug_cache_close(&files->cache);
}

int debug_files_find(const struct debug_files *files, const char *build_id)
{
	int fd = debug_cache_find(&files->cache, build_id);

	return fd < 0 ? -ENOENT : fd;
}

int debug_file_check(struct confined_launcher *launcher, int fd, const char *build_id,
		     struct error *err)
{
	struct elf_report report;
	struct error cause = { 0 };
	int rc = elf_process_look(launcher, fd, &report, &cause);

	if (rc == -EIO)
		return error_set(err, -EINVAL, "the file cannot be read: %s", cause.text);
	if (rc)
		return error_set(err, -ENOTCONN, "uploads are not read here: %s", cause.text);
	if (report.err.code)
		return error_set(err, -EINVAL, "the file cannot be read: %s", report.err.text);
	if (!report.build_id[0])
		return error_set(err, -EINVAL, "the file has no build id");
	if (strcmp(report.build_id, build_id) != 0)
		return error_set(err, -EINVAL, "the file's build id is %s", report.build_id);
	return report.has_symbols ? 0
				  : error_set(err, -EINVAL,
					      "the file is stripped: it has neither a symbol table "
					      "nor DWARF");
}

int debug_files_begin(struct debug_files *files, uint64_t bytes, struct debug_upload *ret_upload,
		      struct error *err)
{
	uint64_t bytes_max = files->cache.bytes_max;
	struct debug_upload upload = { .bytes = bytes };

	bytes_max = bytes_max < DEBUG_FILE_BYTES_MAX ? bytes_max : DEBUG_FILE_BYTES_MAX;
	if (bytes > bytes_max)
		return error_set(err, -EFBIG,
				 "the file is larger than --debug-files, or than 2 GiB");
	pthread_mutex_lock(&files->lock);
	bool fits = files->uploads < DEBUG_UPLOADS_MAX && bytes <= bytes_max - files->upload_bytes;
	if (fits) {
		files->uploads++;
		files->upload_bytes += bytes;
	}
	pthread_mutex_unlock(&files->lock);
	if (!fits)
		return error_set(err, -EAGAIN,
				 "other uploads are being received (limit %d at a time, %llu MiB "
				 "together); try again in a moment",
				 DEBUG_UPLOADS_MAX, (unsigned long long)bytes_max >> 20);
	int rc = debug_cache_begin(&files->cache, &upload.file);
	if (rc) {
		debug_files_drop(files, &upload);
		return error_errno(err, rc, "debug files: write");
	}
	*ret_upload = upload;
	return 0;
}

void debug_files_drop(struct debug_files *files, struct debug_upload *upload)
{
	debug_cache_drop(&files->cache, &upload->file);
	pthread_mutex_lock(&files->lock);
	files->uploads--;
	files->upload_bytes -= upload->bytes;
	pthread_mutex_unlock(&files->lock);
}

int debug_files_origin(const struct debug_files *files, const char *build_id,
		       struct debug_origin *ret_origin)
{
	_cleanup_close_ int fd = debug_cache_look(&files->cache, build_id);

	return fd < 0 ? fd : debug_origin_read(fd, ret_origin);
}

static int refuse_other(const char *build_id, const struct debug_origin *kept, struct error *err)
{
	char time_text[32] = "";
	struct tm tm;
	time_t uploaded = (time_t)kept->uploaded_s;

	strftime(time_text, sizeof(time_text), "%FT%TZ", gmtime_r(&uploaded, &tm));
	return error_set(
		err, -EEXIST,
		"another file of build id %.64s is kept, uploaded by %.60s at %s; the role "
		"admin may delete it first",
		build_id, kept->who, time_text);
}

/** 0: none is kept; -EALREADY: the same is; -EEXIST: another. The lock is held. */
static int compare_kept(const struct debug_files *files, const struct debug_origin *origin,
			const char *build_id, struct error *err)
{
	struct debug_origin kept = { 0 };
	int rc = debug_files_origin(files, build_id, &kept);

	if (rc == -ENOENT)
		return 0;
	if (rc < 0)
		return error_errno(err, rc == -ENODATA ? -EEXIST : rc, "debug files: %s", build_id);
	return kept.bytes == origin->bytes && memcmp(kept.digest, origin->digest, DIGEST_BYTES) == 0
		       ? -EALREADY
		       : refuse_other(build_id, &kept, err);
}

int debug_files_keep(struct debug_files *files, struct debug_upload *upload, const char *build_id,
		     const char *who, const char *address, struct error *err)
{
	struct debug_origin origin;
	int fd = upload->file.fd;
	int rc = debug_file_check(files->launcher, fd, build_id, err);

	if (rc)
		return rc;
	rc = debug_origin_make(fd, upload->bytes, who, address, &origin);
	if (!rc)
		rc = debug_origin_write(fd, &origin);
	if (!rc && fsync(fd))
		rc = -errno;
	if (rc)
		return error_errno(err, rc, "debug files: write");

	pthread_mutex_lock(&files->lock);
	rc = compare_kept(files, &origin, build_id, err);
	if (!rc) {
		rc = debug_cache_keep(&files->cache, &upload->file, build_id);
		if (rc)
			error_errno(err, rc, "debug files: keep %s", build_id);
	}
	pthread_mutex_unlock(&files->lock);
	if (!rc)
		atomic_fetch_add(&files->version, 1);
	return rc == -EALREADY ? 0 : rc;
}

int debug_files_remove(struct debug_files *files, const char *build_id)
{
	int rc = debug_cache_remove(&files->cache, build_id);

	if (!rc)
		atomic_fetch_add(&files->version, 1);
	return rc;
}
