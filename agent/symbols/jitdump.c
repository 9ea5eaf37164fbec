// SPDX-License-Identifier: Apache-2.0
#include "agent/symbols/jitdump.h"

#include <byteswap.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "agent/symbols/jit_symbols.h"

enum {
	READ_BYTES = 64 << 10,
	RECORD_BYTES_MAX = 8 << 10, // of a record that are read: up to the end of its name
	HEADER_BYTES_MAX = 64 << 10,
	// Of JITDUMP_STEP_RECORDS: a moved function is looked up, which merges all that came since the last one.
	MOVE_RECORDS = 1024,
};

#define JITDUMP_MAGIC 0x4a695444 // "JiTD" in the byte order of the machine that wrote it

enum record_id {
	RECORD_LOAD = 0, // code was compiled
	RECORD_MOVE = 1, // code was moved
};

struct file_header {
	uint32_t magic, version, size, machine, pad, pid;
	uint64_t timestamp, flags;
};

struct record_header {
	uint32_t id, size;
	uint64_t timestamp;
};

struct load_record {
	struct record_header header;
	uint32_t pid, tid;
	uint64_t vma, address, code_size, code_index;
	// then the name with its NUL, then the code
};

struct move_record {
	struct record_header header;
	uint32_t pid, tid;
	uint64_t vma, old_address, new_address, code_size, code_index;
};

struct jitdump {
	struct jit_symbols *symbols;
	dev_t device;
	ino_t inode;
	uint64_t offset; // of the first record not read; 0: not even the file's header
	bool swapped;    // the other byte order
	bool broken;
	bool full;
	uint8_t *buffer; // READ_BYTES of the file, during a read
	uint64_t buffer_offset;
	size_t buffer_size;
};

// ---- life -----------------------------------------------------------------------------------

struct jitdump *jitdump_new(void)
{
	struct jitdump *dump = calloc(1, sizeof(*dump));

	if (!dump)
		return NULL;
	dump->symbols = jit_symbols_new();
	if (!dump->symbols) {
		free(dump);
		return NULL;
	}
	return dump;
}

void jitdump_free(struct jitdump *dump)
{
	if (!dump)
		return;
	jit_symbols_free(dump->symbols);
	free(dump);
}

const char *jitdump_find(struct jitdump *dump, uint64_t address)
{
	return jit_symbols_find(dump->symbols, address);
}

bool jitdump_is_full(const struct jitdump *dump)
{
	return dump->full;
}

size_t jitdump_bytes(const struct jitdump *dump)
{
	return sizeof(*dump) + jit_symbols_bytes(dump->symbols);
}

// ---- bytes ----------------------------------------------------------------------------------

static uint32_t to_host32(const struct jitdump *dump, uint32_t number)
{
	return dump->swapped ? bswap_32(number) : number;
}

static uint64_t to_host64(const struct jitdump *dump, uint64_t number)
{
	return dump->swapped ? bswap_64(number) : number;
}

/* Up to @size bytes at @offset of the file; *ret_size are there. Valid until the next call. */
static int look_at(struct jitdump *dump, int fd, uint64_t offset, size_t size,
		   const uint8_t **ret_bytes, size_t *ret_size)
{
	uint64_t skipped = offset - dump->buffer_offset;

	if (offset < dump->buffer_offset || skipped + size > dump->buffer_size) {
		ssize_t got = pread(fd, dump->buffer, READ_BYTES, (off_t)offset);
		if (got < 0)
			return -errno;
		dump->buffer_offset = offset;
		dump->buffer_size = (size_t)got;
		skipped = 0;
	}
	*ret_bytes = dump->buffer + skipped;
	*ret_size = dump->buffer_size - skipped;
	if (*ret_size > size)
		*ret_size = size;
	return 0;
}

// ---- records --------------------------------------------------------------------------------

/* Returns 0 if the header was read, or is not complete yet. */
static int read_header(struct jitdump *dump, int fd)
{
	struct file_header header;
	const uint8_t *bytes;
	size_t size;
	int rc = look_at(dump, fd, 0, sizeof(header), &bytes, &size);

	if (rc || size < sizeof(header))
		return rc;
	memcpy(&header, bytes, sizeof(header));
	if (header.magic != JITDUMP_MAGIC && header.magic != bswap_32(JITDUMP_MAGIC))
		return -EBADMSG;
	dump->swapped = header.magic != JITDUMP_MAGIC;
	uint32_t header_size = to_host32(dump, header.size);
	if (header_size < sizeof(header) || header_size > HEADER_BYTES_MAX)
		return -EBADMSG;
	dump->offset = header_size;
	return 0;
}

