// SPDX-License-Identifier: Apache-2.0
// Source lines and inlined calls from DWARF, by elfutils' libdw, which only this module uses. libdw
// maps files and trusts much of what they say: this code runs in confined processes of its own
// (base/confined), never in the agent's or the collector's.
#pragma once

#include <stdint.h>

enum {
	DWARF_INLINED_MAX = 63,        // calls within each other at one address; more are cut
	DWARF_FUNCTIONS_MAX = 1 << 20, // of one compilation unit
	DWARF_RANGES_MAX = 1 << 22,    // of all units: 64 MiB
};

struct dwarf_lines;

/** One function at an address. Strings are valid until the next call. */
struct dwarf_line {
	const char *name; // the linker's name if there is one; NULL: unknown
	const char *file; // NULL: unknown
	uint32_t number;  // 0: unknown
};

/** What is known of an address: innermost first. */
struct dwarf_position {
	uint64_t start; // the lowest address of the same line
	uint32_t count; // at least 1
	struct dwarf_line lines[DWARF_INLINED_MAX + 1];
};

/**
 * Read the list of units of an ELF file with DWARF. @alt_fd is the file that several share parts of
 * theirs in (.gnu_debugaltlink, as dwz(1) makes it), -1: not at hand; both stay the caller's and
 * open. Returns 0; -ENOENT (it has none that libdw understands, or needs another file); -ENOMEM.
 */
int dwarf_lines_open(int fd, int alt_fd, struct dwarf_lines **ret_lines);
void dwarf_lines_close(struct dwarf_lines *lines);

/**
 * What lies at a virtual address in the file. Cheapest by ascending address: one unit is kept.
 * Returns 0 or -ENOENT.
 */
int dwarf_lines_find(struct dwarf_lines *lines, uint64_t address, struct dwarf_position *ret_place);
