// SPDX-License-Identifier: Apache-2.0
#include "agent/bpf/loader.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "agent/bpf/record_ring.h"
#include "agent/bpf/sample_log.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "bpf/shared_variables.h"
#include "bpf/unwind/map_limits.h"
#include "sampler.skel.h"

enum {
	// A new stack takes some 300 bytes. At start every sample is one: room for 2.5 s of them.
	RING_BYTES_PER_CPU = 64 << 10,
	RING_BYTES_MIN = 1 << 20,
	// At start each thread has two off-CPU stacks, however few CPUs there are: room for 5,000 threads.
	RING_BYTES_MIN_WAITS = 4 << 20,
	RING_BYTES_MAX = 16 << 20,
	RING_FREQUENCY_HZ = 100, // that the sizes above are for
	TARGETS_MAX = 16384,     // processes that --pid covers at a time
	DRAIN_BATCH = 1024,      // counts per system call
	RECORD_HEADER_BYTES = 8, // BPF_RINGBUF_HDR_SZ
};

/*
 * A program is in a counts map for less than a microsecond, unless it is preempted or a hypervisor takes
 * its CPU: then the map is drained the next time.
 */
#define SWAP_WAIT_NS  (500 * NS_PER_MS)
#define SWAP_PAUSE_NS 50000

/* Section of shared_variables in bpf/maps.bpf.h. */
#define SHARED_SECTION ".data.shared"

/* Ends the reading from handle_record(). */
#define READ_ENOUGH (-E2BIG)

struct loader {
	struct sampler_bpf *programs;
	struct bpf_link *process_links[3];
	struct record_ring *ring;
	const struct record_handlers *handlers; // while records are read
	uint64_t bytes_to_read;                 // then reading stops
	enum loader_level level;
	struct unwind_maps unwind_maps;
	int counts_fd[2];
	struct sample_log log;
	bool swapping;              // programs may still be in the map that was swapped out
	struct counts_users *users; // by possible CPU
	struct count_key *batch_keys;
	struct count *batch_counts;
	struct counter_values *counter_values; // by possible CPU
	int cpu_count;                         // possible CPUs
};

// ---- libbpf's warnings ----------------------------------------------------------------------

/* libbpf's first warning: the best explanation of a refused load. One loader opens at a time. */
static char last_warning[200];

static int record_warning(enum libbpf_print_level level, const char *format, va_list arguments)
{
	char line[sizeof(last_warning)];

	if (level > LIBBPF_WARN)
		return 0;
	vsnprintf(line, sizeof(line), format, arguments);
	line[strcspn(line, "\n")] = 0;
	log_debug("loader: %s", line);
	// Later ones ("failed to load object") only repeat the first.
	if (!last_warning[0])
		memcpy(last_warning, line, sizeof(line));
	return 0;
}

static int refused(struct error *err, int rc, const char *what)
{
	return error_errno(err, rc, "%s: refused by the kernel (%s)%s", what,
			   last_warning[0] ? last_warning : "no reason given",
			   rc == -EPERM ? "; allow bpf() in the container's seccomp profile "
					  "and in kernel lockdown"
					: "");
}

// ---- open, set, load, attach ------------------------------------------------------------------

// A higher frequency makes more records between two polls.
static uint32_t ring_bytes(int cpu_count, const struct loader_options *options)
{
	uint32_t bytes = options->waits ? RING_BYTES_MIN_WAITS : RING_BYTES_MIN;
	uint64_t wanted = (uint64_t)cpu_count * RING_BYTES_PER_CPU;

	if (wanted < RING_BYTES_MIN)
		wanted = RING_BYTES_MIN;
	if (options->frequency_hz > RING_FREQUENCY_HZ)
		wanted = wanted * options->frequency_hz / RING_FREQUENCY_HZ;
	while (bytes < RING_BYTES_MAX && bytes < wanted)
		bytes *= 2;
	return bytes;
}

