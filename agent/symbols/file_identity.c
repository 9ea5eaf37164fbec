// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/file_identity.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/id128.h"
#include "agent/elf/elf.h"
#include "agent/elf/foreign_file.h"
#include "agent/symbols/debug_file.h"
#include "agent/symbols/file_symbols.h"

static bool is_root_of(const struct stat *root, const char *path)
{
	struct stat other;

	return foreign_file_stat(AT_FDCWD, path, 0, &other) == 0 && root->st_dev == other.st_dev &&
	       root->st_ino == other.st_ino;
}

void opened_file_find_root(struct opened_file *file)
{
	if (file->folder < 0 || foreign_file_stat(file->folder, "root", 0, &file->root))
		return;
	file->has_host_root =
		is_root_of(&file->root, "/proc/1/root") || is_root_of(&file->root, "/");
	file->has_own_root = !file->has_host_root;
}

static void set_key(struct file_identity *identity, const char *content)
{
	snprintf(identity->key, sizeof(identity->key), "%s:%s", identity->id, content);
}

void file_identity_set_key(struct file_identity *identity)
{
	set_key(identity, identity->content);
}

/*
 * A container's debug file names functions of this container's file only: it belongs to the identity. The host's are
 * everybody's.
 */
static int add_debug_content(const struct opened_file *file, const struct elf *elf,
			     struct file_identity *identity)
{
	const struct debug_file_search search = {
		.build_id = identity->id[0] != 'h' ? identity->id : NULL,
		.path = file->path,
		.folders = { file->folder, -1, -1 },
	};

	if (!file->has_own_root || file_has_symtab(elf))
		return 0;
	_cleanup_close_ int fd = debug_file_open(elf, &search);
	if (fd < 0 || file_content_of(fd, NULL, identity->debug_content))
		return 0; // it is not used then
	return 1;
}

int file_identity_read(const struct opened_file *file, struct file_identity *ret_identity,
		       struct error *err)
{
	char contents[2 * FILE_CONTENT_TEXT_BYTES] = { 0 };
	struct error cause = { 0 };
	struct elf elf;

	int rc = elf_read_headers(file->fd, &file->status, &elf, &cause);
	if (rc)
		return error_set(err, rc, "%s: %s", file->path, cause.text);
	if (build_id_of_elf(&elf, ret_identity->id))
		rc = file_hash_of_elf(&elf, ret_identity->id);
	if (!rc)
		rc = file_content_of_elf(&elf, &file->version, contents);
	if (rc)
		return error_errno(err, rc, "%s: read to hash it", file->path);
	memcpy(ret_identity->content, contents, sizeof(ret_identity->content));
	if (add_debug_content(file, &elf, ret_identity)) {
		memcpy(contents + strlen(contents), ret_identity->debug_content,
		       FILE_CONTENT_TEXT_BYTES);
		struct id128 both = id128_of(contents, strlen(contents));
		snprintf(contents, sizeof(contents), "%016" PRIx64 "%016" PRIx64, both.high,
			 both.low);
	}
	set_key(ret_identity, contents);
	return 0;
}
