// SPDX-License-Identifier: Apache-2.0
// Names of kernel functions, modules and BPF programs, from /proc/kallsyms.
#pragma once

#include <stdint.h>

#include "base/error.h"

struct kallsyms;

struct kernel_symbol {
	const char *name;
	const char *module; // "[kernel]" or the module's name
	uint64_t start;     // address
};

/**
 * Read the symbols at @path (NULL: /proc/kallsyms). Returns 0; -EPERM when the kernel hides the addresses
 * (kptr_restrict, CAP_SYSLOG): @err has the remedy; -ENOENT without functions; -ENOMEM; -errno.
 */
int kallsyms_open(const char *path, struct kallsyms **ret_kallsyms, struct error *err);
void kallsyms_close(struct kallsyms *kallsyms);

/**
 * The symbol at or before @address. An unknown address reads the file again (rate-limited): modules and BPF
 * programs come and go. Returns 0 or -ENOENT.
 */
int kallsyms_find(struct kallsyms *kallsyms, uint64_t address, struct kernel_symbol *ret_symbol);

/** Start and size of the kernel's function @name, by a search through all names. Returns 0 or -ENOENT. */
int kallsyms_find_name(const struct kallsyms *kallsyms, const char *name, uint64_t *ret_start,
		       uint64_t *ret_size);
/** For tests: the next unknown address reads the file again at once. */
void kallsyms_reload_at_next_miss(struct kallsyms *kallsyms);
/** Memory in use. */
uint64_t kallsyms_bytes(const struct kallsyms *kallsyms);
