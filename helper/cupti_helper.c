// SPDX-License-Identifier: Apache-2.0
// libcairn_cupti.so: measures how long GPU kernels run, in a process that is started with CUDA_INJECTION64_PATH. The driver
// loads this library at cuInit(). Until the agent requests a CUPTI session a thread sleeps; nothing is subscribed and
// libcupti is not even loaded. In a session each launch has a callback, one launch in N calls an empty function that the
// agent probes to capture the stack, and CUPTI's activity records have the run times. Afterwards nothing is subscribed or
// enabled any more. libcupti stays loaded with its state: cuptiFinalize() would remove that, but a second start after it
// crashes processes with CUDA graphs (before CUDA 12.6; PyTorch's profiler avoids it for that reason).
//
// The application's own use of CUPTI comes first: the helper subscribes only if nobody else has, and alone
// (cuptiSubscribe(), not the sharing cuptiSubscribe_v2() of CUDA 13.2).
#include <cupti.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "helper/cupti_abi.h"
#include "helper/cupti_shared.h"

enum {
	BUFFER_BYTES = 256 << 10, // some 1500 records
	BUFFER_ALIGN = 8,
	BUFFERS_MAX = 16, // that CUPTI holds: 4 MiB; beyond that it drops and counts records
};

#define NS_PER_SECOND 1000000000ULL
#define NS_PER_MS     1000000ULL

/* What one callback adds to overhead_ns at most: a longer one was preempted. */
#define CALLBACK_NS_MAX (50 * 1000ULL)
/* The overhead is judged as a share of at least this time: the first launches would exceed it at once. */
#define BUDGET_NS_MIN (500 * NS_PER_MS)

/* Of this process. Only the helper's thread writes what is not atomic. */
static struct cupti_shared *shared;
static _Atomic uint64_t launches, gpu_kernels, gpu_kernel_ns, overhead_ns;
static _Atomic uint32_t record_count, dropped, buffers;
static _Atomic bool is_measuring;
static uint32_t one_in = 1, records_max; // of the running session
static uint64_t session_began_ns;        // likewise
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

static void add_overhead(uint64_t ns)
{
	atomic_fetch_add_explicit(&overhead_ns, ns, memory_order_relaxed);
}

static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); // a system call: too slow for each launch
	return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

// ---- libcupti -------------------------------------------------------------------------------

/* Functions of libcupti, which the first session loads: most processes never have one. */
static struct {
	__typeof__(&cuptiSubscribe) subscribe;
	__typeof__(&cuptiUnsubscribe) unsubscribe;
	__typeof__(&cuptiEnableCallback) enable_callback;
	__typeof__(&cuptiActivityRegisterCallbacks) register_callbacks;
	__typeof__(&cuptiActivityEnable) enable;
	__typeof__(&cuptiActivityDisable) disable;
	__typeof__(&cuptiActivityFlushAll) flush_all;
	__typeof__(&cuptiActivityGetNextRecord) next_record;
	__typeof__(&cuptiActivityGetNumDroppedRecords) dropped_records;
	bool is_loaded;
} cupti;

// The copy that the application has loaded (PyTorch's wheel brings one), else the system's.
static void *open_cupti(void)
{
	static const char *const names[] = { "libcupti.so.13", "libcupti.so.12", "libcupti.so" };
	static const int flags[] = { RTLD_NOW | RTLD_NOLOAD, RTLD_NOW };
	void *library = NULL;

	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]) && !library; i++) {
		for (size_t k = 0; k < sizeof(names) / sizeof(names[0]) && !library; k++)
			library = dlopen(names[k], flags[i]);
	}
	return library;
}

static bool load_cupti(void)
{
	static const struct {
		const char *name;
		void *place;
	} functions[] = {
		{ "cuptiSubscribe", &cupti.subscribe },
		{ "cuptiUnsubscribe", &cupti.unsubscribe },
		{ "cuptiEnableCallback", &cupti.enable_callback },
		{ "cuptiActivityRegisterCallbacks", &cupti.register_callbacks },
		{ "cuptiActivityEnable", &cupti.enable },
		{ "cuptiActivityDisable", &cupti.disable },
		{ "cuptiActivityFlushAll", &cupti.flush_all },
		{ "cuptiActivityGetNextRecord", &cupti.next_record },
		{ "cuptiActivityGetNumDroppedRecords", &cupti.dropped_records },
	};
	void *library = cupti.is_loaded ? NULL : open_cupti();

	if (cupti.is_loaded)
		return true;
	if (!library)
		return false;
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void *function = dlsym(library, functions[i].name);

		if (!function) {
			dlclose(library);
			return false;
		}
		memcpy(functions[i].place, &function, sizeof(function));
	}
	cupti.is_loaded = true; // never unloaded: CUPTI's threads run in it
	return true;
}

