// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/debug_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <lzma.h>
#include <zlib.h>

#include "base/cleanup.h"
#include "agent/elf/foreign_file.h"

#define DEBUG_FOLDER "/usr/lib/debug"

enum {
	BUFFER_BYTES = 64 << 10,
	PATH_BYTES = 4096,
};

/* Memory of the decoder: xz -9 needs 65 MiB to unpack; packages use far less. */
#define DECODER_BYTES_MAX (80ULL << 20)

/* ---- mini debug info ----------------------------------------------------------------------- */

static int write_all(int fd, const uint8_t *bytes, size_t size)
{
	while (size) {
		ssize_t count = write(fd, bytes, size);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		bytes += count;
		size -= (size_t)count;
	}
	return 0;
}

static int error_of(lzma_ret result)
{
	switch (result) {
	case LZMA_MEM_ERROR:
		return -ENOMEM;
	case LZMA_MEMLIMIT_ERROR:
		return -EFBIG;
	default:
		return -EBADMSG;
	}
}

/* Both of BUFFER_BYTES. */
struct unpack_buffers {
	uint8_t *packed, *plain;
};

static int unpack_into(const struct elf *elf, const Elf64_Shdr *section, lzma_stream *stream,
		       const struct unpack_buffers *buffers, int fd)
{
	uint64_t at = section->sh_offset, left = section->sh_size;
	lzma_ret result = LZMA_OK;

	while (result == LZMA_OK) {
		if (!stream->avail_in && left) {
			size_t size = left < BUFFER_BYTES ? left : BUFFER_BYTES;
			int rc = elf_read(elf, at, buffers->packed, size);
			if (rc)
				return rc == -ENOEXEC ? -EBADMSG : rc;
			stream->next_in = buffers->packed;
			stream->avail_in = size;
			at += size;
			left -= size;
		}
		stream->next_out = buffers->plain;
		stream->avail_out = BUFFER_BYTES;
		result = lzma_code(stream, left ? LZMA_RUN : LZMA_FINISH);
		if (result != LZMA_OK && result != LZMA_STREAM_END)
			return error_of(result);
		if (stream->total_out > MINI_DEBUG_BYTES_MAX)
			return -EFBIG;
		int rc = write_all(fd, buffers->plain, BUFFER_BYTES - stream->avail_out);
		if (rc)
			return rc;
	}
	return 0;
}

static int unpack(const struct elf *elf, const Elf64_Shdr *section, int fd, uint64_t *ret_bytes)
{
	_cleanup_free_ uint8_t *memory = malloc(2 * BUFFER_BYTES);
	const struct unpack_buffers buffers = { memory, memory + BUFFER_BYTES };
	lzma_stream stream = LZMA_STREAM_INIT;

	if (!memory)
		return -ENOMEM;
	lzma_ret result = lzma_stream_decoder(&stream, DECODER_BYTES_MAX, 0);
	int rc = result == LZMA_OK ? unpack_into(elf, section, &stream, &buffers, fd)
				   : error_of(result);
	*ret_bytes = stream.total_out;
	lzma_end(&stream);
	return rc;
}

