// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_kernel_sessions.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/gpu/cupti_session.h"
#include "base/cleanup.h"
#include "base/clock.h"

/* Between two looks at which processes there are. */
#define LOOK_NS NS_PER_SECOND
/* A process that has just loaded the helper is left to start. */
#define FIRST_NS (5 * NS_PER_SECOND)
/* CUPTI took more than 5 s to begin on some services. */
#define GRACE_NS (30 * NS_PER_SECOND)
/* By so much fewer launches while kernels were measured, in so many windows one after the other: then there are no
 * more. One says little: on a crowded machine halves of a second differ more than that by themselves. */
#define SLOWDOWN_MAX 0.10
#define SLOWDOWNS    3
/* To begin and to end, in all: CUPTI instruments code that is loaded already, and launches wait for that. It is in
 * neither half of the window. The helper may have waited for a CPU meanwhile, so it must be so in as many windows one
 * after the other, unless it is very long. */
#define HALT_NS_MAX (100 * NS_PER_MS)
#define HALT_NS_FAR NS_PER_SECOND
#define HALTS       3

struct watched {
	struct process_key key;
	uint64_t due_ns;
	uint32_t one_in;
	uint32_t slowdowns, halts; // in windows one after the other
	bool is_off;               // no more windows
	bool is_aside_told;        // that it uses CUPTI itself
	bool is_there;
};

struct gpu_kernel_sessions {
	struct gpu_kernel_sessions_options options;
	struct watched watched[KERNEL_PROCESSES_MAX];
	uint32_t count;
	uint64_t looked_ns, random;
	// The window that is open, or whose answer is not in a profile yet.
	struct cupti_session *window;
	struct process_key of;
	uint64_t given_up_ns;
	bool has_result;
	struct cupti_result result;
	uint64_t cost_ns;
};

static void say(struct gpu_kernel_sessions *windows, const struct process_key *key,
		const char *what)
{
	event_warn(windows->options.events, "gpu kernels", "process %u is not measured: %.150s",
		   key->pid, what);
}

// ---- processes --------------------------------------------------------------------------------

static uint64_t some_of(struct gpu_kernel_sessions *windows, uint64_t ns)
{
	windows->random ^= windows->random << 13;
	windows->random ^= windows->random >> 7;
	windows->random ^= windows->random << 17;
	return windows->random % (ns + 1);
}

static struct watched *find(struct gpu_kernel_sessions *windows, const struct process_key *key)
{
	for (uint32_t i = 0; i < windows->count; i++) {
		if (memcmp(&windows->watched[i].key, key, sizeof(*key)) == 0)
			return &windows->watched[i];
	}
	return NULL;
}

static void take_process(void *context, const struct process_key *key)
{
	struct gpu_kernel_sessions *windows = context;
	struct watched *watched = find(windows, key);

	if (!watched && windows->count == KERNEL_PROCESSES_MAX)
		return;
	if (!watched) {
		watched = &windows->watched[windows->count++];
		*watched = (struct watched){ .key = *key, .one_in = KERNEL_ONE_IN_FIRST };
		watched->due_ns = windows->looked_ns + (windows->options.period_ns < FIRST_NS
								? windows->options.period_ns
								: FIRST_NS);
	}
	watched->is_there = true;
}

static void look(struct gpu_kernel_sessions *windows, uint64_t now_ns)
{
	uint32_t kept = 0;

	windows->looked_ns = now_ns;
	for (uint32_t i = 0; i < windows->count; i++)
		windows->watched[i].is_there = false;
	gpu_drivers_each_process(windows->options.drivers, GPU_LIBRARY_HELPER, take_process,
				 windows);
	for (uint32_t i = 0; i < windows->count; i++) {
		if (windows->watched[i].is_there)
			windows->watched[kept++] = windows->watched[i];
	}
	windows->count = kept;
}

// ---- windows ----------------------------------------------------------------------------------

static void end_window(struct gpu_kernel_sessions *windows)
{
	cupti_session_free(take(windows->window));
	cupti_result_deinit(&windows->result);
	windows->has_result = false;
}

/* Launches that nobody will ask for any more. */
static void forget_told(struct gpu_kernel_sessions *windows)
{
	struct gpu_told *told = NULL;
	uint32_t count;

	if (!gpu_programs_take_told(windows->options.programs, &windows->of, &told, &count))
		free(told);
}

static int open_window(struct gpu_kernel_sessions *windows, const struct watched *watched,
		       const struct cupti_session_options *options, uint64_t now_ns,
		       struct error *err)
{
	int rc = cupti_session_find((pid_t)watched->key.pid, &windows->window, err);

