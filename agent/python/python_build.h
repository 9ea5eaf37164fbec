// SPDX-License-Identifier: Apache-2.0
// A file that has CPython's interpreter in it: which version, and where its variables lie. The same
// for all processes that map it. The file is hostile.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "agent/elf/elf.h"

/** Addresses are virtual ones in the file; 0: it does not say. */
struct python_build {
	uint32_t minor;        // of 3.minor; 0: only the process can tell (_Py_DebugOffsets)
	uint64_t runtime;      // _PyRuntime; 3.7 and newer
	uint64_t code_type;    // PyCode_Type
	uint64_t interpreters; // 3.6: pointer to the first interpreter
	uint64_t holder;       // 3.6: _PyThreadState_Current
};

/**
 * Is @elf, mapped as @path, an interpreter? Returns 0; -ENOENT: it is none; -ENOTSUP: it is one, but
 * too old or without what is needed (@err says what); -ENOMEM; -errno when reading fails.
 */
int python_build_read(const struct elf *elf, const char *path, struct python_build *ret_build,
		      struct error *err);
