// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/debug_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "collector/symbols/debug_elf.h"

enum { PATH_BYTES = 4096 };

int debug_files_open(struct debug_files *files, const char *data, uint64_t bytes_max,
		     struct error *err)
{
	char folder[PATH_BYTES];

	snprintf(folder, sizeof(folder), "%s/debug-files", data);
	atomic_init(&files->version, 1);
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

int debug_files_check(int fd, const char *build_id, struct error *err)
{
	_cleanup_(debug_elf_closep) struct debug_elf *elf = NULL;
	char id[DEBUG_ELF_ID_BYTES];
	struct error cause = { 0 };
	int rc = debug_elf_open(fd, &elf, &cause);

	if (rc == -ENOMEM)
		return error_set(err, rc, "%s", cause.text);
	if (rc)
		return error_set(err, -EINVAL, "the file cannot be read: %s", cause.text);
	if (debug_elf_build_id(elf, id))
		return error_set(err, -EINVAL, "the file has no build id");
	if (strcmp(id, build_id) != 0)
		return error_set(err, -EINVAL, "the file's build id is %s", id);
	if (!debug_elf_has_symbols(elf))
		return error_set(err, -EINVAL,
				 "the file is stripped: it has neither a symbol "
				 "table nor DWARF");
	return 0;
}

int debug_files_keep(struct debug_files *files, struct debug_cache_file *file, const char *build_id,
		     struct error *err)
{
	int rc = debug_files_check(file->fd, build_id, err);

	if (!rc && fsync(file->fd))
		rc = error_errno(err, -errno, "debug files: write");
	if (rc) {
		debug_cache_drop(&files->cache, file);
		return rc;
	}
	rc = debug_cache_keep(&files->cache, file, build_id);
	if (rc)
		return error_errno(err, rc, "debug files: keep %s", build_id);
	atomic_fetch_add(&files->version, 1);
	return 0;
}

int debug_files_remove(struct debug_files *files, const char *build_id)
{
	int rc = debug_cache_remove(&files->cache, build_id);

	if (!rc)
		atomic_fetch_add(&files->version, 1);
	return rc;
}
