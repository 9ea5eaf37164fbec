// SPDX-License-Identifier: Apache-2.0
// Test equipment: libcuda.so.1 without a device. Its exports have the shape of the real driver's (a
// compare, a branch, a jump through a slot to a function that begins with a push; SHAPE selects two
// others), and behind them stands a model of time: each stream is busy until a moment, work put on it
// moves that moment, waiting waits for it. It refuses what the real driver refuses.
#include "tests/gpu/cuda_double.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- the model ------------------------------------------------------------------------------

enum {
	STREAMS_MAX = 64,
	EVENTS_MAX = 256,
	ALLOCATIONS_MAX = 4096,
	PHYSICALS_MAX = 256,
	FUNCTIONS_MAX = 64,
	GRAPHS_MAX = 16,
	NAME_BYTES = 64,
};

struct stream {
	uint64_t busy_until_ns;
	struct graph *capture; // what is put on it is recorded, not done
	bool is_open;
};

struct event {
	uint64_t done_ns;
	bool is_open, is_recorded;
};

struct function {
	char name[NAME_BYTES];
};

struct module {
	bool is_open;
};

struct graph {
	uint64_t busy_ns; // of all its nodes, one after the other
	uint32_t nodes;
	bool is_open;
};

struct graph_exec {
	struct graph graph;
	bool is_open;
};

struct allocation {
	uint64_t address, bytes;
	bool is_host;
};

struct physical {
	uint64_t bytes;
	uint32_t mappings;
	bool is_released; // it goes with its last mapping
};

struct mapping {
	uint64_t address, bytes;
	struct physical *physical;
};

struct context {
	unsigned int flags;
};

static struct {
	pthread_mutex_t lock;
	bool initialized;
	struct context context;
	struct context *current;            // of all threads: the double has one context
	struct stream streams[STREAMS_MAX]; // [0]: the legacy default stream
	struct event events[EVENTS_MAX];
	struct allocation allocations[ALLOCATIONS_MAX];
	struct physical physicals[PHYSICALS_MAX];
	struct mapping mappings[PHYSICALS_MAX];
	uint64_t next_address;
	uint64_t used_bytes;
	struct function functions[FUNCTIONS_MAX];
	struct module module;
	struct graph graphs[GRAPHS_MAX];
	struct graph_exec execs[GRAPHS_MAX];
} driver = { .lock = PTHREAD_MUTEX_INITIALIZER, .next_address = DOUBLE_DEVICE_BASE };

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
}

/* Each entry holds the lock but while it waits. */
static CUresult enter(void)
{
	if (!driver.initialized)
		return CUDA_ERROR_NOT_INITIALIZED;
	if (!driver.current)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&driver.lock);
	return CUDA_SUCCESS;
}

static CUresult leave(CUresult result)
{
	pthread_mutex_unlock(&driver.lock);
	return result;
}

/* NULL, 1 and 2 are the default streams: one, in this double. */
static struct stream *find_stream(CUstream handle)
{
	if ((uintptr_t)handle <= 2)
		return &driver.streams[0];
	if (handle < driver.streams || handle >= driver.streams + STREAMS_MAX || !handle->is_open)
		return NULL;
	return handle;
}

static CUresult put(CUstream handle, uint64_t busy_ns)
{
	struct stream *stream = find_stream(handle);
	uint64_t now = now_ns();

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture) {
		stream->capture->busy_ns += busy_ns;
		stream->capture->nodes++;
		return CUDA_SUCCESS;
	}
	if (stream->busy_until_ns < now)
		stream->busy_until_ns = now;
	stream->busy_until_ns += busy_ns;
	return CUDA_SUCCESS;
}

/* Called without the lock. Spinning is what contexts do by default. */
static void wait_until(uint64_t done_ns)
{
	unsigned int flags = driver.context.flags;

	if (flags & CU_CTX_SCHED_BLOCKING_SYNC) {
		struct timespec until = { (time_t)(done_ns / 1000000000ULL),
					  (long)(done_ns % 1000000000ULL) };

		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
			;
		return;
	}
	while (now_ns() < done_ns) {
		if (flags & CU_CTX_SCHED_YIELD)
			sched_yield();
	}
}

static CUresult leave_and_wait(uint64_t done_ns)
{
	leave(CUDA_SUCCESS);
	wait_until(done_ns);
	return CUDA_SUCCESS;
}

static CUresult wait_for_stream(CUstream handle)
{
	struct stream *stream = find_stream(handle);

	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (stream->capture)
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return leave_and_wait(stream->busy_until_ns);
}

// ---- exports --------------------------------------------------------------------------------

/* The state word that real stubs compare with; never this value here. */
unsigned int driver_state __attribute__((visibility("hidden"))) = 1;

