// SPDX-License-Identifier: Apache-2.0
// Reads one file's DWARF in a confined process, which lives while the file is open. The file is
// hostile, and libdw maps it and trusts it: a crash, a loop or gigabytes of memory end the process,
// and the caller waits no longer than its budget.
#pragma once

#include <stdint.h>

#include "base/confined/confined_process.h"
#include "base/symbols/source_lines.h"
#include "collector/symbols/debug_elf.h"

struct dwarf_process;

/** For the launcher: what the process does. */
extern const struct confined_task dwarf_task;

enum { DWARF_PROCESS_SECONDS = 5 }; // for one answer; then the process is killed
/** Anonymous memory of the process: unpacked sections, and libdw's own. */
#define DWARF_PROCESS_MEMORY_BYTES (DEBUG_ELF_UNPACKED_BYTES_MAX + (512ULL << 20))

/**
 * @alt_fd: the file of @fd's .gnu_debugaltlink, or -1. Both are borrowed for the call. Returns 0; -ENOMEM; what
 * confined_process_start() returns.
 */
int dwarf_process_open(struct confined_launcher *launcher, int fd, int alt_fd,
		       struct dwarf_process **ret_process, struct error *err);
/** NULL is allowed. */
void dwarf_process_close(struct dwarf_process *process);

/**
 * Find the source lines at a virtual address of the file. Waits @budget_ns at most. *ret_lines is valid
 * until the next call; its start_offset is not set. Returns 0; -EAGAIN (not done in time, call again);
 * -ENOENT (nothing is known, or the process has ended).
 */
int dwarf_process_find(struct dwarf_process *process, uint64_t address, uint64_t budget_ns,
		       const struct source_lines **ret_lines);
