// SPDX-License-Identifier: Apache-2.0
#include "agent/profiler.h"

#include <errno.h>
#include <poll.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "agent/bpf/loader.h"
#include "agent/bpf/mmap_events.h"
#include "agent/bpf/perf_events.h"
#include "agent/overhead/budget_source.h"
#include "agent/profiler_state.h"
#include "agent/sources/sources.h"
#include "agent/stacks/held_counts.h"
#include "agent/stacks/location_table.h"
#include "agent/stacks/series_quota.h"
#include "agent/stacks/stack_table.h"
#include "agent/symbols/executable_symbols.h"
#include "agent/symbols/kallsyms.h"
#include "agent/symbols/source_line_reader.h"
#include "base/clock.h"

enum {
	SWEEP_INTERVALS = 12, // export intervals between two sweeps of unused locations: a minute
};

/* Between two comparisons of the wall clock with the monotonic one. */
#define CLOCK_INTERVAL_NS NS_PER_SECOND
/* Between two checks of the count maps: ticks of a loaded machine come late, too. */
#define COUNTS_INTERVAL_NS (250 * NS_PER_MS)
/* Lines requested in an export interval are there in the next one. */
#define LINES_INTERVAL_NS (250 * NS_PER_MS)
/* When sampling stops, snapshots wait so long for their unwind tables. */
#define STOP_WAIT_NS (500 * NS_PER_MS)
/* Counts of this export interval and the one before may still be of an exited process. */
#define EXITED_KEPT_NS (30 * NS_PER_SECOND)

// ---- records --------------------------------------------------------------------------------

static void on_stack(void *context, const struct stack_record *record)
{
	struct profiler *profiler = context;

	// Table full: the BPF programs send it again with the next sample.
	if (stack_reader_add(&profiler->reader, record) < 0)
		loader_drop_stack(profiler->loader, &record->trace.hash);
}

static void on_process(void *context, const struct process_record *record)
{
	struct profiler *profiler = context;

	sources_take_process(profiler->sources, record);
	process_table_apply(profiler->processes, record);
	process_unwind_apply(profiler->unwinds, record);
}

// A pair whose stacks did not arrive is sent again, too.
static void on_wake(void *context, const struct wake_record *record)
{
	struct profiler *profiler = context;

	if (stack_reader_add_off_wake(&profiler->reader, record) < 0)
		loader_drop_stack(profiler->loader, &record->joined);
}

static void on_snapshot(void *context, const struct snapshot_record *record)
{
	struct profiler *profiler = context;

	snapshot_queue_add(profiler->snapshots, record);
}

static void read_mmaps(struct profiler *profiler)
{
	process_table_read_mmaps(profiler->processes);
	process_unwind_refresh(profiler->unwinds);
}

static int read_records(struct profiler *profiler, struct error *err)
{
	struct record_handlers handlers = {
		.stack = on_stack,
		.process = on_process,
		.wake = on_wake,
		.snapshot = profiler->snapshots ? on_snapshot : NULL,
		.context = profiler,
	};

	// The mappings of a stack are older than the stack.
	read_mmaps(profiler);
	return loader_read_records(profiler->loader, &handlers, err);
}

// ---- clocks -----------------------------------------------------------------------------------

void profiler_set_clock(struct profiler *profiler)
{
	// Monotonic before and after: that halves the error of a preemption between.
	uint64_t before_ns = clock_monotonic_ns();
	uint64_t realtime_ns = clock_realtime_ns();
	uint64_t after_ns = clock_monotonic_ns();

	loader_set_clock_offset(profiler->loader,
				realtime_ns - (before_ns + (after_ns - before_ns) / 2));
}

int profiler_set_frequency(void *context, uint32_t frequency_hz)
{
	struct profiler *profiler = context;

	if (profiler->events)
		perf_events_set_frequency(profiler->events, frequency_hz);
	return 0;
}

// ---- counts ---------------------------------------------------------------------------------

struct count_drain {
	struct export_interval *interval;
	struct process_unwinds *unwinds;
	struct sources *sources;
	uint64_t now_ns;
};

static int on_count(void *context, const struct count_key *key, const struct count *count)
{
	struct count_drain *drain = context;

	process_unwind_use(drain->unwinds, &key->process);
	sources_take_count(drain->sources, key, count);
	return export_interval_add(drain->interval, key, count, drain->now_ns);
}

// The kernel side has had its part of them.
static int on_held_count(void *context, const struct count_key *key, const struct count *count)
{
	struct count_drain *drain = context;

	return export_interval_add(drain->interval, key, count, drain->now_ns);
}

static uint64_t read_new_counts(const struct profiler *profiler)
{
	uint64_t counters[COUNTER_COUNT];

	loader_read_counters(profiler->loader, counters);
	return counters[COUNTER_COUNTS_NEW];
}

