// SPDX-License-Identifier: Apache-2.0
// DWARF of one file, read by a process of its own, which stays while the file is open: the file is
// hostile, and the library that reads it maps it and trusts it. Whatever it makes of that process (a
// crash, a loop, gigabytes of memory), who asks waits no longer than it wants to.
#pragma once

#include <stdint.h>

#include "base/source_lines.h"
#include "collector/symbols/debug_elf.h"

struct dwarf_process;

enum { DWARF_PROCESS_SECONDS = 5 }; // for one answer; then the process is ended
/** Its own, beside mapped files: what is packed, and what libdw makes of it. */
#define DWARF_PROCESS_MEMORY_BYTES (DEBUG_ELF_UNPACKED_BYTES_MAX + (512ULL << 20))

/**
 * @alt_fd is the file that @fd shares parts of its DWARF with, -1: not at hand. Both are only borrowed
 * for the call. Returns 0; -ENOMEM; -errno where no process can be made.
 */
int dwarf_process_open(int fd, int alt_fd, struct dwarf_process **ret_process);
/** NULL is allowed. */
void dwarf_process_close(struct dwarf_process *process);

/**
 * What lies at a virtual address in the file; its start_offset means nothing. @ret_place is valid until the
 * next call. Waits @budget_ns at most.
 * Returns 0; -EAGAIN: it was not done within, ask again; -ENOENT: nothing is known, or the process has ended.
 */
int dwarf_process_find(struct dwarf_process *process, uint64_t address, uint64_t budget_ns,
		       const struct source_lines **ret_place);
