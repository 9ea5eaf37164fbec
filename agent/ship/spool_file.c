// SPDX-License-Identifier: Apache-2.0
#include "agent/ship/spool_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/id128.h"

static const char magic[8] = { 'c', 'a', 'i', 'r', 'n', 's', 'p', 'l' };

/* Little-endian, as all machines that cairn runs on. Without padding: written and hashed as bytes. */
struct header {
	char magic[8];
	uint32_t version;
	uint32_t zero;
	uint64_t packed_size;
	uint64_t message_size;
	uint64_t sample_count;
	struct id128 packed_check; // XXH3-128 of the bytes after the header
	uint64_t check;            // of what is before it
};
_Static_assert(sizeof(struct header) == SPOOL_FILE_HEADER_BYTES, "padding would be written");
_Static_assert(SPOOL_FILE_BYTES_MAX > SPOOL_FILE_HEADER_BYTES + EXPORT_MESSAGE_BYTES_MAX +
					      (EXPORT_MESSAGE_BYTES_MAX >> 10),
	       "zlib adds less than a thousandth");
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format of the file");

static uint64_t check_of(const struct header *header)
{
	return id128_of(header, offsetof(struct header, check)).low;
}

void spool_file_encode_header(const struct packed *packed, uint64_t sample_count,
			      uint8_t ret_bytes[SPOOL_FILE_HEADER_BYTES])
{
	struct header header = {
		.version = SPOOL_FILE_VERSION,
		.packed_size = packed->size,
		.message_size = packed->message_size,
		.sample_count = sample_count,
		.packed_check = id128_of(packed->bytes, packed->size),
	};

	memcpy(header.magic, magic, sizeof(magic));
	header.check = check_of(&header);
	memcpy(ret_bytes, &header, sizeof(header));
}

static int read_header(const void *bytes, size_t size, uint64_t file_size,
		       struct header *ret_header, struct error *err)
{
	struct header header;

	if (size < sizeof(header))
		return error_set(err, -EBADMSG, "cut short (%zu bytes)", size);
	memcpy(&header, bytes, sizeof(header));
	if (memcmp(header.magic, magic, sizeof(magic)) != 0)
		return error_set(err, -EBADMSG, "not a batch");
	// Before the checksum: another version may have it elsewhere.
	if (header.version != SPOOL_FILE_VERSION)
		return error_set(
			err, -EPROTONOSUPPORT,
			"written by another version of cairn (format %u, this one reads %d)",
			header.version, SPOOL_FILE_VERSION);
	if (header.check != check_of(&header))
		return error_set(err, -EBADMSG, "damaged header");
	if (header.message_size > EXPORT_MESSAGE_BYTES_MAX || header.zero ||
	    header.packed_size > SPOOL_FILE_BYTES_MAX - sizeof(header))
		return error_set(err, -EBADMSG, "larger than a batch can be");
	if (file_size != sizeof(header) + header.packed_size)
		return error_set(err, -EBADMSG, "%llu bytes instead of %llu",
				 (unsigned long long)file_size,
				 (unsigned long long)(sizeof(header) + header.packed_size));
	*ret_header = header;
	return 0;
}

int spool_file_decode_header(const void *bytes, size_t size, uint64_t file_size,
			     struct spool_file_header *ret_header, struct error *err)
{
	struct header header;
	int rc = read_header(bytes, size, file_size, &header, err);

	if (rc)
		return rc;
	*ret_header = (struct spool_file_header){ header.packed_size, header.message_size,
						  header.sample_count };
	return 0;
}

int spool_file_decode(const void *bytes, size_t size, struct batch *batch, struct error *err)
{
	const uint8_t *packed = (const uint8_t *)bytes + SPOOL_FILE_HEADER_BYTES;
	struct header header;
	int rc = read_header(bytes, size, size, &header, err);

	if (rc)
		return rc;
	if (!id128_equal(header.packed_check, id128_of(packed, header.packed_size)))
		return error_set(err, -EBADMSG, "damaged content");
	uint8_t *copy = malloc(header.packed_size + 1); // of nothing it may be NULL
	if (!copy)
		return error_set(err, -ENOMEM, "out of memory for a batch");
	memcpy(copy, packed, header.packed_size);
	batch->packed = (struct packed){ copy, header.packed_size, header.message_size };
	batch->sample_count = header.sample_count;
	batch->memory_bytes = sizeof(*batch) + header.packed_size;
	return 0;
}
