// SPDX-License-Identifier: Apache-2.0
// Offsets of CPython's fields: by version up to 3.12; since 3.13 from the interpreter's own _Py_DebugOffsets, which
// also covers versions to come.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "bpf/unwind/python.h"

enum {
	PYTHON_MINOR_MIN = 6,
	PYTHON_MINOR_DEBUG_OFFSETS = 13,   // the first that has them
	PYTHON_DEBUG_OFFSETS_BYTES = 1024, // enough of them: frames and code come early
};

/** Offsets for the unwinder, and those that only the agent needs. Bytes. */
struct python_layout {
	struct python_offsets offsets;
	// In _PyRuntime, which 3.6 lacks: its variables are found by symbol.
	uint16_t runtime_interpreters; // the first interpreter
	uint16_t runtime_holder;       // thread state that holds the GIL, up to 3.11
	// In an interpreter.
	uint16_t interpreter_next;
	// In a thread state.
	uint16_t state_interpreter;
	// In a type.
	uint16_t type_basicsize;
	uint16_t code_basicsize; // of PyCode_Type
};

/** Of 3.@minor, up to 3.12. Returns 0; -ENOTSUP for any other. */
int python_layout_of_version(uint32_t minor, struct python_layout *ret_layout);

/**
 * From the bytes at the start of _PyRuntime, which come from a process and may hold anything.
 * Returns 0; -ENOENT without the cookie: before 3.13; -ENOTSUP if they contradict themselves (see @err).
 */
int python_layout_of_debug_offsets(const void *bytes, size_t size, struct python_layout *ret_layout,
				   struct error *err);