static void set_options(struct loader *loader, const struct loader_options *options,
			const struct loader_attempt *attempt)
{
	struct sampler_bpf *programs = loader->programs;
	bool raw_tracepoints = attempt->raw_tracepoints;

	programs->rodata->unwind_by_tables = attempt->level < LOADER_LEVEL_FRAME_POINTER;
	programs->rodata->unwind_python = attempt->level < LOADER_LEVEL_NO_PYTHON;
	programs->rodata->send_snapshots = options->snapshots && !options->only_gil &&
					   attempt->level < LOADER_LEVEL_FRAME_POINTER;
	programs->rodata->slot_ns = options->slot_ns;
	programs->rodata->only_cycles = options->cycles;
	programs->rodata->only_targets = options->pid != 0;
	programs->rodata->only_gil = options->only_gil;
	bpf_map__set_max_entries(programs->maps.tick_periods, loader->cpu_count);
	bpf_map__set_max_entries(programs->maps.rule_cache, loader->cpu_count * RULE_CACHE_SETS);
	programs->rodata->sample_log_capacity = sample_log_entries(loader->cpu_count);
	bpf_map__set_max_entries(programs->maps.sample_log, sample_log_size(loader->cpu_count));
	bpf_map__set_max_entries(programs->maps.records,
				 options->ring_bytes ? options->ring_bytes
						     : ring_bytes(loader->cpu_count, options));
	if (options->pid)
		bpf_map__set_max_entries(programs->maps.target_pids, TARGETS_MAX);

	bpf_program__set_autoload(programs->progs.process_exec, !raw_tracepoints);
	bpf_program__set_autoload(programs->progs.process_fork, !raw_tracepoints);
	bpf_program__set_autoload(programs->progs.process_exit, !raw_tracepoints);
	bpf_program__set_autoload(programs->progs.process_exec_raw, raw_tracepoints);
	bpf_program__set_autoload(programs->progs.process_fork_raw, raw_tracepoints);
	bpf_program__set_autoload(programs->progs.process_exit_raw, raw_tracepoints);
}

static int open_and_load(struct loader *loader, const struct loader_options *options,
			 const struct loader_attempt *attempt)
{
	last_warning[0] = 0;
	loader->programs = sampler_bpf__open();
	if (!loader->programs)
		return -errno;
	set_options(loader, options, attempt);
	if (options->spoil)
		options->spoil(attempt, loader->programs->obj);

	int rc = sampler_bpf__load(loader->programs);
	if (rc < 0) {
		sampler_bpf__destroy(loader->programs);
		loader->programs = NULL;
	}
	return rc;
}

static const char *const degraded[] = {
	[LOADER_LEVEL_NO_PYTHON] = "no Python frames",
	[LOADER_LEVEL_FRAME_POINTER] = "frame pointers only, no Python frames",
};

// What to try after @attempt was refused; false: nothing. libbpf's warning names the refused program.
static bool fall_back(struct loader_attempt *attempt)
{
	bool sampler = strstr(last_warning, "sample_on_cpu") != NULL;

	// Typed tracepoints are verified, so try them first.
	if (!attempt->raw_tracepoints && (!sampler || attempt->level == LOADER_LEVEL_FRAME_POINTER))
		attempt->raw_tracepoints = true;
	else if (attempt->level < LOADER_LEVEL_FRAME_POINTER)
		attempt->level++;
	else
		return false;
	return true;
}

static int load(struct loader *loader, const struct loader_options *options, bool *ret_raw,
		struct error *err)
{
	struct loader_attempt attempt = { options->raw_tracepoints, options->level };
	char refusal[sizeof(last_warning)] = "";
	int rc = open_and_load(loader, options, &attempt);

	while (rc < 0) {
		enum loader_level before = attempt.level;

		if (!fall_back(&attempt))
			break;
		if (attempt.level != before)
			memcpy(refusal, last_warning, sizeof(refusal));
		rc = open_and_load(loader, options, &attempt);
	}
	if (!rc && attempt.level != options->level)
		event_warn(
			options->events, "unwinder",
			"degraded: %s: the kernel refused the full unwinder (%.160s); use a newer "
			"kernel",
			degraded[attempt.level], refusal);
	*ret_raw = attempt.raw_tracepoints;
	loader->level = attempt.level;
	return rc < 0 ? refused(err, rc, "load the sampling programs") : 0;
}

static void find_unwind_maps(struct loader *loader)
{
	const struct sampler_bpf *programs = loader->programs;

	loader->unwind_maps = (struct unwind_maps){
		.tables_fd = bpf_map__fd(programs->maps.unwind_tables),
		.rules_fd = bpf_map__fd(programs->maps.unwind_rules),
		.processes_fd = bpf_map__fd(programs->maps.unwind_processes),
		.pages_fd = bpf_map__fd(programs->maps.mapping_pages),
		.python_fd = bpf_map__fd(programs->maps.python_runtimes),
		.unused = loader->level == LOADER_LEVEL_FRAME_POINTER,
	};
}

