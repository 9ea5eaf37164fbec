// SPDX-License-Identifier: Apache-2.0
// Reads an ELF section in order, in pieces, inflating compressed ones: memory is bounded by the piece, not by the
// section.
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/elf.h"

enum { SECTION_PIECE_BYTES = 1 << 20 }; // the largest piece

struct section_reader;

/**
 * Read @size bytes from @offset of the file on. Borrows @elf until section_reader_free(). Returns 0; -ENOEXEC if they lie
 * outside of the file; -ENOMEM.
 */
int section_reader_open(const struct elf *elf, uint64_t offset, uint64_t size,
			struct section_reader **ret_reader);

/**
 * Read @section, compressed or not (SHF_COMPRESSED). Returns -EOPNOTSUPP if not compressed by zlib; -EFBIG if it inflates
 * to more than @size_max; else as above.
 */
int section_reader_open_section(const struct elf *elf, const Elf64_Shdr *section, uint64_t size_max,
				struct section_reader **ret_reader);

void section_reader_free(struct section_reader *reader);

/** Offset of the next byte in the (inflated) section. */
uint64_t section_reader_position(const struct section_reader *reader);

/**
 * The next @size bytes, at most SECTION_PIECE_BYTES, not consumed; valid until the next call. Returns 0; -ENODATA past the
 * section's end; -ENOEXEC if the file ends or does not inflate; -EMSGSIZE; -errno.
 */
int section_reader_look(struct section_reader *reader, size_t size, const uint8_t **ret_bytes);

/** Consume @size bytes, seen or not. Returns as section_reader_look(). */
int section_reader_skip(struct section_reader *reader, uint64_t size);
