// SPDX-License-Identifier: Apache-2.0
// Python interpreters of published processes: where each process has its own, and each build's field offsets, which
// are written once. Private to process_unwind.c.
#pragma once

#include <stdbool.h>

#include "agent/process/mapping.h"
#include "agent/process/process_table.h"
#include "agent/publish/published_processes.h"
#include "agent/python/python_runtime.h"
#include "agent/bpf/unwind_maps.h"
#include "base/error.h"

struct published_python {
	const struct unwind_maps *maps;
	struct python_runtimes *runtimes; // NULL: no Python frames
	bool written[PYTHON_RUNTIMES_MAX];
};

/**
 * Find the interpreter among the mappings of @record's process. Retries at record->python_again_ns what may succeed
 * later; a lasting failure leaves the native stack. Sets @notice the first time that a build has a problem, else its
 * code is 0. @budget is the process's.
 */
void published_python_find(struct published_python *python, struct published *record,
			   const struct mapping_list *list, struct work_budget *budget,
			   struct error *notice);

/** @record is withdrawn: it uses its interpreter's build no longer. */
void published_python_drop(struct published_python *python, struct published *record);

/**
 * A forked process has its parent's interpreter at the same address, readable or not. Returns false if the parent's
 * is unknown.
 */
bool published_python_inherit(struct published_python *python,
			      const struct published_processes *processes,
			      struct process_table *table, struct published *record,
			      const struct process *process);
