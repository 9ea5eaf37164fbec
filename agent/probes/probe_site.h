// SPDX-License-Identifier: Apache-2.0
// Where in a function to put a uprobe. The kernel either emulates the probed instruction, which is cheap, or
// single-steps a copy of it, which takes a second exception: 0.4 against 15 us a call in a virtual machine.
// So the probe goes to the first instruction that the kernel emulates, provided that all arguments are
// still where the caller put them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/elf_symbols.h"

enum {
	PROBE_SITE_BYTES = 64,      // searched for a site; the driver's is 10 bytes in
	PROBE_SITE_LOOP_MAX = 4096, // searched for jumps back to before the site
};

struct probe_site {
	uint64_t offset;   // in the file
	uint32_t skip;     // bytes from the function's first instruction
	bool is_expensive; // the kernel single-steps it: for rare or duty-cycled calls only
};

/**
 * The site in @code, the first @size bytes of a function; sets skip and is_expensive only. If no instruction
 * fits, it is the first one, expensive. Returns 0; -ENOEXEC if @code begins with no instruction; -ENOMEM.
 */
int probe_site_choose(const uint8_t *code, size_t size, struct probe_site *ret_site);

/**
 * The site in the function that a file exports as @name. Returns 0; -ENOENT if it exports none;
 * -ENOEXEC if it is no function or not in a code segment; -ENOMEM; -errno if reading fails.
 */
int probe_site_find(const struct elf_symbols *symbols, const char *name,
		    struct probe_site *ret_site);
