// SPDX-License-Identifier: Apache-2.0
#include "agent/process/process_entry.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "agent/containers/cgroup.h"
#include "agent/process/process_labels.h"
#include "base/utf8.h"

enum { LABEL_TRIES_MAX = 8 }; // reads of a new program's labels, until its environment is there

#define LABEL_AGAIN_NS     NS_PER_SECOND    // a forked child that lives on gets labels of its own
#define LABEL_AGAIN_MIN_NS (20 * NS_PER_MS) // after exec; doubled with each try: 2.5 s in all

uint64_t process_start_ticks(uint64_t start_ns)
{
	return start_ns / (NS_PER_SECOND / PROC_TICKS_PER_SECOND);
}

/* ---- life ---------------------------------------------------------------------------------- */

static struct label_set *hold_labels(struct label_set *labels)
{
	if (labels)
		labels->holders++;
	return labels;
}

static uint64_t wait_of(const struct label_set *labels)
{
	uint64_t pod_ns = labels->is_settled ? 0 : labels->wait_ns;

	return pod_ns > labels->node_wait_ns ? pod_ns : labels->node_wait_ns;
}

/* process.labels is a view of the set. */
void process_entry_use_labels(struct process_entry *entry, struct label_set *labels)
{
	label_set_release(entry->labels);
	entry->labels = labels;
	entry->process.labels = labels ? labels->labels : (struct labels){ 0 };
	entry->process.is_excluded = labels && labels->is_excluded;
	entry->process.pod_wait_ns = labels ? wait_of(labels) : 0;
	entry->pods_version = 0;
}

void process_entry_free(struct process_entry *entry)
{
	if (!entry)
		return;
	process_entry_use_labels(entry, NULL);
	label_set_release(entry->former_labels);
	mapping_list_release(entry->mappings);
	process_jit_free(entry->jit);
	free(entry);
}

void process_entry_replace(struct process_entry *entry, const struct process_entry *former)
{
	const struct label_set *labels = former->labels ? former->labels : former->former_labels;

	label_set_release(entry->former_labels);
	entry->former_labels = hold_labels((struct label_set *)labels);
	entry->ancestor = former->ancestor;
	work_budget_inherit(&entry->process.budget, &former->process.budget);
}

void process_entry_inherit(struct process_entry *child, const struct process_entry *parent)
{
	if (!child->mappings && parent->mappings) {
		child->mappings = mapping_list_hold(parent->mappings);
		child->mappings_read_ns = parent->mappings_read_ns;
	}
	if (!child->labels && parent->labels)
		process_entry_use_labels(child, hold_labels(parent->labels));
	work_budget_inherit(&child->process.budget, &parent->process.budget);
	if (!child->former_labels)
		child->former_labels = hold_labels(parent->former_labels);
	if (!child->process.name[0])
		memcpy(child->process.name, parent->process.name, sizeof(child->process.name));
}

/* ---- /proc --------------------------------------------------------------------------------- */

int process_entry_open_proc(struct process_entry *entry, struct proc *ret_proc)
{
	struct proc proc;

	if (entry->gone || entry->process.exited)
		return -ESRCH;
	int rc = proc_open((pid_t)entry->process.key.pid, &proc);
	if (!rc && proc.stat.start_ticks != process_start_ticks(entry->process.key.start_ns)) {
		proc_close(&proc);
		rc = -ESRCH; // the pid was reused
	}
	if (rc == -ESRCH)
		entry->gone = true;
	if (!rc)
		*ret_proc = proc;
	return rc;
}

/* ---- labels -------------------------------------------------------------------------------- */

static int add_former_labels(struct labels *labels, const struct labels *former)
{
	for (uint32_t i = 0; i < former->count; i++) {
		const struct label *label = &former->pairs[i];

		if (labels_get(labels, label->name))
			continue;
		int rc = labels_set(labels, label->name, label->value);
		if (rc == -ENOMEM)
			return rc;
	}
	return 0;
}

/* What relabel rules read of the process itself. */
static int add_meta(struct meta_labels *meta, const struct process_traits *traits,
		    const struct relabel_rules *rules)
{
	int rc = 0;

	if (rules && traits->executable)
		rc = meta_labels_add(meta, "__meta_process_executable", "", traits->executable);
	if (rules && traits->name && !rc)
		rc = meta_labels_add(meta, "__meta_process_comm", "", traits->name);
	if (rules && traits->container && !rc)
		rc = meta_labels_add_all(meta, &traits->container->meta);
	return rc;
}

