// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/switches.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "agent/sources/sleepers.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "bpf/shared_variables.h"
#include "switches.skel.h"

/* How often sleepers are unwound again. */
#define LOOK_INTERVAL_NS NS_PER_SECOND

struct switches {
	struct switches_bpf *programs;
	struct bpf_link *links[3];
	struct bpf_link *sweep_link;
	struct sleepers *sleepers; // NULL: the kernel refused them
	uint64_t looked_ns;
	uint64_t slot_ns;
	bool raw_tracepoints;
	enum loader_level level;
	uint32_t stackless_count;
	bool delay_is_reported;
	struct event_log *events;
	char refusal[ERROR_TEXT_BYTES]; // of the last attempt that failed
};

/* Left out of stacks: they only say that the thread lost its CPU. io_schedule() says more. */
static const char *const scheduler_functions[] = {
	"__schedule",
	"schedule",
	"schedule_preempt_disabled",
	"schedule_rtlock",
	"schedule_timeout",
	"schedule_hrtimeout",
	"schedule_hrtimeout_range",
	"schedule_hrtimeout_range_clock",
	"preempt_schedule",
	"preempt_schedule_common",
	"preempt_schedule_irq",
	"preempt_schedule_notrace",
};

static void set_scheduler(struct switches_bpf *programs, const struct kallsyms *kallsyms)
{
	_Static_assert(ARRAY_SIZE(scheduler_functions) <=
			       ARRAY_SIZE(programs->rodata->scheduler_start),
		       "room for all");
	for (uint32_t i = 0; kallsyms && i < ARRAY_SIZE(scheduler_functions); i++) {
		uint64_t start, size;

		if (kallsyms_find_name(kallsyms, scheduler_functions[i], &start, &size))
			continue;
		programs->rodata->scheduler_start[i] = start;
		programs->rodata->scheduler_bytes[i] = size;
	}
}

static bool kernel_is_at_least(uint32_t wanted_major, uint32_t wanted_minor)
{
	struct utsname name;
	unsigned int major, minor;

	return !uname(&name) && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
	       (major > wanted_major || (major == wanted_major && minor >= wanted_minor));
}

static int load(struct switches *switches, const struct loader *loader,
		const struct switches_options *options)
{
	struct switches_bpf *programs = switches_bpf__open();
	int rc;

	if (!programs)
		return -errno;
	switches->programs = programs;
	rc = loader_share_maps(loader, programs->obj);
	if (rc)
		return rc;
	programs->rodata->slot_ns = options->slot_ns;
	programs->rodata->only_targets = options->only_targets;
	programs->rodata->unwind_by_tables = switches->level < LOADER_LEVEL_FRAME_POINTER;
	programs->rodata->unwind_python = switches->level < LOADER_LEVEL_NO_PYTHON;
	programs->rodata->can_track_at_switches = kernel_is_at_least(6, 4);
	set_scheduler(programs, options->kallsyms);
	bpf_program__set_autoload(programs->progs.track_child, !switches->raw_tracepoints);
	bpf_program__set_autoload(programs->progs.end_thread, !switches->raw_tracepoints);
	bpf_program__set_autoload(programs->progs.switch_threads, !switches->raw_tracepoints);
	bpf_program__set_autoload(programs->progs.switch_threads_raw, switches->raw_tracepoints);
	return switches_bpf__load(programs);
}

// The next fallback; false: none is left. As the loader does.
static bool fall_back(struct switches *switches)
{
	if (switches->level < LOADER_LEVEL_FRAME_POINTER)
		switches->level++;
	else if (!switches->raw_tracepoints)
		switches->raw_tracepoints = true;
	else
		return false;
	return true;
}

static int load_any(struct switches *switches, const struct loader *loader,
		    const struct switches_options *options)
{
	enum loader_level level = loader_level(loader);
	int rc;

	switches->raw_tracepoints = options->raw_tracepoints;
	switches->level = options->level > level ? options->level : level;
	level = switches->level;
	loader_take_error();
	while ((rc = load(switches, loader, options)) < 0) {
		snprintf(switches->refusal, sizeof(switches->refusal), "%s", loader_take_error());
		if (!fall_back(switches))
			return rc;
		switches_bpf__destroy(take(switches->programs));
	}
	if (!rc && switches->level != level)
		event_warn(
			switches->events, "off-cpu",
			"blocked stacks %s: the kernel refused the full unwinder (%.140s); use a "
			"newer kernel",
			switches->level == LOADER_LEVEL_FRAME_POINTER
				? "end at code without frame pointers"
				: "have no Python frames",
			switches->refusal);
	return rc;
}

static int attach(struct switches *switches)
{
	const struct switches_bpf *programs = switches->programs;
	struct bpf_program *attached[] = {
		switches->raw_tracepoints ? programs->progs.switch_threads_raw
					  : programs->progs.switch_threads,
		switches->raw_tracepoints ? NULL : programs->progs.track_child,
		switches->raw_tracepoints ? NULL : programs->progs.end_thread,
	};

	for (uint32_t i = 0; i < ARRAY_SIZE(attached); i++) {
		if (!attached[i])
			continue;
		switches->links[i] = bpf_program__attach(attached[i]);
		if (!switches->links[i])
			return -errno;
	}
	return 0;
}

static void detach(struct switches *switches)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(switches->links); i++)
		bpf_link__destroy(take(switches->links[i]));
}

