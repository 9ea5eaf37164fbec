// SPDX-License-Identifier: Apache-2.0
// Finds runtime.text of a Go program, which function offsets in .gopclntab count from since Go 1.18. Until 1.25 the table
// has it in programs at fixed addresses; else the runtime's moduledata has.
#pragma once

#include <stdint.h>

#include "agent/elf/elf.h"

/**
 * The virtual address of runtime.text. @table_offset and @table_address: .gopclntab in the file and in memory. Returns 0;
 * -ENOENT if unknown; -ENOMEM; -errno.
 */
int go_text_find(const struct elf *elf, uint64_t table_offset, uint64_t table_address,
		 uint64_t *ret_address);
