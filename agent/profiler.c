// SPDX-License-Identifier: Apache-2.0
#include "agent/profiler.h"

#include <errno.h>
#include <poll.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sysmacros.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/boost/boosts.h"
#include "agent/bpf/loader.h"
#include "agent/bpf/machine.h"
#include "agent/bpf/mmap_events.h"
#include "agent/bpf/perf_events.h"
#include "agent/bpf/thread_priority.h"
#include "agent/overhead/budget.h"
#include "agent/overhead/budget_source.h"
#include "agent/process/process_table.h"
#include "agent/publish/process_unwind.h"
#include "agent/python/python_code_cache.h"
#include "agent/python/python_runtime.h"
#include "agent/source_table.h"
#include "agent/sources/sources.h"
#include "agent/sources/wakers.h"
#include "agent/stacks/export_interval.h"
#include "agent/stacks/held_counts.h"
#include "agent/stacks/series_quota.h"
#include "agent/stacks/location_table.h"
#include "agent/stacks/snapshot_queue.h"
#include "agent/stacks/stack_reader.h"
#include "agent/stacks/stack_table.h"
#include "agent/stacks/wait_class_cache.h"
#include "agent/symbols/debug_file.h"
#include "agent/symbols/executable_symbols.h"
#include "agent/symbols/identity_cache.h"
#include "agent/symbols/kallsyms.h"
#include "agent/symbols/kallsyms_reading.h"
#include "agent/symbols/source_line_reader.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/symbols/debuginfod.h"

enum {
	FREQUENCY_MAX_HZ = 1000,
	COUNTS_MIN = 4096,
	// The count maps hold so many seconds of samples, all distinct. They are drained when half full,
	// which is checked four times a second.
	COUNTS_SECONDS = 4,
	// Of a boost one second: it is for minutes, and drained early all that time if need be.
	COUNTS_SECONDS_BOOSTED = 1,
	// For the same reason the ring has room for a part of a boost's new stacks.
	RING_BOOST_PARTS = 4,
	SERVICES_BYTES = 4096, // of --wakers and a boost's services together; a longer list is cut
	// Sources count off-CPU intervals, as many per CPU as its unwind budget allows
	// (bpf/switch/unwind_budget.h), and totals of each thread name of each process.
	SOURCE_COUNTS_PER_CPU = 8192,
	SOURCE_COUNTS_MIN = 8192,
	// With two maps of 176 bytes a count, 23 MB of kernel memory. More than 8 busy CPUs drain them
	// more often.
	SOURCE_COUNTS_MAX = 65536,
	SWEEP_INTERVALS = 12, // export intervals between two sweeps of unused locations: a minute
};

#define SLOT_MIN_NS (10 * NS_PER_MS)
#define SLOT_MAX_NS NS_PER_SECOND

/* Between two comparisons of the wall clock with the monotonic one. */
#define CLOCK_INTERVAL_NS NS_PER_SECOND
/* Between two checks of the count maps: ticks of a loaded machine come late, too. */
#define COUNTS_INTERVAL_NS (250 * NS_PER_MS)
/*
 * Between two reads of mapping events, which wake nobody: so long a process may be unwound by the tables of
 * old mappings. A read takes some microseconds.
 */
#define TIMER_NS (20 * NS_PER_MS)
/* Lines requested in an export interval are there in the next one. */
#define LINES_INTERVAL_NS (250 * NS_PER_MS)
/* When sampling stops, snapshots wait so long for their unwind tables. */
#define STOP_WAIT_NS (500 * NS_PER_MS)
/* Counts of this export interval and the one before may still be of an exited process. */
#define EXITED_KEPT_NS (30 * NS_PER_SECOND)