// ---- launches -------------------------------------------------------------------------------

// A function of the correlation id, so that launches and records are sampled alike without any state. Hashed, so that a
// loop of N launches is not always sampled at the same one.
static bool is_sampled(uint32_t correlation)
{
	return (uint32_t)(((uint64_t)(correlation * 2654435761U) * one_in) >> 32) == 0;
}

/**
 * Does nothing. The agent probes its first instruction, in the launching thread and with its stack. @correlation: that of
 * the launch's records. @weight: in launches. @name: of the GPU kernel; NULL for a CUDA graph.
 */
void cairn_cupti_launched(uint32_t correlation, uint32_t weight, const char *name);
__attribute__((noinline, visibility("default"))) void cairn_cupti_launched(uint32_t correlation,
									   uint32_t weight,
									   const char *name)
{
	// A nop under a probe is emulated; the ret would be single-stepped.
	__asm__ volatile("nop" : : "r"(correlation), "r"(weight), "r"(name) : "memory");
}

static void on_launch(void *context, CUpti_CallbackDomain domain, CUpti_CallbackId id,
		      const void *data)
{
	const CUpti_CallbackData *call = data;
	uint64_t begin_ns = now_ns();

	(void)context;
	(void)domain;
	(void)id;
	if (call->callbackSite != CUPTI_API_ENTER)
		return;
	atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed);
	if (atomic_load_explicit(&is_measuring, memory_order_relaxed) &&
	    is_sampled(call->correlationId))
		cairn_cupti_launched(call->correlationId, one_in, call->symbolName);
	uint64_t ns = now_ns() - begin_ns;
	add_overhead(ns < CALLBACK_NS_MAX ? ns : CALLBACK_NS_MAX);
}

static const CUpti_CallbackId launch_calls[] = {
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel,
	CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel_ptsz,
	CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch,
	CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch_ptsz,
};

// ---- GPU kernels ----------------------------------------------------------------------------

// A linear search: names are few. Called by CUPTI's thread.
static bool find_name(const char *name, uint32_t *ret_name)
{
	uint32_t count = shared->name_count, at = 0;

	if (!name)
		name = "";
	while (at < count && strncmp(shared->names[at], name, CUPTI_NAME_BYTES - 1) != 0)
		at++;
	if (at == CUPTI_NAMES)
		return false;
	if (at == count) {
		strncpy(shared->names[at], name, CUPTI_NAME_BYTES - 1);
		shared->name_count = count + 1;
	}
	*ret_name = at;
	return true;
}

static void keep_record(const CUpti_ActivityKernel9 *kernel)
{
	uint32_t at = atomic_fetch_add(&record_count, 1), name = 0;

	if (at >= records_max || !find_name(kernel->name, &name)) {
		atomic_fetch_sub(&record_count, 1);
		atomic_fetch_add(&dropped, 1);
		return;
	}
	shared->records[at] = (struct cupti_record){
		.correlation = kernel->correlationId,
		.name = name,
		.duration_ns = kernel->end - kernel->start,
		.device = kernel->deviceId,
		.stream = kernel->streamId,
	};
}

static void on_kernel(const CUpti_ActivityKernel9 *kernel)
{
	if (kernel->end <= kernel->start) // CUPTI sets timestamps to 0 that it could not collect
		return;
	atomic_fetch_add_explicit(&gpu_kernels, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&gpu_kernel_ns, kernel->end - kernel->start,
				  memory_order_relaxed);
	if (is_sampled(kernel->correlationId))
		keep_record(kernel);
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *records_at_most)
{
	*buffer = NULL;
	*size = 0;
	*records_at_most = 0; // as many as fit
	if (atomic_fetch_add(&buffers, 1) >= BUFFERS_MAX ||
	    !(*buffer = aligned_alloc(BUFFER_ALIGN, BUFFER_BYTES)))
		atomic_fetch_sub(&buffers, 1);
	else
		*size = BUFFER_BYTES;
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
				 size_t valid)
{
	uint64_t begin_ns = cpu_ns();
	CUpti_Activity *record = NULL;
	size_t lost = 0;

	(void)size;
	pthread_mutex_lock(&names_lock);
	while (buffer && valid && cupti.next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
		if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
		    record->kind == CUPTI_ACTIVITY_KIND_KERNEL)
			on_kernel((const CUpti_ActivityKernel9 *)record);
	}
	pthread_mutex_unlock(&names_lock);
	if (cupti.dropped_records(context, stream, &lost) == CUPTI_SUCCESS)
		atomic_fetch_add(&dropped, (uint32_t)lost);
	if (buffer) {
		free(buffer);
		atomic_fetch_sub(&buffers, 1);
	}
	add_overhead(cpu_ns() - begin_ns);
}

