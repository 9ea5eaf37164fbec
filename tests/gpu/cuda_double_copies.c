// SPDX-License-Identifier: Apache-2.0
// Test equipment: copies of the double of libcuda.so.1. They take time, and move nothing.
#include "tests/gpu/cuda_double.h"

#include "tests/gpu/cuda_double_export.h"
#include "tests/gpu/cuda_double_state.h"

static bool is_device(uint64_t address)
{
	return address >= DOUBLE_DEVICE_BASE && address < driver.next_address;
}

/* Pinned host memory. */
static bool is_pinned(uint64_t address)
{
	for (int i = 0; i < ALLOCATIONS_MAX; i++) {
		const struct allocation *one = &driver.allocations[i];

		if (one->is_host && address - one->address < one->bytes)
			return true;
	}
	return false;
}

/*
 * Copies of pageable memory block, also if they are called Async. The real driver may return earlier from small ones to the
 * device.
 */
static CUresult copy(uint64_t to, uint64_t from, uint64_t bytes, CUstream handle, bool waits)
{
	CUresult result = enter();

	if (result)
		return result;
	if ((!is_device(to) && !to) || (!is_device(from) && !from))
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct stream *stream = find_stream(handle);
	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	result = put(handle, bytes / DOUBLE_COPY_BYTES_PER_NS);
	waits |= (!is_device(to) && !is_pinned(to)) || (!is_device(from) && !is_pinned(from));
	if (result || !waits || stream->capture)
		return leave(result);
	return wait_for_stream(handle);
}

/* As a function and, with the thread's own default stream, as one of the _ptds kind. */
#define COPY_NOW(name, to_type, from_type, is_right)                                 \
	EXPORT(name)(to_type to, from_type from, size_t bytes)                       \
	{                                                                            \
		if (!(is_right))                                                     \
			return CUDA_ERROR_INVALID_VALUE;                             \
		return copy((uint64_t)to, (uint64_t)from, bytes, NULL,               \
			    !is_device((uint64_t)to) || !is_device((uint64_t)from)); \
	}                                                                            \
	EXPORT(name##_ptds)(to_type to, from_type from, size_t bytes)                \
	{                                                                            \
		if (!(is_right))                                                     \
			return CUDA_ERROR_INVALID_VALUE;                             \
		return copy((uint64_t)to, (uint64_t)from, bytes, own(NULL),          \
			    !is_device((uint64_t)to) || !is_device((uint64_t)from)); \
	}
#define COPY_ASYNC(name, to_type, from_type, is_right)                                 \
	EXPORT(name)(to_type to, from_type from, size_t bytes, CUstream stream)        \
	{                                                                              \
		if (!(is_right))                                                       \
			return CUDA_ERROR_INVALID_VALUE;                               \
		return copy((uint64_t)to, (uint64_t)from, bytes, stream, false);       \
	}                                                                              \
	EXPORT(name##_ptsz)(to_type to, from_type from, size_t bytes, CUstream stream) \
	{                                                                              \
		return impl_##name(to, from, bytes, own(stream));                      \
	}

COPY_NOW(cuMemcpyHtoD_v2, CUdeviceptr, const void *, is_device(to))
COPY_NOW(cuMemcpyDtoH_v2, void *, CUdeviceptr, is_device(from))
COPY_NOW(cuMemcpyDtoD_v2, CUdeviceptr, CUdeviceptr, is_device(to) && is_device(from))
COPY_NOW(cuMemcpy, CUdeviceptr, CUdeviceptr, true)
COPY_ASYNC(cuMemcpyHtoDAsync_v2, CUdeviceptr, const void *, is_device(to))
COPY_ASYNC(cuMemcpyDtoHAsync_v2, void *, CUdeviceptr, is_device(from))
COPY_ASYNC(cuMemcpyDtoDAsync_v2, CUdeviceptr, CUdeviceptr, is_device(to) && is_device(from))
COPY_ASYNC(cuMemcpyAsync, CUdeviceptr, CUdeviceptr, true)

EXPORT(cuMemcpyPeer)
(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes)
{
	if (!to_context || !from_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	return impl_cuMemcpyDtoD_v2(to, from, bytes);
}

EXPORT(cuMemcpyPeerAsync)
(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes,
 CUstream stream)
{
	if (!to_context || !from_context)
		return CUDA_ERROR_INVALID_CONTEXT;
	return impl_cuMemcpyDtoDAsync_v2(to, from, bytes, stream);
}

EXPORT(cuMemcpyBatchAsync)
(CUdeviceptr *to, CUdeviceptr *from, size_t *sizes, size_t count, void *attributes,
 size_t *attribute_at, size_t attribute_count, size_t *failed, CUstream stream)
{
	(void)attributes, (void)attribute_at, (void)attribute_count, (void)failed;
	if (!to || !from || !sizes || !count || (uintptr_t)stream <= 2)
		return CUDA_ERROR_INVALID_VALUE; // default streams are invalid here
	for (size_t i = 0; i < count; i++) {
		CUresult result = copy(to[i], from[i], sizes[i], stream, false);

		if (result)
			return result;
	}
	return CUDA_SUCCESS;
}

/* The address of a side of a copy in two or three dimensions. */
#define ADDRESS(side) ((side).type == 1 ? (uint64_t)(uintptr_t)(side).host : (side).device)

static bool is_side(unsigned int type, uint64_t address)
{
	return type == 4 || (type == 1 && !is_device(address)) || (type == 2 && is_device(address));
}

EXPORT(cuMemcpy2DAsync_v2)(const CUDA_MEMCPY2D *what, CUstream stream)
{
	if (!what || !is_side(what->from.type, ADDRESS(what->from)) ||
	    !is_side(what->to.type, ADDRESS(what->to)))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(ADDRESS(what->to), ADDRESS(what->from), what->width * what->height, stream,
		    false);
}

EXPORT(cuMemcpy3DAsync_v2)(const CUDA_MEMCPY3D *what, CUstream stream)
{
	if (!what || !is_side(what->from.type, ADDRESS(what->from)) ||
	    !is_side(what->to.type, ADDRESS(what->to)))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(ADDRESS(what->to), ADDRESS(what->from),
		    what->width * what->height * what->depth, stream, false);
}

static CUresult set(CUdeviceptr to, uint64_t bytes, CUstream stream)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!is_device(to))
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(put(stream, bytes / DOUBLE_COPY_BYTES_PER_NS));
}

EXPORT(cuMemsetD8_v2)(CUdeviceptr to, unsigned char value, size_t count)
{
	(void)value;
	return set(to, count, NULL);
}

EXPORT(cuMemsetD32_v2)(CUdeviceptr to, unsigned int value, size_t count)
{
	(void)value;
	return set(to, 4 * count, NULL);
}

EXPORT(cuMemsetD8Async)(CUdeviceptr to, unsigned char value, size_t count, CUstream stream)
{
	(void)value;
	return set(to, count, stream);
}

EXPORT(cuMemsetD32Async)(CUdeviceptr to, unsigned int value, size_t count, CUstream stream)
{
	(void)value;
	return set(to, 4 * count, stream);
}
