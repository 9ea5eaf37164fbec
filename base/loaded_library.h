// SPDX-License-Identifier: Apache-2.0
// Shared libraries that are loaded when they are first needed: what most runs never use costs them neither memory nor
// time at the start.
#pragma once

#include <stddef.h>

#include "base/error.h"

struct library_function {
	void *function; // the address of a pointer to it
	const char *name;
};

/**
 * Load the first of @names that is there, and set the pointers to its functions. It stays loaded. Returns 0; -ENOENT, with
 * @subject in @err: none is installed, or it lacks a function.
 */
int loaded_library_open(const char *subject, const char *const *names, size_t name_count,
			const struct library_function *functions, size_t function_count,
			struct error *err);