struct profiler {
	uint64_t slot_ns;
	uint32_t frequency_hz; // without a boost
	const char *wakers;    // the same; NULL: none
	double boost_budget_percent;
	uint32_t counts_max;
	struct executable_table *executables;
	struct mmap_events *mmaps; // NULL: mappings are read when stacks need them
	struct process_table *processes;
	struct identity_cache *identities; // NULL: all files are hashed
	struct python_runtimes *pythons;
	struct python_code_cache *python_codes;
	struct kallsyms_reading *kallsyms_reading; // until the symbols are needed
	struct kallsyms *kallsyms;                 // NULL: kernel functions stay unnamed
	struct debuginfod *debuginfod;             // NULL: no server is asked
	struct source_line_reader *lines;          // NULL: functions only
	struct location_table *locations;
	struct gpu_namer gpu_namer; // set by the source that names GPU kernels
	struct stack_table *stacks;
	struct wait_class_cache *wait_classes;
	struct series_quota *quota; // NULL: no collector to protect
	struct held_counts *held;   // NULL: no count waits for its process's pod
	bool folds_thread_names;
	struct stack_reader reader;
	struct loader *loader;
	struct process_unwinds *unwinds;
	struct snapshot_program *snapshot_program;
	struct snapshot_queue *snapshots; // NULL: the kernel refused them
	struct perf_events *events;
	struct sources *sources;
	struct export_interval interval; // may have counts already: full maps are drained early
	uint32_t intervals;              // finished
	uint64_t lines_due_ns;           // when to collect lines
	uint64_t clock_due_ns;           // when to set the clock
	uint64_t counts_due_ns;
	uint64_t counts_before; // counter when the count maps were swapped
	uint64_t stacks_lost, threads_other, series_other, excluded;
	uint64_t hung_opens; // reported
	uint64_t drain_ns;
	struct running_ready ready;
	int epoll_fd; // records and timer
	int timer_fd;
	struct boost_demand boost; // that is met
	uint32_t boosted_hz;       // the rate that was set for it
	uint32_t boosted_sources;  // that were opened for it
	char boosted_services[SERVICES_BYTES];
	struct event_log *event_log;                                        // may be NULL
	int (*add_series)(void *context, struct export_interval *interval); // NULL: none
	void *context;
};

// ---- records --------------------------------------------------------------------------------

static void on_stack(void *context, const struct stack_record *record)
{
	struct profiler *profiler = context;

	// Table full: the kernel programs send it again with the next sample.
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

static void set_clock(struct profiler *profiler)
{
	// Monotonic before and after: that halves the error of a preemption between.
	uint64_t before_ns = clock_monotonic_ns();
	uint64_t realtime_ns = clock_realtime_ns();
	uint64_t after_ns = clock_monotonic_ns();

	loader_set_clock_offset(profiler->loader,
				realtime_ns - (before_ns + (after_ns - before_ns) / 2));
}

static void set_timer(struct profiler *profiler)
{
	struct timespec every = { .tv_nsec = TIMER_NS };
	struct itimerspec spec = { .it_value = every, .it_interval = every };

	timerfd_settime(profiler->timer_fd, 0, &spec, NULL);
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
		rc = error_set(err, -ENOMEM, "out of memory: samples are dropped");
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
		series_quota_expire(profiler->quota, clock_monotonic_ns());
	executable_table_trim(profiler->executables);
}

static struct export_interval_sources sources_of(const struct profiler *profiler)
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
	struct export_interval_sources sources = sources_of(profiler);
	uint64_t begin_ns = clock_monotonic_ns(), to_ns = clock_realtime_ns();
	struct export_interval next;
	int rc = drain_counts(profiler, err);

	if (rc)
		return rc;
	rc = sources_after_drain(profiler->sources, &profiler->interval);
	if (!rc && profiler->add_series)
		rc = profiler->add_series(profiler->context, &profiler->interval);
	if (rc)
		return error_errno(err, rc, "samples are dropped");
	if (export_interval_init(&next, &sources, profiler->slot_ns, to_ns) < 0)
		return error_set(err, -ENOMEM, "out of memory");
	struct profile *profile = export_interval_finish(&profiler->interval, to_ns);
	if (!profile) {
		export_interval_deinit(&next);
		return error_set(err, -ENOMEM, "out of memory: samples are dropped");
	}
	*ret_profile = profile;
	profiler->stacks_lost += profiler->interval.stacks_lost;
	profiler->threads_other += profiler->interval.threads_other;
	profiler->series_other += profiler->interval.series_other;
	profiler->excluded += profiler->interval.excluded;
	export_interval_deinit(&profiler->interval);
	profiler->interval = next;
	expire(profiler);
	profiler->drain_ns = clock_monotonic_ns() - begin_ns;
	return 0;
}

// ---- open and close -------------------------------------------------------------------------

