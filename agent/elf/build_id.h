// SPDX-License-Identifier: Apache-2.0
// The identity of an executable, whatever its name: its GNU build id, or a hash of the file's ends and size.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/elf.h"

enum {
	BUILD_ID_BYTES_MIN = 8,  // lld's fast ids; shorter ones identify nothing
	BUILD_ID_BYTES_MAX = 32, // SHA-256; GNU ld's SHA-1 has 20
	BUILD_ID_TEXT_BYTES = 2 * BUILD_ID_BYTES_MAX + 1,
	NOTES_BYTES_MAX = 64 << 10, // per segment or section
};

/**
 * Find the GNU build id in a block of ELF notes, each padded to @alignment (4 or 8), as hex.
 * Returns 0; -ENOENT if no note has one; -EBADMSG if a note is cut short or the id's length is out
 * of bounds. On failure @ret_text is untouched.
 */
int build_id_from_notes(const void *notes, size_t size, size_t alignment,
			char ret_text[BUILD_ID_TEXT_BYTES]);

/** The build id of a file, from its segments, else its sections. Errors as above, or elf_read()'s. */
int build_id_of_elf(const struct elf *elf, char ret_text[BUILD_ID_TEXT_BYTES]);

/** "h" and the XXH3-128 of the file's first and last 16 KiB and its size. 0 or elf_read()'s errors. */
int file_hash_of_elf(const struct elf *elf, char ret_text[BUILD_ID_TEXT_BYTES]);

/** Identifies this build of the running program, for caches on disk of what it makes; 0 without a build id. */
uint64_t build_id_hash_of_program(void);
