// SPDX-License-Identifier: Apache-2.0
// The symbols that were stripped from a file: packed into itself (mini debug info), or in a
// separate file that it names by build id or by .gnu_debuglink. All of them are hostile: what they
// hold is bounded, and a separate file must bear the same identity.
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
 * Unpack .gnu_debugdata: an ELF file of local functions' symbols, compressed by xz (as GDB's
 * manual describes it, "MiniDebugInfo"). @ret_fd, the caller's, is memory of @ret_bytes.
 * Returns 0; -ENOENT (it has none); -EBADMSG (broken); -EFBIG past the limits; -ENOMEM; -errno.
 */
int debug_file_unpack(const struct elf *elf, int *ret_fd, uint64_t *ret_bytes);

/** Where to look for a separate debug file. */
struct debug_file_search {
	const char *build_id; // of the executable, in hex; NULL: it has none
	const char *path;     // of the executable, as its process sees it
	int folders[3];       // whose `root` to look below, in this order; -1: none
};

/**
 * Open the separate debug file of @elf for reading: by build id below /usr/lib/debug, else by its
 * link, in the executable's folder, in `.debug` there and below /usr/lib/debug. Its build id must
 * be the executable's; where that has none, its checksum must be the one of the link.
 * Returns the descriptor (the caller's); -ENOENT (none found, or none that is the right one);
 * -ENOMEM; -errno.
 */
int debug_file_open(const struct elf *elf, const struct debug_file_search *search);

/**
 * Open the file that the debug file @debug_fd shares parts of its DWARF with (.gnu_debugaltlink, as
 * dwz(1) writes it): by build id, or in /usr/lib/debug/.dwz. Returns the descriptor (the caller's);
 * -1: it needs none, or none is there.
 */
int debug_file_open_alt(int debug_fd, const struct debug_file_search *search);

/**
 * The build id of any 64-bit ELF file, also of one that no process could run, such as what dwz(1)
 * makes. Returns 0; -ENOENT (no such file, or it has none); -errno.
 */
int debug_file_read_build_id(int fd, char ret_id[BUILD_ID_TEXT_BYTES]);
/** Whether that is @build_id: 0, else -ENOENT. */
int debug_file_check_build_id(int fd, const char *build_id);