static int check_options(const struct profiler_options *options, struct error *err)
{
	if (options->frequency_hz < 1 || options->frequency_hz > FREQUENCY_MAX_HZ)
		return error_set(err, -EINVAL, "frequency: %u Hz is not in 1..%d",
				 options->frequency_hz, FREQUENCY_MAX_HZ);
	if (options->slot_ns < SLOT_MIN_NS || options->slot_ns > SLOT_MAX_NS)
		return error_set(err, -EINVAL, "slot: %.3f ms is not in 10ms..1s",
				 (double)options->slot_ns / NS_PER_MS);
	if (options->pid < 0)
		return error_set(err, -EINVAL, "pid: %d is not a process", (int)options->pid);
	return 0;
}

// The nearest running process from which @key's was forked; 0: none is known.
static pid_t living_parent(const struct profiler *profiler, const struct process_key *key)
{
	const struct process *process = process_table_find(profiler->processes, key);

	for (int i = 0; i < PROCESS_FORKS_MAX && process; i++) {
		process = process_table_parent(profiler->processes, process);
		if (process && !process->exited)
			return (pid_t)process->key.pid;
	}
	return 0;
}

static int find_interpreter(void *context, const struct process_key *process,
			    struct python_interpreter *ret_interpreter)
{
	const struct profiler *profiler = context;
	const struct python_process *python = process_unwind_python(profiler->unwinds, process);
	struct process *known = process_table_find(profiler->processes, process);
	const struct python_offsets *offsets =
		python ? python_runtimes_offsets(profiler->pythons, python->runtime) : NULL;

	if (!offsets || !known)
		return -ENOENT;
	*ret_interpreter = (struct python_interpreter){
		.offsets = offsets,
		.code_type = python->code_type,
		.parent = living_parent(profiler, process),
		.budget = &known->budget,
	};
	return 0;
}

/* Source lines, and symbols of stripped files. */
static int check_debug_file(void *context, int fd, const char *build_id)
{
	(void)context;
	return debug_file_check_build_id(fd, build_id);
}

static int open_symbols(struct profiler *profiler, const struct profiler_options *options,
			struct error *err)
{
	char folder[PATH_MAX];

	if (options->line_launcher) {
		profiler->lines = source_line_reader_new(profiler->executables,
							 options->line_launcher, options->events);
		if (!profiler->lines)
			return error_set(err, -ENOMEM, "out of memory");
		location_table_use_lines(profiler->locations, profiler->lines);
	}
	if (!options->debuginfod_urls || !options->cache_folder)
		return 0;
	snprintf(folder, sizeof(folder), "%s/debug-files", options->cache_folder);
	const struct debuginfod_options debuginfod_options = {
		.urls = options->debuginfod_urls,
		.folder = folder,
		.cache_bytes = options->debug_files_bytes,
		.check = check_debug_file,
	};
	int rc = debuginfod_open(&debuginfod_options, &profiler->debuginfod, err);
	if (!rc)
		executable_table_use_debuginfod(profiler->executables, profiler->debuginfod);
	return rc;
}

static int open_tables(struct profiler *profiler, const struct profiler_options *options)
{
	profiler->kallsyms_reading = kallsyms_reading_begin();
	profiler->executables = executable_table_new();
	if (!profiler->executables || !profiler->kallsyms_reading)
		return -ENOMEM;
	profiler->pythons = python_runtimes_new();
	profiler->python_codes = python_code_cache_new(find_interpreter, profiler);
	profiler->processes = process_table_new(profiler->executables, &options->labels);
	if (profiler->processes) {
		process_table_work(profiler->processes)->events = profiler->event_log;
		process_table_work(profiler->processes)->hung = options->hung;
		process_table_work(profiler->processes)->is_over = options->is_over;
		process_table_work(profiler->processes)->context = options->context;
		process_table_allow_attributes(profiler->processes, options->attribute_patterns);
		process_table_use_pods(profiler->processes, options->pods);
		process_table_use_containers(profiler->processes, options->containers);
		process_table_use_rules(profiler->processes, options->rules);
	}
	profiler->locations = location_table_new(profiler->executables, NULL);
	profiler->stacks = stack_table_new();
	profiler->wait_classes = wait_class_cache_new();
	profiler->folds_thread_names = options->folds_thread_names;
	if (options->limit_series)
		profiler->quota = series_quota_new();
	if (options->pods)
		profiler->held = held_counts_new();
	profiler->reader.frames = (struct frame_resolver){
		.processes = profiler->processes,
		.locations = profiler->locations,
		.python_codes = profiler->python_codes,
		.gpu_namer = &profiler->gpu_namer,
	};
	profiler->reader.executables = profiler->executables;
	profiler->reader.stacks = profiler->stacks;
	return profiler->pythons && profiler->python_codes && profiler->processes &&
			       profiler->locations && profiler->stacks && profiler->wait_classes &&
			       (profiler->quota || !options->limit_series) &&
			       (profiler->held || !options->pods)
		       ? 0
		       : -ENOMEM;
}

