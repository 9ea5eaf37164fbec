// SPDX-License-Identifier: Apache-2.0
// What the processes of file_process.h do: the only code that reads debug files.
#pragma once

#include <stdint.h>

#include "base/confined/confined_task.h"
#include "collector/symbols/debug_elf.h"

/** For the launcher. */
extern const struct confined_task symbol_task, dwarf_task;

/** Their files. */
enum { FILE_TASK_FILE, FILE_TASK_ALT, FILE_TASK_SOCKET, FILE_TASK_FILES };

/** Anonymous memory of a process: unpacked sections, and what the libraries allocate. */
#define FILE_TASK_MEMORY_BYTES (DEBUG_ELF_UNPACKED_BYTES_MAX + (512ULL << 20))

/** Asks symbol_task for the build id of the file's .gnu_debugaltlink. No offset is so large. */
#define FILE_TASK_ALT_ID UINT64_MAX
