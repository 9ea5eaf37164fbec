// SPDX-License-Identifier: Apache-2.0
// A file of the spool's folder: a header and one packed batch (docs/format.md). A file may be damaged, cut short, or made by
// somebody else: its bytes are hostile.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/ship/batch.h"
#include "base/error.h"

enum {
	SPOOL_FILE_VERSION = 1,
	SPOOL_FILE_HEADER_BYTES = 64,
	SPOOL_FILE_BYTES_MAX = 65 << 20, // the largest message, incompressible, and what zlib adds
};

struct spool_file_header {
	size_t packed_size;
	size_t message_size;
	uint64_t sample_count;
};

void spool_file_encode_header(const struct packed *packed, uint64_t sample_count,
			      uint8_t ret_bytes[SPOOL_FILE_HEADER_BYTES]);

/**
 * Read the header of a file of @file_size bytes. Returns 0; -EBADMSG if it is damaged, or the file has another size than
 * it says; -EPROTONOSUPPORT if another version of cairn wrote it.
 */
int spool_file_decode_header(const void *bytes, size_t size, uint64_t file_size,
			     struct spool_file_header *ret_header, struct error *err);

/** Read a whole file into @batch, which has nothing in memory. Returns as spool_file_decode_header(); -ENOMEM. */
int spool_file_decode(const void *bytes, size_t size, struct batch *batch, struct error *err);