static void end_kallsyms(struct profiler *profiler)
{
	struct error unnamed;

	if (kallsyms_reading_end(take(profiler->kallsyms_reading), &profiler->kallsyms, &unnamed))
		event_warn(profiler->event_log, "kernel symbols",
			   "kernel functions stay unnamed: %.270s", unnamed.text);
	else
		location_table_use_kallsyms(profiler->locations, profiler->kallsyms);
}

/* Without it the start takes longer: the unwind tables' cache, in the same folder, has said why. */
static void open_identities(struct profiler *profiler, const char *cache_folder)
{
	if (cache_folder && identity_cache_open(cache_folder, &profiler->identities, NULL) == 0)
		executable_table_use_identities(profiler->executables, profiler->identities);
}

static uint64_t source_counts(uint64_t cpu_count)
{
	uint64_t wanted = SOURCE_COUNTS_MIN + cpu_count * SOURCE_COUNTS_PER_CPU;

	return wanted < SOURCE_COUNTS_MAX ? wanted : SOURCE_COUNTS_MAX;
}

static uint32_t counts_for(const struct profiler_options *options)
{
	uint64_t cpu_count = sysconf(_SC_NPROCESSORS_ONLN);
	uint64_t wanted = cpu_count * options->frequency_hz * COUNTS_SECONDS;
	uint64_t boosted = cpu_count * options->boost_hz * COUNTS_SECONDS_BOOSTED;
	uint32_t counts_max = COUNTS_MIN;

	wanted = boosted > wanted ? boosted : wanted;
	if (options->sources)
		wanted += source_counts(cpu_count);
	if (options->sources & SOURCE_WAKERS) // with an unwind budget of their own
		wanted += source_counts(cpu_count);

	while (counts_max < wanted && counts_max < 1U << 24)
		counts_max *= 2;
	return counts_max;
}

