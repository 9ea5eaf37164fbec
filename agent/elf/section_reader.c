// SPDX-License-Identifier: Apache-2.0
#include "agent/elf/section_reader.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/cleanup.h"

enum {
	PIECE_SPARE_BYTES = 256 << 10, // read ahead
	DEFLATED_BYTES = 64 << 10,     // compressed bytes held at a time
};

struct section_reader {
	const struct elf *elf;
	uint64_t file_at;      // the next byte to read from the file
	uint64_t file_limit;   // and where the section ends there
	uint64_t position;     // of the next byte, in the section
	uint32_t start, limit; // bytes in `piece` that are not consumed
	bool is_compressed;
	bool is_inflated;       // completely
	uint64_t inflated_left; // by the section's header
	z_stream stream;
	uint8_t *deflated;
	uint8_t *piece;
	size_t piece_size;
};

static void section_reader_freep(struct section_reader **reader)
{
	section_reader_free(*reader);
}

static int begin(const struct elf *elf, uint64_t offset, uint64_t size,
		 struct section_reader **ret_reader)
{
	if (offset > elf->size || size > elf->size - offset)
		return -ENOEXEC;

	struct section_reader *reader = calloc(1, sizeof(*reader));
	if (!reader)
		return -ENOMEM;
	reader->elf = elf;
	reader->file_at = offset;
	reader->file_limit = offset + size;
	*ret_reader = reader;
	return 0;
}

/* Memory for a small section, or for a piece of a large one. */
static int make_piece(struct section_reader *reader, uint64_t size)
{
	const size_t most = SECTION_PIECE_BYTES + PIECE_SPARE_BYTES;

	reader->piece_size = size < most ? size : most;
	reader->piece = malloc(reader->piece_size + 1); // not NULL for size 0
	return reader->piece ? 0 : -ENOMEM;
}

int section_reader_open(const struct elf *elf, uint64_t offset, uint64_t size,
			struct section_reader **ret_reader)
{
	_cleanup_(section_reader_freep) struct section_reader *reader = NULL;
	int rc = begin(elf, offset, size, &reader);

	if (!rc)
		rc = make_piece(reader, size);
	if (rc)
		return rc;
	*ret_reader = take(reader);
	return 0;
}

/* gABI, "Section Compression": a header, then one zlib stream. */
static int begin_inflating(struct section_reader *reader, uint64_t size_max)
{
	Elf64_Chdr header;
	int rc = elf_read(reader->elf, reader->file_at, &header, sizeof(header));

	if (rc)
		return rc;
	if (header.ch_type != ELFCOMPRESS_ZLIB)
		return -EOPNOTSUPP;
	if (reader->file_limit - reader->file_at < sizeof(header))
		return -ENOEXEC;
	if (header.ch_size > size_max)
		return -EFBIG;
	reader->inflated_left = header.ch_size;
	reader->deflated = malloc(DEFLATED_BYTES);
	if (!reader->deflated || inflateInit(&reader->stream) != Z_OK)
		return -ENOMEM;
	reader->file_at += sizeof(header);
	reader->is_compressed = true;
	return make_piece(reader, header.ch_size);
}

int section_reader_open_section(const struct elf *elf, const Elf64_Shdr *section, uint64_t size_max,
				struct section_reader **ret_reader)
{
	_cleanup_(section_reader_freep) struct section_reader *reader = NULL;
	int rc = begin(elf, section->sh_offset, section->sh_size, &reader);

	if (!rc)
		rc = section->sh_flags & SHF_COMPRESSED ? begin_inflating(reader, size_max)
							: make_piece(reader, section->sh_size);
	if (rc)
		return rc;
	*ret_reader = take(reader);
	return 0;
}

void section_reader_free(struct section_reader *reader)
{
	if (!reader)
		return;
	if (reader->is_compressed)
		inflateEnd(&reader->stream);
	free(reader->deflated);
	free(reader->piece);
	free(reader);
}

uint64_t section_reader_position(const struct section_reader *reader)
{
	return reader->position;
}

/* The next bytes of the file, @size at most. Returns how many (0 at the section's end), or -errno. */
static int64_t read_file(struct section_reader *reader, uint8_t *bytes, size_t size)
{
	if (size > reader->file_limit - reader->file_at)
		size = reader->file_limit - reader->file_at;

	int rc = elf_read(reader->elf, reader->file_at, bytes, size);
	if (rc)
		return rc;
	reader->file_at += size;
	return (int64_t)size;
}

/* As read_file(), of the inflated bytes. */
static int64_t read_inflated(struct section_reader *reader, uint8_t *bytes, size_t size)
{
	z_stream *stream = &reader->stream;

	if (size > reader->inflated_left)
		size = reader->inflated_left;
	stream->next_out = bytes;
	stream->avail_out = (uInt)size;
	while (size && stream->avail_out == size && !reader->is_inflated) {
		if (!stream->avail_in) {
			int64_t count = read_file(reader, reader->deflated, DEFLATED_BYTES);

			if (count < 0)
				return count;
			stream->next_in = reader->deflated;
			stream->avail_in = (uInt)count;
		}
		// No progress without input and output: Z_BUF_ERROR, a truncated stream.
		int rc = inflate(stream, Z_NO_FLUSH);
		if (rc == Z_STREAM_END)
			reader->is_inflated = true;
		else if (rc != Z_OK)
			return -ENOEXEC;
	}
	reader->inflated_left -= size - stream->avail_out;
	return (int64_t)(size - stream->avail_out);
}

/* Moves the rest to the front and reads behind it. Returns 0; -ENODATA at the section's end; -errno. */
static int fill(struct section_reader *reader)
{
	uint32_t kept = reader->limit - reader->start;

	if (reader->start)
		memmove(reader->piece, reader->piece + reader->start, kept);
	reader->start = 0;
	reader->limit = kept;

	uint8_t *to = reader->piece + kept;
	size_t room = reader->piece_size - kept;
	int64_t count = reader->is_compressed ? read_inflated(reader, to, room)
					      : read_file(reader, to, room);
	if (count < 0)
		return (int)count;
	reader->limit += (uint32_t)count;
	return count ? 0 : -ENODATA;
}

int section_reader_look(struct section_reader *reader, size_t size, const uint8_t **ret_bytes)
{
	if (size > SECTION_PIECE_BYTES)
		return -EMSGSIZE;
	while (reader->limit - reader->start < size) {
		int rc = fill(reader);

		if (rc)
			return rc;
	}
	*ret_bytes = reader->piece + reader->start;
	return 0;
}

int section_reader_skip(struct section_reader *reader, uint64_t size)
{
	while (size) {
		uint32_t held = reader->limit - reader->start;
		uint32_t count = size < held ? (uint32_t)size : held;

		reader->start += count;
		reader->position += count;
		size -= count;
		if (!size)
			break;

		int rc = fill(reader);
		if (rc)
			return rc;
	}
	return 0;
}
