// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/page_faults.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "agent/bpf/cpu_programs.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "bpf/shared_variables.h"
#include "page_faults.skel.h"

/* Between two looks at CPU hotplug. */
#define HOTPLUG_INTERVAL_NS (5 * NS_PER_SECOND)

struct page_faults {
	struct page_faults_bpf *programs;
	struct bpf_link *links[2];       // tracepoints where faults begin
	struct cpu_programs *counted;    // instead, where there are none
	struct cpu_programs *handled[2]; // minor and major ones
	bool has_tracepoints;
	uint64_t hotplug_ns; // when to look for CPUs
};

static void set_unwinder(struct page_faults_bpf *programs, enum loader_level level)
{
	programs->rodata->unwind_by_tables = level < LOADER_LEVEL_FRAME_POINTER;
	programs->rodata->unwind_python = level < LOADER_LEVEL_NO_PYTHON;
	programs->rodata->send_snapshots = level < LOADER_LEVEL_FRAME_POINTER;
}

static int load(struct page_faults *faults, const struct loader *loader,
		const struct page_faults_options *options)
{
	struct page_faults_bpf *programs = page_faults_bpf__open();
	int rc;

	if (!programs)
		return -errno;
	faults->programs = programs;
	rc = loader_share_maps(loader, programs->obj);
	if (rc)
		return rc;
	set_unwinder(programs, loader_level(loader));
	programs->rodata->slot_ns = options->slot_ns;
	programs->rodata->only_targets = options->only_targets;
	programs->rodata->page_bytes = sysconf(_SC_PAGESIZE);
	programs->data->stacks_per_second = PAGE_FAULT_STACKS_PER_SECOND;
	bpf_program__set_autoload(programs->progs.fault_of_user, faults->has_tracepoints);
	bpf_program__set_autoload(programs->progs.fault_of_kernel, faults->has_tracepoints);
	bpf_program__set_autoload(programs->progs.fault_counted, !faults->has_tracepoints);
	return page_faults_bpf__load(programs);
}

// Tracepoints first; only x86-64 has them.
static int load_any(struct page_faults *faults, const struct loader *loader,
		    const struct page_faults_options *options)
{
	int rc;

	faults->has_tracepoints =
		!options->no_tracepoints &&
		libbpf_find_vmlinux_btf_id("page_fault_user", BPF_TRACE_RAW_TP) > 0;
	rc = load(faults, loader, options);
	if (!rc || !faults->has_tracepoints)
		return rc;
	page_faults_bpf__destroy(take(faults->programs));
	faults->has_tracepoints = false;
	return load(faults, loader, options);
}

static int attach_beginnings(struct page_faults *faults, struct error *err)
{
	const struct page_faults_bpf *programs = faults->programs;

	if (!faults->has_tracepoints)
		return cpu_programs_open(PERF_COUNT_SW_PAGE_FAULTS,
					 bpf_program__fd(programs->progs.fault_counted),
					 &faults->counted, err);
	faults->links[0] = bpf_program__attach(programs->progs.fault_of_user);
	if (faults->links[0])
		faults->links[1] = bpf_program__attach(programs->progs.fault_of_kernel);
	return faults->links[1] ? 0 : error_errno(err, -errno, "attaching to page faults");
}

static int attach(struct page_faults *faults, struct error *err)
{
	int program_fd = bpf_program__fd(faults->programs->progs.fault_handled);
	int rc = attach_beginnings(faults, err);

	if (!rc)
		rc = cpu_programs_open(PERF_COUNT_SW_PAGE_FAULTS_MIN, program_fd,
				       &faults->handled[0], err);
	if (!rc)
		rc = cpu_programs_open(PERF_COUNT_SW_PAGE_FAULTS_MAJ, program_fd,
				       &faults->handled[1], err);
	return rc;
}