static int watch(int epoll_fd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int open_descriptors(struct profiler *profiler, struct error *err)
{
	profiler->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	profiler->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (profiler->epoll_fd < 0 || profiler->timer_fd < 0)
		return error_errno(err, -errno, "epoll or timer descriptor");

	int rc = watch(profiler->epoll_fd, loader_records_fd(profiler->loader));
	if (!rc)
		rc = watch(profiler->epoll_fd, process_unwind_fd(profiler->unwinds));
	if (!rc)
		rc = watch(profiler->epoll_fd, profiler->timer_fd);
	return rc ? error_errno(err, rc, "epoll") : 0;
}

// The sampler, and the program that unwinds its snapshots: without the one, the other makes none.
static int open_programs(struct profiler *profiler, struct loader_options *options,
			 struct error *err)
{
	struct error cause = { 0 };
	int rc = loader_open(options, &profiler->loader, err);

	if (rc || loader_level(profiler->loader) == LOADER_LEVEL_FRAME_POINTER ||
	    snapshot_program_open(profiler->loader, &profiler->snapshot_program, &cause) == 0)
		return rc;
	event_warn(profiler->event_log, "unwinder",
		   "first stacks of new processes are truncated: %.270s", cause.text);
	loader_close(take(profiler->loader));
	options->snapshots = false;
	return loader_open(options, &profiler->loader, err);
}

static int open_unwinding(struct profiler *profiler, const char *cache_folder, bool is_for_one,
			  struct error *err)
{
	struct process_unwind_options options = {
		.is_for_one = is_for_one,
		.cache_folder = cache_folder,
		.python = profiler->pythons,
		.events = profiler->event_log,
	};
	int rc = process_unwind_open(loader_unwind_maps(profiler->loader), profiler->processes,
				     &options, &profiler->unwinds, err);

	if (rc)
		return rc;
	profiler->reader.unwinds = profiler->unwinds;
	if (!profiler->snapshot_program)
		return 0;
	profiler->snapshots = snapshot_queue_new(profiler->snapshot_program, profiler->processes,
						 profiler->unwinds);
	return profiler->snapshots ? 0 : error_set(err, -ENOMEM, "out of memory");
}

/* For the size of the ring. */
static uint32_t ring_hz(const struct profiler_options *options)
{
	uint32_t boosted_hz = options->boost_hz / RING_BOOST_PARTS;

	return options->frequency_hz > boosted_hz ? options->frequency_hz : boosted_hz;
}

static int open_kernel_side(struct profiler *profiler, const struct profiler_options *options,
			    uint64_t ns_per_1024_cycles, struct error *err)
{
	struct loader_options loader_options = {
		.slot_ns = options->slot_ns,
		.frequency_hz = ring_hz(options),
		.pid = options->pid,
		.cycles = ns_per_1024_cycles != 0,
		.counts_max = profiler->counts_max,
		.snapshots = true,
		.events = options->events,
		.waits = (options->sources & SOURCE_WALL) != 0,
	};
	int rc = open_programs(profiler, &loader_options, err);

	return rc ? rc : open_unwinding(profiler, options->cache_folder, options->pid != 0, err);
}

static int begin_sampling(struct profiler *profiler, const struct profiler_options *options,
			  uint64_t ns_per_1024_cycles, struct error *err)
{
	struct period_listener listener = { loader_set_period, profiler->loader };

	set_clock(profiler);
	return perf_events_open(options->frequency_hz, ns_per_1024_cycles,
				loader_sampler_fd(profiler->loader), &listener, &profiler->events,
				err);
}

// Without these events mappings are read when a stack needs them: too late for short-lived processes.
static int follow_mmaps(struct profiler *profiler, struct error *err)
{
	struct error cause = { 0 };

	if (mmap_events_open(&profiler->mmaps, &cause) < 0) {
		event_warn(profiler->event_log, "processes",
			   "functions of short-lived processes stay unnamed: %.260s", cause.text);
		return 0;
	}
	process_table_follow(profiler->processes, profiler->mmaps);
	int rc = watch(profiler->epoll_fd, mmap_events_fd(profiler->mmaps));
	return rc ? error_errno(err, rc, "epoll") : 0;
}

// For the governor, until sampling stops.
static int set_frequency(void *context, uint32_t frequency_hz)
{
	struct profiler *profiler = context;

	if (profiler->events)
		perf_events_set_frequency(profiler->events, frequency_hz);
	return 0;
}

static int open_sources(struct profiler *profiler, const struct profiler_options *options,
			struct error *err)
{
	const struct source_setup setup = {
		.loader = profiler->loader,
		.processes = profiler->processes,
		.kallsyms = profiler->kallsyms,
		.wakers = options->wakers,
		.slot_ns = options->slot_ns,
		.only_targets = options->pid != 0,
		.begins_later = true,
		.gpu_namer = &profiler->gpu_namer,
		.labels = &options->labels,
		.events = options->events,
		.overhead_budget_percent = options->overhead_budget_percent,
		.overhead_interval_ns = options->overhead_interval_ns,
		.cupti_interval_ns = options->cupti_interval_ns,
		.gpu_kernel_request = options->gpu_kernel_request,
		.frequency_hz = options->frequency_hz,
		.set_frequency = set_frequency,
		.context = profiler,
	};

	return options->sources ? sources_open(source_table, options->sources, &setup,
					       &profiler->sources, err)
				: 0;
}

// The slow loading of the programs shows which processes are busy.
static void watch_running(struct profiler *profiler, struct running_watch *ret_watch)
{
	struct error cause = { 0 };

	if (running_watch_begin(ret_watch, &cause))
		event_warn(profiler->event_log, "unwinder",
			   "first stacks of running processes are truncated: %.270s", cause.text);
}

static void publish_running(struct profiler *profiler, const struct profiler_options *options,
			    struct running_watch *watch,
			    struct running_publication *ret_publication)
{
	ret_publication->ns_max = options->ready_ns_max;
	if (!running_watch_end(watch, options->pid, &ret_publication->list,
			       &ret_publication->count))
		running_processes_publish(ret_publication, profiler->unwinds, profiler->processes);
}

// Tables of what runs are being built afterwards.
static int open_published(struct profiler *profiler, const struct profiler_options *options,
			  uint64_t ns_per_1024_cycles, struct running_publication *ret_publication,
			  struct error *err)
{
	_cleanup_(running_watch_deinit) struct running_watch watch = { 0 };
	int rc;

	if (options->ready_ns_max)
		watch_running(profiler, &watch);
	rc = open_kernel_side(profiler, options, ns_per_1024_cycles, err);
	if (!rc)
		rc = open_descriptors(profiler, err);
	if (!rc)
		rc = follow_mmaps(profiler, err);
	// Process events arrive before the scan begins, so none falls between the two.
	if (!rc)
		rc = process_table_scan(profiler->processes, err);
	if (!rc && options->ready_ns_max)
		publish_running(profiler, options, &watch, ret_publication);
	return rc;
}

// From here on all is measured.
static int begin(struct profiler *profiler, const struct profiler_options *options,
		 uint64_t ns_per_1024_cycles, struct error *err)
{
	struct export_interval_sources sources = sources_of(profiler);
	int rc = export_interval_init(&profiler->interval, &sources, options->slot_ns,
				      clock_realtime_ns());

	if (rc)
		return error_set(err, rc, "out of memory");
	rc = begin_sampling(profiler, options, ns_per_1024_cycles, err);
	if (rc)
		return rc;
	sources_begin(profiler->sources);
	set_timer(profiler);
	return 0;
}

static int open_all(struct profiler *profiler, const struct profiler_options *options,
		    struct error *err)
{
	uint64_t ns_per_1024_cycles = perf_events_cycle_ns();
	struct running_publication publication = { 0 };
	int rc = open_tables(profiler, options);

	if (rc)
		return error_set(err, rc, "out of memory");
	open_identities(profiler, options->cache_folder);
	rc = open_symbols(profiler, options, err);
	if (!rc)
		rc = open_published(profiler, options, ns_per_1024_cycles, &publication, err);
	end_kallsyms(profiler);
	if (!rc)
		rc = open_sources(profiler, options, err); // while tables are built
	if (!rc)
		running_processes_wait(&publication, profiler->unwinds, &profiler->ready);
	free(publication.list);
	return rc ? rc : begin(profiler, options, ns_per_1024_cycles, err);
}

int profiler_open(const struct profiler_options *options, struct profiler **ret_profiler,
		  struct error *err)
{
	int rc = check_options(options, err);

	if (!rc)
		rc = machine_check(err);
	if (rc)
		return rc;

	struct profiler *profiler = calloc(1, sizeof(*profiler));
	if (!profiler)
		return error_set(err, -ENOMEM, "out of memory");
	thread_priority_raise(); // before the slow loading of the programs
	profiler->epoll_fd = profiler->timer_fd = -1;
	profiler->slot_ns = options->slot_ns;
	profiler->frequency_hz = profiler->boosted_hz = options->frequency_hz;
	profiler->wakers = options->wakers;
	profiler->boost_budget_percent = options->boost_budget_percent;
	profiler->event_log = options->events;
	profiler->add_series = options->add_series;
	profiler->context = options->context;
	profiler->counts_max = counts_for(options);

	rc = open_all(profiler, options, err);
	if (rc) {
		profiler_close(profiler);
		return rc;
	}
	*ret_profiler = profiler;
	return 0;
}

void profiler_close(struct profiler *profiler)
{
	if (!profiler)
		return;
	sources_close(profiler->sources);
	perf_events_close(profiler->events);
	snapshot_queue_free(profiler->snapshots);
	snapshot_program_close(profiler->snapshot_program);
	process_unwind_close(profiler->unwinds);
	loader_close(profiler->loader);
	export_interval_deinit(&profiler->interval);
	unsymbolized_stacks_deinit(&profiler->reader.unsymbolized);
	stack_table_free(profiler->stacks);
	wait_class_cache_free(profiler->wait_classes);
	series_quota_free(profiler->quota);
	held_counts_free(profiler->held);
	location_table_free(profiler->locations);
	source_line_reader_free(profiler->lines);
	process_table_free(profiler->processes);
	mmap_events_close(profiler->mmaps);
	python_code_cache_free(profiler->python_codes);
	python_runtimes_free(profiler->pythons);
	executable_table_free(profiler->executables);
	identity_cache_close(profiler->identities);
	debuginfod_close(profiler->debuginfod);
	if (profiler->kallsyms_reading) // opening failed
		kallsyms_reading_end(profiler->kallsyms_reading, &profiler->kallsyms, NULL);
	kallsyms_close(profiler->kallsyms);
	cleanup_closep(&profiler->epoll_fd);
	cleanup_closep(&profiler->timer_fd);
	free(profiler);
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

// ---- boosts ---------------------------------------------------------------------------------

static const struct {
	enum boost_profile profile;
	uint32_t sources;
} sources_of_boosts[] = {
	{ BOOST_WALL, SOURCE_WALL },
	{ BOOST_MEMORY, SOURCE_MEMORY },
	{ BOOST_WAKERS, SOURCE_WALL | SOURCE_WAKERS },
};

static uint32_t boost_sources(uint32_t profiles)
{
	uint32_t sources = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sources_of_boosts); i++) {
		if (profiles & sources_of_boosts[i].profile)
			sources |= sources_of_boosts[i].sources;
	}
	return sources;
}