static int add_load(struct jitdump *dump, const uint8_t *bytes, size_t size)
{
	struct load_record load;

	if (size <= sizeof(load))
		return -EBADMSG;
	memcpy(&load, bytes, sizeof(load));
	const char *name = (const char *)bytes + sizeof(load);
	return jit_symbols_add(dump->symbols, to_host64(dump, load.address),
			       to_host64(dump, load.code_size), name,
			       strnlen(name, size - sizeof(load)));
}

static int add_move(struct jitdump *dump, const uint8_t *bytes, size_t size)
{
	char name[JIT_NAME_BYTES_MAX + 1];
	struct move_record move;

	if (size < sizeof(move))
		return -EBADMSG;
	memcpy(&move, bytes, sizeof(move));
	const char *old = jit_symbols_find(dump->symbols, to_host64(dump, move.old_address));
	if (!old)
		return 0;
	size_t name_size = strlen(old);
	memcpy(name, old, name_size); // adding may move the names
	return jit_symbols_add(dump->symbols, to_host64(dump, move.new_address),
			       to_host64(dump, move.code_size), name, name_size);
}

/* Returns what the record counts for among JITDUMP_STEP_RECORDS; 0: it is not complete yet. */
static int read_record(struct jitdump *dump, int fd, uint64_t file_size)
{
	struct record_header header;
	const uint8_t *bytes;
	size_t size;
	int rc = look_at(dump, fd, dump->offset, sizeof(header), &bytes, &size);

	if (rc || size < sizeof(header))
		return rc;
	memcpy(&header, bytes, sizeof(header));
	uint32_t record_size = to_host32(dump, header.size);
	if (record_size < sizeof(header))
		return -EBADMSG;
	if (record_size > file_size - dump->offset)
		return 0;
	bool is_move = to_host32(dump, header.id) == RECORD_MOVE;
	size_t wanted = record_size < RECORD_BYTES_MAX ? record_size : RECORD_BYTES_MAX;
	rc = look_at(dump, fd, dump->offset, wanted, &bytes, &size);
	if (rc || size < wanted) // truncated meanwhile
		return rc;
	switch (to_host32(dump, header.id)) {
	case RECORD_LOAD:
		rc = add_load(dump, bytes, size);
		break;
	case RECORD_MOVE:
		rc = add_move(dump, bytes, size);
		break;
	}
	if (rc)
		return rc;
	dump->offset += record_size;
	return is_move ? MOVE_RECORDS : 1;
}

static int read_records(struct jitdump *dump, int fd, uint64_t file_size)
{
	uint64_t begin = dump->offset;
	uint32_t count = 0;
	int rc = 0;

	if (!dump->offset)
		rc = read_header(dump, fd);
	if (rc || !dump->offset)
		return rc;
	while (count < JITDUMP_STEP_RECORDS && dump->offset - begin < JITDUMP_STEP_BYTES &&
	       dump->offset < file_size && (rc = read_record(dump, fd, file_size)) > 0)
		count += (uint32_t)rc;
	return rc < 0 ? rc : count > 0;
}

static void begin_if_replaced(struct jitdump *dump, const struct stat *status)
{
	bool same = dump->device == status->st_dev && dump->inode == status->st_ino &&
		    dump->offset <= (uint64_t)status->st_size;

	if (same)
		return;
	jit_symbols_clear(dump->symbols);
	dump->device = status->st_dev;
	dump->inode = status->st_ino;
	dump->offset = 0;
	dump->broken = dump->full = false;
}

int jitdump_read(struct jitdump *dump, int fd)
{
	_cleanup_free_ uint8_t *buffer = malloc(READ_BYTES);
	struct stat status;

	if (!buffer)
		return -ENOMEM;
	if (fstat(fd, &status))
		return -errno;
	begin_if_replaced(dump, &status);
	if (dump->broken || dump->full)
		return 0;
	dump->buffer = buffer;
	dump->buffer_offset = dump->buffer_size = 0;
	int rc = read_records(dump, fd, (uint64_t)status.st_size);
	dump->buffer = NULL;
	dump->broken = rc == -EBADMSG;
	dump->full = rc == -E2BIG || dump->offset > JITDUMP_BYTES_MAX;
	return rc == -E2BIG ? 0 : rc;
}
