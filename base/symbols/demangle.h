// SPDX-License-Identifier: Apache-2.0
// Linker names to the names that people wrote: C++ (Itanium ABI) and Rust (legacy and v0).
#pragma once

#include <stddef.h>

enum {
	MANGLED_BYTES_MAX = 2048,   // longer names are shown as they are
	DEMANGLED_BYTES_MAX = 4096, // with the NUL; as base/string_table.h's STRING_BYTES_MAX
};

/**
 * The name behind @mangled, without parameters (they seldom distinguish two frames) and
 * without Rust's hash. A name that is not mangled, or that would take unreasonable work (names
 * are hostile: a few hundred bytes can expand to more than fits a machine), is copied as it is,
 * without ELF's "@VERSION". Always a C string of printable UTF-8.
 */
void demangle(const char *mangled, char ret_name[DEMANGLED_BYTES_MAX]);
