// SPDX-License-Identifier: Apache-2.0
#include "cli/gpu_kernel_stacks.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "agent/gpu/gpu_kernel_sessions.h"
#include "agent/sources/source.h"
#include "agent/profiler.h"
#include "base/cache_folder.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/utf8.h"
#include "cli/printable_text.h"
#include "cli/profiler_events.h"
#include "cli/profiler_wait.h"

enum {
	FREQUENCY_HZ = 99,
	SHOWN_STACKS_MAX = 3,   // of one GPU kernel
	LIBRARY_FRAMES_MAX = 8, // in a row, between Python frames
	PYTHON_FRAMES_MAX = 16, // innermost ones
};

#define POLL_NS (100 * NS_PER_MS)
#define SETTLE_NS \
	NS_PER_SECOND // until the first samples have named the unwind tables that are needed
/* PyTorch's unwind tables take some seconds to compile. */
#define READY_NS_MAX (20 * NS_PER_SECOND)
/* Covers the process's next CPU sample, and a session of an agent that still runs. */
#define BEGIN_NS_MAX (READY_NS_MAX + 10 * NS_PER_SECOND)

// ---- measuring ------------------------------------------------------------------------------

static bool is_ready(const struct profiler *profiler, uint64_t elapsed_ns)
{
	struct profiler_stats stats;

	profiler_read_stats(profiler, &stats);
	return elapsed_ns >= READY_NS_MAX ||
	       (elapsed_ns >= SETTLE_NS && stats.unwind.processes && !stats.unwind.tables_pending);
}

static int fail_late(struct event_log *events, const struct gpu_kernel_request *request,
		     struct error *err)
{
	char reason[ERROR_TEXT_BYTES] = "try without --stacks";

	if (request->rc == -EBUSY)
		return error_set(err, -EBUSY, "another CUPTI session runs in process %d; try again",
				 (int)request->pid);
	profiler_events_take_last(events, reason, sizeof(reason));
	return error_set(err, -ETIMEDOUT,
			 "process %d used no CPU, or its launches cannot be probed: %.150s",
			 (int)request->pid, reason);
}

static int wait_for_session(struct profiler *profiler, struct event_log *events,
			    struct gpu_kernel_request *request, struct error *err)
{
	uint64_t begin_ns = clock_monotonic_ns();
	int rc = 0;

	while (!rc && !request->is_over) {
		uint64_t elapsed_ns = clock_monotonic_ns() - begin_ns;

		if (!request->has_begun && elapsed_ns > BEGIN_NS_MAX)
			return fail_late(events, request, err);
		request->may_begin = request->may_begin || is_ready(profiler, elapsed_ns);
		rc = profiler_wait(profiler, begin_ns + elapsed_ns + POLL_NS, NULL, 0, err);
	}
	if (rc)
		return rc;
	return request->rc ? error_errno(err, request->rc, "no result from the CUPTI helper") : 0;
}

int gpu_kernel_stacks_measure(pid_t pid, const struct cupti_session_options *options,
			      struct cupti_result *ret_result, struct profile **ret_profile,
			      struct error *err)
{
	struct gpu_kernel_request request = { .pid = pid, .session = *options };
	_cleanup_(event_log_freep) struct event_log *events = event_log_new();
	struct profiler *profiler = NULL;
	char folder[PATH_MAX];
	bool has_folder = cache_folder_default(folder, sizeof(folder)) == 0;
	const struct profiler_options profiler_options = {
		.cache_folder = has_folder ? folder : NULL,
		.frequency_hz = FREQUENCY_HZ,
		.slot_ns = NS_PER_SECOND,
		.pid = pid,
		.sources = SOURCE_GPU_CALLS,
		.gpu_kernel_request = &request,
		.events = events,
	};
	int rc = events ? profiler_open(&profiler_options, &profiler, err)
			: error_set(err, -ENOMEM, "out of memory");

	if (!rc)
		rc = wait_for_session(profiler, events, &request, err);
	if (!rc)
		rc = profiler_drain(profiler, ret_profile, err);
	profiler_close(profiler);
	if (rc)
		cupti_result_deinit(&request.result);
	else
		*ret_result = request.result;
	return rc;
}

// ---- printing -------------------------------------------------------------------------------

static bool is_of_kernels(const struct profile *profile, const struct sample *sample)
{
	uint32_t type = profile->series[sample->series].type;

	return strcmp(profile_string(profile, type), PROFILE_TYPE_GPU_KERNEL) == 0;
}