/* @anew: the time of threads before now is not accounted for. While nothing is attached. */
static int begin(struct switches *switches, bool anew)
{
	struct switches_bpf *programs = switches->programs;
	int rc = 0;

	programs->bss->tracking_since_ns = clock_monotonic_ns();
	if (anew) {
		programs->bss->restart_tracking = true;
		rc = switches_sweep(switches);
		programs->bss->restart_tracking = false;
	}
	if (!rc)
		rc = attach(switches);
	if (!rc)
		rc = switches_sweep(switches);
	if (!rc && !programs->bss->has_run_delay)
		event_warn_once(switches->events, &switches->delay_is_reported, "run queue",
				"latency after a wake-up counts as blocked time: the kernel lacks "
				"CONFIG_SCHED_INFO; use a kernel with it");
	return rc;
}

// Without them, truncated stacks stay so.
static void open_sleepers(struct switches *switches, const struct loader *loader)
{
	const struct sleepers_options options = {
		.slot_ns = switches->slot_ns,
		.level = switches->level,
		.threads_fd = switches_threads_fd(switches),
		.can_find_tasks = kernel_is_at_least(6, 2),
	};
	struct error err = { 0 };

	if (!sleepers_open(loader, &options, &switches->sleepers, &err))
		return;
	switches->sleepers = NULL;
	event_warn(switches->events, "off-cpu",
		   "threads that blocked before their first sample have no stack: %.200s",
		   err.text);
}

int switches_open(const struct loader *loader, const struct switches_options *options,
		  struct switches **ret_switches, struct error *err)
{
	struct switches *switches = calloc(1, sizeof(*switches));

	if (!switches)
		return error_set(err, -ENOMEM, "out of memory");
	switches->slot_ns = options->slot_ns;
	switches->events = options->events;
	int rc = load_any(switches, loader, options);
	if (!rc) {
		switches->sweep_link =
			bpf_program__attach_iter(switches->programs->progs.sweep_threads, NULL);
		rc = switches->sweep_link ? 0 : -errno;
		if (!rc && !options->begins_later)
			rc = begin(switches, false);
	}
	if (rc) {
		error_errno(err, rc,
			    "loading the programs of context switches: the kernel said \"%.160s\"",
			    switches->refusal);
		switches_close(switches);
		return rc;
	}
	open_sleepers(switches, loader);
	*ret_switches = switches;
	return 0;
}

void switches_close(void *state)
{
	struct switches *switches = state;

	if (!switches)
		return;
	detach(switches);
	bpf_link__destroy(switches->sweep_link);
	sleepers_close(switches->sleepers);
	switches_bpf__destroy(switches->programs);
	free(switches);
}

int switches_set_running(void *state, bool on)
{
	struct switches *switches = state;
	int rc = 0;

	if (on) {
		rc = begin(switches, true);
	} else {
		// The time so far counts in the next export interval.
		switches_sweep(switches);
	}
	if (rc || !on)
		detach(switches);
	return rc;
}

static int sweep(struct switches *switches)
{
	uint64_t offset_ns = switches->programs->data_shared->shared.realtime_offset_ns;
	_cleanup_close_ int fd = bpf_iter_create(bpf_link__fd(switches->sweep_link));
	char nothing;

	if (fd < 0)
		return -errno;
	switches->programs->bss->sweep_slot =
		(clock_monotonic_ns() + offset_ns) / switches->slot_ns;
	// The program writes nothing: it has visited all threads when the first read returns.
	while (read(fd, &nothing, sizeof(nothing)) < 0) {
		if (errno != EAGAIN && errno != EINTR)
			return -errno;
	}
	return 0;
}

static int unwind_sleepers(struct switches *switches)
{
	switches->looked_ns = clock_monotonic_ns();
	return switches->sleepers ? sleepers_look(switches->sleepers,
						  switches->programs->bss->truncated_stacks)
				  : 0;
}

static void tick(void *state, uint64_t now_ns)
{
	struct switches *switches = state;

	if (ns_between(switches->looked_ns, now_ns) >= LOOK_INTERVAL_NS)
		unwind_sleepers(switches); // a failure is returned by the next sweep
}

int switches_sweep(void *state)
{
	struct switches *switches = state;
	int looked = unwind_sleepers(switches), rc = sweep(switches);

	return rc ? rc : looked;
}

int switches_threads_fd(const struct switches *switches)
{
	return bpf_map__fd(switches->programs->maps.threads);
}

enum loader_level switches_level(const struct switches *switches)
{
	return switches->level;
}

void switches_set_step(void *state, uint32_t step)
{
	struct switches *switches = state;

	__atomic_store_n(&switches->programs->bss->min_shift, 2 * step, __ATOMIC_RELAXED);
}

int switches_set_process(void *state, uint32_t pid, bool on)
{
	struct switches *switches = state;
	int fd = bpf_map__fd(switches->programs->maps.stackless);
	uint32_t yes = 1;
	int rc = on ? bpf_map_delete_elem(fd, &pid)
		    : bpf_map_update_elem(fd, &pid, &yes, BPF_NOEXIST);

	if (rc)
		return -errno;
	switches->stackless_count += on ? -1 : 1;
	switches->programs->bss->any_stackless = switches->stackless_count != 0;
	return 0;
}

static int open_source(const struct source_setup *setup, void **ret_state, struct error *err)
{
	const struct switches_options options = {
		.slot_ns = setup->slot_ns,
		.only_targets = setup->only_targets,
		.kallsyms = setup->kallsyms,
		.events = setup->events,
		.begins_later = setup->begins_later,
	};
	struct switches *switches;
	int rc = switches_open(setup->loader, &options, &switches, err);

	if (!rc)
		*ret_state = switches;
	return rc;
}

const struct source switches_source = {
	.name = "wall",
	.bit = SOURCE_WALL,
	.open = open_source,
	.close = switches_close,
	.set_running = switches_set_running,
	.before_drain = switches_sweep,
	.tick = tick,
	.set_step = switches_set_step,
	.set_process = switches_set_process,
};
