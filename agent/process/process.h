// SPDX-License-Identifier: Apache-2.0
// A process of the process table, and where an address of it lies.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/guard/work.h"
#include "agent/symbols/executable.h"
#include "base/labels.h"
#include "bpf/sample.h"

/** Valid until process_table_expire() evicts it. */
struct process {
	struct process_key key;
	char name[THREAD_NAME_BYTES]; // comm of its main thread
	bool exited;
	struct work_budget budget; // of what is read for it
	struct labels labels;      // of its series: service, container …, without "thread"
	bool is_excluded;          // its pod is not to be profiled: nothing of it is shipped
	uint64_t pod_wait_ns; // its counts wait so long for the pod's description; 0: they do not
			      // The rest is private to process_entry.h.
};

/** Is what is measured of it kept back until its pod is described? */
static inline bool process_awaits_pod(const struct process *process, uint64_t now_ns)
{
	return process->pod_wait_ns > now_ns;
}

/** The code at an address: executable and offset in its file. executable NULL: not in a file. */
struct code_address {
	struct executable *executable;
	uint64_t offset;
	bool is_data;         // not executable, by the process's mappings: no return address
	bool is_unknown;      // the process exited before its mappings were read
	bool is_jit;          // mapping_is_jit()
	const char *jit_name; // NULL: unknown; valid until the next call on the table
};
