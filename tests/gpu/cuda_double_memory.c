// SPDX-License-Identifier: Apache-2.0
// Test equipment: device, host and virtual memory of the double of libcuda.so.1.
#include "tests/gpu/cuda_double.h"

#include <stdlib.h>

#include "tests/gpu/cuda_double_export.h"
#include "tests/gpu/cuda_double_state.h"

// ---- memory ---------------------------------------------------------------------------------

static struct allocation *find_allocation(uint64_t address)
{
	for (int i = 0; i < ALLOCATIONS_MAX; i++) {
		if (driver.allocations[i].bytes && driver.allocations[i].address == address)
			return &driver.allocations[i];
	}
	return NULL;
}

static CUresult allocate(uint64_t *address, uint64_t bytes, bool is_host)
{
	struct allocation *allocation = NULL;

	if (!bytes || !address)
		return CUDA_ERROR_INVALID_VALUE;
	for (int i = 0; i < ALLOCATIONS_MAX && !allocation; i++) {
		if (!driver.allocations[i].bytes)
			allocation = &driver.allocations[i];
	}
	if (!allocation || (!is_host && driver.used_bytes + bytes > DOUBLE_DEVICE_BYTES))
		return CUDA_ERROR_OUT_OF_MEMORY;
	if (is_host) {
		void *memory = calloc(1, bytes);

		if (!memory)
			return CUDA_ERROR_OUT_OF_MEMORY;
		*address = (uint64_t)(uintptr_t)memory;
	} else {
		*address = driver.next_address;
		driver.next_address += (bytes + 0xffff) & ~0xffffULL;
		driver.used_bytes += bytes;
	}
	*allocation = (struct allocation){ *address, bytes, is_host, false };
	return CUDA_SUCCESS;
}

static CUresult release(uint64_t address, bool is_host)
{
	struct allocation *allocation = find_allocation(address);

	if (!allocation || allocation->is_host != is_host || allocation->is_registered)
		return CUDA_ERROR_INVALID_VALUE;
	if (is_host)
		free((void *)(uintptr_t)address);
	else
		driver.used_bytes -= allocation->bytes;
	allocation->bytes = 0;
	return CUDA_SUCCESS;
}

EXPORT(cuMemAlloc_v2)(CUdeviceptr *address, size_t bytes)
{
	CUresult result = enter();
	uint64_t made = 0;

	if (result)
		return result;
	result = allocate(&made, bytes, false);
	if (!result)
		*address = made;
	return leave(result);
}

// Freeing waits for the whole device: an implicit synchronization.
EXPORT(cuMemFree_v2)(CUdeviceptr address)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!address)
		return leave(CUDA_SUCCESS);
	result = release(address, false);
	return result ? leave(result) : leave_and_wait(last_ns_of(NULL));
}

EXPORT(cuMemAllocAsync)(CUdeviceptr *address, size_t bytes, CUstream stream)
{
	CUresult result = enter();
	uint64_t made = 0;

	if (result)
		return result;
	if (!find_stream(stream))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	result = allocate(&made, bytes, false);
	if (!result)
		*address = made;
	return leave(result);
}
ALIAS(cuMemAllocAsync_ptsz, cuMemAllocAsync);

EXPORT(cuMemFreeAsync)(CUdeviceptr address, CUstream stream)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!find_stream(stream))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	return leave(release(address, false));
}
ALIAS(cuMemFreeAsync_ptsz, cuMemFreeAsync);

EXPORT(cuMemHostAlloc)(void **address, size_t bytes, unsigned int flags)
{
	CUresult result = enter();
	uint64_t made = 0;

	(void)flags;
	if (result)
		return result;
	result = allocate(&made, bytes, true);
	if (!result)
		*address = (void *)(uintptr_t)made;
	return leave(result);
}

EXPORT(cuMemFreeHost)(void *address)
{
	CUresult result = enter();

	return result ? result : leave(release((uint64_t)(uintptr_t)address, true));
}

EXPORT(cuMemHostRegister_v2)(void *address, size_t bytes, unsigned int flags)
{
	CUresult result = enter();
	uint64_t start = (uint64_t)(uintptr_t)address;

	(void)flags;
	if (result)
		return result;
	if (!address || !bytes || find_allocation(start))
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < ALLOCATIONS_MAX; i++) {
		if (driver.allocations[i].bytes)
			continue;
		driver.allocations[i] = (struct allocation){ start, bytes, true, true };
		return leave(CUDA_SUCCESS);
	}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT(cuMemHostUnregister)(void *address)
{
	CUresult result = enter();
	struct allocation *allocation =
		result ? NULL : find_allocation((uint64_t)(uintptr_t)address);

	if (result)
		return result;
	if (!allocation || !allocation->is_registered)
		return leave(CUDA_ERROR_INVALID_VALUE);
	allocation->bytes = 0;
	return leave(CUDA_SUCCESS);
}

