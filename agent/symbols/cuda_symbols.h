// SPDX-License-Identifier: Apache-2.0
// Names inside NVIDIA's driver library. Its exports are stubs that jump through slots of data, so
// that no export is ever on a stack; what a slot points to once loaded is where the export's code
// really begins, and bears its name. Seen in the x86-64 drivers of the 535 series.
#pragma once

#include <stdint.h>

#include "agent/elf/elf.h"

enum { CUDA_SYMBOLS_MAX = 4096 }; // exports looked at; 535 has 620

/** An export's code: addresses are virtual ones in the file. */
struct cuda_symbol {
	uint64_t address;
	uint64_t size;        // bytes, as the file's unwind information has it
	uint64_t name_offset; // of the export's name in the file (.dynstr)
};

/** Returns 0 to go on; anything else ends the walk and is its result. */
typedef int (*cuda_symbol_fn)(void *context, const struct cuda_symbol *symbol);

/**
 * Give the code of each export to @fn. A file whose exports have another shape gives none.
 * Returns 0; -ENOENT (no dynamic symbols, relocations or .eh_frame_hdr); -ENOEXEC (broken);
 * -ENOMEM; -errno; or what @fn returned.
 */
int cuda_symbols_read(const struct elf *elf, cuda_symbol_fn fn, void *context);
