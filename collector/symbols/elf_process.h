// SPDX-License-Identifier: Apache-2.0
// Looks at an uploaded ELF file in a confined process: a hostile file can only end that process.
#pragma once

#include <stdbool.h>

#include "base/confined/confined_process.h"
#include "collector/symbols/debug_elf.h"

enum { ELF_PROCESS_MS_MAX = 20000 }; // 2 GiB of symbols take 3 s

#define ELF_PROCESS_MEMORY_BYTES (512ULL << 20) // DEBUG_ELF_SYMBOLS_MAX take 100 MB

extern const struct confined_task elf_task;

/** What the process found. */
struct elf_report {
	struct error err; // code 0: it is an ELF file
	char build_id[DEBUG_ELF_ID_BYTES];
	bool has_symbols;
};

/** Look at @fd. Returns 0 (see the report's err); -errno with @err: there is no report. */
int elf_process_look(struct confined_launcher *launcher, int fd, struct elf_report *ret_report,
		     struct error *err);