// ---- sessions -------------------------------------------------------------------------------

// Until the agent requests a session other than @session, or for @ns; 0: without a limit.
static void sleep_in(uint32_t session, uint64_t ns)
{
	const struct timespec time = { (time_t)(ns / NS_PER_SECOND), (long)(ns % NS_PER_SECOND) };

	syscall(SYS_futex, &shared->session_requested, FUTEX_WAIT, session, ns ? &time : NULL, NULL,
		0);
}

static uint32_t session_requested(void)
{
	return __atomic_load_n(&shared->session_requested, __ATOMIC_ACQUIRE);
}

static bool is_over_budget(uint64_t now)
{
	uint64_t elapsed_ns = now - session_began_ns;

	if (elapsed_ns < BUDGET_NS_MIN)
		elapsed_ns = BUDGET_NS_MIN;
	return atomic_load(&overhead_ns) * 100 > elapsed_ns * CUPTI_OVERHEAD_PERCENT_MAX;
}

// Half a session. It ends early if the agent cancels it, with the last record, or over budget.
static void pass(uint32_t session, uint64_t ns)
{
	uint64_t end_ns = now_ns() + ns;

	for (uint64_t now = now_ns(); now < end_ns && session_requested() == session;
	     now = now_ns()) {
		uint64_t slice_ns = end_ns - now < 10 * NS_PER_MS ? end_ns - now : 10 * NS_PER_MS;

		if (is_over_budget(now))
			shared->state = CUPTI_STATE_OVER_BUDGET;
		if (atomic_load(&record_count) >= records_max ||
		    shared->state == CUPTI_STATE_OVER_BUDGET)
			return;
		sleep_in(session, slice_ns);
	}
}

static void measure(uint32_t session, uint64_t half_ns)
{
	uint64_t begin_ns = now_ns();
	uint64_t compared = atomic_load(&launches);

	// Both halves have the callbacks of launches: the difference is the cost of measuring.
	pass(session, half_ns);
	shared->baseline_ns = now_ns() - begin_ns;
	shared->baseline_launches = atomic_load(&launches) - compared;
	if (shared->state == CUPTI_STATE_OVER_BUDGET)
		return;

	begin_ns = now_ns();
	shared->result = (int32_t)cupti.enable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	shared->enable_ns = now_ns() - begin_ns;
	if (shared->result != CUPTI_SUCCESS) {
		shared->state = CUPTI_STATE_FAILED;
		return;
	}
	begin_ns = now_ns();
	uint64_t measured = atomic_load(&launches);
	atomic_store(&is_measuring, true);
	pass(session, half_ns);
	atomic_store(&is_measuring, false);
	shared->measured_ns = now_ns() - begin_ns;
	shared->measured_launches = atomic_load(&launches) - measured;

	begin_ns = now_ns();
	cupti.flush_all(0); // complete records only: GPU kernels that still run are left out
	cupti.disable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED); // or the next session gets these buffers
	shared->disable_ns = now_ns() - begin_ns;
}

static CUptiResult enable_calls(CUpti_SubscriberHandle subscriber, uint32_t enable)
{
	CUptiResult result = CUPTI_SUCCESS;

	for (size_t i = 0; i < sizeof(launch_calls) / sizeof(launch_calls[0]) && !result; i++)
		result = cupti.enable_callback(enable, subscriber, CUPTI_CB_DOMAIN_DRIVER_API,
					       launch_calls[i]);
	return result;
}

static void subscribe_and_measure(uint32_t session, uint64_t half_ns)
{
	CUpti_SubscriberHandle subscriber;
	CUptiResult result =
		cupti.subscribe(&subscriber, (CUpti_CallbackFunc)(void *)on_launch, NULL);

	shared->result = (int32_t)result;
	if (result != CUPTI_SUCCESS) {
		shared->state = result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
					? CUPTI_STATE_IN_USE
					: CUPTI_STATE_FAILED;
		return;
	}
	// Only after subscribing: without a subscription these callbacks are the application's.
	result = cupti.register_callbacks(give_buffer, take_buffer);
	if (result == CUPTI_SUCCESS)
		result = enable_calls(subscriber, 1);
	shared->result = (int32_t)result;
	shared->state = result == CUPTI_SUCCESS ? CUPTI_STATE_OPEN : CUPTI_STATE_FAILED;
	session_began_ns = now_ns();
	if (result == CUPTI_SUCCESS)
		measure(session, half_ns);
	enable_calls(subscriber, 0);
	cupti.unsubscribe(subscriber);
	if (shared->state == CUPTI_STATE_OPEN)
		shared->state = CUPTI_STATE_IDLE;
}