/*
 * The bytes of a real export (535): 81 3d disp32 imm32, je +12 (over two jumps), jmp *slot. The slot holds the function by
 * a relative relocation. SHAPE 1 is a build with endbr64, 2 one without stubs' compare.
 */
#ifndef SHAPE
#define SHAPE 0
#endif
#if SHAPE == 0
#define STUB_BEGIN "cmpl $0x321cba00, driver_state(%rip)\n je 1f\n"
#define STUB_END   "jmp *2f(%rip)\n 1: jmp *2f(%rip)\n"
#elif SHAPE == 1
#define STUB_BEGIN "endbr64\n cmpl $0x321cba00, driver_state(%rip)\n je 1f\n"
#define STUB_END   "jmp *2f(%rip)\n 1: jmp *2f(%rip)\n"
#else
#define STUB_BEGIN "push %rbp\n pop %rbp\n"
#define STUB_END   ""
#endif

#define EXPORT(name)                                                                               \
	__asm__(".pushsection .text\n .p2align 4\n .globl " #name "\n .type " #name                \
		", @function\n" #name ":\n .cfi_startproc\n" STUB_BEGIN "jmp *2f(%rip)\n" STUB_END \
		".cfi_endproc\n .size " #name ", . - " #name "\n .popsection\n"                    \
		".pushsection .data.rel.slots, \"aw\"\n .p2align 3\n2: .quad impl_" #name          \
		"\n .popsection\n");                                                               \
	__attribute__((used, noinline, visibility("hidden"), optimize("no-omit-frame-pointer")))   \
	CUresult impl_##name

/* A function that real drivers export under two names, with addresses of their own. */
#define ALIAS(name, of)                                                                            \
	__asm__(".pushsection .text\n .p2align 4\n .globl " #name "\n .type " #name                \
		", @function\n" #name ":\n .cfi_startproc\n" STUB_BEGIN "jmp *2f(%rip)\n" STUB_END \
		".cfi_endproc\n .size " #name ", . - " #name "\n .popsection\n"                    \
		".pushsection .data.rel.slots, \"aw\"\n .p2align 3\n2: .quad impl_" #of            \
		"\n .popsection\n")

EXPORT(cuInit)(unsigned int flags)
{
	if (flags)
		return CUDA_ERROR_INVALID_VALUE;
	driver.initialized = true;
	driver.streams[0].is_open = true;
	return CUDA_SUCCESS;
}

EXPORT(cuDriverGetVersion)(int *version)
{
	*version = 12020;
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
	driver.context.flags = flags;
	driver.current = *context = &driver.context;
	return CUDA_SUCCESS;
}

EXPORT(cuStreamCreate)(CUstream *stream, unsigned int flags)
{
	CUresult result = enter();

	(void)flags;
	if (result)
		return result;
	for (int i = 1; i < STREAMS_MAX; i++) {
		if (driver.streams[i].is_open)
			continue;
		driver.streams[i] = (struct stream){ .is_open = true };
		*stream = &driver.streams[i];
		return leave(CUDA_SUCCESS);
	}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT(cuStreamDestroy_v2)(CUstream handle)
{
	CUresult result = enter();
	struct stream *stream = result ? NULL : find_stream(handle);

	if (result)
		return result;
	if (!stream || stream == &driver.streams[0])
		return leave(CUDA_ERROR_INVALID_HANDLE);
	stream->is_open = false;
	return leave(CUDA_SUCCESS);
}

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

EXPORT(cuModuleGetFunction)(CUfunction *function, CUmodule module, const char *name)
{
	CUresult result = enter();

	if (result)
		return result;
	if (module != &driver.module || !module->is_open)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (!name || !*name || strlen(name) >= NAME_BYTES)
		return leave(CUDA_ERROR_NOT_FOUND);
	for (int i = 0; i < FUNCTIONS_MAX; i++) {
		struct function *free_or_same = &driver.functions[i];

		if (free_or_same->name[0] && strcmp(free_or_same->name, name) != 0)
			continue;
		strcpy(free_or_same->name, name);
		*function = free_or_same;
		return leave(CUDA_SUCCESS);
	}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}

// ---- launches -------------------------------------------------------------------------------

static CUresult launch(CUfunction function, const unsigned int grid[3], CUstream stream)
{
	CUresult result = enter();

	if (result)
		return result;
	if (function < driver.functions || function >= driver.functions + FUNCTIONS_MAX ||
	    !function->name[0])
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
ALIAS(cuLaunchKernel_ptsz, cuLaunchKernel);

EXPORT(cuLaunchKernelEx)
(const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra)
{
	(void)parameters, (void)extra;
	if (!config)
		return CUDA_ERROR_INVALID_VALUE;
	return launch(function, config->grid, config->stream);
}
ALIAS(cuLaunchKernelEx_ptsz, cuLaunchKernelEx);

// ---- waits ----------------------------------------------------------------------------------

EXPORT(cuStreamSynchronize)(CUstream stream)
{
	CUresult result = enter();

	return result ? result : wait_for_stream(stream);
}
ALIAS(cuStreamSynchronize_ptsz, cuStreamSynchronize);

EXPORT(cuCtxSynchronize)(void)
{
	CUresult result = enter();
	uint64_t last_ns = 0;

	if (result)
		return result;
	for (int i = 0; i < STREAMS_MAX; i++) {
		if (driver.streams[i].is_open && driver.streams[i].busy_until_ns > last_ns)
			last_ns = driver.streams[i].busy_until_ns;
	}
	return leave_and_wait(last_ns);
}

EXPORT(cuEventCreate)(CUevent *event, unsigned int flags)
{
	CUresult result = enter();

	(void)flags;
	if (result)
		return result;
	for (int i = 0; i < EVENTS_MAX; i++) {
		if (driver.events[i].is_open)
			continue;
		driver.events[i] = (struct event){ .is_open = true };
		*event = &driver.events[i];
		return leave(CUDA_SUCCESS);
	}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}

static bool is_event(CUevent event)
{
	return event >= driver.events && event < driver.events + EVENTS_MAX && event->is_open;
}

EXPORT(cuEventDestroy_v2)(CUevent event)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!is_event(event))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	event->is_open = false;
	return leave(CUDA_SUCCESS);
}

