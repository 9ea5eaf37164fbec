// SPDX-License-Identifier: Apache-2.0
// The Python interpreters of published processes: where each has its own, and what its build looks like,
// which the kernel is told once for all processes. Private to process_unwind.c.
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
	struct python_runtimes *runtimes; // NULL: no interpreters are looked for
	bool written[PYTHON_RUNTIMES_MAX];
};

/**
 * Look for the interpreter of @record's process among its mappings. What fails for the moment is to be
 * tried again at record->python_again_ns; what fails for good leaves the native stack. @notice says what is
 * amiss with a build, the first time that it is met: its code is 0 otherwise.
 */
void published_python_find(struct published_python *python, struct published *record,
			   const struct mapping_list *list, struct error *notice);

/**
 * Who was forked has its parent's interpreter at the same place, whether or not it can be read just now.
 * Returns false if no interpreter of a parent is known.
 */
bool published_python_inherit(const struct published_processes *processes,
			      struct process_table *table, struct published *record,
			      const struct process *process);
