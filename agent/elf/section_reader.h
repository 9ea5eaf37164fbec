// SPDX-License-Identifier: Apache-2.0
// The bytes of one section of an ELF file in order, a piece at a time, inflated where the section is
// compressed: memory is bounded by the piece, not by the section.
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/elf.h"

enum { SECTION_PIECE_BYTES = 1 << 20 }; // the most that can be looked at in one piece

struct section_reader;

/**
 * Begin to read @size bytes at @offset of the file. Returns 0; -ENOEXEC if they do not lie in the
 * file; -ENOMEM. Borrows @elf until section_reader_free().
 */
int section_reader_open(const struct elf *elf, uint64_t offset, uint64_t size,
			struct section_reader **ret_reader);

/**
 * The same of @section, whose bytes may be compressed (SHF_COMPRESSED). Returns -EOPNOTSUPP if they
 * are, and not by zlib; -EFBIG if they are inflated to more than @size_max; otherwise as above.
 */
int section_reader_open_section(const struct elf *elf, const Elf64_Shdr *section, uint64_t size_max,
				struct section_reader **ret_reader);

void section_reader_free(struct section_reader *reader);

/** Where in the (inflated) section the next byte lies. */
uint64_t section_reader_position(const struct section_reader *reader);

/**
 * The next @size bytes, at most SECTION_PIECE_BYTES, in one piece; they stay valid until the next
 * call. They are not consumed. Returns 0; -ENODATA if the section ends before; -ENOEXEC if the
 * file does, or if it does not inflate; -EMSGSIZE; -errno when reading fails.
 */
int section_reader_look(struct section_reader *reader, size_t size, const uint8_t **ret_bytes);

/** Go on @size bytes further, seen or not. Returns as section_reader_look(). */
int section_reader_skip(struct section_reader *reader, uint64_t size);
