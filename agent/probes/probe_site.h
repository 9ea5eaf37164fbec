// SPDX-License-Identifier: Apache-2.0
// Where in a function to put a uprobe. The kernel runs the instruction under a probe either itself,
// which is cheap, or by stepping through a copy, which takes a second exception: 0.4 against 15 us a
// call in a virtual machine. So the probe goes to the first instruction that the kernel emulates,
// as long as all of the function's arguments are still where its caller put them.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "agent/elf/elf_symbols.h"

enum {
	PROBE_SITE_BYTES = 64,      // of a function looked at; the driver's site is at 10 of them
	PROBE_SITE_LOOP_MAX = 4096, // bytes looked through for jumps back before the site
};

/** In a function. */
struct probe_site {
	uint64_t offset; // in the file
	uint32_t skip;   // bytes from the function's first instruction
	bool is_expensive; // the kernel steps through the instruction: only for rare calls, or windows
};

/**
 * The site in @code, which is a function's from its first byte on, @size bytes of it. @skip and
 * is_expensive of the result are set. Where no instruction is fit it is the first one, expensive.
 * Returns 0; -ENOEXEC if @code does not begin with an instruction; -ENOMEM.
 */
int probe_site_choose(const uint8_t *code, size_t size, struct probe_site *ret_site);

/**
 * The site in the function that a file exports as @name. Returns 0; -ENOENT if it exports none;
 * -ENOEXEC if it is no function, or not in the file's code; -ENOMEM; -errno when reading fails.
 */
int probe_site_find(const struct elf_symbols *symbols, const char *name,
		    struct probe_site *ret_site);