static uint32_t at_most(uint32_t value, uint32_t max)
{
	return value < max ? value : max;
}

static void begin_session(void)
{
	uint32_t wanted = shared->one_in;

	one_in = wanted ? wanted : 1;
	records_max = at_most(shared->records_max, CUPTI_RECORDS);
	atomic_store(&launches, 0);
	atomic_store(&gpu_kernels, 0);
	atomic_store(&gpu_kernel_ns, 0);
	atomic_store(&overhead_ns, 0);
	atomic_store(&record_count, 0);
	atomic_store(&dropped, 0);
	shared->baseline_ns = shared->baseline_launches = 0;
	shared->measured_ns = shared->measured_launches = 0;
	shared->enable_ns = shared->disable_ns = 0;
	shared->record_count = shared->name_count = 0;
	memset(shared->names, 0, sizeof(shared->names));
}

static void end_session(uint32_t session)
{
	shared->gpu_kernels = atomic_load(&gpu_kernels);
	shared->gpu_kernel_ns = atomic_load(&gpu_kernel_ns);
	shared->overhead_ns = atomic_load(&overhead_ns);
	shared->records_dropped = atomic_load(&dropped);
	shared->record_count = at_most(atomic_load(&record_count), records_max);
	__atomic_store_n(&shared->session_done, session, __ATOMIC_RELEASE);
}

static void *run(void *context)
{
	uint32_t done = 0;

	(void)context;
	for (;;) {
		uint32_t session = session_requested();

		if (session == done) {
			sleep_in(session, 0);
			continue;
		}
		begin_session();
		shared->state = CUPTI_STATE_IDLE;
		if (!shared->session_ms)
			; // the agent has cancelled the last one
		else if (load_cupti())
			subscribe_and_measure(session,
					      at_most(shared->session_ms, CUPTI_SESSION_MS_MAX) *
						      NS_PER_MS / 2);
		else
			shared->state = CUPTI_STATE_NO_LIBRARY;
		end_session(session);
		done = session;
	}
	return NULL;
}

// ---- loading --------------------------------------------------------------------------------

// Untouched pages take no memory.
static struct cupti_shared *make_shared(void)
{
	int fd = memfd_create(CUPTI_SHARED_NAME, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *memory = MAP_FAILED;

	if (fd < 0)
		return NULL;
	// Sealed: truncating it would kill the agent, which maps it, by SIGBUS.
	if (ftruncate(fd, sizeof(struct cupti_shared)) == 0 &&
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0)
		memory = mmap(NULL, sizeof(struct cupti_shared), PROT_READ | PROT_WRITE, MAP_SHARED,
			      fd, 0);
	close(fd);
	if (memory == MAP_FAILED)
		return NULL;
	madvise(memory, sizeof(struct cupti_shared), MADV_DONTFORK);
	return memory;
}

// With all signals blocked: the application's signals are for its own threads.
static int start_thread(void)
{
	sigset_t all, before;
	pthread_attr_t attributes;
	pthread_t thread;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attributes);
	pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	int rc = pthread_create(&thread, &attributes, run, NULL);
	if (!rc)
		pthread_setname_np(thread, "cairn-cupti");
	pthread_attr_destroy(&attributes);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

static int begin(void)
{
	struct cupti_shared *memory = make_shared();

	if (!memory)
		return -1;
	memory->version = CUPTI_SHARED_VERSION;
	memory->bytes = sizeof(*memory);
	shared = memory;
	if (start_thread())
		return -1;
	__atomic_store_n(&memory->magic, CUPTI_SHARED_MAGIC, __ATOMIC_RELEASE);
	return 0;
}

/** The driver calls this at cuInit(). Always 1, success: whatever fails here, the application runs on. */
int InitializeInjection(void);
__attribute__((visibility("default"))) int InitializeInjection(void)
{
	static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
	static pid_t process; // a forked child has neither the thread nor the memory

	pthread_mutex_lock(&once);
	if (process != getpid()) {
		process = getpid();
		begin();
	}
	pthread_mutex_unlock(&once);
	return 1;
}