// --wakers, and the boost's services.
static void set_wakers(struct profiler *profiler, const char *services)
{
	struct wakers *wakers = sources_find(profiler->sources, SOURCE_WAKERS);
	const char *own = profiler->wakers ? profiler->wakers : "";

	snprintf(profiler->boosted_services, SERVICES_BYTES, "%s%s%s", own,
		 *own && *services ? "," : "", services);
	sources_set_wakers(profiler->sources, profiler->boosted_services);
	if (wakers && wakers_set_services(wakers, profiler->boosted_services))
		event_warn(profiler->event_log, "boost", "wakers: out of memory");
}

static void set_boosted_sources(struct profiler *profiler, uint32_t profiles, const char *services)
{
	uint32_t wanted = boost_sources(profiles);

	sources_remove(profiler->sources, profiler->boosted_sources & ~wanted);
	profiler->boosted_sources &= wanted;
	set_wakers(profiler, services);
	profiler->boosted_sources |= sources_add(profiler->sources, wanted);
}

static void set_stopped(struct profiler *profiler, bool stopped)
{
	perf_events_set_running(profiler->events, !stopped);
	sources_set_stopped(profiler->sources, stopped);
}

// Without a boost the agent's own budget holds again.
static double boost_percent(const struct profiler *profiler)
{
	if (profiler->boosted_hz <= profiler->frequency_hz && !profiler->boosted_sources)
		return 0;
	return profiler->boost_budget_percent > 0 ? profiler->boost_budget_percent : -1;
}

