// SPDX-License-Identifier: Apache-2.0
#include "proto/rpc_library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>
#include <grpc/support/log.h>
#include <zlib.h>

#include "base/log.h"

enum {
	INFLATE_STEP_BYTES = 64 * 1024,
	INFLATE_WINDOW_BITS =
		15 + 32, // zlib's largest window; 32: detect gzip or zlib by the header
};

static void log_library_line(gpr_log_func_args *line)
{
	log_debug("grpc: %s", line->message);
}

void rpc_library_open(void)
{
	// The system's resolver uses nsswitch and search domains; the built-in one does not, and
	// keeps threads and sockets. A value in the environment wins.
	setenv("GRPC_DNS_RESOLVER", "native", 0);
	gpr_set_log_function(log_library_line);
	grpc_init();
}

void rpc_library_close(void)
{
	grpc_shutdown();
}

grpc_byte_buffer *rpc_message_new(const void *bytes, size_t size)
{
	grpc_slice slice = grpc_slice_from_copied_buffer(bytes ? bytes : "", size);
	grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);

	grpc_slice_unref(slice);
	return message;
}

static int read_plain(grpc_byte_buffer_reader *reader, size_t size_max, struct buffer *buffer)
{
	size_t size = 0;
	grpc_slice *slice;

	while (grpc_byte_buffer_reader_peek(reader, &slice)) {
		size += GRPC_SLICE_LENGTH(*slice);
		if (size > size_max)
			return -EMSGSIZE;
		buffer_append(buffer, GRPC_SLICE_START_PTR(*slice), GRPC_SLICE_LENGTH(*slice));
	}
	return buffer->rc;
}

// Inflate the stream's input. Returns 1 at the end of the compressed data.
static int inflate_slice(z_stream *stream, size_t size_max, struct buffer *buffer)
{
	uint8_t step[INFLATE_STEP_BYTES];

	for (;;) {
		stream->next_out = step;
		stream->avail_out = sizeof(step);
		int rc = inflate(stream, Z_NO_FLUSH);
		if (rc == Z_MEM_ERROR)
			return -ENOMEM;
		if (rc != Z_OK && rc != Z_STREAM_END && rc != Z_BUF_ERROR)
			return -EBADMSG;
		if (stream->total_out > size_max)
			return -EMSGSIZE;
		buffer_append(buffer, step, sizeof(step) - stream->avail_out);
		if (buffer->rc)
			return buffer->rc;
		if (rc == Z_STREAM_END)
			return 1;
		if (stream->avail_out)
			return 0;
	}
}

static int read_compressed(grpc_byte_buffer_reader *reader, size_t size_max, struct buffer *buffer)
{
	z_stream stream = { 0 };
	grpc_slice *slice;
	int rc = 0;

	if (inflateInit2(&stream, INFLATE_WINDOW_BITS) != Z_OK)
		return -ENOMEM;
	while (!rc && grpc_byte_buffer_reader_peek(reader, &slice)) {
		stream.next_in = GRPC_SLICE_START_PTR(*slice);
		stream.avail_in = GRPC_SLICE_LENGTH(*slice);
		rc = inflate_slice(&stream, size_max, buffer);
	}
	// Bytes after the end of the compressed data are an error.
	bool whole = rc == 1 && !stream.avail_in && !grpc_byte_buffer_reader_peek(reader, &slice);
	inflateEnd(&stream);
	if (rc < 0)
		return rc;
	return whole ? 0 : -EBADMSG;
}

int rpc_message_read(grpc_byte_buffer *message, size_t size_max, struct buffer *buffer)
{
	bool compressed =
		message->type == GRPC_BB_RAW && message->data.raw.compression != GRPC_COMPRESS_NONE;
	grpc_byte_buffer_reader reader;

	if (!grpc_byte_buffer_reader_init(&reader, message))
		return -EBADMSG;
	int rc = compressed ? read_compressed(&reader, size_max, buffer)
			    : read_plain(&reader, size_max, buffer);
	grpc_byte_buffer_reader_destroy(&reader);
	return rc;
}
