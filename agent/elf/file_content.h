// SPDX-License-Identifier: Apache-2.0
// What the agent reads of a file, as a hash. A build id is a file's own word: two files are the same only if their
// content is. A hash without collisions (content_hash.h), as the files are hostile, and equal on every host.
#pragma once

#include "agent/elf/elf.h"
#include "agent/elf/file_version.h"

enum {
	FILE_CONTENT_TEXT_BYTES = 33, // 128 bits in hex, and a NUL
	// Larger sections are hashed only if they are tables; libc's code has 1.5 MB, CPython's 3 MB, PyTorch's 200 MB
	FILE_CONTENT_SECTION_BYTES_MAX = 4 << 20,
};
#define FILE_CONTENT_BYTES_MAX (512ULL << 20) // some 0.4 s; a larger file is shared with no other

/**
 * The hash of @elf's size, headers, symbol tables, unwind tables and other sections, as hex. @version is of the file. If a
 * section is too large, and others than root may write the file, also of where it lies.
 * Returns 0; -EAGAIN if it was written meanwhile; -ENOMEM; elf_read()'s errors.
 */
int file_content_of_elf(const struct elf *elf, const struct file_version *version,
			char ret_text[FILE_CONTENT_TEXT_BYTES]);

/** The same of the open file @fd, with its version in *ret_version (NULL: not asked for), which is untouched on failure. */
int file_content_of(int fd, struct file_version *ret_version,
		    char ret_text[FILE_CONTENT_TEXT_BYTES]);
