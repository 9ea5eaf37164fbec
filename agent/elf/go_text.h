// SPDX-License-Identifier: Apache-2.0
// Where a Go program's code begins: what the functions' offsets in its .gopclntab are counted from
// since Go 1.18. The table said so itself until 1.25, in programs that are not moved when loaded;
// otherwise the runtime's own description of the program (moduledata) does.
#pragma once

#include <stdint.h>

#include "agent/elf/elf.h"

/**
 * The virtual address in the file of runtime.text. @table_offset and @table_address are the place
 * of .gopclntab in the file and in memory.
 * Returns 0; -ENOENT if nothing tells; -ENOMEM; -errno.
 */
int go_text_find(const struct elf *elf, uint64_t table_offset, uint64_t table_address,
		 uint64_t *ret_address);
