// SPDX-License-Identifier: Apache-2.0
#include "agent/sources/wakers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "agent/process/process_labels.h"
#include "agent/sources/sources.h"
#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/id128.h"
#include "bpf/shared_variables.h"
#include "wakers.skel.h"
#include "base/contract/label_names.h"

/* Of the interrupt entry code: some ten times what there is. */
#define INTERRUPT_BYTES_MAX 65536

struct sampled_process {
	uint32_t pid;
	bool seen; // in this turn
};

struct wakers {
	struct wakers_bpf *programs;
	struct bpf_link *links[2];
	const struct process_table *processes;
	char *services; // NULL: all that the sampler selects
	struct sampled_process *sampled;
	uint32_t sampled_count, sampled_max;
	struct hash_table by_pid;
	bool is_full_reported;
	bool no_interrupts;
	enum loader_level level;
	struct event_log *events;
	char refusal[ERROR_TEXT_BYTES]; // of the last attempt that failed
};

/* Left out of waker stacks: their callers say more. */
static const char *const waking_functions[] = {
	"try_to_wake_up", "wake_up_process",       "wake_up_q",
	"wake_up_state",  "default_wake_function", "autoremove_wake_function",
	"pollwake",       "__wake_up_common",      "__wake_up_common_lock",
	"__wake_up",      "__wake_up_sync_key",    "__wake_up_locked",
};

static const char *const timer_functions[] = { "hrtimer_wakeup", "process_timeout" };

/* Interrupt entry points. On x86-64 they lie one after the other. */
static const char *const interrupt_functions[] = {
#if defined(__x86_64__)
	"asm_common_interrupt",
	"asm_sysvec_apic_timer_interrupt",
	"asm_sysvec_reschedule_ipi",
	"asm_sysvec_call_function_single",
	"asm_sysvec_call_function",
	"asm_sysvec_irq_work",
	"asm_sysvec_kvm_asyncpf_interrupt",
	"asm_sysvec_hyperv_callback",
	"asm_sysvec_hyperv_stimer0",
	"asm_exc_xen_hypervisor_callback",
#else
	"el1h_64_irq",
	"el0t_64_irq",
#endif
};

// ---- processes ----------------------------------------------------------------------------------

bool wakers_is_listed(const char *services, const char *service)
{
	size_t size = strlen(service);

	for (const char *name = services; size;) {
		size_t name_size = strcspn(name, ",");

		if (name_size == size && !strncmp(name, service, size))
			return true;
		if (!name[name_size])
			return false;
		name += name_size + 1;
	}
	return false;
}

static bool pid_equals(const void *context, uint32_t item, const void *pid)
{
	const struct wakers *wakers = context;

	return wakers->sampled[item].pid == *(const uint32_t *)pid;
}

static struct sampled_process *find(struct wakers *wakers, uint32_t pid)
{
	uint32_t at = hash_table_find(&wakers->by_pid, hash64_of(&pid, sizeof(pid)), pid_equals,
				      wakers, &pid);

	return at == HASH_TABLE_NONE ? NULL : &wakers->sampled[at];
}

// NULL: table full.
static struct sampled_process *add(struct wakers *wakers, uint32_t pid)
{
	int fd = bpf_map__fd(wakers->programs->maps.woken_pids);
	uint32_t yes = 1, at = wakers->sampled_count;

	if (at == wakers->sampled_max || bpf_map_update_elem(fd, &pid, &yes, BPF_ANY))
		return NULL;
	if (hash_table_add(&wakers->by_pid, hash64_of(&pid, sizeof(pid)), at)) {
		bpf_map_delete_elem(fd, &pid);
		return NULL;
	}
	wakers->sampled[at] = (struct sampled_process){ .pid = pid };
	wakers->sampled_count++;
	return &wakers->sampled[at];
}

static void follow(void *context, const struct process *process)
{
	const char *service = labels_get(&process->labels, LABEL_SERVICE);
	struct wakers *wakers = context;
	struct sampled_process *sampled;

	if (!service || !wakers_is_listed(wakers->services, service))
		return;
	sampled = find(wakers, process->key.pid);
	if (!sampled)
		sampled = add(wakers, process->key.pid);
	if (sampled)
		sampled->seen = true;
	else
		event_warn_once(wakers->events, &wakers->is_full_reported, "wakers",
				"dropped processes of the services in --wakers: table full "
				"(limit %u); name fewer services",
				wakers->sampled_max);
}