/* Exec changes the program's names only: other labels stay. Rules apply to labels that they have not seen. */
static const struct labels *labels_of_former(const struct label_set *former,
					     const struct process_context *context)
{
	return context->rules ? &former->detected : &former->labels;
}

/* @cgroup NULL: it is gone. */
static int detect_labels(struct process_entry *entry, const struct process_traits *traits,
			 const struct cgroup *cgroup, struct process_context *context)
{
	struct label_set *labels = calloc(1, sizeof(*labels));

	if (!labels)
		return -ENOMEM;
	labels->holders = 1;
	int rc = process_labels_detect(traits, &context->extra_labels, &labels->labels,
				       &labels->own_service, &context->attributes_refused);
	if (!rc && entry->gone && entry->former_labels)
		rc = add_former_labels(&labels->labels,
				       labels_of_former(entry->former_labels, context));
	if (!rc && cgroup)
		rc = label_set_place(labels, cgroup, clock_monotonic_ns(), context);
	else if (!rc)
		rc = label_set_place_as(labels, entry->former_labels, context);
	if (!rc)
		rc = add_meta(&labels->meta, traits, context->rules);
	if (!rc)
		rc = label_set_relabel(labels, NULL, context);
	if (rc) {
		label_set_release(labels);
		return rc;
	}
	label_set_release(entry->former_labels);
	entry->former_labels = NULL;
	process_entry_use_labels(entry, labels);
	return 0;
}

/* Pods are the API server's to name. */
static const struct container_record *find_container(const char *id, const char *pod_uid,
						     struct process_context *context)
{
	return pod_uid[0] ? NULL
			  : container_records_find(context->containers, id, clock_monotonic_ns());
}

/*
 * A file that may not be read counts as empty. During exec the environment is missing, for as long as the program
 * is read from disk: labels are read again then.
 */
static int read_labels(struct process_entry *entry, const struct proc *proc,
		       const struct buffer *cgroup_file, const struct cgroup *cgroup,
		       struct process_context *context)
{
	_cleanup_(buffer_deinit) struct buffer environment = { 0 }, command = { 0 };
	char executable[MAPPING_PATH_BYTES_MAX];
	bool has_executable = proc_read_link(proc->fd, "exe", executable, sizeof(executable)) == 0;

	if (!proc->stat.kernel_thread)
		proc_read(proc->files, "environ", ENVIRON_BYTES_MAX, &environment);
	if (has_executable && process_labels_is_in_memory(executable))
		proc_read(proc->files, "cmdline", MAPPING_PATH_BYTES_MAX, &command);

	bool again = !environment.size && !proc->stat.kernel_thread &&
		     ++entry->label_tries < LABEL_TRIES_MAX;
	entry->label_again_ns =
		again ? clock_monotonic_ns() + (LABEL_AGAIN_MIN_NS << (entry->label_tries - 1)) : 0;
	struct process_traits traits = {
		.name = entry->process.name,
		.executable = has_executable ? executable : NULL,
		.command = command.size ? buffer_string(&command) : NULL,
		.environ_ = (const char *)environment.bytes,
		.environ_size = environment.size,
		.cgroup = (const char *)cgroup_file->bytes,
		.cgroup_size = cgroup_file->size,
		.container = find_container(cgroup->container, cgroup->pod_uid, context),
		.node = context->node,
		.attribute_patterns = context->attribute_patterns,
		.kernel_thread = proc->stat.kernel_thread,
	};
	return detect_labels(entry, &traits, cgroup, context);
}

/* ---- JIT code ------------------------------------------------------------------------------- */

static void read_jit(struct process_entry *entry, bool known, struct process_context *context)
{
	uint64_t now = clock_monotonic_ns();
	size_t before = process_jit_bytes(entry->jit);
	bool was_full = process_jit_is_full(entry->jit);
	struct proc proc;
	struct work work;

	if (!process_jit_wants_read(entry->jit, known, now))
		return;
	if (context->jit_bytes >= JIT_BYTES_MAX) {
		context->jit_refused++;
		return;
	}
	if (!work_begin(&work, &entry->process.budget, "reading JIT symbols"))
		return;
	if (process_entry_open_proc(entry, &proc) == 0) {
		process_jit_read(entry->jit, &proc, entry->mappings, now);
		proc_close(&proc);
	}
	work_end(&work);
	context->jit_bytes += process_jit_bytes(entry->jit) - before;
	context->jit_cut += process_jit_is_full(entry->jit) && !was_full;
}

