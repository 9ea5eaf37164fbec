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

/* Between two searches for processes with the helper. */
#define SEARCH_NS NS_PER_SECOND
/* A process that has just loaded the helper gets time to start. */
#define FIRST_NS (5 * NS_PER_SECOND)
/* CUPTI took more than 5 s to begin in some services. */
#define GRACE_NS (30 * NS_PER_SECOND)
/* A process whose launch rate drops by SLOWDOWN_MAX while GPU kernels are measured, in SLOWDOWNS consecutive sessions,
 * gets no more of them. One drop means little: on a busy machine two halves of a second differ by that much anyway. */
#define SLOWDOWN_MAX 0.10
#define SLOWDOWNS    3
/* Time that CUPTI takes to begin plus to end, outside of both halves of a session: it instruments code that is already
 * loaded, and launches wait meanwhile. The helper may just have waited for a CPU, so only STALLS consecutive stalls end
 * the sessions of a process, or a single one beyond STALL_NS_LIMIT. */
#define STALL_NS_MAX   (100 * NS_PER_MS)
#define STALL_NS_LIMIT NS_PER_SECOND
#define STALLS         3

struct session_process {
	struct process_key key;
	uint64_t due_ns;
	uint32_t one_in;
	uint32_t slowdowns, stalls; // in consecutive sessions
	bool is_off;                // gets no more sessions
	bool is_in_use_logged;
	bool is_there;
};

struct gpu_kernel_sessions {
	struct gpu_kernel_sessions_options options;
	struct session_process processes[GPU_KERNEL_PROCESSES_MAX];
	uint32_t count;
	uint64_t searched_ns, random;
	// The session that runs, or whose result is not in a profile yet.
	struct cupti_session *session;
	struct process_key of;
	uint64_t deadline_ns;
	bool has_result;
	struct cupti_result result;
	uint64_t cost_ns;
};

static void log_skipped(struct gpu_kernel_sessions *sessions, const struct process_key *key,
			const char *why)
{
	event_warn(sessions->options.events, "gpu kernels",
		   "GPU kernels not measured in process %u: %.150s; restart it to try again",
		   key->pid, why);
}

// ---- processes --------------------------------------------------------------------------------

static uint64_t random_below(struct gpu_kernel_sessions *sessions, uint64_t ns)
{
	sessions->random ^= sessions->random << 13;
	sessions->random ^= sessions->random >> 7;
	sessions->random ^= sessions->random << 17;
	return sessions->random % (ns + 1);
}

static struct session_process *find(struct gpu_kernel_sessions *sessions,
				    const struct process_key *key)
{
	for (uint32_t i = 0; i < sessions->count; i++) {
		if (memcmp(&sessions->processes[i].key, key, sizeof(*key)) == 0)
			return &sessions->processes[i];
	}
	return NULL;
}

static void note_process(void *context, const struct process_key *key)
{
	struct gpu_kernel_sessions *sessions = context;
	struct session_process *process = find(sessions, key);

	if (!process && sessions->count == GPU_KERNEL_PROCESSES_MAX)
		return;
	if (!process) {
		process = &sessions->processes[sessions->count++];
		*process =
			(struct session_process){ .key = *key, .one_in = GPU_KERNEL_ONE_IN_FIRST };
		process->due_ns = sessions->searched_ns + (sessions->options.period_ns < FIRST_NS
								   ? sessions->options.period_ns
								   : FIRST_NS);
	}
	process->is_there = true;
}

static void search(struct gpu_kernel_sessions *sessions, uint64_t now_ns)
{
	uint32_t kept = 0;

	sessions->searched_ns = now_ns;
	for (uint32_t i = 0; i < sessions->count; i++)
		sessions->processes[i].is_there = false;
	gpu_drivers_each_process(sessions->options.drivers, GPU_LIBRARY_HELPER, note_process,
				 sessions);
	for (uint32_t i = 0; i < sessions->count; i++) {
		if (sessions->processes[i].is_there)
			sessions->processes[kept++] = sessions->processes[i];
	}
	sessions->count = kept;
}

// ---- sessions ----------------------------------------------------------------------------------

static void end_session(struct gpu_kernel_sessions *sessions)
{
	cupti_session_free(take(sessions->session));
	cupti_result_deinit(&sessions->result);
	sessions->has_result = false;
}

/* Of a session that has no result. */
static void drop_sampled_launches(struct gpu_kernel_sessions *sessions)
{
	struct gpu_correlated_launch *launches = NULL;
	uint32_t count;

	if (!gpu_programs_take_sampled_launches(sessions->options.programs, &sessions->of,
						&launches, &count))
		free(launches);
}

static int begin_session(struct gpu_kernel_sessions *sessions,
			 const struct session_process *process,
			 const struct cupti_session_options *options, uint64_t now_ns,
			 struct error *err)
{
	int rc = cupti_session_find((pid_t)process->key.pid, &sessions->session, err);

