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
	CONTEXTS_MAX = 8,
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
	struct context *context;
	struct graph *capture; // what is put on it is recorded, not done
	bool is_open;
	bool is_blocking; // it and the context's legacy default stream wait for each other
	bool is_origin;   // of the capture
	bool is_unjoined; // it has come to the capture by an event, and its own is not waited for yet
};

struct event {
	uint64_t done_ns;
	struct graph *capture; // that it was recorded in
	struct stream *from;
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
	bool is_registered; // the caller's, pinned
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
	bool is_open;
	struct stream legacy; // its default stream
};

static struct {
	pthread_mutex_t lock;
	bool initialized;
	struct context contexts[CONTEXTS_MAX];
	struct stream streams[STREAMS_MAX];
	struct event events[EVENTS_MAX];
	struct allocation allocations[ALLOCATIONS_MAX];
	struct physical physicals[PHYSICALS_MAX];
	struct mapping mappings[PHYSICALS_MAX];
	uint64_t next_address;
	uint64_t used_bytes;
	struct function functions[FUNCTIONS_MAX], kernels[FUNCTIONS_MAX];
	struct module module, library;
	struct graph graphs[GRAPHS_MAX];
	struct graph_exec execs[GRAPHS_MAX];
} driver = { .lock = PTHREAD_MUTEX_INITIALIZER, .next_address = DOUBLE_DEVICE_BASE };

/* A thread has none until it makes one, or asks for one. */
static _Thread_local struct context *current;
static _Thread_local struct stream *own_stream; // its own default stream

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
	if (!current)
		return CUDA_ERROR_INVALID_CONTEXT;
	pthread_mutex_lock(&driver.lock);
	return CUDA_SUCCESS;
}

static CUresult leave(CUresult result)
{
	pthread_mutex_unlock(&driver.lock);
	return result;
}

static struct stream *make_stream(bool is_blocking)
{
	for (int i = 0; i < STREAMS_MAX; i++) {
		if (driver.streams[i].is_open)
			continue;
		driver.streams[i] = (struct stream){ .context = current,
						     .is_open = true,
						     .is_blocking = is_blocking };
		return &driver.streams[i];
	}
	return NULL;
}

/* NULL and 1 are the context's legacy default stream, 2 is the thread's own. */
static struct stream *find_stream(CUstream handle)
{
	if ((uintptr_t)handle <= 1)
		return &current->legacy;
	if ((uintptr_t)handle == 2) {
		if (!own_stream)
			own_stream = make_stream(true);
		return own_stream;
	}
	if (handle < driver.streams || handle >= driver.streams + STREAMS_MAX || !handle->is_open)
		return NULL;
	return handle;
}

/* What NULL is in functions of the _ptsz and _ptds kinds. */
static CUstream own(CUstream handle)
{
	return handle ? handle : (CUstream)2;
}

/* The legacy stream begins when all blocking ones are done, and they begin when it is. */
static uint64_t begin_ns(const struct stream *stream)
{
	struct context *context = stream->context;
	uint64_t begin = now_ns();

	if (stream->busy_until_ns > begin)
		begin = stream->busy_until_ns;
	if (stream->is_blocking && context->legacy.busy_until_ns > begin)
		begin = context->legacy.busy_until_ns;
	for (int i = 0; stream == &context->legacy && i < STREAMS_MAX; i++) {
		const struct stream *other = &driver.streams[i];

		if (other->is_open && other->is_blocking && other->context == context &&
		    other->busy_until_ns > begin)
			begin = other->busy_until_ns;
	}
	return begin;
}

static CUresult put(CUstream handle, uint64_t busy_ns)
{
	struct stream *stream = find_stream(handle);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture) {
		stream->capture->busy_ns += busy_ns;
		stream->capture->nodes++;
		stream->is_unjoined = !stream->is_origin;
		return CUDA_SUCCESS;
	}
	stream->busy_until_ns = begin_ns(stream) + busy_ns;
	return CUDA_SUCCESS;
}

/* Called without the lock. Spinning is what contexts do by default. */
static void wait_until(uint64_t done_ns)
{
	unsigned int flags = current->flags;

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

EXPORT(cuStreamCreate)(CUstream *stream, unsigned int flags)
{
	CUresult result = enter();
	struct stream *made;

	if (result)
		return result;
	made = make_stream(!(flags & CU_STREAM_NON_BLOCKING));
	if (!made)
		return leave(CUDA_ERROR_OUT_OF_MEMORY);
	*stream = made;
	return leave(CUDA_SUCCESS);
}

EXPORT(cuStreamDestroy_v2)(CUstream handle)
{
	CUresult result = enter();
	struct stream *stream = result ? NULL : find_stream(handle);

	if (result)
		return result;
	if (!stream || (uintptr_t)handle <= 2)
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

/* The name's handle is the first that is free, as after an unload. */
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

static CUresult launch(CUfunction function, const unsigned int grid[3], CUstream stream)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!is_one_of(driver.functions, function) && !is_one_of(driver.kernels, function))
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

// ---- waits ----------------------------------------------------------------------------------

EXPORT(cuStreamSynchronize)(CUstream stream)
{
	CUresult result = enter();

	return result ? result : wait_for_stream(stream);
}

EXPORT(cuStreamSynchronize_ptsz)(CUstream stream)
{
	return impl_cuStreamSynchronize(own(stream));
}

/* Of a context; NULL: of all. */
static uint64_t last_ns_of(const struct context *context)
{
	uint64_t last_ns = 0;

	for (int i = 0; i < STREAMS_MAX; i++) {
		const struct stream *stream = &driver.streams[i];

		if (stream->is_open && (!context || stream->context == context) &&
		    stream->busy_until_ns > last_ns)
			last_ns = stream->busy_until_ns;
	}
	for (int i = 0; i < CONTEXTS_MAX; i++) {
		const struct context *one = &driver.contexts[i];

		if (one->is_open && (!context || one == context) &&
		    one->legacy.busy_until_ns > last_ns)
			last_ns = one->legacy.busy_until_ns;
	}
	return last_ns;
}

EXPORT(cuCtxSynchronize)(void)
{
	CUresult result = enter();

	return result ? result : leave_and_wait(last_ns_of(current));
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
	event->capture = stream->capture;
	event->from = stream;
	event->done_ns = stream->busy_until_ns;
	event->is_recorded = true;
	return leave(CUDA_SUCCESS);
}

EXPORT(cuEventRecord_ptsz)(CUevent event, CUstream handle)
{
	return impl_cuEventRecord(event, own(handle));
}

EXPORT(cuEventSynchronize)(CUevent event)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!is_event(event))
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (event->capture)
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
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

