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
 * Read the symbols at @path (NULL: /proc/kallsyms). -EPERM with the remedy in @err when the kernel
 * hides the addresses (kptr_restrict, CAP_SYSLOG).
 */
int kallsyms_open(const char *path, struct kallsyms **ret_kallsyms, struct error *err);
void kallsyms_close(struct kallsyms *kallsyms);

/**
 * The symbol at or before @address. Read again (rate-limited) when the address is beyond what is
 * known: modules and BPF programs come and go. Returns 0 or -ENOENT.
 */
int kallsyms_find(struct kallsyms *kallsyms, uint64_t address, struct kernel_symbol *ret_symbol);

/**
 * Where the kernel's own function of this name lies, and how long it is at most. Looks at all names.
 * Returns 0 or -ENOENT.
 */
int kallsyms_find_name(const struct kallsyms *kallsyms, const char *name, uint64_t *ret_start,
		       uint64_t *ret_size);
/** Let the next address that is not known read the file again, however short ago that was. For tests. */
void kallsyms_reload_at_next_miss(struct kallsyms *kallsyms);
/** Bytes held. */
uint64_t kallsyms_bytes(const struct kallsyms *kallsyms);
