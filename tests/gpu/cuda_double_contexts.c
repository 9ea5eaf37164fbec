// SPDX-License-Identifier: Apache-2.0
// Test equipment: a double of libcuda.so.1, without a device. It refuses what the real driver refuses. Here: initialization,
// contexts, and addresses of functions.
#include "tests/gpu/cuda_double.h"

#include <string.h>

#include "tests/gpu/cuda_double_export.h"
#include "tests/gpu/cuda_double_state.h"

struct driver driver = { .lock = PTHREAD_MUTEX_INITIALIZER, .next_address = DOUBLE_DEVICE_BASE };
_Thread_local struct context *current;
_Thread_local struct stream *own_stream;
unsigned int driver_state = 1;

CUresult enter(void)
{
	if (!driver.initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&driver.lock);
	return CUDA_SUCCESS;
}

CUresult leave(CUresult result)
{
	pthread_mutex_unlock(&driver.lock);
	return result;
}

EXPORT(cuInit)(unsigned int flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	driver.initialized = true;
	return CUDA_SUCCESS;
}

EXPORT(cuDriverGetVersion)(int *version)
{
	*version = 12030;
	return CUDA_SUCCESS;
}

EXPORT(cuDeviceGetCount)(int *count)
{
	if (!driver.initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	*count = 1;
	return CUDA_SUCCESS;
}

EXPORT(cuDeviceGet)(int *device, int number)
{
	if (!driver.initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (number)
		return 101; // CUDA_ERROR_INVALID_DEVICE
	*device = 0;
	return CUDA_SUCCESS;
}

EXPORT(cuCtxCreate_v2)(CUcontext *context, unsigned int flags, int device)
{
	if (!driver.initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (device || !context)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&driver.lock);
	for (int i = 0; i < CONTEXTS_MAX; i++) {
		struct context *made = &driver.contexts[i];

		if (made->is_open)
			continue;
		*made = (struct context){ .flags = flags, .is_open = true };
		made->legacy = (struct stream){ .context = made, .is_open = true };
		current = *context = made;
		return leave(CUDA_SUCCESS);
	}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT(cuCtxSetCurrent)(CUcontext context)
{
	if (!driver.initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (context && (context < driver.contexts || context >= driver.contexts + CONTEXTS_MAX ||
			!context->is_open))
		return CUDA_ERROR_INVALID_CONTEXT;
	current = context;
	own_stream = NULL; // one for each context of each thread
	return CUDA_SUCCESS;
}

// ---- addresses ------------------------------------------------------------------------------

extern void *dlsym(void *handle, const char *name);
extern void *dlopen(const char *name, int flags);

/* As the real driver: the newest variant of a name up to @version, of the requested kind. */
EXPORT(cuGetProcAddress_v2)
(const char *name, void **address, int version, uint64_t flags, int *status)
{
	static const char *const forms[] = { "%s_v2%s", "%s%s" };
	const char *suffix = flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM ? "_ptsz" : "";
	void *self = dlopen("libcuda.so.1", 0x1 | 0x4); // RTLD_LAZY | RTLD_NOLOAD
	char full[128];

	if (!name || !address || version < 3020)
		return CUDA_ERROR_INVALID_VALUE;
	*address = NULL;
	for (int with_suffix = *suffix ? 1 : 0; with_suffix >= 0 && !*address; with_suffix--) {
		for (size_t i = 0; i < 2 && !*address; i++) {
			if (strlen(name) > 100)
				return CUDA_ERROR_NOT_FOUND;
			__builtin_snprintf(full, sizeof(full), forms[i], name,
					   with_suffix ? suffix : "");
			*address = dlsym(self, full);
		}
	}
	if (status)
		*status = *address ? 0 : 1; // CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND
	return *address ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}