	if (!rc)
		rc = cupti_session_begin(sessions->session, options);
	if (rc) {
		cupti_session_free(take(sessions->session));
		return rc;
	}
	sessions->of = process->key;
	sessions->deadline_ns = now_ns + options->session_ms * NS_PER_MS + GRACE_NS;
	return 0;
}

static void begin_due(struct gpu_kernel_sessions *sessions, struct session_process *process,
		      uint64_t now_ns)
{
	const struct cupti_session_options options = { .session_ms = GPU_KERNEL_SESSION_MS,
						       .records_max = CUPTI_RECORDS,
						       .one_in = process->one_in };
	struct error err = { 0 };
	int rc = begin_session(sessions, process, &options, now_ns, &err);

	// -EBUSY: another program's session runs; -ENOENT: a forked child, which has no helper thread.
	if (rc && rc != -EBUSY && rc != -ENOENT) {
		process->is_off = true;
		log_skipped(sessions, &process->key, err.text);
	}
}

static void begin_next(struct gpu_kernel_sessions *sessions, uint64_t now_ns)
{
	struct session_process *next = NULL;

	for (uint32_t i = 0; i < sessions->count; i++) {
		struct session_process *process = &sessions->processes[i];

		if (!process->is_off && (!next || process->due_ns < next->due_ns))
			next = process;
	}
	if (!next || now_ns < next->due_ns)
		return;
	begin_due(sessions, next, now_ns);
	// At random, so as not to lock on to anything periodic.
	next->due_ns = now_ns + sessions->options.period_ns / 2 +
		       random_below(sessions, sessions->options.period_ns);
}

static void begin_requested(struct gpu_kernel_sessions *sessions, uint64_t now_ns)
{
	struct gpu_kernel_request *request = sessions->options.request;
	struct error err = { 0 };

	for (uint32_t i = 0; request->may_begin && !request->is_over && i < sessions->count; i++) {
		if ((pid_t)sessions->processes[i].key.pid != request->pid)
			continue;
		request->rc = begin_session(sessions, &sessions->processes[i], &request->session,
					    now_ns, &err);
		request->has_begun = !request->rc;
		request->is_over = request->rc && request->rc != -EBUSY;
	}
}

// Both come from the process: their sum may overflow.
static uint64_t stall_ns(const struct cupti_result *result)
{
	uint64_t sum_ns = result->enable_ns + result->disable_ns;

	return sum_ns < result->enable_ns ? UINT64_MAX : sum_ns;
}

static void judge(struct gpu_kernel_sessions *sessions, struct session_process *process)
{
	const struct cupti_result *result = &sessions->result;
	char text[128];

	switch (result->state) {
	case CUPTI_STATE_IN_USE:
		if (!process->is_in_use_logged)
			log_skipped(sessions, &process->key,
				    "it uses CUPTI itself (torch.profiler, Nsight)");
		process->is_in_use_logged = true;
		return;
	case CUPTI_STATE_NO_LIBRARY:
		process->is_off = true;
		log_skipped(sessions, &process->key,
			    "it finds no libcupti.so.12 or 13; put one on its LD_LIBRARY_PATH");
		return;
	case CUPTI_STATE_FAILED:
		process->is_off = true;
		snprintf(text, sizeof(text), "CUPTI returned an error (CUptiResult %d)",
			 result->code);
		log_skipped(sessions, &process->key, text);
		return;
	case CUPTI_STATE_OVER_BUDGET:
		process->is_off = true;
		snprintf(text, sizeof(text),
			 "the helper exceeded its overhead budget (%d %% of a CPU)",
			 CUPTI_OVERHEAD_PERCENT_MAX);
		log_skipped(sessions, &process->key, text);
		return;
	default:
		break;
	}
	process->stalls = stall_ns(result) > STALL_NS_MAX ? process->stalls + 1 : 0;
	if (process->stalls >= STALLS || stall_ns(result) > STALL_NS_LIMIT) {
		process->is_off = true;
		snprintf(text, sizeof(text), "CUPTI stalled launches for %.0f ms (limit %llu)",
			 (double)stall_ns(result) / NS_PER_MS, STALL_NS_MAX / NS_PER_MS);
		log_skipped(sessions, &process->key, text);
		return;
	}
	uint64_t one_in = result->measured_launches / GPU_KERNEL_LAUNCHES_SAMPLED + 1;
	process->one_in = one_in < UINT32_MAX ? (uint32_t)one_in : UINT32_MAX;
	if (cupti_result_slowdown(result) <= SLOWDOWN_MAX)
		process->slowdowns = 0;
	else
		process->slowdowns++;
	if (process->slowdowns < SLOWDOWNS)
		return;
	process->is_off = true;
	snprintf(text, sizeof(text), "CUPTI slowed its launches by %.0f %% (limit %.0f)",
		 100 * cupti_result_slowdown(result), 100 * SLOWDOWN_MAX);
	log_skipped(sessions, &process->key, text);
}

static void end_request(struct gpu_kernel_sessions *sessions, int rc)
{
	if (!sessions->options.request)
		return;
	sessions->options.request->rc = rc;
	sessions->options.request->is_over = true;
}

