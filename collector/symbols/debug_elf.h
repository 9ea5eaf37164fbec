// SPDX-License-Identifier: Apache-2.0
// An ELF file with symbols, as uploaded or fetched: its build id, and the functions in it by file
// offset. Files of any machine are read. They come from whoever may upload: what they may make us
// allocate is bounded before they are read.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	DEBUG_ELF_SECTIONS_MAX = 65536,
	DEBUG_ELF_SYMBOLS_MAX = 4 << 20, // 24 bytes each
	DEBUG_ELF_ID_BYTES = 65,         // a build id in hex and its NUL
};
#define DEBUG_ELF_UNPACKED_BYTES_MAX (2ULL << 30) // of its compressed sections together

struct debug_elf;

/**
 * Open it; @fd is borrowed until it is closed. Returns 0; -EBADMSG (not an ELF file, or a broken
 * one; @err says what); -EFBIG past a limit; -ENOMEM.
 */
int debug_elf_open(int fd, struct debug_elf **ret_elf, struct error *err);
void debug_elf_close(struct debug_elf *elf);
void debug_elf_closep(struct debug_elf **elf);

/** Its GNU build id. Returns 0 or -ENOENT. */
int debug_elf_build_id(const struct debug_elf *elf, char ret_id[DEBUG_ELF_ID_BYTES]);
/** The build id of the file that it shares parts of its DWARF with (dwz(1)). Returns 0 or -ENOENT. */
int debug_elf_alt_id(const struct debug_elf *elf, char ret_id[DEBUG_ELF_ID_BYTES]);
/** Whether it says more than the executable that was stripped: symbols or DWARF. */
bool debug_elf_has_symbols(const struct debug_elf *elf);

/** The virtual address of @offset in the executable's file. Returns 0 or -ENOENT. */
int debug_elf_address(const struct debug_elf *elf, uint64_t offset, uint64_t *ret_address);

/**
 * The linker's name of the function at a virtual address; valid until it is closed. NULL: none.
 */
const char *debug_elf_function(const struct debug_elf *elf, uint64_t address);
