// SPDX-License-Identifier: Apache-2.0
// Reads an uploaded or fetched ELF file: its build id, and its functions by file offset. Files of
// any machine are read. A file is hostile: the memory that it may ask for is bounded before it is
// read.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	DEBUG_ELF_SECTIONS_MAX = 65536,
	DEBUG_ELF_SYMBOLS_MAX = 4 << 20, // 24 bytes each
	DEBUG_ELF_ID_BYTES = 65,         // a build id in hex and its NUL
};
#define DEBUG_ELF_UNPACKED_BYTES_MAX (2ULL << 30) // of all compressed sections together

struct debug_elf;

/**
 * Open the file; @fd is borrowed until debug_elf_close(). Returns 0; -EBADMSG (not an ELF file, or
 * damaged); -EFBIG (a limit is exceeded); -ENOMEM.
 */
int debug_elf_open(int fd, struct debug_elf **ret_elf, struct error *err);
void debug_elf_close(struct debug_elf *elf);
void debug_elf_closep(struct debug_elf **elf);

/** Its GNU build id. Returns 0 or -ENOENT. */
int debug_elf_build_id(const struct debug_elf *elf, char ret_id[DEBUG_ELF_ID_BYTES]);
/**
 * The build id of its .gnu_debugaltlink, the file that dwz(1) moved common DWARF to. 0 or -ENOENT.
 */
int debug_elf_alt_id(const struct debug_elf *elf, char ret_id[DEBUG_ELF_ID_BYTES]);
/** Does the file have a symbol table or DWARF? */
bool debug_elf_has_symbols(const struct debug_elf *elf);

/** The virtual address of @offset in the executable's file. Returns 0 or -ENOENT. */
int debug_elf_address(const struct debug_elf *elf, uint64_t offset, uint64_t *ret_address);

/** The symbol of the function at a virtual address, valid until debug_elf_close(). NULL: none. */
const char *debug_elf_function(const struct debug_elf *elf, uint64_t address);
