// SPDX-License-Identifier: Apache-2.0
// Test equipment: modules, GPU kernels and launches of the double of libcuda.so.1.
#include "tests/gpu/cuda_double.h"

#include <string.h>

#include "tests/gpu/cuda_double_export.h"
#include "tests/gpu/cuda_double_state.h"

// ---- code -----------------------------------------------------------------------------------

EXPORT(cuModuleLoadData)(CUmodule *module, const void *image)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!image)
		return leave(CUDA_ERROR_INVALID_VALUE);
	driver.module.is_open = true;
	*module = &driver.module;
	return leave(CUDA_SUCCESS);
}

EXPORT(cuModuleUnload)(CUmodule module)
{
	CUresult result = enter();

	if (result)
		return result;
	if (module != &driver.module || !module->is_open)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	module->is_open = false;
	memset(driver.functions, 0, sizeof(driver.functions));
	return leave(CUDA_SUCCESS);
}

/* The first free handle: an unload frees handles for reuse. */
static struct function *find_or_make(struct function *functions, const char *name)
{
	for (int i = 0; i < FUNCTIONS_MAX; i++) {
		if (functions[i].name[0] && strcmp(functions[i].name, name) != 0)
			continue;
		strcpy(functions[i].name, name);
		return &functions[i];
	}
	return NULL;
}

EXPORT(cuModuleGetFunction)(CUfunction *function, CUmodule module, const char *name)
{
	CUresult result = enter();

	if (result)
		return result;
	if (module != &driver.module || !module->is_open)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (!name || !*name || strlen(name) >= NAME_BYTES)
		return leave(CUDA_ERROR_NOT_FOUND);
	*function = find_or_make(driver.functions, name);
	return leave(*function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT(cuLibraryLoadData)
(CUlibrary *library, const void *code, int *options, void **option_values,
 unsigned int option_count, int *library_options, void **library_option_values,
 unsigned int library_option_count)
{
	CUresult result = enter();

	(void)options, (void)option_values, (void)option_count;
	(void)library_options, (void)library_option_values, (void)library_option_count;
	if (result)
		return result;
	if (!code || !library)
		return leave(CUDA_ERROR_INVALID_VALUE);
	driver.library.is_open = true;
	*library = &driver.library;
	return leave(CUDA_SUCCESS);
}

EXPORT(cuLibraryUnload)(CUlibrary library)
{
	CUresult result = enter();

	if (result)
		return result;
	if (library != &driver.library || !library->is_open)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	library->is_open = false;
	memset(driver.kernels, 0, sizeof(driver.kernels));
	return leave(CUDA_SUCCESS);
}

EXPORT(cuLibraryGetKernel)(CUkernel *kernel, CUlibrary library, const char *name)
{
	CUresult result = enter();

	if (result)
		return result;
	if (library != &driver.library || !library->is_open)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (!name || !*name || strlen(name) >= NAME_BYTES)
		return leave(CUDA_ERROR_NOT_FOUND);
	*kernel = find_or_make(driver.kernels, name);
	return leave(*kernel ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

static bool is_one_of(const struct function *functions, const struct function *one)
{
	return one >= functions && one < functions + FUNCTIONS_MAX && one->name[0];
}

EXPORT(cuKernelGetFunction)(CUfunction *function, CUkernel kernel)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!is_one_of(driver.kernels, kernel))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	*function = find_or_make(driver.functions, kernel->name);
	return leave(*function ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

// ---- launches -------------------------------------------------------------------------------

bool is_code(CUfunction function)
{
	return is_one_of(driver.functions, function) || is_one_of(driver.kernels, function);
}

static CUresult launch(CUfunction function, const unsigned int grid[3], CUstream stream)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!is_code(function))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (!grid[0] || !grid[1] || !grid[2])
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(put(stream, DOUBLE_KERNEL_NS * grid[0] * grid[1] * grid[2]));
}

EXPORT(cuLaunchKernel)
(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
 unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **parameters,
 void **extra)
{
	const unsigned int grid[3] = { gx, gy, gz };

	(void)shared, (void)parameters, (void)extra;
	if (!bx || !by || !bz)
		return CUDA_ERROR_INVALID_VALUE;
	return launch(function, grid, stream);
}

EXPORT(cuLaunchKernel_ptsz)
(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
 unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **parameters,
 void **extra)
{
	return impl_cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, own(stream),
				   parameters, extra);
}

EXPORT(cuLaunchCooperativeKernel)
(CUfunction function, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
 unsigned int by, unsigned int bz, unsigned int shared, CUstream stream, void **parameters)
{
	return impl_cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, parameters,
				   NULL);
}

EXPORT(cuLaunchKernelEx)
(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
	(void)parameters, (void)extra;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	return launch(function, config->grid, config->stream);
}

EXPORT(cuLaunchKernelEx_ptsz)
(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
	(void)parameters, (void)extra;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	return launch(function, config->grid, own(config->stream));
}