const char *process_entry_jit_name(struct process_entry *entry, uint64_t address,
				   struct process_context *context)
{
	if (!entry->jit)
		entry->jit = process_jit_new();
	if (!entry->jit)
		return NULL;
	read_jit(entry, process_jit_find(entry->jit, address), context);
	return process_jit_find(entry->jit, address);
}

uint64_t process_entry_jit_version(struct process_entry *entry, struct process_context *context)
{
	if (!entry->jit)
		return 0;
	read_jit(entry, false, context);
	return process_jit_version(entry->jit);
}

/* ---- description ---------------------------------------------------------------------------- */

/*
 * A container's processes pay together, a user's and a unit's: with another process nobody gets a share more. What root
 * runs outside of these pays by process.
 */
static void find_payer(struct process_entry *entry, const struct proc *proc, struct cgroup *cgroup)
{
	uid_t uid;

	if (!cgroup->payer[0] && proc_read_uid(proc->fd, &uid) == 0 && uid)
		snprintf(cgroup->payer, sizeof(cgroup->payer), "user-%u.slice", uid);
	if (cgroup->payer[0])
		entry->process.budget.payer = work_payer_of(cgroup->payer, strlen(cgroup->payer));
}

static int describe_living(struct process_entry *entry, const struct proc *proc,
			   struct process_context *context)
{
	_cleanup_(buffer_deinit) struct buffer file = { 0 };
	struct cgroup cgroup;

	snprintf(entry->process.name, sizeof(entry->process.name), "%.*s",
		 (int)sizeof(entry->process.name) - 1, proc->stat.name);
	utf8_clean(entry->process.name);
	entry->kernel_thread = proc->stat.kernel_thread;
	// First: files are opened for a payer.
	proc_read(proc->fd, "cgroup", CGROUP_FILE_BYTES_MAX, &file);
	cgroup_parse((const char *)file.bytes, file.size, &cgroup);
	find_payer(entry, proc, &cgroup);
	process_entry_read_mappings(entry, proc, context);
	return read_labels(entry, proc, &file, &cgroup, context);
}

static int describe_gone(struct process_entry *entry, struct process_context *context)
{
	const struct label_set *former = entry->former_labels;
	struct process_traits traits = {
		.name = entry->process.name,
		.container =
			former ? find_container(former->container, former->pod_uid, context) : NULL,
		.node = context->node,
	};

	entry->label_again_ns = 0;
	entry->gone = true; // or unreadable, which is the same here
	return entry->labels ? 0 : detect_labels(entry, &traits, NULL, context);
}

static int describe_itself(struct process_entry *entry, struct process_context *context)
{
	struct proc proc;

	if (entry->process.budget.is_left_alone || process_entry_open_proc(entry, &proc))
		return describe_gone(entry, context);
	struct watchdog_stage before =
		watchdog_enter("reading labels and mappings", (pid_t)entry->process.key.pid);
	int rc = describe_living(entry, &proc, context);
	watchdog_leave(before);
	proc_close(&proc);
	return rc;
}

/*
 * A forked child starts as its parent's copy. /proc may already show the program that it becomes by exec, which
 * has another entry: only a child that lives on is read itself.
 */
static bool is_copy(struct process_entry *entry, struct process_entry *parent,
		    struct process_context *context)
{
	if (parent && !parent->kernel_thread && !entry->labels &&
	    process_entry_describe(parent, NULL, context) == 0 && parent->mappings)
		process_entry_inherit(entry, parent);
	return entry->labels != NULL;
}

static int describe(struct process_entry *entry, struct process_entry *parent,
		    struct process_context *context)
{
	uint64_t now = clock_monotonic_ns();
	int rc = 0;

	if (entry->described && (!entry->label_again_ns || now < entry->label_again_ns))
		return 0;
	if (!entry->described && is_copy(entry, parent, context))
		entry->label_again_ns = now + LABEL_AGAIN_NS;
	else
		rc = describe_itself(entry, context);
	entry->described = !rc;
	context->described++;
	return rc;
}

int process_entry_describe(struct process_entry *entry, struct process_entry *parent,
			   struct process_context *context)
{
	// Labels may be detected again: what the pod says then is no news.
	struct label_set *exported =
		context->pods && entry->was_exported ? hold_labels(entry->labels) : NULL;
	int rc = describe(entry, parent, context);

	if (context->pods && entry->labels)
		process_entry_find_pod(entry, exported, context);
	label_set_release(exported);
	process_entry_apply_drop(entry, context);
	return rc;
}