static void detach(struct page_faults *faults)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(faults->links); i++)
		bpf_link__destroy(take(faults->links[i]));
	cpu_programs_close(take(faults->counted));
	for (uint32_t i = 0; i < ARRAY_SIZE(faults->handled); i++)
		cpu_programs_close(take(faults->handled[i]));
}

int page_faults_set_running(void *state, bool on)
{
	struct page_faults *faults = state;
	int rc = on ? attach(faults, NULL) : 0;

	if (rc || !on)
		detach(faults);
	return rc;
}

int page_faults_open(const struct loader *loader, const struct page_faults_options *options,
		     struct page_faults **ret_faults, struct error *err)
{
	struct page_faults *faults = calloc(1, sizeof(*faults));

	if (!faults)
		return error_set(err, -ENOMEM, "out of memory");
	int rc = load_any(faults, loader, options);
	if (rc)
		error_errno(err, rc, "loading the programs of page faults");
	else if (!options->begins_later)
		rc = attach(faults, err);
	if (rc) {
		page_faults_close(faults);
		return rc;
	}
	if (!faults->has_tracepoints)
		event_warn(options->events, "memory",
			   "growth overestimated: this kernel also counts page faults without a "
			   "new page; use a newer kernel");
	faults->hotplug_ns = clock_monotonic_ns() + HOTPLUG_INTERVAL_NS;
	*ret_faults = faults;
	return 0;
}

void page_faults_close(void *state)
{
	struct page_faults *faults = state;

	if (!faults)
		return;
	detach(faults);
	page_faults_bpf__destroy(faults->programs);
	free(faults);
}

static void tick(void *state, uint64_t now_ns)
{
	struct page_faults *faults = state;

	if (now_ns < faults->hotplug_ns)
		return;
	faults->hotplug_ns = now_ns + HOTPLUG_INTERVAL_NS;
	if (faults->counted)
		cpu_programs_update(faults->counted);
	for (uint32_t i = 0; i < ARRAY_SIZE(faults->handled); i++)
		cpu_programs_update(faults->handled[i]);
}

void page_faults_set_budget(struct page_faults *faults, uint32_t stacks_per_second)
{
	__atomic_store_n(&faults->programs->data->stacks_per_second, stacks_per_second,
			 __ATOMIC_RELAXED);
}

void page_faults_read_run_time(const struct page_faults *faults, uint64_t *ret_ns,
			       uint64_t *ret_count)
{
	const struct page_faults_bpf *programs = faults->programs;
	const struct bpf_program *all[] = {
		programs->progs.fault_of_user,
		programs->progs.fault_of_kernel,
		programs->progs.fault_counted,
		programs->progs.fault_handled,
	};

	*ret_ns = *ret_count = 0;
	for (uint32_t i = 0; i < ARRAY_SIZE(all); i++) {
		uint64_t ns = 0, count = 0;

		if (bpf_program__fd(all[i]) >= 0)
			loader_read_run_time_of(bpf_program__fd(all[i]), &ns, &count);
		*ret_ns += ns;
		*ret_count += count;
	}
}

// ---- the source -----------------------------------------------------------------------------

static int open_source(const struct source_setup *setup, void **ret_state, struct error *err)
{
	const struct page_faults_options options = {
		.slot_ns = setup->slot_ns,
		.only_targets = setup->only_targets,
		.events = setup->events,
		.begins_later = setup->begins_later,
	};
	struct page_faults *faults;
	int rc = page_faults_open(setup->loader, &options, &faults, err);

	if (!rc)
		*ret_state = faults;
	return rc;
}

static void set_step(void *faults, uint32_t step)
{
	page_faults_set_budget(faults, step < 8 ? PAGE_FAULT_STACKS_PER_SECOND >> (2 * step) : 0);
}

const struct source page_faults_source = {
	.name = "memory",
	.bit = SOURCE_MEMORY,
	.open = open_source,
	.close = page_faults_close,
	.set_running = page_faults_set_running,
	.tick = tick,
	.set_step = set_step,
};
