// SPDX-License-Identifier: Apache-2.0
// For tests: a process table for the machine they run on.
#pragma once

#include "agent/process/process_table.h"
#include "tests/test.h"

/** As process_table_new(). On an emulated machine reading the same takes more CPU time: processes may cost as much more. */
static inline struct process_table *new_process_table(struct executable_table *executables,
						      const struct labels *labels)
{
	struct process_table *table = process_table_new(executables, labels);

	if (table) {
		struct work_pool *work = process_table_work(table);

		work->process_ns = slower_ns(WORK_PROCESS_NS_MAX);
		work->total_ns = slower_ns(WORK_TOTAL_NS_MAX);
		work->share_ns = slower_ns(WORK_SHARE_NS_MAX);
	}
	return table;
}
