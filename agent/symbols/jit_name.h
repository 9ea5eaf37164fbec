// SPDX-License-Identifier: Apache-2.0
// Names of functions as compilers at run time write them, without what says how well they were
// compiled: one function is to be one frame, whichever version of it ran.
#pragma once

#include <stddef.h>

/**
 * Take the marks of tiers out of @name (@size bytes, no NUL needed), in place: V8's one character
 * ("LazyCompile:*f /a.js:1" is "LazyCompile:f /a.js:1"), .NET's last words ("[OptimizedTier1]").
 * Returns the size that is left.
 */
size_t jit_name_clean(char *name, size_t size);
