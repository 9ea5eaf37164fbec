// SPDX-License-Identifier: Apache-2.0
// Reads one file's DWARF in a child process, which lives while the file is open. The file is
// hostile, and libdw maps it and trusts it: a crash, a loop or gigabytes of memory end the child,
// and the caller waits no longer than its budget.
#pragma once

#include <stdint.h>

#include "base/symbols/source_lines.h"
#include "collector/symbols/debug_elf.h"

struct dwarf_process;

enum { DWARF_PROCESS_SECONDS = 5 }; // for one answer; then the child is killed
/** Anonymous memory of the child: unpacked sections, and libdw's own. */
#define DWARF_PROCESS_MEMORY_BYTES (DEBUG_ELF_UNPACKED_BYTES_MAX + (512ULL << 20))

/**
 * @alt_fd: the file of @fd's .gnu_debugaltlink, or -1. Both are borrowed for the call. Returns 0; -ENOMEM;
 * -errno of fork().
 */
int dwarf_process_open(int fd, int alt_fd, struct dwarf_process **ret_process);
/** NULL is allowed. */
void dwarf_process_close(struct dwarf_process *process);

/**
 * Find the source lines at a virtual address of the file. Waits @budget_ns at most. *ret_lines is valid
 * until the next call; its start_offset is not set. Returns 0; -EAGAIN (not done in time, call again);
 * -ENOENT (nothing is known, or the child has ended).
 */
int dwarf_process_find(struct dwarf_process *process, uint64_t address, uint64_t budget_ns,
		       const struct source_lines **ret_lines);