static int attach_process_programs(struct loader *loader, bool raw, struct error *err)
{
	struct sampler_bpf *programs = loader->programs;
	const struct bpf_program *process_programs[] = {
		raw ? programs->progs.process_exec_raw : programs->progs.process_exec,
		raw ? programs->progs.process_fork_raw : programs->progs.process_fork,
		raw ? programs->progs.process_exit_raw : programs->progs.process_exit,
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(process_programs); i++) {
		loader->process_links[i] = bpf_program__attach(process_programs[i]);
		if (!loader->process_links[i])
			return refused(err, -errno, "attach the process programs");
	}
	return 0;
}

static int create_counts(struct loader *loader, uint32_t counts_max, struct error *err)
{
	for (int i = 0; i < 2; i++) {
		loader->counts_fd[i] = bpf_map_create(
			BPF_MAP_TYPE_HASH, i ? "counts_1" : "counts_0", sizeof(struct count_key),
			sizeof(struct count), counts_max, NULL);
		if (loader->counts_fd[i] < 0)
			return error_errno(
				err, -errno,
				"counts map cannot be created (%u entries); raise the memory limit "
				"of this control group",
				counts_max);
	}
	for (uint32_t i = 0; i < 2; i++) {
		if (bpf_map_update_elem(bpf_map__fd(loader->programs->maps.counts_maps), &i,
					&loader->counts_fd[i], BPF_ANY))
			return error_errno(err, -errno, "counts maps cannot be set");
	}
	loader->users = calloc(loader->cpu_count, sizeof(*loader->users));
	loader->batch_keys = calloc(DRAIN_BATCH, sizeof(*loader->batch_keys));
	loader->batch_counts = calloc(DRAIN_BATCH, sizeof(*loader->batch_counts));
	loader->counter_values = calloc(loader->cpu_count, sizeof(*loader->counter_values));
	return loader->users && loader->batch_keys && loader->batch_counts && loader->counter_values
		       ? 0
		       : error_set(err, -ENOMEM, "out of memory");
}

static int open_log(struct loader *loader, struct error *err)
{
	int rc = sample_log_open(&loader->log, bpf_map__fd(loader->programs->maps.sample_log),
				 loader->cpu_count);

	return rc ? error_errno(err, rc, "sample log cannot be mapped") : 0;
}

int loader_add_target(struct loader *loader, pid_t pid, struct error *err)
{
	uint32_t key = (uint32_t)pid, yes = 1;

	if (!bpf_map_update_elem(bpf_map__fd(loader->programs->maps.target_pids), &key, &yes,
				 BPF_ANY))
		return 0;
	return error_errno(err, -errno, "process %d cannot be added to target_pids", (int)pid);
}

static void dispatch(const struct record_handlers *handlers, const void *bytes, size_t size)
{
	const struct stack_record *stack = bytes;
	const struct snapshot_record *snapshot = bytes;
	uint32_t kind = 0;

	if (size >= sizeof(kind))
		memcpy(&kind, bytes, sizeof(kind));
	if (kind == RECORD_PROCESS && size >= sizeof(struct process_record)) {
		handlers->process(handlers->context, bytes);
	} else if (kind == RECORD_STACK && size >= sizeof(*stack) &&
		   stack->trace.frame_count <= STACK_DEPTH_MAX &&
		   size >= sizeof(*stack) + stack->trace.frame_count * sizeof(struct raw_frame)) {
		handlers->stack(handlers->context, stack);
	} else if (kind == RECORD_WAKE && handlers->wake && size >= sizeof(struct wake_record)) {
		handlers->wake(handlers->context, bytes);
	} else if (kind == RECORD_SNAPSHOT && handlers->snapshot &&
		   size >= offsetof(struct snapshot_record, stack) &&
		   snapshot->page_count <= SNAPSHOT_PAGES &&
		   size >= offsetof(struct snapshot_record, stack) +
				   snapshot->page_count * SNAPSHOT_PAGE_BYTES) {
		handlers->snapshot(handlers->context, snapshot);
	}
}

static int handle_record(void *context, const void *bytes, size_t size)
{
	struct loader *loader = context;
	uint64_t used = size + RECORD_HEADER_BYTES;

	dispatch(loader->handlers, bytes, size);
	if (used >= loader->bytes_to_read)
		return READ_ENOUGH;
	loader->bytes_to_read -= used;
	return 0;
}

