// SPDX-License-Identifier: Apache-2.0
#include "agent/process/perf_map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "agent/symbols/jit_symbols.h"
#include "agent/elf/foreign_file.h"

enum {
	READ_BYTES = 64 << 10,
	LINE_BYTES_MAX = 4096,       // longer lines are left out
	STATUS_BYTES_MAX = 64 << 10, // a process may be in many groups
	PATH_BYTES = 64,
	END_BYTES = 64,
};

struct perf_map {
	struct jit_symbols *symbols;
	dev_t device;
	ino_t inode;
	uint64_t offset;     // of the first line not read
	char end[END_BYTES]; // the bytes before it: they differ in a file that was written anew
	size_t end_size;
	bool skipping; // in a line that is too long
	bool full;
};

// ---- life -----------------------------------------------------------------------------------

struct perf_map *perf_map_new(void)
{
	struct perf_map *map = calloc(1, sizeof(*map));

	if (!map)
		return NULL;
	map->symbols = jit_symbols_new();
	if (!map->symbols) {
		free(map);
		return NULL;
	}
	return map;
}

void perf_map_free(struct perf_map *map)
{
	if (!map)
		return;
	jit_symbols_free(map->symbols);
	free(map);
}

const char *perf_map_find(struct perf_map *map, uint64_t address)
{
	return jit_symbols_find(map->symbols, address);
}

bool perf_map_is_full(const struct perf_map *map)
{
	return map->full;
}

size_t perf_map_bytes(const struct perf_map *map)
{
	return sizeof(*map) + jit_symbols_bytes(map->symbols);
}

// ---- finding and opening --------------------------------------------------------------------

struct owner {
	unsigned pid;     // in the innermost of its pid namespaces
	unsigned uids[4]; // real, effective, saved, of files
};

static bool parse_owner(const char *status, struct owner *ret_owner)
{
	const char *uids = strstr(status, "\nUid:"), *pids = strstr(status, "\nNSpid:");
	struct owner owner = { 0 };
	int length;

	if (!uids || !pids ||
	    sscanf(uids, "\nUid:%u%u%u%u", &owner.uids[0], &owner.uids[1], &owner.uids[2],
		   &owner.uids[3]) != 4)
		return false;
	pids += strlen("\nNSpid:");
	while (*pids != '\n' && sscanf(pids, "%*[\t ]%u%n", &owner.pid, &length) == 1)
		pids += length;
	*ret_owner = owner;
	return owner.pid != 0;
}

static int read_owner(int folder, struct owner *ret_owner)
{
	_cleanup_(buffer_deinit) struct buffer status = { 0 };
	int rc = proc_read(folder, "status", STATUS_BYTES_MAX, &status);

	if (rc)
		return rc;
	return parse_owner(buffer_string(&status), ret_owner) ? 0 : -EBADMSG;
}

static bool is_owned(const struct stat *status, const struct owner *owner)
{
	for (size_t i = 0; i < ARRAY_SIZE(owner->uids); i++)
		if (status->st_uid == owner->uids[i])
			return true;
	return status->st_uid == 0;
}

int perf_map_open(const struct proc *proc)
{
	struct owner owner;
	struct stat status;
	char path[PATH_BYTES];
	int rc = read_owner(proc->fd, &owner);

	if (rc)
		return rc;
	snprintf(path, sizeof(path), "/tmp/perf-%u.map", owner.pid);
	_cleanup_close_ int fd = foreign_file_open_no_link(proc->files, path);
	if (fd < 0)
		return fd == -ENOEXEC ? -EPERM : fd;
	if (fstat(fd, &status))
		return -errno;
	// A second hard link may be another user's, to a file of root.
	if (!is_owned(&status, &owner) || status.st_nlink != 1)
		return -EPERM;
	return take_fd(fd);
}

// ---- lines ----------------------------------------------------------------------------------

/* A hexadecimal number and the space behind it. The JVM writes it with 0x. */
static bool read_number(const char **at, const char *end, uint64_t *ret_number)
{
	const char *digit = *at;
	uint64_t number = 0;

	if (end - digit > 2 && digit[0] == '0' && digit[1] == 'x')
		digit += 2;
	const char *first = digit;
	for (; digit < end && text_hex_digit(*digit) >= 0; digit++)
		number = number << 4 | (uint64_t)text_hex_digit(*digit);
	if (digit == first || digit - first > 16 || digit == end || *digit != ' ')
		return false;
	*at = digit + 1;
	*ret_number = number;
	return true;
}

/* A senseless line is left out. */
static int add_line(struct jit_symbols *symbols, const char *line, const char *end)
{
	const char *at = line;
	uint64_t start, size;

	if (!read_number(&at, end, &start) || !read_number(&at, end, &size))
		return 0;
	return jit_symbols_add(symbols, start, size, at, (size_t)(end - at));
}

/* Add the complete lines of @chunk; *ret_used is their size. */
static int add_lines(struct perf_map *map, const char *chunk, size_t size, size_t *ret_used)
{
	const char *line = chunk, *end;
	int rc = 0;

	while (!rc && (end = memchr(line, '\n', size - (size_t)(line - chunk)))) {
		if (!map->skipping && end - line <= LINE_BYTES_MAX)
			rc = add_line(map->symbols, line, end);
		map->skipping = false;
		line = end + 1;
	}
	*ret_used = (size_t)(line - chunk);
	// The rest of such a long line is skipped.
	if (!rc && size - *ret_used > LINE_BYTES_MAX) {
		map->skipping = true;
		*ret_used = size;
	}
	return rc;
}

/* The JVM writes its whole list anew on each request: other bytes lie before the offset then. */
static bool is_same_file(const struct perf_map *map, int fd, const struct stat *status)
{
	char end[END_BYTES];

	if (map->device != status->st_dev || map->inode != status->st_ino)
		return false;
	ssize_t size = pread(fd, end, map->end_size, (off_t)(map->offset - map->end_size));
	return size == (ssize_t)map->end_size && memcmp(end, map->end, map->end_size) == 0;
}

static void begin_file(struct perf_map *map, const struct stat *status)
{
	jit_symbols_clear(map->symbols);
	map->device = status->st_dev;
	map->inode = status->st_ino;
	map->offset = map->end_size = 0;
	map->skipping = map->full = false;
}

/* @used bytes of @chunk are read. */
static void advance(struct perf_map *map, const char *chunk, size_t used)
{
	size_t end_size = used < END_BYTES ? used : END_BYTES;

	map->offset += used;
	if (!used)
		return;
	map->end_size = end_size;
	memcpy(map->end, chunk + used - end_size, end_size);
}

int perf_map_read(struct perf_map *map, int fd)
{
	_cleanup_free_ char *chunk = malloc(READ_BYTES);
	uint64_t total = 0;
	struct stat status;

	if (!chunk)
		return -ENOMEM;
	if (fstat(fd, &status))
		return -errno;
	if (!is_same_file(map, fd, &status))
		begin_file(map, &status);
	while (!map->full && total < PERF_MAP_STEP_BYTES) {
		ssize_t size = pread(fd, chunk, READ_BYTES, (off_t)map->offset);
		size_t used;

		if (size < 0)
			return -errno;
		int rc = add_lines(map, chunk, (size_t)size, &used);
		if (rc == -ENOMEM)
			return rc;
		advance(map, chunk, used);
		total += used;
		map->full = rc == -E2BIG || map->offset >= PERF_MAP_BYTES_MAX;
		if (!used)
			break;
	}
	return total > 0;
}
