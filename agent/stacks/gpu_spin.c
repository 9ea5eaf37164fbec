// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/gpu_spin.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

/*
 * Driver calls that return when the device is done (CUDA driver API reference): also "Async" copies, which
 * block where host memory is not pinned, and frees of device memory, which wait for the whole device. The
 * variants' suffixes (_v2, _ptsz, _ptds) are ignored.
 */
static const char *const blocking_calls[] = {
	"cuStreamSynchronize", "cuEventSynchronize", "cuCtxSynchronize",    "cuMemcpy",
	"cuMemcpyHtoD",        "cuMemcpyDtoH",       "cuMemcpyAtoH",        "cuMemcpyHtoA",
	"cuMemcpyPeer",        "cuMemcpy2D",         "cuMemcpy2DUnaligned", "cuMemcpy3D",
	"cuMemcpyHtoDAsync",   "cuMemcpyDtoHAsync",  "cuMemcpyAsync",       "cuMemcpy2DAsync",
	"cuMemcpy3DAsync",     "cuMemFree",          "cuMemFreeHost",       "cuModuleUnload",
};

static bool is_blocking_call(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(blocking_calls); i++) {
		size_t size = strlen(blocking_calls[i]);

		if (strncmp(name, blocking_calls[i], size) == 0 &&
		    (!name[size] || name[size] == '_'))
			return true;
	}
	return false;
}

// The driver's frames are contiguous: their caller ends the search.
bool gpu_spin_is(const struct profile *profile, const struct stack *stack)
{
	bool in_driver = false;

	for (uint32_t i = 0; i < stack->location_count; i++) {
		const struct location *location =
			&profile->locations[profile->stack_locations[stack->first_location + i]];

		const char *module = profile_string(profile, location->module);
		if (!text_begins_with(path_base_name(module), "libcuda.so")) {
			if (in_driver)
				return false;
			continue; // the driver's callees: the kernel, the vdso, libc
		}
		in_driver = true;
		for (uint32_t line = 0; line < location->line_count; line++) {
			uint32_t name = profile->lines[location->first_line + line].name;

			if (is_blocking_call(profile_string(profile, name)))
				return true;
		}
	}
	return false;
}
