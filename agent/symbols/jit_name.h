// SPDX-License-Identifier: Apache-2.0
// JIT compilers' names of functions without the marks of compilation tiers: all versions of a function are one
// frame.
#pragma once

#include <stddef.h>

/**
 * Remove tier marks from @name (@size bytes, no NUL needed) in place: V8's character ("LazyCompile:*f /a.js:1"
 * becomes "LazyCompile:f /a.js:1") and .NET's suffix ("[OptimizedTier1]"). Returns the new size.
 */
size_t jit_name_clean(char *name, size_t size);