EXPORT(cuMemGetInfo_v2)(size_t *free_bytes, size_t *total_bytes)
{
	CUresult result = enter();

	if (result)
		return result;
	*free_bytes = DOUBLE_DEVICE_BYTES - driver.used_bytes;
	*total_bytes = DOUBLE_DEVICE_BYTES;
	return leave(CUDA_SUCCESS);
}

// ---- virtual memory -------------------------------------------------------------------------

static struct physical *physical_of(CUmemGenericAllocationHandle handle)
{
	return handle && handle <= PHYSICALS_MAX && driver.physicals[handle - 1].bytes
		       ? &driver.physicals[handle - 1]
		       : NULL;
}

static void forget_unused(struct physical *physical)
{
	if (!physical->is_released || physical->mappings)
		return;
	driver.used_bytes -= physical->bytes;
	*physical = (struct physical){ 0 };
}

EXPORT(cuMemAddressReserve)
(CUdeviceptr *address, size_t bytes, size_t alignment, CUdeviceptr wanted, unsigned long long flags)
{
	CUresult result = enter();

	(void)alignment;
	(void)wanted;
	if (result)
		return result;
	if (!address || !bytes || flags)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*address = driver.next_address;
	driver.next_address += (bytes + 0xffff) & ~0xffffULL;
	return leave(CUDA_SUCCESS);
}

EXPORT(cuMemCreate)
(CUmemGenericAllocationHandle *handle, size_t bytes, const void *properties,
 unsigned long long flags)
{
	CUresult result = enter();
	uint32_t at = 0;

	if (result)
		return result;
	if (!handle || !bytes || !properties || flags)
		return leave(CUDA_ERROR_INVALID_VALUE);
	while (at < PHYSICALS_MAX && driver.physicals[at].bytes)
		at++;
	if (at == PHYSICALS_MAX || driver.used_bytes + bytes > DOUBLE_DEVICE_BYTES)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	driver.physicals[at].bytes = bytes;
	driver.used_bytes += bytes;
	*handle = at + 1;
	return leave(CUDA_SUCCESS);
}

EXPORT(cuMemRelease)(CUmemGenericAllocationHandle handle)
{
	CUresult result = enter();

	if (result)
		return result;
	struct physical *physical = physical_of(handle);
	if (!physical || physical->is_released)
		return leave(CUDA_ERROR_INVALID_VALUE);
	physical->is_released = true;
	forget_unused(physical);
	return leave(CUDA_SUCCESS);
}

static struct mapping *find_mapping(uint64_t address)
{
	for (uint32_t i = 0; i < PHYSICALS_MAX; i++) {
		if (driver.mappings[i].bytes && driver.mappings[i].address == address)
			return &driver.mappings[i];
	}
	return NULL;
}

EXPORT(cuMemMap)
(CUdeviceptr address, size_t bytes, size_t offset, CUmemGenericAllocationHandle handle,
 unsigned long long flags)
{
	CUresult result = enter();
	uint32_t at = 0;

	if (result)
		return result;
	struct physical *physical = physical_of(handle);
	if (!physical || !bytes || offset || flags || bytes > physical->bytes ||
	    find_mapping(address))
		return leave(CUDA_ERROR_INVALID_VALUE);
	while (at < PHYSICALS_MAX && driver.mappings[at].bytes)
		at++;
	if (at == PHYSICALS_MAX)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	driver.mappings[at] = (struct mapping){ address, bytes, physical };
	physical->mappings++;
	return leave(CUDA_SUCCESS);
}

static void drop_mapping(struct mapping *mapping)
{
	struct physical *physical = mapping->physical;

	*mapping = (struct mapping){ 0 };
	physical->mappings--;
	forget_unused(physical);
}

/* Adjacent whole mappings. */
EXPORT(cuMemUnmap)(CUdeviceptr address, size_t bytes)
{
	CUresult result = enter();
	struct mapping *mapping;
	uint64_t at = address;

	if (result)
		return result;
	while (at < address + bytes && (mapping = find_mapping(at)))
		at += mapping->bytes;
	if (!bytes || at != address + bytes)
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (at = address; at < address + bytes;) {
		mapping = find_mapping(at);
		at += mapping->bytes;
		drop_mapping(mapping);
	}
	return leave(CUDA_SUCCESS);
}