// Stacks are read after the swap: those of all counts in the old map were sent before it.
static int drain_counts(struct profiler *profiler, struct error *err)
{
	struct count_drain drain = { .interval = &profiler->interval,
				     .unwinds = profiler->unwinds,
				     .sources = profiler->sources };
	int rc;

	sources_before_drain(profiler->sources); // what fails is counted in the next interval
	profiler->counts_before = read_new_counts(profiler);
	rc = loader_swap_counts(profiler->loader, err);
	if (!rc)
		rc = read_records(profiler, err);
	drain.now_ns = clock_monotonic_ns();
	if (!rc && profiler->held && held_counts_release(profiler->held, on_held_count, &drain))
		rc = error_set(err, -ENOMEM, "out of memory");
	return rc ? rc : loader_drain_counts(profiler->loader, on_count, &drain, err);
}

// A caller who drains late loses no samples: the interval grows in our memory instead.
static void watch_counts(struct profiler *profiler)
{
	if (read_new_counts(profiler) - profiler->counts_before >= profiler->counts_max / 2)
		drain_counts(profiler, NULL); // after a failure the next drain tries again
}

static void drop_stack(void *context, const struct stack_hash *hash)
{
	struct profiler *profiler = context;

	loader_drop_stack(profiler->loader, hash);
}

static void mark_stack(void *context, const struct known_stack *stack)
{
	for (uint32_t i = 0; i < stack->count; i++)
		location_table_mark(context, stack->locations[i]);
}

static bool is_known_process(void *processes, const struct process_key *process)
{
	return process_table_find(processes, process) != NULL;
}

// Each table's work of an export interval to stay within its limits.
static void expire(struct profiler *profiler)
{
	stack_table_expire(profiler->stacks, clock_monotonic_ns(), drop_stack, profiler);
	if (++profiler->intervals % SWEEP_INTERVALS == 0 ||
	    location_table_count(profiler->locations) > LOCATIONS_MAX / 2) {
		stack_table_each(profiler->stacks, mark_stack, profiler->locations);
		location_table_sweep(profiler->locations);
	}
	unsymbolized_stacks_retry(&profiler->reader.unsymbolized, profiler->processes, drop_stack,
				  profiler);
	python_code_cache_expire(profiler->python_codes);
	process_unwind_expire(profiler->unwinds);
	process_table_expire(profiler->processes, EXITED_KEPT_NS);
	if (profiler->identities && profiler->intervals % SWEEP_INTERVALS == 1)
		identity_cache_save(profiler->identities); // what cannot be written is hashed again
	if (profiler->quota)
		series_quota_expire(profiler->quota, clock_monotonic_ns(), is_known_process,
				    profiler->processes);
	executable_table_trim(profiler->executables);
}

struct export_interval_sources profiler_interval_sources(const struct profiler *profiler)
{
	return (struct export_interval_sources){
		.frames = profiler->reader.frames,
		.stacks = profiler->stacks,
		.wait_classes = profiler->wait_classes,
		.quota = profiler->quota,
		.held = profiler->held,
		.folds_thread_names = profiler->folds_thread_names,
	};
}

