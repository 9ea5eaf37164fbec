// SPDX-License-Identifier: Apache-2.0
// Symbols that were stripped from a file: packed into it (mini debug info), or in a separate debug file, found
// by build id or .gnu_debuglink. The files are hostile: sizes are bounded, and a debug file must have the
// executable's build id or checksum.
#pragma once

#include <stdint.h>

#include "agent/elf/build_id.h"
#include "agent/elf/elf.h"

enum {
	MINI_DEBUG_PACKED_MAX = 16 << 20, // .gnu_debugdata; the largest of Fedora has 5 MiB
	MINI_DEBUG_BYTES_MAX = 64 << 20,  // unpacked
	DEBUG_LINK_BYTES_MAX = 512,       // the name in .gnu_debuglink
};
#define DEBUG_CRC_BYTES_MAX (256ULL << 20) // larger files are not read to check them

/**
 * Unpack .gnu_debugdata, an xz-compressed ELF file with symbols of local functions (GDB's manual,
 * "MiniDebugInfo"). *ret_fd, the caller's, is memory of *ret_bytes.
 * Returns 0; -ENOENT (none); -EBADMSG (broken); -EFBIG past the limits; -ENOMEM; -errno.
 */
int debug_file_unpack(const struct elf *elf, int *ret_fd, uint64_t *ret_bytes);

/** Where to look for a separate debug file. */
struct debug_file_search {
	const char *build_id; // of the executable, in hex; NULL: it has none
	const char *path;     // of the executable, as its process sees it
	int folders[3];       // in /proc, whose `root` is searched, in this order; -1: none
};

/**
 * Open the separate debug file of @elf for reading: by build id below /usr/lib/debug, else by
 * .gnu_debuglink in the executable's folder, in `.debug` there, and below /usr/lib/debug. It must have the
 * executable's build id; if that has none, the link's checksum.
 * Returns the descriptor (the caller's); -ENOENT (none, or of another build); -ENOMEM; -errno.
 */
int debug_file_open(const struct elf *elf, const struct debug_file_search *search);

/**
 * Open the file with the DWARF that @debug_fd shares with others (.gnu_debugaltlink of dwz(1)): by build id, or
 * in /usr/lib/debug/.dwz. Returns the descriptor (the caller's); -1: none needed, or none found.
 */
int debug_file_open_alt(int debug_fd, const struct debug_file_search *search);

/**
 * The build id of any 64-bit ELF file, also of one that cannot run, such as dwz(1) writes. Returns 0; -ENOENT
 * (not such a file, or no build id); -errno.
 */
int debug_file_read_build_id(int fd, char ret_id[BUILD_ID_TEXT_BYTES]);
/** 0 if that is @build_id, else -ENOENT. */
int debug_file_check_build_id(int fd, const char *build_id);