static void take_result(struct gpu_kernel_sessions *sessions, uint64_t now_ns)
{
	struct session_process *process = find(sessions, &sessions->of);
	int rc = cupti_session_read(sessions->session, &sessions->result);

	if (rc == -EAGAIN && now_ns < sessions->deadline_ns && process)
		return;
	if (rc) { // the process ended, or its helper does not answer
		end_request(sessions, process ? -ETIMEDOUT : -ESRCH);
		if (process) {
			process->is_off = true;
			log_skipped(sessions, &process->key, "the helper does not answer");
		}
		end_session(sessions);
		drop_sampled_launches(sessions);
		return;
	}
	sessions->cost_ns += sessions->result.overhead_ns;
	end_request(sessions, 0);
	if (process)
		judge(sessions, process);
	cupti_session_free(take(sessions->session));
	sessions->has_result = true;
}

void gpu_kernel_sessions_tick(struct gpu_kernel_sessions *sessions, uint64_t now_ns)
{
	if (now_ns - sessions->searched_ns >= SEARCH_NS)
		search(sessions, now_ns);
	if (sessions->session)
		take_result(sessions, now_ns);
	else if (sessions->options.request)
		begin_requested(sessions, now_ns);
	else if (!sessions->has_result && sessions->count)
		begin_next(sessions, now_ns);
}

// ---- joining ----------------------------------------------------------------------------------

static int compare_correlation(const void *key, const void *item)
{
	uint32_t x = *(const uint32_t *)key,
		 y = ((const struct gpu_correlated_launch *)item)->correlation;

	return (x > y) - (x < y);
}

static int add_record(struct export_interval *interval, const struct cupti_record *record,
		      const struct gpu_sampled_launch *launch, const struct raw_frame *kernel)
{
	struct count_key key = {
		.process = launch->owner.process,
		.user = launch->owner.user,
		.user_leaf = *kernel,
		.slot = launch->slot,
		.kind = SAMPLE_KIND_GPU_KERNEL,
	};
	struct count count = { .value = record->duration_ns * launch->weight,
			       .samples = launch->weight };

	// Both come from the process: nothing runs longer than its session.
	if (record->duration_ns > CUPTI_SESSION_MS_MAX * NS_PER_MS || launch->weight > 1U << 20)
		return 0;
	memcpy(key.thread_name, launch->owner.thread_name, sizeof(key.thread_name));
	return export_interval_add(interval, &key, &count, clock_monotonic_ns());
}

static int join(struct gpu_kernel_sessions *sessions, struct export_interval *interval,
		const struct gpu_correlated_launch *launches, uint32_t launch_count)
{
	const struct cupti_result *result = &sessions->result;
	_cleanup_free_ struct raw_frame *kernels = calloc(result->name_count + 1, sizeof(*kernels));
	int rc = kernels ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < result->name_count && !rc; i++)
		kernels[i] = gpu_programs_frame(sessions->options.programs, result->names[i]);
	for (uint32_t i = 0; i < result->record_count && launch_count && !rc; i++) {
		const struct cupti_record *record = &result->records[i];
		const struct gpu_correlated_launch *launch =
			bsearch(&record->correlation, launches, launch_count, sizeof(*launches),
				compare_correlation);

		// NULL: launched before the session, or dropped because the map was full.
		if (launch)
			rc = add_record(interval, record, &launch->launch, &kernels[record->name]);
	}
	return rc;
}

int gpu_kernel_sessions_after_drain(struct gpu_kernel_sessions *sessions,
				    struct export_interval *interval)
{
	_cleanup_free_ struct gpu_correlated_launch *launches = NULL;
	uint32_t count = 0;

	if (!sessions->has_result)
		return 0;
	int rc = gpu_programs_take_sampled_launches(sessions->options.programs, &sessions->of,
						    &launches, &count);
	if (!rc)
		rc = join(sessions, interval, launches, count);
	if (sessions->options.request) {
		sessions->options.request->result = sessions->result;
		sessions->result = (struct cupti_result){ 0 };
	}
	end_session(sessions);
	return rc;
}

// ---- public -----------------------------------------------------------------------------------

struct gpu_kernel_sessions *gpu_kernel_sessions_new(
	const struct gpu_kernel_sessions_options *options)
{
	struct gpu_kernel_sessions *sessions = calloc(1, sizeof(*sessions));

	if (!sessions)
		return NULL;
	sessions->options = *options;
	if (!sessions->options.period_ns)
		sessions->options.period_ns = GPU_KERNEL_PERIOD_NS;
	sessions->random = clock_monotonic_ns() | 1;
	return sessions;
}

void gpu_kernel_sessions_free(struct gpu_kernel_sessions *sessions)
{
	if (!sessions)
		return;
	end_session(sessions);
	free(sessions);
}

uint64_t gpu_kernel_sessions_cost_ns(const struct gpu_kernel_sessions *sessions)
{
	return sessions->cost_ns;
}
