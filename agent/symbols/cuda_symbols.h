// SPDX-License-Identifier: Apache-2.0
// Symbols inside NVIDIA's driver library. Its exports are stubs that jump through slots in its data, so no
// export is ever on a stack. The code that a slot points to after relocation gets the export's name. As in
// the x86-64 drivers of the 535 series.
#pragma once

#include <stdint.h>

#include "agent/elf/elf.h"

enum { CUDA_SYMBOLS_MAX = 4096 }; // exports that are read; 535 has 620

/** An export's code. Addresses are virtual ones of the file. */
struct cuda_symbol {
	uint64_t address;
	uint64_t size;        // bytes, from the unwind information
	uint64_t name_offset; // of the export's name in the file (.dynstr)
};

/** Returns 0 to go on; anything else ends the walk and is its result. */
typedef int (*cuda_symbol_fn)(void *context, const struct cuda_symbol *symbol);

/**
 * Call @fn for the code of each export. Exports of another shape have none.
 * Returns 0; -ENOENT (no dynamic symbols, relocations or .eh_frame_hdr); -ENOEXEC (broken);
 * -ENOMEM; -errno; or what @fn returned.
 */
int cuda_symbols_read(const struct elf *elf, cuda_symbol_fn fn, void *context);
