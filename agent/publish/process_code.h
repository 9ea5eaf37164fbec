// SPDX-License-Identifier: Apache-2.0
// What code a process has, for the kernel's unwinder: its mappings as pages, with the tables of the
// files there, and which files these are.
#pragma once

#include <stdint.h>

#include "agent/publish/jit_code.h"
#include "agent/process/mapping.h"
#include "agent/publish/mapping_pages.h"
#include "agent/publish/unwind_tables.h"

/** Zeroed it is empty. Collecting again keeps the memory. */
struct process_code {
	struct mapping_pages pages;
	uint32_t *files; // numbers of unwind_tables_want(), sorted, each once
	uint32_t file_count, file_capacity;
	uint32_t states[UNWIND_FILE_STATES]; // mappings of files in each state
};

void process_code_deinit(struct process_code *code);

/**
 * Collect @list, and want the tables of its files. @generated is what is known of code made at run time
 * (NULL: nothing). Returns 0 or -ENOMEM.
 */
int process_code_collect(struct process_code *code, struct unwind_tables *tables,
			 const struct mapping_list *list, const struct jit_code *jit);