static void remove_exited(struct wakers *wakers)
{
	int fd = bpf_map__fd(wakers->programs->maps.woken_pids);
	uint32_t kept = 0;

	hash_table_clear(&wakers->by_pid);
	for (uint32_t i = 0; i < wakers->sampled_count; i++) {
		uint32_t pid = wakers->sampled[i].pid;

		if (!wakers->sampled[i].seen) {
			bpf_map_delete_elem(fd, &pid);
			continue;
		}
		// There is room: they were in it.
		hash_table_add(&wakers->by_pid, hash64_of(&pid, sizeof(pid)), kept);
		wakers->sampled[kept++] = (struct sampled_process){ .pid = pid };
	}
	wakers->sampled_count = kept;
}

static void sample_services(struct wakers *wakers)
{
	if (!wakers->services)
		return;
	process_table_each_sampled(wakers->processes, follow, wakers);
	remove_exited(wakers);
}

// ---- loading --------------------------------------------------------------------------------

static void set_waking(struct wakers_bpf *programs, const struct kallsyms *kallsyms)
{
	_Static_assert(ARRAY_SIZE(waking_functions) <=
			       ARRAY_SIZE(programs->rodata->scheduler_start),
		       "room for all");
	for (uint32_t i = 0; i < ARRAY_SIZE(waking_functions); i++)
		kallsyms_find_name(kallsyms, waking_functions[i],
				   (uint64_t *)&programs->rodata->scheduler_start[i],
				   (uint64_t *)&programs->rodata->scheduler_bytes[i]);
}

static void set_timers(struct wakers_bpf *programs, const struct kallsyms *kallsyms)
{
	_Static_assert(ARRAY_SIZE(timer_functions) <= ARRAY_SIZE(programs->rodata->timer_start),
		       "room for all");
	for (uint32_t i = 0; i < ARRAY_SIZE(timer_functions); i++)
		kallsyms_find_name(kallsyms, timer_functions[i],
				   (uint64_t *)&programs->rodata->timer_start[i],
				   (uint64_t *)&programs->rodata->timer_bytes[i]);
}

// From the first function to the end of the last one. False: they do not lie together.
static bool set_interrupts(struct wakers_bpf *programs, const struct kallsyms *kallsyms)
{
	uint64_t first = UINT64_MAX, end = 0;

	for (uint32_t i = 0; i < ARRAY_SIZE(interrupt_functions); i++) {
		uint64_t start, size;

		if (kallsyms_find_name(kallsyms, interrupt_functions[i], &start, &size))
			continue;
		first = start < first ? start : first;
		end = start + size > end ? start + size : end;
	}
	if (first >= end || end - first > INTERRUPT_BYTES_MAX)
		return false;
	programs->rodata->interrupt_start = first;
	programs->rodata->interrupt_bytes = end - first;
	return true;
}

static int load(struct wakers *wakers, const struct loader *loader,
		const struct wakers_options *options)
{
	struct wakers_bpf *programs = wakers_bpf__open();
	int rc;

	if (!programs)
		return -errno;
	wakers->programs = programs;
	rc = loader_share_maps(loader, programs->obj);
	if (!rc)
		rc = bpf_map__reuse_fd(programs->maps.threads,
				       switches_threads_fd(options->switches));
	if (rc)
		return rc;
	programs->rodata->slot_ns = options->slot_ns;
	programs->rodata->only_targets = options->only_targets;
	programs->rodata->unwind_by_tables = wakers->level < LOADER_LEVEL_FRAME_POINTER;
	programs->rodata->unwind_python = wakers->level < LOADER_LEVEL_NO_PYTHON;
	wakers->no_interrupts = true;
	if (options->kallsyms) {
		set_waking(programs, options->kallsyms);
		set_timers(programs, options->kallsyms);
		wakers->no_interrupts = !set_interrupts(programs, options->kallsyms);
	}
	return wakers_bpf__load(programs);
}

// Falls back where the kernel refuses, from the switches' level on.
static int load_any(struct wakers *wakers, const struct loader *loader,
		    const struct wakers_options *options)
{
	enum loader_level first = switches_level(options->switches);
	int rc;

	wakers->level = first;
	loader_take_error();
	while ((rc = load(wakers, loader, options)) < 0) {
		snprintf(wakers->refusal, sizeof(wakers->refusal), "%s", loader_take_error());
		if (wakers->level == LOADER_LEVEL_FRAME_POINTER)
			return rc;
		wakers->level++;
		wakers_bpf__destroy(take(wakers->programs));
	}
	if (wakers->level != first)
		event_warn(wakers->events, "wakers",
			   "waker stacks %s: the kernel refused the full unwinder (%.140s); use a "
			   "newer kernel",
			   wakers->level == LOADER_LEVEL_FRAME_POINTER
				   ? "end at code without frame pointers"
				   : "have no Python frames",
			   wakers->refusal);
	return rc;
}

