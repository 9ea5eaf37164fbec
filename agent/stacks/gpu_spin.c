// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/gpu_spin.h"

#include <string.h>

#include "base/cleanup.h"

/*
 * Driver calls that return when the device is done (CUDA driver API reference): copies, those named "Async"
 * too where the host's memory is not pinned, and frees of device memory, which wait for the whole device. The
 * suffixes of the variants, _v2, _ptsz and _ptds, are not looked at.
 */
static const char *const waiting_calls[] = {
	"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize",    "cuMemcpy",
	"cuMemcpyHtoD",        "cuMemcpyDtoH",       "cuMemcpyAtoH",        "cuMemcpyHtoA",
	"cuMemcpyPeer",        "cuMemcpy2D",         "cuMemcpy2DUnaligned", "cuMemcpy3D",
	"cuMemcpyHtoDAsync",   "cuMemcpyDtoHAsync",  "cuMemcpyAsync",       "cuMemcpy2DAsync",
	"cuMemcpy3DAsync",     "cuMemFree",          "cuMemFreeHost",       "cuModuleUnload",
};

static bool is_driver(const char *module)
{
	const char *slash = strrchr(module, '/');

	return strncmp(slash ? slash + 1 : module, "libcuda.so", strlen("libcuda.so")) == 0;
}

static bool is_waiting_call(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(waiting_calls); i++) {
		size_t size = strlen(waiting_calls[i]);

		if (strncmp(name, waiting_calls[i], size) == 0 &&
		    (!name[size] || name[size] == '_'))
			return true;
	}
	return false;
}

// The driver's frames lie together: the first one of another file's user code above them ends the search.
bool gpu_spin_is(const struct profile *profile, const struct stack *stack)
{
	bool in_driver = false;

	for (uint32_t i = 0; i < stack->location_count; i++) {
		const struct location *location =
			&profile->locations[profile->stack_locations[stack->first_location + i]];

		if (!is_driver(profile_string(profile, location->module))) {
			if (in_driver)
				return false;
			continue; // what the driver called: the kernel, the vdso, libc
		}
		in_driver = true;
		for (uint32_t line = 0; line < location->line_count; line++) {
			uint32_t name = profile->lines[location->first_line + line].name;

			if (is_waiting_call(profile_string(profile, name)))
				return true;
		}
	}
	return false;
}