int64_t gpu_kernel_stacks_sum(const struct profile *profile)
{
	int64_t sum = 0;

	for (uint32_t i = 0; i < profile->sample_count; i++) {
		if (is_of_kernels(profile, &profile->samples[i]))
			sum += profile->samples[i].value;
	}
	return sum;
}

static const struct location *location_at(const struct profile *profile, const struct stack *stack,
					  uint32_t at)
{
	return &profile->locations[profile->stack_locations[stack->first_location + at]];
}

static bool is_kernels_stack(const struct profile *profile, const struct stack *stack,
			     const char *kernel)
{
	char name[FUNCTION_NAME_BYTES];

	if (!stack->location_count)
		return false;
	location_display_name(profile, location_at(profile, stack, 0), 0, name, sizeof(name));
	return strncmp(name, kernel, sizeof(name) - 1) == 0;
}

/* Each stack's time, by its number. */
static int64_t *sum_stacks(const struct profile *profile, const char *kernel, int64_t *ret_total)
{
	int64_t *sums = calloc(profile->stack_count + 1, sizeof(*sums));

	*ret_total = 0;
	for (uint32_t i = 0; sums && i < profile->sample_count; i++) {
		const struct sample *sample = &profile->samples[i];

		if (!is_of_kernels(profile, sample) ||
		    !is_kernels_stack(profile, &profile->stacks[sample->stack], kernel))
			continue;
		sums[sample->stack] += sample->value;
		*ret_total += sample->value;
	}
	return sums;
}

static uint32_t largest_of(const int64_t *sums, uint32_t count)
{
	uint32_t largest = 0;

	for (uint32_t i = 1; i < count; i++) {
		if (sums[i] > sums[largest])
			largest = i;
	}
	return largest;
}

static void print_frame(const struct profile *profile, const struct location *location,
			FILE *stream)
{
	char name[FUNCTION_NAME_BYTES];
	uint32_t line = 0;

	do {
		location_display_name(profile, location, line, name, sizeof(name));
		utf8_clean(name);
		fprintf(stream, "             %s\n", name);
	} while (++line < location->line_count);
}

static void print_left_out(uint32_t library, FILE *stream)
{
	if (library > LIBRARY_FRAMES_MAX)
		fprintf(stream, "             ... (%u more in libraries)\n",
			library - LIBRARY_FRAMES_MAX);
}

// Frames outside of the outermost Python function only start the interpreter: leave them out.
static uint32_t shown_count(const struct profile *profile, const struct stack *stack)
{
	for (uint32_t count = stack->location_count; count > 1; count--) {
		if (location_at(profile, stack, count - 1)->kind == FRAME_KIND_PYTHON)
			return count;
	}
	return stack->location_count;
}

// A library has dozens of frames between a Python line and the driver; the line is what matters.
static void print_stack(const struct profile *profile, const struct stack *stack, FILE *stream)
{
	uint32_t count = shown_count(profile, stack), library = 0, python = 0;

	for (uint32_t at = 1; at < count; at++) { // the first one is the kernel
		const struct location *location = location_at(profile, stack, at);

		if (location->kind != FRAME_KIND_PYTHON) {
			if (++library <= LIBRARY_FRAMES_MAX)
				print_frame(profile, location, stream);
			continue;
		}
		print_left_out(library, stream);
		library = 0;
		if (++python > PYTHON_FRAMES_MAX) {
			fprintf(stream, "             ...\n");
			return;
		}
		print_frame(profile, location, stream);
	}
	print_left_out(library, stream);
	if (stack->end != STACK_END_COMPLETE)
		fprintf(stream, "             [truncated: %s]\n", stack_end_name(stack->end));
}

void gpu_kernel_stacks_print(const struct profile *profile, const char *kernel, FILE *stream)
{
	int64_t total = 0;
	_cleanup_free_ int64_t *sums = sum_stacks(profile, kernel, &total);

	if (!sums)
		return;
	if (!total)
		fprintf(stream, "         no launch seen\n");
	for (int i = 0; i < SHOWN_STACKS_MAX; i++) {
		uint32_t stack = largest_of(sums, profile->stack_count);

		if (sums[stack] <= 0)
			break;
		fprintf(stream, "         %.0f %% of it launched by (innermost call first):\n",
			100.0 * (double)sums[stack] / (double)total);
		print_stack(profile, &profile->stacks[stack], stream);
		sums[stack] = 0;
	}
}