static int attach(struct wakers *wakers)
{
	const struct wakers_bpf *programs = wakers->programs;

	wakers->links[0] = bpf_program__attach(programs->progs.thread_woken);
	if (wakers->links[0])
		wakers->links[1] = bpf_program__attach(programs->progs.woken_thread_ends);
	return wakers->links[1] ? 0 : -errno;
}

static int open_all(struct wakers *wakers, const struct loader *loader,
		    const struct wakers_options *options, struct error *err)
{
	if (!options->only_targets) {
		wakers->services = strdup(options->services ? options->services : "");
		if (!wakers->services)
			return error_set(err, -ENOMEM, "out of memory");
	}
	int rc = load_any(wakers, loader, options);
	if (rc)
		return error_errno(err, rc,
				   "loading the programs of wake-ups: the kernel said \"%.160s\"",
				   wakers->refusal);
	wakers->sampled_max = bpf_map__max_entries(wakers->programs->maps.woken_pids);
	wakers->sampled = calloc(wakers->sampled_max, sizeof(*wakers->sampled));
	if (!wakers->sampled)
		return error_set(err, -ENOMEM, "out of memory");
	rc = attach(wakers);
	return rc ? error_errno(err, rc, "attaching to wake-ups") : 0;
}

int wakers_open(const struct loader *loader, const struct wakers_options *options,
		struct wakers **ret_wakers, struct error *err)
{
	struct wakers *wakers = calloc(1, sizeof(*wakers));

	if (!wakers)
		return error_set(err, -ENOMEM, "out of memory");
	wakers->processes = options->processes;
	wakers->events = options->events;
	int rc = open_all(wakers, loader, options, err);
	if (rc) {
		wakers_close(wakers);
		return rc;
	}
	if (wakers->no_interrupts)
		event_warn(
			wakers->events, "wakers",
			"wake-ups by interrupts show the interrupted thread as the waker: the "
			"kernel's interrupt entry points are unknown; give the agent CAP_SYSLOG");
	sample_services(wakers);
	*ret_wakers = wakers;
	return 0;
}

void wakers_close(void *state)
{
	struct wakers *wakers = state;

	if (!wakers)
		return;
	for (uint32_t i = 0; i < ARRAY_SIZE(wakers->links); i++)
		bpf_link__destroy(wakers->links[i]);
	wakers_bpf__destroy(wakers->programs);
	free(wakers->services);
	free(wakers->sampled);
	hash_table_deinit(&wakers->by_pid);
	free(wakers);
}

int wakers_set_services(struct wakers *wakers, const char *services)
{
	char *copy = strdup(services);

	if (!copy)
		return -ENOMEM;
	free(wakers->services);
	wakers->services = copy;
	sample_services(wakers);
	return 0;
}

enum loader_level wakers_level(const struct wakers *wakers)
{
	return wakers->level;
}

// ---- the source -----------------------------------------------------------------------------

static int open_source(const struct source_setup *setup, void **ret_state, struct error *err)
{
	const struct wakers_options options = {
		.slot_ns = setup->slot_ns,
		.switches = sources_find(setup->sources, SOURCE_WALL),
		.processes = setup->processes,
		.kallsyms = setup->kallsyms,
		.only_targets = setup->only_targets,
		.services = setup->wakers,
		.events = setup->events,
	};
	struct wakers *wakers;

	if (!options.switches)
		return error_set(err, -EOPNOTSUPP, "needs the source wall, which does not run");
	int rc = wakers_open(setup->loader, &options, &wakers, err);
	if (!rc)
		*ret_state = wakers;
	return rc;
}

// The services of processes are known when their counts have been drained.
static int after_drain(void *state, struct export_interval *interval)
{
	(void)interval;
	sample_services(state);
	return 0;
}

const struct source wakers_source = {
	.name = "wakers",
	.bit = SOURCE_WAKERS,
	.needs = SOURCE_WALL,
	.open = open_source,
	.close = wakers_close,
	.after_drain = after_drain,
};
