// SPDX-License-Identifier: Apache-2.0
// Rust's v0 names (RFC 2603, "Rust Symbol Mangling (v0)"), written out with bounded work: a
// reference back to an earlier part may be followed by another, so that short names can ask for
// endless ones.
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * Write out @mangled ("_R..."), without crate hashes and the types of constants, as rustc's own
 * short form. Returns false, and anything in @ret_name, if it is no such name or would take more
 * than @size bytes or too many steps.
 */
bool demangle_rust(const char *mangled, char *ret_name, size_t size);
