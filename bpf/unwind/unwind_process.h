/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What the unwinder must know of a process: where its code is mapped, and where its interpreter is.
// The agent publishes it when the process has been sampled.
#pragma once

#include "bpf/unwind/python.h"
#include "bpf/unwind/stack.h"
#include "bpf/unwind/unwind_table.h"

/* One process's: a root and what it can lead to, 16,384 mappings. */
#define MAPPING_PAGES_MAX (1 + MAPPING_PAGE_ENTRIES)

/* Value of the map of processes; its key is the kernel's tgid. */
struct process_unwind {
	struct process_key
		key;      // whose: an entry left behind by a former owner of the pid is not used
	__u32 generation; // part of the key of its mapping pages
	__u32 mapping_page_count;
	__u32 tables_pending; // mappings of code MAPPING_CODE_UNKNOWN whose tables are being built
	__u32 pages_pid;      // part of that key, too: its own pid, or its parent's after a fork
	struct python_process python;
};

/* Pages are written under a new generation, then the process's entry is switched: nobody sees a mix. */
struct mapping_page_key {
	__u32 pid;
	__u32 generation;
	__u32 page;
	__u32 pad;
};
