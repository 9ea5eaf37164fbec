// SPDX-License-Identifier: Apache-2.0
#include "collector/symbols/source_folders.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/** Each time anew: a deployment may put another folder in its place. */
static int open_folder(const struct source_folder *folder)
{
	return open(folder->path, O_PATH | O_DIRECTORY | O_CLOEXEC);
}

static int add_folder(struct source_folders *folders, const char *text, size_t size,
		      struct error *err)
{
	const char *equals = memchr(text, '=', size);
	size_t tenant_size = equals ? (size_t)(equals - text) : 0;
	const char *path = equals ? equals + 1 : text;
	size_t path_size = size - (size_t)(path - text);

	if (folders->count == SOURCE_FOLDERS_MAX)
		return error_set(err, -EINVAL, "--source-folders: more than %d",
				 SOURCE_FOLDERS_MAX);
	if (path_size == 0 || *path != '/')
		return error_set(err, -EINVAL,
				 "--source-folders: \"%.*s\" is not the absolute path of a folder, "
				 "with a tenant and = before it where there are tenants",
				 (int)size, text);
	struct source_folder *folder = &folders->at[folders->count++];
	folder->tenant = strndup(text, tenant_size);
	folder->path = strndup(path, path_size);
	if (!folder->tenant || !folder->path)
		return error_set(err, -ENOMEM, "out of memory");
	_cleanup_close_ int fd = open_folder(folder);
	return fd < 0 ? error_errno(err, -errno, "--source-folders: %s", folder->path) : 0;
}

int source_folders_parse(const char *text, struct source_folders *ret_folders, struct error *err)
{
	struct source_folders folders = { 0 };
	int rc = 0;

	for (bool more = true; !rc && more;) {
		size_t size = strcspn(text, ",");

		rc = add_folder(&folders, text, size, err);
		more = text[size];
		text += size + more;
	}
	if (rc)
		source_folders_deinit(&folders);
	else
		*ret_folders = folders;
	return rc;
}

void source_folders_deinit(struct source_folders *folders)
{
	for (uint32_t i = 0; i < folders->count; i++) {
		free(folders->at[i].tenant);
		free(folders->at[i].path);
	}
	folders->count = 0;
}

/** A path that a frame recorded is hostile: nothing but a file of this folder's own file system can be reached. */
static int open_file(const struct source_folder *folder, const char *path,
		     struct source_folder_file *file)
{
	struct open_how how = {
		.flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS |
			   RESOLVE_NO_XDEV,
	};
	_cleanup_close_ int top = open_folder(folder);
	_cleanup_close_ int fd =
		top < 0 ? -1 : (int)syscall(SYS_openat2, top, path, &how, sizeof(how));
	struct stat status;

	if (fd < 0 || fstat(fd, &status) || !S_ISREG(status.st_mode))
		return -ENOENT;
	file->fd = take_fd(fd);
	file->bytes = (uint64_t)status.st_size;
	file->modified_s = (uint64_t)status.st_mtim.tv_sec;
	return 0;
}

/** Look in all folders of @tenant. The first counts. */
static void look(const struct source_folders *folders, const char *tenant, const char *path,
		 struct source_folder_file *found)
{
	for (uint32_t i = 0; i < folders->count; i++) {
		struct source_folder_file file = { .fd = -1 };

		if (strcmp(folders->at[i].tenant, tenant) != 0 ||
		    open_file(&folders->at[i], path, &file))
			continue;
		if (found->fd < 0) {
			*found = file;
		} else {
			found->others++;
			close(file.fd);
		}
	}
}

int source_folders_find(const struct source_folders *folders, const char *tenant, const char *path,
			struct source_folder_file *ret_file)
{
	struct source_folder_file found = { .fd = -1 };

	for (path = source_path_longest(path); path; path = source_path_shorter(path)) {
		look(folders, tenant, path, &found);
		if (found.fd < 0)
			continue;
		snprintf(found.path, sizeof(found.path), "%s", path);
		*ret_file = found;
		return 0;
	}
	return -ENOENT;
}
