// SPDX-License-Identifier: Apache-2.0
#include "base/loaded_library.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

int loaded_library_open(const char *subject, const char *const *names, size_t name_count,
			const struct library_function *functions, size_t function_count,
			struct error *err)
{
	void *handle = NULL;

	for (size_t i = 0; i < name_count && !handle; i++)
		handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return error_set(err, -ENOENT, "%s: %s is not installed", subject, names[0]);
	for (size_t i = 0; i < function_count; i++) {
		void *function = dlsym(handle, functions[i].name);

		if (!function)
			return error_set(err, -ENOENT, "%s: %s has no %s", subject, names[0],
					 functions[i].name);
		memcpy(functions[i].function, &function, sizeof(function));
	}
	return 0;
}
