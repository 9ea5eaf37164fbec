// SPDX-License-Identifier: Apache-2.0
#include "agent/publish/published_python.h"

#include <errno.h>

#include "base/clock.h"

/* Retry interval for an interpreter that is starting: this part of the time since the first search. */
#define PYTHON_LATE_SHARE   8
#define PYTHON_AGAIN_MIN_NS (20 * NS_PER_MS)
#define PYTHON_AGAIN_MAX_NS (60 * NS_PER_SECOND)

static int write_runtime(struct published_python *python, uint32_t runtime)
{
	const struct python_offsets *offsets = python_runtimes_offsets(python->runtimes, runtime);

	if (!offsets || runtime >= PYTHON_RUNTIMES_MAX)
		return -EINVAL;
	if (python->written[runtime])
		return 0;
	int rc = unwind_maps_put_runtime(python->maps, runtime, offsets);
	python->written[runtime] = !rc;
	return rc;
}

static void set_python(struct published_python *python, struct published *record,
		       const struct python_process *found)
{
	if (python->runtimes) {
		python_runtimes_hold(python->runtimes, found->runtime);
		python_runtimes_release(python->runtimes, record->python.runtime);
	}
	record->python = *found;
}

// On a busy machine an interpreter may take seconds to start.
static void seek_again(struct published *record)
{
	uint64_t now = clock_monotonic_ns(), wait_ns;

	if (!record->python_since_ns)
		record->python_since_ns = now;
	wait_ns = (now - record->python_since_ns) / PYTHON_LATE_SHARE;
	if (wait_ns < PYTHON_AGAIN_MIN_NS)
		wait_ns = PYTHON_AGAIN_MIN_NS;
	if (wait_ns > PYTHON_AGAIN_MAX_NS)
		wait_ns = PYTHON_AGAIN_MAX_NS;
	record->python_again_ns = now + wait_ns;
}

static int find(struct published_python *python, const struct published *record,
		const struct mapping_list *list, struct work_budget *budget,
		struct python_process *ret_found, struct error *notice)
{
	struct work work;

	if (!work_begin(&work, budget, "reading Python thread states"))
		return -EDQUOT;
	int rc = python_runtimes_find(python->runtimes, (pid_t)record->key.pid, list, ret_found,
				      notice);
	work_end(&work);
	return rc;
}

void published_python_find(struct published_python *python, struct published *record,
			   const struct mapping_list *list, struct work_budget *budget,
			   struct error *notice)
{
	static const struct python_process none;
	struct python_process found = { 0 };

	record->python_again_ns = 0;
	if (!python->runtimes)
		return;
	int rc = find(python, record, list, budget, &found, notice);
	if (!rc)
		rc = write_runtime(python, found.runtime);
	// Unreadable for the moment, or put off: use what was found before.
	bool is_later = rc == -EAGAIN || rc == -EDQUOT || rc == -ENOSPC;
	bool is_kept = (is_later || rc == -ESRCH) && record->python.runtime;
	if (is_later)
		seek_again(record);
	if (!is_kept)
		set_python(python, record, rc ? &none : &found);
}

void published_python_drop(struct published_python *python, struct published *record)
{
	static const struct python_process none;

	set_python(python, record, &none);
}

bool published_python_inherit(struct published_python *python,
			      const struct published_processes *processes,
			      struct process_table *table, struct published *record,
			      const struct process *process)
{
	for (int i = 0; i < PROCESS_FORKS_MAX && process; i++) {
		process = process_table_parent(table, process);
		const struct published *parent =
			process ? published_processes_find(processes, process->key.pid) : NULL;

		if (!parent || !published_is_of(parent, &process->key))
			continue;
		set_python(python, record, &parent->python);
		return parent->python.runtime != 0;
	}
	return false;
}