static int open_all(struct loader *loader, const struct loader_options *options, struct error *err)
{
	bool raw;
	int rc = load(loader, options, &raw, err);

	if (!rc)
		find_unwind_maps(loader);
	if (!rc)
		rc = open_log(loader, err);
	if (!rc)
		rc = create_counts(loader, options->counts_max, err);
	if (!rc && options->pid)
		rc = loader_add_target(loader, options->pid, err);
	if (rc)
		return rc;

	rc = record_ring_open(bpf_map__fd(loader->programs->maps.records),
			      bpf_map__max_entries(loader->programs->maps.records), &loader->ring);
	if (rc)
		return error_errno(err, rc, "ring buffer cannot be mapped");
	return attach_process_programs(loader, raw, err);
}

int loader_open(const struct loader_options *options, struct loader **ret_loader, struct error *err)
{
	struct loader *loader = calloc(1, sizeof(*loader));

	if (!loader)
		return error_set(err, -ENOMEM, "out of memory");
	loader->counts_fd[0] = loader->counts_fd[1] = -1;
	libbpf_set_print(record_warning);
	// No RLIMIT_MEMLOCK: BPF memory is charged to the control group since 5.11.
	loader->cpu_count = libbpf_num_possible_cpus();
	if (loader->cpu_count < 1)
		loader->cpu_count = 1;

	int rc = open_all(loader, options, err);
	if (rc < 0) {
		loader_close(loader);
		return rc;
	}
	*ret_loader = loader;
	return 0;
}

void loader_close(struct loader *loader)
{
	if (!loader)
		return;
	for (uint32_t i = 0; i < ARRAY_SIZE(loader->process_links); i++)
		bpf_link__destroy(loader->process_links[i]);
	record_ring_close(loader->ring);
	sampler_bpf__destroy(loader->programs);
	for (int i = 0; i < 2; i++) {
		if (loader->counts_fd[i] >= 0)
			close(loader->counts_fd[i]);
	}
	sample_log_close(&loader->log);
	free(loader->users);
	free(loader->batch_keys);
	free(loader->batch_counts);
	free(loader->counter_values);
	free(loader);
}

// ---- records --------------------------------------------------------------------------------

const char *loader_take_error(void)
{
	static char warning[sizeof(last_warning)];

	memcpy(warning, last_warning, sizeof(warning));
	last_warning[0] = 0;
	return warning;
}

int loader_share_maps(const struct loader *loader, struct bpf_object *programs)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, programs)
	{
		const char *name = bpf_map__name(map);
		// Sections hold a program's own variables, except the shared one.
		bool ours = !bpf_map__is_internal(map) || !strcmp(name, SHARED_SECTION);
		int fd = ours ? bpf_object__find_map_fd_by_name(loader->programs->obj, name)
			      : -ENOENT;
		int rc = fd < 0 ? 0 : bpf_map__reuse_fd(map, fd);

		if (rc < 0)
			return rc;
	}
	return 0;
}

int loader_sampler_fd(const struct loader *loader)
{
	return bpf_program__fd(loader->programs->progs.sample_on_cpu);
}

enum loader_level loader_level(const struct loader *loader)
{
	return loader->level;
}

const struct unwind_maps *loader_unwind_maps(const struct loader *loader)
{
	return &loader->unwind_maps;
}

int loader_records_fd(const struct loader *loader)
{
	return record_ring_fd(loader->ring);
}

int loader_read_records(struct loader *loader, const struct record_handlers *handlers,
			struct error *err)
{
	loader->handlers = handlers;
	// Records may arrive as fast as they are read: stop after a whole ring.
	loader->bytes_to_read = bpf_map__max_entries(loader->programs->maps.records);
	int rc = record_ring_read(loader->ring, handle_record, loader);
	loader->handlers = NULL;
	return rc < 0 && rc != READ_ENOUGH ? error_errno(err, rc, "ring buffer cannot be read") : 0;
}

void loader_drop_stack(struct loader *loader, const struct stack_hash *hash)
{
	// -ENOENT: the kernel's map was full and never had it. Just as well.
	bpf_map_delete_elem(bpf_map__fd(loader->programs->maps.sent_stacks), hash);
}

// ---- counts ---------------------------------------------------------------------------------

// A program that enters the map after the swap leaves again without a count.
static int is_used(struct loader *loader, uint32_t which, bool *ret_used)
{
	uint32_t zero = 0;

	if (bpf_map_lookup_elem(bpf_map__fd(loader->programs->maps.counts_users), &zero,
				loader->users))
		return -errno;
	*ret_used = false;
	for (int cpu = 0; cpu < loader->cpu_count; cpu++)
		*ret_used |= loader->users[cpu].in[which] != 0;
	return 0;
}

