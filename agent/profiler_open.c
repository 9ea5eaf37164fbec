// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "agent/bpf/loader.h"
#include "agent/bpf/machine.h"
#include "agent/bpf/mmap_events.h"
#include "agent/bpf/perf_events.h"
#include "agent/bpf/thread_priority.h"
#include "agent/process/process_family.h"
#include "agent/profiler.h"
#include "agent/profiler_state.h"
#include "agent/python/python_runtime.h"
#include "agent/source_table.h"
#include "agent/sources/sources.h"
#include "agent/stacks/held_counts.h"
#include "agent/stacks/location_table.h"
#include "agent/stacks/series_quota.h"
#include "agent/stacks/stack_table.h"
#include "agent/stacks/wait_class_cache.h"
#include "agent/symbols/debug_file.h"
#include "agent/symbols/executable_symbols.h"
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
	// Sources count off-CPU intervals, as many per CPU as its unwind budget allows
	// (bpf/switch/unwind_budget.h), and totals of each thread name of each process.
	SOURCE_COUNTS_PER_CPU = 8192,
	SOURCE_COUNTS_MIN = 8192,
	// With two maps of 176 bytes a count, 23 MB of kernel memory. More than 8 busy CPUs drain them
	// more often.
	SOURCE_COUNTS_MAX = 65536,
	FAMILY_PASSES_MAX = 8, // over /proc, for the processes below --pid's: until none is new
};

#define SLOT_MIN_NS (10 * NS_PER_MS)
#define SLOT_MAX_NS NS_PER_SECOND

/*
 * Between two reads of mapping events, which wake nobody: so long a process may be unwound by the tables of
 * old mappings. A read takes some microseconds.
 */
#define TIMER_NS (20 * NS_PER_MS)

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
		process_table_work(profiler->processes)->process_ns =
			options->pid ? WORK_ASKED_NS_MAX : WORK_PROCESS_NS_MAX;
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
		.only_gil = options->only_gil,
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

	profiler_set_clock(profiler);
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
		.set_frequency = profiler_set_frequency,
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

/* Children of targets are targets since the fork events are there. Others may fork while they are added. */
static int add_targets(struct profiler *profiler, pid_t pid, struct process_family *ret_family,
		       struct error *err)
{
	uint32_t known = 0;
	int rc = 0;

	for (uint32_t pass = 0; !rc && pass < FAMILY_PASSES_MAX; pass++) {
		process_family_deinit(ret_family);
		rc = process_family_read(pid, ret_family);
		if (rc)
			return error_errno(err, rc, "children of process %d", (int)pid);
		for (uint32_t i = 0; i < ret_family->count && !rc; i++)
			rc = loader_add_target(profiler->loader, ret_family->pids[i], err);
		if (ret_family->count == known)
			break;
		known = ret_family->count;
	}
	return rc;
}

static void publish_running(struct profiler *profiler, const struct profiler_options *options,
			    const struct process_family *family, struct running_watch *watch,
			    struct running_publication *ret_publication)
{
	ret_publication->ns_max = options->ready_ns_max;
	if (!running_watch_end(watch, options->pid ? family : NULL, &ret_publication->list,
			       &ret_publication->count))
		running_processes_publish(ret_publication, profiler->unwinds, profiler->processes);
}

// Tables of what runs are being built afterwards.
static int open_published(struct profiler *profiler, const struct profiler_options *options,
			  uint64_t ns_per_1024_cycles, struct running_publication *ret_publication,
			  struct error *err)
{
	_cleanup_(running_watch_deinit) struct running_watch watch = { 0 };
	_cleanup_(process_family_deinit) struct process_family family = { 0 };
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
	if (!rc && options->is_held)
		process_table_leave_alone(profiler->processes, options->pid);
	if (!rc && options->pid)
		rc = add_targets(profiler, options->pid, &family, err);
	if (!rc && options->ready_ns_max)
		publish_running(profiler, options, &family, &watch, ret_publication);
	return rc;
}

static void set_timer(struct profiler *profiler)
{
	struct timespec every = { .tv_nsec = TIMER_NS };
	struct itimerspec spec = { .it_value = every, .it_interval = every };

	timerfd_settime(profiler->timer_fd, 0, &spec, NULL);
}

// From here on all is measured.
static int begin(struct profiler *profiler, const struct profiler_options *options,
		 uint64_t ns_per_1024_cycles, struct error *err)
{
	struct export_interval_sources sources = profiler_interval_sources(profiler);
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