int debug_file_unpack(const struct elf *elf, int *ret_fd, uint64_t *ret_bytes)
{
	Elf64_Shdr section;
	int rc = elf_find_section(elf, ".gnu_debugdata", &section);

	if (rc == -ENOEXEC || rc == -E2BIG || (!rc && section.sh_type == SHT_NOBITS))
		rc = -ENOENT;
	if (rc)
		return rc;
	if (section.sh_size > MINI_DEBUG_PACKED_MAX)
		return -EFBIG;
	_cleanup_close_ int fd = memfd_create("mini-debug-info", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	rc = unpack(elf, &section, fd, ret_bytes);
	if (rc)
		return rc;
	*ret_fd = take_fd(fd);
	return 0;
}

/* ---- separate files ------------------------------------------------------------------------ */

int debug_file_read_build_id(int fd, char ret_id[BUILD_ID_TEXT_BYTES])
{
	struct elf elf = { .fd = fd };
	struct stat status;

	if (fstat(fd, &status))
		return -errno;
	elf.size = (uint64_t)status.st_size;
	if (elf_read(&elf, 0, &elf.header, sizeof(elf.header)) ||
	    memcmp(elf.header.e_ident, ELFMAG, SELFMAG) != 0 ||
	    elf.header.e_ident[EI_CLASS] != ELFCLASS64 ||
	    elf.header.e_ident[EI_DATA] != ELFDATA2LSB)
		return -ENOENT;
	return build_id_of_elf(&elf, ret_id) ? -ENOENT : 0;
}

int debug_file_check_build_id(int fd, const char *build_id)
{
	char found[BUILD_ID_TEXT_BYTES];

	if (debug_file_read_build_id(fd, found))
		return -ENOENT;
	return strcmp(found, build_id) == 0 ? 0 : -ENOENT;
}

/* The checksum of a whole file, as .gnu_debuglink has it. */
static int checksum_of(int fd, uint32_t *ret_checksum)
{
	_cleanup_free_ uint8_t *buffer = malloc(BUFFER_BYTES);
	uint64_t offset = 0;
	uLong checksum = crc32(0, NULL, 0);

	if (!buffer)
		return -ENOMEM;
	while (offset <= DEBUG_CRC_BYTES_MAX) {
		ssize_t count = pread(fd, buffer, BUFFER_BYTES, (off_t)offset);

		if (count < 0 && errno == EINTR)
			continue;
		if (count < 0)
			return -errno;
		if (count == 0) {
			*ret_checksum = (uint32_t)checksum;
			return 0;
		}
		checksum = crc32(checksum, buffer, (uInt)count);
		offset += (uint64_t)count;
	}
	return -EFBIG;
}

/* .gnu_debuglink: a file name, then, aligned to four bytes, the file's checksum. */
struct debug_link {
	char name[DEBUG_LINK_BYTES_MAX];
	uint32_t checksum;
};

static int read_link(const struct elf *elf, struct debug_link *ret_link)
{
	char bytes[DEBUG_LINK_BYTES_MAX + 8] = { 0 };
	Elf64_Shdr section;

	int rc = elf_find_section(elf, ".gnu_debuglink", &section);
	if (rc)
		return rc;
	if (section.sh_type == SHT_NOBITS || section.sh_size > sizeof(bytes))
		return -ENOENT;
	rc = elf_read(elf, section.sh_offset, bytes, section.sh_size);
	if (rc)
		return rc;
	size_t size = strnlen(bytes, section.sh_size);
	size_t checksum_at = (size + 4) & ~(size_t)3;
	// Only a name: no tool writes a path.
	if (!size || size >= DEBUG_LINK_BYTES_MAX || strchr(bytes, '/') ||
	    strcmp(bytes, "..") == 0 || checksum_at + 4 > section.sh_size)
		return -ENOENT;
	memcpy(ret_link->name, bytes, size + 1);
	memcpy(&ret_link->checksum, bytes + checksum_at, sizeof(ret_link->checksum));
	return 0;
}

struct search {
	const struct elf *elf;
	const struct debug_file_search *where;
	struct debug_link link;
	bool has_link;
};

static bool is_debug_file(const struct search *search, int fd)
{
	struct stat status, own;
	uint32_t checksum = 0;

	// A link in the executable's own folder may name the executable.
	if (fstat(fd, &status) || fstat(search->elf->fd, &own) ||
	    (status.st_ino == own.st_ino && status.st_dev == own.st_dev))
		return false;
	if (search->where->build_id)
		return debug_file_check_build_id(fd, search->where->build_id) == 0;
	return search->has_link && checksum_of(fd, &checksum) == 0 &&
	       checksum == search->link.checksum;
}

static int try_path(const struct search *search, int folder, const char *path)
{
	_cleanup_close_ int fd = foreign_file_open(folder, path, 0);

	return fd >= 0 && is_debug_file(search, fd) ? take_fd(fd) : -ENOENT;
}

static int try_build_id(const struct search *search, int folder)
{
	const char *id = search->where->build_id;
	char path[PATH_BYTES];

	if (!id || strlen(id) < 3)
		return -ENOENT;
	snprintf(path, sizeof(path), DEBUG_FOLDER "/.build-id/%.2s/%s.debug", id, id + 2);
	return try_path(search, folder, path);
}

static int try_link(const struct search *search, int folder)
{
	static const char *const patterns[][2] = {
		{ "", "" },
		{ "", ".debug/" },
		{ DEBUG_FOLDER, "" },
	};
	const char *executable = search->where->path;
	const char *slash = strrchr(executable, '/');
	char path[PATH_BYTES];
	int fd = -ENOENT;

	if (!search->has_link || executable[0] != '/')
		return -ENOENT;
	for (size_t i = 0; i < ARRAY_SIZE(patterns) && fd < 0; i++) {
		int size = snprintf(path, sizeof(path), "%s%.*s%s%s", patterns[i][0],
				    (int)(slash - executable) + 1, executable, patterns[i][1],
				    search->link.name);

		if (size < (int)sizeof(path))
			fd = try_path(search, folder, path);
	}
	return fd;
}

int debug_file_open(const struct elf *elf, const struct debug_file_search *where)
{
	struct search search = { .elf = elf, .where = where };
	int fd = -ENOENT;

	search.has_link = read_link(elf, &search.link) == 0;
	for (size_t i = 0; i < ARRAY_SIZE(where->folders) && fd < 0; i++) {
		if (where->folders[i] < 0)
			continue;
		fd = try_build_id(&search, where->folders[i]);
		if (fd < 0)
			fd = try_link(&search, where->folders[i]);
	}
	return fd;
}

/* ---- shared DWARF -------------------------------------------------------------------------- */

/* .gnu_debugaltlink: a path, and behind its NUL a build id. */
struct alt_link {
	char name[DEBUG_LINK_BYTES_MAX];
	char id[BUILD_ID_TEXT_BYTES];
};

static bool read_alt_link(int fd, struct alt_link *ret_link)
{
	static const char digits[] = "0123456789abcdef";
	char bytes[DEBUG_LINK_BYTES_MAX + BUILD_ID_BYTES_MAX];
	Elf64_Shdr section;
	struct stat status;
	struct elf elf;

	if (fstat(fd, &status) || elf_read_headers(fd, &status, &elf, NULL) ||
	    elf_find_section(&elf, ".gnu_debugaltlink", &section) ||
	    section.sh_type == SHT_NOBITS || section.sh_size > sizeof(bytes) ||
	    elf_read(&elf, section.sh_offset, bytes, section.sh_size))
		return false;
	size_t name = strnlen(bytes, section.sh_size) + 1;
	if (name > DEBUG_LINK_BYTES_MAX || name + BUILD_ID_BYTES_MIN > section.sh_size ||
	    section.sh_size - name > BUILD_ID_BYTES_MAX)
		return false;
	memcpy(ret_link->name, bytes, name);
	for (size_t i = name; i < section.sh_size; i++) {
		ret_link->id[2 * (i - name)] = digits[(uint8_t)bytes[i] >> 4];
		ret_link->id[2 * (i - name) + 1] = digits[bytes[i] & 15];
	}
	ret_link->id[2 * (section.sh_size - name)] = '\0';
	return true;
}

static int try_alt(const struct alt_link *link, int folder, const char *path)
{
	_cleanup_close_ int fd = foreign_file_open(folder, path, 0);

	return fd >= 0 && debug_file_check_build_id(fd, link->id) == 0 ? take_fd(fd) : -1;
}

/* The path is relative to the debug file, which may have been moved. */
static int open_alt_below(const struct alt_link *link, int folder)
{
	const char *shared = strstr(link->name, ".dwz/");
	char path[PATH_BYTES];

	snprintf(path, sizeof(path), DEBUG_FOLDER "/.build-id/%.2s/%s.debug", link->id,
		 link->id + 2);
	int fd = try_alt(link, folder, path);
	if (fd < 0 && shared && !strstr(shared, "../")) {
		snprintf(path, sizeof(path), DEBUG_FOLDER "/%s", shared);
		fd = try_alt(link, folder, path);
	}
	return fd;
}

int debug_file_open_alt(int debug_fd, const struct debug_file_search *search)
{
	struct alt_link link;
	int fd = -1;

	if (!read_alt_link(debug_fd, &link))
		return -1;
	for (size_t i = 0; i < ARRAY_SIZE(search->folders) && fd < 0; i++)
		if (search->folders[i] >= 0)
			fd = open_alt_below(&link, search->folders[i]);
	return fd;
}