void profiler_set_boost(struct profiler *profiler, const struct boost_demand *demand)
{
	const struct boost_demand before = profiler->boost;
	uint32_t own_hz = profiler->frequency_hz;

	if (!profiler->events)
		return; // it has stopped for good
	profiler->boost = *demand;
	if (before.stop && !demand->stop)
		set_stopped(profiler, false);
	// What would begin while all is stopped begins afterwards.
	set_boosted_sources(profiler, demand->stop ? 0 : demand->profiles, demand->services);
	if (demand->stop && !before.stop)
		set_stopped(profiler, true);
	profiler->boosted_hz = demand->hz > own_hz ? demand->hz : own_hz;
	if (profiler->sources)
		budget_source_boost(profiler->sources, profiler->boosted_hz,
				    boost_percent(profiler));
	else
		set_frequency(profiler, profiler->boosted_hz);
}

void profiler_read_boost(const struct profiler *profiler, struct profiler_boost *ret_boost)
{
	const struct budget *budget = sources_find(profiler->sources, SOURCE_GOVERNOR);
	uint32_t running = sources_running(profiler->sources);
	struct budget_stats stats;

	*ret_boost = (struct profiler_boost){ .hz = profiler->boosted_hz,
					      .stopped = profiler->boost.stop };
	if (budget) {
		budget_read_stats(budget, &stats);
		ret_boost->hz = stats.frequency_hz;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sources_of_boosts); i++) {
		uint32_t needed = sources_of_boosts[i].sources;

		if ((running & needed) == needed)
			ret_boost->profiles |= sources_of_boosts[i].profile;
	}
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
		set_clock(profiler);
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