	if (!rc)
		rc = cupti_session_ask(windows->window, options);
	if (rc) {
		cupti_session_free(take(windows->window));
		return rc;
	}
	windows->of = watched->key;
	windows->given_up_ns = now_ns + options->window_ms * NS_PER_MS + GRACE_NS;
	return 0;
}

static void open_due(struct gpu_kernel_sessions *windows, struct watched *watched, uint64_t now_ns)
{
	const struct cupti_session_options options = { .window_ms = KERNEL_WINDOW_MS,
						       .records_max = CUPTI_RECORDS,
						       .one_in = watched->one_in };
	struct error err = { 0 };
	int rc = open_window(windows, watched, &options, now_ns, &err);

	// Another one's window is open; or the child of a fork, which has none.
	if (rc && rc != -EBUSY && rc != -ENOENT) {
		watched->is_off = true;
		say(windows, &watched->key, err.text);
	}
}

static void open_next(struct gpu_kernel_sessions *windows, uint64_t now_ns)
{
	struct watched *next = NULL;

	for (uint32_t i = 0; i < windows->count; i++) {
		struct watched *watched = &windows->watched[i];

		if (!watched->is_off && (!next || watched->due_ns < next->due_ns))
			next = watched;
	}
	if (!next || now_ns < next->due_ns)
		return;
	open_due(windows, next, now_ns);
	// Never in step with what the process does.
	next->due_ns = now_ns + windows->options.period_ns / 2 +
		       some_of(windows, windows->options.period_ns);
}

static void open_requested(struct gpu_kernel_sessions *windows, uint64_t now_ns)
{
	struct gpu_kernel_request *request = windows->options.request;
	struct error err = { 0 };

	for (uint32_t i = 0; request->may_open && !request->is_over && i < windows->count; i++) {
		if ((pid_t)windows->watched[i].key.pid != request->pid)
			continue;
		request->rc =
			open_window(windows, &windows->watched[i], &request->window, now_ns, &err);
		request->is_open = !request->rc;
		request->is_over = request->rc && request->rc != -EBUSY;
	}
}

/* So many launches are told of in the next window as are cheap. */
static uint32_t choose_one_in(const struct cupti_result *result)
{
	uint64_t one_in = result->measured_launches / KERNEL_LAUNCHES_TOLD + 1;

	return one_in < UINT32_MAX ? (uint32_t)one_in : UINT32_MAX;
}

// Both are the process's word, and their sum need not fit.
static uint64_t halt_ns(const struct cupti_result *result)
{
	uint64_t sum_ns = result->enable_ns + result->disable_ns;

	return sum_ns < result->enable_ns ? UINT64_MAX : sum_ns;
}

static void judge(struct gpu_kernel_sessions *windows, struct watched *watched)
{
	const struct cupti_result *result = &windows->result;
	char text[128];

	switch (result->state) {
	case CUPTI_STATE_ASIDE:
		if (!watched->is_aside_told)
			say(windows, &watched->key, "it uses CUPTI itself just now");
		watched->is_aside_told = true;
		return;
	case CUPTI_STATE_ABSENT:
		watched->is_off = true;
		say(windows, &watched->key, "it finds no libcupti.so.12 or 13");
		return;
	case CUPTI_STATE_FAILED:
		watched->is_off = true;
		snprintf(text, sizeof(text), "CUPTI refused (CUptiResult %d)", result->code);
		say(windows, &watched->key, text);
		return;
	case CUPTI_STATE_DEAR:
		watched->is_off = true;
		say(windows, &watched->key, "the helper took more than 1 % of a CPU");
		return;
	default:
		break;
	}
	watched->halts = halt_ns(result) > HALT_NS_MAX ? watched->halts + 1 : 0;
	if (watched->halts >= HALTS || halt_ns(result) > HALT_NS_FAR) {
		watched->is_off = true;
		snprintf(text, sizeof(text), "CUPTI took %.0f ms to begin and to end",
			 (double)halt_ns(result) / NS_PER_MS);
		say(windows, &watched->key, text);
		return;
	}
	watched->one_in = choose_one_in(result);
	if (cupti_result_slowdown(result) <= SLOWDOWN_MAX)
		watched->slowdowns = 0;
	else
		watched->slowdowns++;
	if (watched->slowdowns < SLOWDOWNS)
		return;
	watched->is_off = true;
	snprintf(text, sizeof(text), "it launched %.0f %% less meanwhile",
		 100 * cupti_result_slowdown(result));
	say(windows, &watched->key, text);
}

static void end_request(struct gpu_kernel_sessions *windows, int rc)
{
	if (!windows->options.request)
		return;
	windows->options.request->rc = rc;
	windows->options.request->is_over = true;
}

