// SPDX-License-Identifier: Apache-2.0
// Any bytes as an archive of source files: it is refused, or its files lie within it, sorted, at plain paths, and each is found.

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/symbols/source_archive.h"
#include "base/symbols/source_path.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void check(bool condition)
{
	if (!condition)
		abort();
}

static void check_archive(const struct source_archive *archive, size_t size)
{
	check(source_name_is_sound(archive->service) && source_name_is_sound(archive->version));
	for (uint32_t i = 0; i < archive->file_count; i++) {
		const struct source_archive_file *file = &archive->files[i];

		check(file->offset <= size && file->bytes <= size - file->offset);
		check(source_path_is_plain(file->path));
		check(i == 0 || strcmp(file[-1].path, file->path) < 0);
		check(source_archive_find(archive, file->path) == file);
	}
}

/** Any bytes as a path that a frame recorded. */
static void check_path(const uint8_t *bytes, size_t size)
{
	char *path = strndup((const char *)bytes, size);
	const char *longest = source_path_longest(path);

	if (longest) {
		check(*longest != '/' && *longest != '.' && !strstr(longest, "/."));
		check(strlen(longest) <= SOURCE_PATH_BYTES_MAX);
	}
	free(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	struct source_archive archive;
	struct error err;
	int fd = memfd_create("input", MFD_CLOEXEC);

	check(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
	if (source_archive_read(fd, size, &archive, &err) == 0) {
		check_archive(&archive, size);
		source_archive_deinit(&archive);
	}
	close(fd);
	check_path(bytes, size);
	return 0;
}
