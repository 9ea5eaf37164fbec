// SPDX-License-Identifier: Apache-2.0
#include "base/import/inflated.h"

#include <errno.h>
#include <limits.h>
#include <stdint.h>

#include <zlib.h>

enum {
	GZIP_WINDOW_BITS = 15 + 16, // the largest window; 16: with gzip's header
	STEP_BYTES = 64 * 1024,
};

bool is_gzip(const void *bytes, size_t size)
{
	const uint8_t *magic = bytes;

	return size >= 2 && magic[0] == 0x1f && magic[1] == 0x8b;
}

static int refuse(const struct buffer *buffer, struct error *err)
{
	if (buffer->rc == -EFBIG)
		return error_set(err, -EFBIG, "gzip: inflates to more than %zu MiB",
				 buffer->size_max >> 20);
	return error_errno(err, buffer->rc, "gzip: no memory for what is inflated");
}

/** Inflate one member. Returns 0, or as inflate_bytes(). */
static int inflate_member(z_stream *stream, struct buffer *buffer, struct error *err)
{
	int code = Z_OK;

	while (code != Z_STREAM_END) {
		uint8_t *room = buffer_extend(buffer, STEP_BYTES);

		if (!room)
			return refuse(buffer, err);
		stream->next_out = room;
		stream->avail_out = STEP_BYTES;
		code = inflate(stream, Z_NO_FLUSH);
		buffer->size -= stream->avail_out;
		if (code == Z_MEM_ERROR)
			return error_set(err, -ENOMEM, "gzip: out of memory");
		if (code != Z_OK && code != Z_STREAM_END)
			return error_set(err, -EBADMSG, "gzip: damaged or cut short");
	}
	return 0;
}

int inflate_bytes(const void *bytes, size_t size, struct buffer *ret_buffer, struct error *err)
{
	z_stream stream = { 0 };
	int rc = 0;

	if (size > UINT_MAX)
		return error_set(err, -EFBIG, "gzip: larger than 4 GiB");
	if (inflateInit2(&stream, GZIP_WINDOW_BITS) != Z_OK)
		return error_set(err, -ENOMEM, "gzip: out of memory");
	stream.next_in = (void *)(uintptr_t)bytes;
	stream.avail_in = (uInt)size;
	while (!rc && is_gzip(stream.next_in, stream.avail_in)) {
		rc = inflate_member(&stream, ret_buffer, err);
		if (!rc && inflateReset(&stream) != Z_OK)
			rc = error_set(err, -EBADMSG, "gzip: damaged");
	}
	inflateEnd(&stream);
	return rc;
}
