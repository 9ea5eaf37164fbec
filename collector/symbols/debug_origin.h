// SPDX-License-Identifier: Apache-2.0
// Where an uploaded debug file comes from: who sent it, when, and what it is. It is kept behind the
// file's own bytes, so that it comes and goes with the file; readers of ELF do not look there.
#pragma once

#include <stdint.h>

#include "base/tls/digest.h"

enum { DEBUG_ORIGIN_TEXT_BYTES = 320 };

struct debug_origin {
	char magic[16];
	uint64_t bytes;      // of the file as it was sent
	uint64_t uploaded_s; // Unix time
	uint8_t digest[DIGEST_BYTES];
	char who[DEBUG_ORIGIN_TEXT_BYTES];     // the uploader's identity
	char address[DEBUG_ORIGIN_TEXT_BYTES]; // from where
};

/** Fill it for the @bytes received in @fd. Returns 0 or -errno. */
int debug_origin_make(int fd, uint64_t bytes, const char *who, const char *address,
		      struct debug_origin *ret_origin);
/** Append it to the file. Returns 0 or -errno. */
int debug_origin_write(int fd, const struct debug_origin *origin);
/** Read it from the end of a kept file. Returns 0; -ENODATA: it has none; -errno. */
int debug_origin_read(int fd, struct debug_origin *ret_origin);