static void take_result(struct gpu_kernel_sessions *windows, uint64_t now_ns)
{
	struct watched *watched = find(windows, &windows->of);
	int rc = cupti_session_read(windows->window, &windows->result);

	if (rc == -EAGAIN && now_ns < windows->given_up_ns && watched)
		return;
	if (rc) { // it has ended, or does not answer
		end_request(windows, watched ? -ETIMEDOUT : -ESRCH);
		if (watched) {
			watched->is_off = true;
			say(windows, &watched->key, "the helper does not answer");
		}
		end_window(windows);
		forget_told(windows);
		return;
	}
	windows->cost_ns += windows->result.own_ns;
	end_request(windows, 0);
	if (watched)
		judge(windows, watched);
	cupti_session_free(take(windows->window));
	windows->has_result = true;
}

void gpu_kernel_sessions_tick(struct gpu_kernel_sessions *windows, uint64_t now_ns)
{
	if (now_ns - windows->looked_ns >= LOOK_NS)
		look(windows, now_ns);
	if (windows->window)
		take_result(windows, now_ns);
	else if (windows->options.request)
		open_requested(windows, now_ns);
	else if (!windows->has_result && windows->count)
		open_next(windows, now_ns);
}

// ---- joining ----------------------------------------------------------------------------------

static int compare_number(const void *key, const void *item)
{
	uint32_t x = *(const uint32_t *)key, y = ((const struct gpu_told *)item)->number;

	return (x > y) - (x < y);
}

static int add_record(struct export_interval *window, const struct cupti_record *record,
		      const struct gpu_told *told, const struct raw_frame *kernel)
{
	const struct gpu_told_launch *launch = &told->launch;
	struct count_key key = {
		.process = launch->owner.process,
		.user = launch->owner.user,
		.user_leaf = *kernel,
		.slot = launch->slot,
		.kind = SAMPLE_KIND_GPU_KERNEL,
	};
	struct count count = { .value = record->duration_ns * launch->weight,
			       .samples = launch->weight };

	// Both come from the process: what is longer than its window is none.
	if (record->duration_ns > CUPTI_SESSION_MS_MAX * NS_PER_MS || launch->weight > 1U << 20)
		return 0;
	memcpy(key.thread_name, launch->owner.thread_name, sizeof(key.thread_name));
	return export_interval_add(window, &key, &count, clock_monotonic_ns());
}

static int join(struct gpu_kernel_sessions *windows, struct export_interval *window,
		const struct gpu_told *told, uint32_t told_count)
{
	const struct cupti_result *result = &windows->result;
	_cleanup_free_ struct raw_frame *kernels = calloc(result->name_count + 1, sizeof(*kernels));
	int rc = kernels ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < result->name_count && !rc; i++)
		kernels[i] = gpu_programs_frame(windows->options.programs, result->names[i]);
	for (uint32_t i = 0; i < result->record_count && told_count && !rc; i++) {
		const struct cupti_record *record = &result->records[i];
		const struct gpu_told *launch = bsearch(&record->correlation, told, told_count,
							sizeof(*told), compare_number);

		// A launch before the window's, or one that there was no room for.
		if (launch)
			rc = add_record(window, record, launch, &kernels[record->name]);
	}
	return rc;
}

int gpu_kernel_sessions_after_drain(struct gpu_kernel_sessions *windows,
				    struct export_interval *window)
{
	_cleanup_free_ struct gpu_told *told = NULL;
	uint32_t count = 0;

	if (!windows->has_result)
		return 0;
	int rc = gpu_programs_take_told(windows->options.programs, &windows->of, &told, &count);
	if (!rc)
		rc = join(windows, window, told, count);
	if (windows->options.request) {
		windows->options.request->result = windows->result;
		windows->result = (struct cupti_result){ 0 };
	}
	end_window(windows);
	return rc;
}

// ---- public -----------------------------------------------------------------------------------

struct gpu_kernel_sessions *gpu_kernel_sessions_new(
	const struct gpu_kernel_sessions_options *options)
{
	struct gpu_kernel_sessions *windows = calloc(1, sizeof(*windows));

	if (!windows)
		return NULL;
	windows->options = *options;
	if (!windows->options.period_ns)
		windows->options.period_ns = KERNEL_PERIOD_NS;
	windows->random = clock_monotonic_ns() | 1;
	return windows;
}

void gpu_kernel_sessions_free(struct gpu_kernel_sessions *windows)
{
	if (!windows)
		return;
	end_window(windows);
	free(windows);
}

uint64_t gpu_kernel_sessions_cost_ns(const struct gpu_kernel_sessions *windows)
{
	return windows->cost_ns;
}