/* A stream comes into the capture that an event was recorded in, or waits for one that has come so. */
static void join_capture(struct stream *stream, struct event *event)
{
	event->from->is_unjoined = false;
	if (stream->capture == event->capture)
		return;
	stream->capture = event->capture;
	stream->is_origin = false;
	stream->is_unjoined = true;
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
	if (event->capture) {
		join_capture(stream, event);
		return leave(CUDA_SUCCESS);
	}
	if (stream->busy_until_ns < event->done_ns)
		stream->busy_until_ns = event->done_ns;
	return leave(CUDA_SUCCESS);
}

EXPORT(cuStreamWaitEvent_ptsz)(CUstream handle, CUevent event, unsigned int flags)
{
	return impl_cuStreamWaitEvent(own(handle), event, flags);
}

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

// Freeing waits for the whole device, which is what makes it an implicit synchronisation.
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

/* Whole mappings, one after the other. */
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

// ---- copies ---------------------------------------------------------------------------------

static bool is_device(uint64_t address)
{
	return address >= DOUBLE_DEVICE_BASE && address < driver.next_address;
}

/* Memory of the host that the device reaches by itself. */
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
 * Copies of memory that is not pinned wait, whatever they are called. The real driver may let small ones to the device
 * go on earlier.
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
		return CUDA_ERROR_INVALID_VALUE; // default streams are refused
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

// ---- graphs ---------------------------------------------------------------------------------

EXPORT(cuStreamBeginCapture_v2)(CUstream handle, int mode)
{
	CUresult result = enter();
	struct stream *stream = result ? NULL : find_stream(handle);

	(void)mode;
	if (result)
		return result;
	if (!stream || stream == &current->legacy || stream->capture)
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	for (int i = 0; i < GRAPHS_MAX; i++) {
		if (driver.graphs[i].is_open)
			continue;
		driver.graphs[i] = (struct graph){ .is_open = true };
		stream->capture = &driver.graphs[i];
		stream->is_origin = true;
		return leave(CUDA_SUCCESS);
	}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT(cuStreamBeginCapture_v2_ptsz)(CUstream handle, int mode)
{
	return impl_cuStreamBeginCapture_v2(own(handle), mode);
}

EXPORT(cuStreamEndCapture)(CUstream handle, CUgraph *graph)
{
	CUresult result = enter();
	struct stream *stream = result ? NULL : find_stream(handle);

	if (result)
		return result;
	if (!stream || !stream->capture)
		return leave(CUDA_ERROR_INVALID_VALUE);
	if (!stream->is_origin)
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
	*graph = stream->capture;
	for (int i = 0; i < STREAMS_MAX; i++) {
		struct stream *other = &driver.streams[i];

		if (other->capture != *graph)
			continue;
		other->capture = NULL;
		if (other->is_unjoined)
			result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	}
	return leave(result);
}

EXPORT(cuStreamEndCapture_ptsz)(CUstream handle, CUgraph *graph)
{
	return impl_cuStreamEndCapture(own(handle), graph);
}

/* One that is put together node by node; it has none yet. */
EXPORT(cuGraphCreate)(CUgraph *graph, unsigned int flags)
{
	CUresult result = enter();

	if (result)
		return result;
	if (!graph || flags)
		return leave(CUDA_ERROR_INVALID_VALUE);
	for (int i = 0; i < GRAPHS_MAX; i++) {
		if (driver.graphs[i].is_open)
			continue;
		driver.graphs[i] = (struct graph){ .is_open = true };
		*graph = &driver.graphs[i];
		return leave(CUDA_SUCCESS);
	}
	return leave(CUDA_ERROR_OUT_OF_MEMORY);
}

EXPORT(cuGraphDestroy)(CUgraph graph)
{
	CUresult result = enter();

	if (result)
		return result;
	if (graph < driver.graphs || graph >= driver.graphs + GRAPHS_MAX || !graph->is_open)
		return leave(CUDA_ERROR_INVALID_VALUE);
	graph->is_open = false;
	return leave(CUDA_SUCCESS);
}

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

EXPORT(cuGraphLaunch_ptsz)(CUgraphExec exec, CUstream stream)
{
	return impl_cuGraphLaunch(exec, own(stream));
}

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
