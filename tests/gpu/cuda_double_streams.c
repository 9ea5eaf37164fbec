// SPDX-License-Identifier: Apache-2.0
// Test equipment: streams and events of the double of libcuda.so.1, and waits for them.
#include "tests/gpu/cuda_double.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "tests/gpu/cuda_double_export.h"
#include "tests/gpu/cuda_double_state.h"

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000ULL + (uint64_t)now.tv_nsec;
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

struct stream *find_stream(CUstream handle)
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

CUstream own(CUstream handle)
{
	return handle ? handle : (CUstream)2;
}

/* The legacy stream and the blocking streams wait for each other. */
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

CUresult put(CUstream handle, uint64_t busy_ns)
{
	struct stream *stream = find_stream(handle);

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (stream->capture) {
		add_node(stream->capture, CU_GRAPH_NODE_TYPE_KERNEL, busy_ns);
		stream->is_unjoined = !stream->is_origin;
		return CUDA_SUCCESS;
	}
	stream->busy_until_ns = begin_ns(stream) + busy_ns;
	return CUDA_SUCCESS;
}

/* Called without the lock. Contexts spin by default. */
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

CUresult leave_and_wait(uint64_t done_ns)
{
	leave(CUDA_SUCCESS);
	wait_until(done_ns);
	return CUDA_SUCCESS;
}

CUresult wait_for_stream(CUstream handle)
{
	struct stream *stream = find_stream(handle);

	if (!stream)
		return leave(CUDA_ERROR_INVALID_HANDLE);
	if (stream->capture)
		return leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	return leave_and_wait(stream->busy_until_ns);
}

// ---- streams --------------------------------------------------------------------------------

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

uint64_t last_ns_of(const struct context *context)
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

/* A stream joins the capture in which an event was recorded, or waits for a stream that joined. */
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