EXPORT(cuEventRecord)(CUevent event, CUstream handle)
{
	CUresult result = enter();
	struct stream *stream = result ? NULL : find_stream(handle);

	if (result)
		return result;
	if (!is_event(event) || !stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	event->done_ns = stream->busy_until_ns;
	event->is_recorded = true;
	return leave(CUDA_SUCCESS);
}
ALIAS(cuEventRecord_ptsz, cuEventRecord);

EXPORT(cuEventSynchronize)(CUevent event)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!is_event(event))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	return leave_and_wait(event->done_ns);
}

EXPORT(cuEventQuery)(CUevent event)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!is_event(event))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	return leave(event->done_ns > now_ns() ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS);
}

EXPORT(cuStreamWaitEvent)(CUstream handle, CUevent event, unsigned int flags)
{
	CUresult result = enter();
	struct stream *stream = result ? NULL : find_stream(handle);

	(void)flags;
	if (result)
		return result;
	if (!is_event(event) || !stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (stream->busy_until_ns < event->done_ns)
		stream->busy_until_ns = event->done_ns;
	return leave(CUDA_SUCCESS);
}
ALIAS(cuStreamWaitEvent_ptsz, cuStreamWaitEvent);

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
	*allocation = (struct allocation){ *address, bytes, is_host };
	return CUDA_SUCCESS;
}

static CUresult release(uint64_t address, bool is_host)
{
	struct allocation *allocation = find_allocation(address);

	if (!allocation || allocation->is_host != is_host)
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

// Freeing waits for the whole device, which is what makes it an implicit synchronisation.
EXPORT(cuMemFree_v2)(CUdeviceptr address)
{
	CUresult result = enter();
	uint64_t last_ns = 0;

	if (result)
		return result;
	if (!address)
		return leave(CUDA_SUCCESS);
	result = release(address, false);
	if (result)
		return leave(result);
	for (int i = 0; i < STREAMS_MAX; i++) {
		if (driver.streams[i].is_open && driver.streams[i].busy_until_ns > last_ns)
			last_ns = driver.streams[i].busy_until_ns;
	}
	return leave_and_wait(last_ns);
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

EXPORT(cuMemUnmap)(CUdeviceptr address, size_t bytes)
{
	CUresult result = enter();

	if (result)
		return result;
	struct mapping *mapping = find_mapping(address);
	if (!mapping || mapping->bytes != bytes)
		return leave(CUDA_ERROR_INVALID_VALUE);
	struct physical *physical = mapping->physical;
	*mapping = (struct mapping){ 0 };
	physical->mappings--;
	forget_unused(physical);
	return leave(CUDA_SUCCESS);
}

// ---- copies ---------------------------------------------------------------------------------

static bool is_device(uint64_t address)
{
	return address >= DOUBLE_DEVICE_BASE && address < driver.next_address;
}

static CUresult copy(uint64_t to, uint64_t from, uint64_t bytes, CUstream stream, bool waits)
{
	CUresult result = enter();

	if (result)
		return result;
	if ((!is_device(to) && !to) || (!is_device(from) && !from))
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!find_stream(stream))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	result = put(stream, bytes / DOUBLE_COPY_BYTES_PER_NS);
	if (result || !waits)
		return leave(result);
	return wait_for_stream(stream);
}

EXPORT(cuMemcpyHtoD_v2)(CUdeviceptr to, const void *from, size_t bytes)
{
	if (!is_device(to))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(to, (uint64_t)(uintptr_t)from, bytes, NULL, true);
}
ALIAS(cuMemcpyHtoD_v2_ptds, cuMemcpyHtoD_v2);

EXPORT(cuMemcpyDtoH_v2)(void *to, CUdeviceptr from, size_t bytes)
{
	if (!is_device(from))
		return CUDA_ERROR_INVALID_VALUE;
	return copy((uint64_t)(uintptr_t)to, from, bytes, NULL, true);
}
ALIAS(cuMemcpyDtoH_v2_ptds, cuMemcpyDtoH_v2);

EXPORT(cuMemcpyDtoD_v2)(CUdeviceptr to, CUdeviceptr from, size_t bytes)
{
	if (!is_device(to) || !is_device(from))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(to, from, bytes, NULL, false);
}

EXPORT(cuMemcpyHtoDAsync_v2)(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
	if (!is_device(to))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(to, (uint64_t)(uintptr_t)from, bytes, stream, false);
}
ALIAS(cuMemcpyHtoDAsync_v2_ptsz, cuMemcpyHtoDAsync_v2);

EXPORT(cuMemcpyDtoHAsync_v2)(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	if (!is_device(from))
		return CUDA_ERROR_INVALID_VALUE;
	return copy((uint64_t)(uintptr_t)to, from, bytes, stream, false);
}
ALIAS(cuMemcpyDtoHAsync_v2_ptsz, cuMemcpyDtoHAsync_v2);

EXPORT(cuMemcpyDtoDAsync_v2)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	if (!is_device(to) || !is_device(from))
		return CUDA_ERROR_INVALID_VALUE;
	return copy(to, from, bytes, stream, false);
}
ALIAS(cuMemcpyDtoDAsync_v2_ptsz, cuMemcpyDtoDAsync_v2);