int profiler_drain(struct profiler *profiler, struct profile **ret_profile, struct error *err)
{
	struct export_interval_sources sources = profiler_interval_sources(profiler);
	uint64_t begin_ns = clock_monotonic_ns(), to_ns = clock_realtime_ns();
	struct export_interval next;
	int rc = drain_counts(profiler, err);

	if (rc)
		return rc;
	rc = sources_after_drain(profiler->sources, &profiler->interval);
	if (!rc && profiler->add_series)
		rc = profiler->add_series(profiler->context, &profiler->interval);
	if (rc)
		return error_errno(err, rc, "series without stacks were not added");
	if (export_interval_init(&next, &sources, profiler->slot_ns, to_ns) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	struct profile *profile = export_interval_finish(&profiler->interval, to_ns);
	if (!profile) {
		export_interval_deinit(&next);
		return error_set(err, -ENOMEM, "out of memory");
	}
	*ret_profile = profile;
	profiler->stacks_lost += profiler->interval.stacks_lost;
	profiler->threads_other += profiler->interval.threads_other;
	profiler->series_other += profiler->interval.series_other;
	profiler->unspread += profiler->interval.unspread;
	profiler->excluded += profiler->interval.excluded;
	export_interval_deinit(&profiler->interval);
	profiler->interval = next;
	expire(profiler);
	profiler->drain_ns = clock_monotonic_ns() - begin_ns;
	return 0;
}

// ---- run ------------------------------------------------------------------------------------

int profiler_fd(const struct profiler *profiler)
{
	return profiler->epoll_fd;
}

int profiler_read(struct profiler *profiler, struct error *err)
{
	uint64_t expirations;

	// Missed expirations come as one.
	if (read(profiler->timer_fd, &expirations, sizeof(expirations)) > 0)
		profiler_tick(profiler);
	if (profiler->mmaps && mmap_events_woken(profiler->mmaps, clock_monotonic_ns()))
		read_mmaps(profiler);
	process_unwind_read(profiler->unwinds);
	if (profiler->snapshots)
		snapshot_queue_unwind_ready(profiler->snapshots);
	return read_records(profiler, err);
}

// ---- ticks ----------------------------------------------------------------------------------

/* What a dead file server costs: its files have no symbols. */
static void report_hung_opens(struct profiler *profiler)
{
	struct slow_open_stats opens;

	slow_open_read_stats(&opens);
	if (opens.hung == profiler->hung_opens)
		return;
	profiler->hung_opens = opens.hung;
	if (!opens.device) // slow, not hung: no file system is left alone
		return;
	event_warn(profiler->event_log, "files",
		   "file system %u:%u does not answer: its files have no symbols and unwind tables "
		   "until it does (%u opens hang, limit %d); look it up in /proc/PID/mountinfo",
		   major(opens.device), minor(opens.device), opens.threads, SLOW_OPENS_MAX);
}

void profiler_tick(struct profiler *profiler)
{
	uint64_t now_ns = clock_monotonic_ns();

	if (!profiler->events)
		return;
	if (profiler->snapshots)
		snapshot_queue_unwind_ready(profiler->snapshots);
	if (now_ns >= perf_events_due_ns(profiler->events)) {
		perf_events_vary(profiler->events, now_ns);
	}
	if (profiler->lines && now_ns >= profiler->lines_due_ns) {
		profiler->lines_due_ns = now_ns + LINES_INTERVAL_NS;
		source_line_reader_poll(profiler->lines);
	}
	sources_tick(profiler->sources, now_ns);
	if (now_ns >= profiler->clock_due_ns) {
		profiler->clock_due_ns = now_ns + CLOCK_INTERVAL_NS;
		profiler_set_clock(profiler);
		report_hung_opens(profiler);
	}
	if (now_ns >= profiler->counts_due_ns) {
		profiler->counts_due_ns = now_ns + COUNTS_INTERVAL_NS;
		watch_counts(profiler);
	}
}

void profiler_stop(struct profiler *profiler)
{
	uint64_t deadline_ns = clock_monotonic_ns() + STOP_WAIT_NS;
	struct pollfd tables = { .fd = process_unwind_fd(profiler->unwinds), .events = POLLIN };

	perf_events_close(profiler->events);
	profiler->events = NULL;
	if (profiler->held)
		held_counts_stop(profiler->held);
	read_records(profiler, NULL);
	if (!profiler->snapshots)
		return;
	while (snapshot_queue_count(profiler->snapshots)) {
		uint64_t now = clock_monotonic_ns();

		if (now >= deadline_ns ||
		    poll(&tables, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1) < 0)
			break;
		process_unwind_read(profiler->unwinds);
		snapshot_queue_unwind_ready(profiler->snapshots);
	}
	snapshot_queue_flush(profiler->snapshots);
}

void profiler_read_stats(const struct profiler *profiler, struct profiler_stats *ret_stats)
{
	*ret_stats = (struct profiler_stats){
		.processes = process_table_count(profiler->processes),
		.files = executable_table_count(profiler->executables),
		.stacks = stack_table_count(profiler->stacks),
		.stacks_lost = profiler->stacks_lost,
		.threads_other = profiler->threads_other,
		.series_other = profiler->series_other,
		.unspread = profiler->unspread,
		.pods_late = process_table_pods_late(profiler->processes),
		.excluded = profiler->excluded,
		.symbols_bytes = executable_table_symbol_bytes(profiler->executables),
		.drain_ns = profiler->drain_ns,
		.analyses_put_off = process_table_work(profiler->processes)->put_off,
		.sources = sources_running(profiler->sources),
		.ready = profiler->ready,
	};
	if (profiler->held)
		ret_stats->held_full = held_counts_full(profiler->held);
	if (profiler->event_log)
		ret_stats->events_dropped = event_log_dropped(profiler->event_log);
	if (profiler->mmaps)
		ret_stats->mapping_events_lost = mmap_events_lost(profiler->mmaps);
	if (profiler->snapshots)
		snapshot_queue_read_stats(profiler->snapshots, &ret_stats->snapshots);
	const struct budget *budget = sources_find(profiler->sources, SOURCE_GOVERNOR);
	ret_stats->budget_known = budget != NULL;
	if (budget)
		budget_read_stats(budget, &ret_stats->budget);
	slow_open_read_stats(&ret_stats->opens);
	if (profiler->lines) {
		ret_stats->symbols_bytes += source_line_reader_bytes(profiler->lines);
		ret_stats->line_failures = source_line_reader_failures(profiler->lines);
	}
	if (profiler->identities)
		identity_cache_read_stats(profiler->identities, &ret_stats->identities);
	if (profiler->kallsyms)
		ret_stats->symbols_bytes += kallsyms_bytes(profiler->kallsyms);
	process_table_read_relabeled(profiler->processes, &ret_stats->relabeled);
	process_table_read_jit_losses(profiler->processes, &ret_stats->jit);
	ret_stats->attributes_refused = process_table_attributes_refused(profiler->processes);
	process_unwind_read_stats(profiler->unwinds, &ret_stats->unwind);
	python_code_cache_read_stats(profiler->python_codes, &ret_stats->python);
	loader_read_counters(profiler->loader, ret_stats->bpf_counters);
	loader_read_run_time(profiler->loader, &ret_stats->bpf_run_ns, &ret_stats->bpf_run_count);
}
