// SPDX-License-Identifier: Apache-2.0
// A build of CPython: the version and the addresses of variables in an interpreter's file, the same for all
// processes that map it. The file is hostile.
#pragma once

#include <stdint.h>

#include "base/error.h"
#include "agent/elf/elf.h"

/** Addresses are virtual ones of the file; 0: unknown. */
struct python_build {
	uint32_t minor;        // of 3.minor; 0: to be read from the process (_Py_DebugOffsets)
	uint64_t runtime;      // _PyRuntime; 3.7 and newer
	uint64_t code_type;    // PyCode_Type
	uint64_t interpreters; // 3.6: pointer to the first interpreter
	uint64_t holder;       // 3.6: _PyThreadState_Current
};

/**
 * Read the build of @elf, mapped as @path. Returns 0; -ENOENT: no interpreter; -ENOTSUP: too old, or a variable is
 * missing (see @err); -ENOMEM; -errno when reading fails.
 */
int python_build_read(const struct elf *elf, const char *path, struct python_build *ret_build,
		      struct error *err);