EXPORT(cuMemcpyAsync)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
	return copy(to, from, bytes, stream, false);
}
ALIAS(cuMemcpyAsync_ptsz, cuMemcpyAsync);

// ---- graphs ---------------------------------------------------------------------------------

EXPORT(cuStreamBeginCapture_v2)(CUstream handle, int mode)
{
	CUresult result = enter();
	struct stream *stream = result ? NULL : find_stream(handle);

	(void)mode;
	if (result)
		return result;
	if (!stream || stream == &driver.streams[0] || stream->capture)
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	for (int i = 0; i < GRAPHS_MAX; i++) {
		if (driver.graphs[i].is_open)
			continue;
		driver.graphs[i] = (struct graph){ .is_open = true };
		stream->capture = &driver.graphs[i];
		return leave(CUDA_SUCCESS);
	}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}
ALIAS(cuStreamBeginCapture_v2_ptsz, cuStreamBeginCapture_v2);

EXPORT(cuStreamEndCapture)(CUstream handle, CUgraph *graph)
{
	CUresult result = enter();
	struct stream *stream = result ? NULL : find_stream(handle);

	if (result)
		return result;
	if (!stream || !stream->capture)
		return leave(CUDA_ERROR_INVALID_VALUE);
	*graph = stream->capture;
	stream->capture = NULL;
	return leave(CUDA_SUCCESS);
}
ALIAS(cuStreamEndCapture_ptsz, cuStreamEndCapture);

EXPORT(cuGraphInstantiateWithFlags)(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	CUresult result = enter();

	(void)flags;
	if (result)
		return result;
	if (graph < driver.graphs || graph >= driver.graphs + GRAPHS_MAX || !graph->is_open)
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < GRAPHS_MAX; i++) {
		if (driver.execs[i].is_open)
			continue;
		driver.execs[i] = (struct graph_exec){ *graph, true };
		*exec = &driver.execs[i];
		return leave(CUDA_SUCCESS);
	}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT(cuGraphLaunch)(CUgraphExec exec, CUstream stream)
{
	CUresult result = enter();

	if (result)
		return result;
	if (exec < driver.execs || exec >= driver.execs + GRAPHS_MAX || !exec->is_open)
		return leave(CUDA_ERROR_INVALID_VALUE);
	return leave(put(stream, exec->graph.busy_ns));
}
ALIAS(cuGraphLaunch_ptsz, cuGraphLaunch);

EXPORT(cuGraphExecDestroy)(CUgraphExec exec)
{
	CUresult result = enter();

	if (result)
		return result;
	if (exec < driver.execs || exec >= driver.execs + GRAPHS_MAX || !exec->is_open)
		return leave(CUDA_ERROR_INVALID_VALUE);
	exec->is_open = false;
	return leave(CUDA_SUCCESS);
}

// ---- addresses ------------------------------------------------------------------------------

extern void *dlsym(void *handle, const char *name);
extern void *dlopen(const char *name, int flags);

/* As the real driver: the newest version of a name that @version knows, of the kind that is asked for. */
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