static int wait_until_unused(struct loader *loader, uint32_t which, bool *ret_used)
{
	const struct timespec pause = { .tv_nsec = SWAP_PAUSE_NS };
	uint64_t deadline_ns = clock_monotonic_ns() + SWAP_WAIT_NS;
	int rc;

	while (!(rc = is_used(loader, which, ret_used)) && *ret_used &&
	       clock_monotonic_ns() < deadline_ns)
		nanosleep(&pause, NULL);
	return rc;
}

int loader_swap_counts(struct loader *loader, struct error *err)
{
	uint32_t *active = &loader->programs->data_shared->shared.active_counts;
	bool used;

	// Ordered: programs inside the old map are looked for after they can see the swap.
	if (!loader->swapping)
		__atomic_store_n(active, *active + 1, __ATOMIC_SEQ_CST);
	loader->swapping = true;
	int rc = wait_until_unused(loader, !(*active & 1), &used);
	if (rc)
		return error_errno(err, rc, "users of the counts maps cannot be read");
	loader->swapping = used;
	return 0;
}

static int drain_batch(struct loader *loader, uint32_t count, count_fn fn, void *context)
{
	for (uint32_t i = 0; i < count; i++) {
		int rc = fn(context, &loader->batch_keys[i], &loader->batch_counts[i]);
		if (rc)
			return rc;
	}
	return 0;
}

int loader_drain_counts(struct loader *loader, count_fn fn, void *context, struct error *err)
{
	uint32_t active = loader->programs->data_shared->shared.active_counts, position, count;
	int fd = loader->counts_fd[!(active & 1)], rc = 0, failed;
	void *from = NULL;

	if (loader->swapping)
		return 0;
	failed = sample_log_read(&loader->log, active - 1, fn, context);
	while (!rc && !failed) {
		count = DRAIN_BATCH;
		rc = bpf_map_lookup_and_delete_batch(fd, from, &position, loader->batch_keys,
						     loader->batch_counts, &count, NULL);
		if (rc < 0 && rc != -ENOENT) // -ENOENT: that was the last batch
			return error_errno(err, rc, "counts map cannot be drained");
		failed = drain_batch(loader, count, fn, context);
		from = &position;
	}
	return failed ? error_errno(err, failed, "a batch of counts was dropped") : 0;
}

// ---- settings and counters ------------------------------------------------------------------

void loader_set_clock_offset(struct loader *loader, uint64_t offset_ns)
{
	__atomic_store_n(&loader->programs->data_shared->shared.realtime_offset_ns, offset_ns,
			 __ATOMIC_RELAXED);
}

void loader_set_period(void *context, uint32_t cpu, uint64_t period_ns, uint64_t since_ns)
{
	struct loader *loader = context;
	struct tick_period period = { .period_ns = period_ns, .since_ns = since_ns };

	// Fails for CPUs that were not possible at start; there are none.
	bpf_map_update_elem(bpf_map__fd(loader->programs->maps.tick_periods), &cpu, &period,
			    BPF_ANY);
}

void loader_read_counters(const struct loader *loader, uint64_t ret_counters[COUNTER_COUNT])
{
	int fd = bpf_map__fd(loader->programs->maps.counters);
	uint32_t zero = 0;

	memset(ret_counters, 0, COUNTER_COUNT * sizeof(*ret_counters));
	if (bpf_map_lookup_elem(fd, &zero, loader->counter_values))
		return;
	for (int cpu = 0; cpu < loader->cpu_count; cpu++) {
		for (uint32_t i = 0; i < COUNTER_COUNT; i++)
			ret_counters[i] += loader->counter_values[cpu].of[i];
	}
}

void loader_read_run_time_of(int program_fd, uint64_t *ret_ns, uint64_t *ret_count)
{
	struct bpf_prog_info info = { 0 };
	uint32_t size = sizeof(info);

	*ret_ns = *ret_count = 0;
	if (bpf_obj_get_info_by_fd(program_fd, &info, &size))
		return;
	*ret_ns = info.run_time_ns;
	*ret_count = info.run_cnt;
}

void loader_read_run_time(const struct loader *loader, uint64_t *ret_ns, uint64_t *ret_count)
{
	loader_read_run_time_of(loader_sampler_fd(loader), ret_ns, ret_count);
}
