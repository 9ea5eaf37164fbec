// SPDX-License-Identifier: Apache-2.0
// A process's code for the unwinder: its mappings as pages with their files' tables, and the list of these files.
#pragma once

#include <stdint.h>

#include "agent/publish/jit_code.h"
#include "agent/process/mapping.h"
#include "agent/publish/mapping_pages.h"
#include "agent/publish/unwind_tables.h"

/** Zero-initialized it is empty. Collecting again keeps the memory. */
struct process_code {
	struct mapping_pages pages;
	uint32_t *files; // numbers of unwind_tables_want(), sorted, distinct
	uint32_t file_count, file_capacity;
	uint32_t states[UNWIND_FILE_STATES]; // number of mappings, by their file's state
	uint32_t unidentified; // mappings whose file was not opened yet: that was put off
};

void process_code_deinit(struct process_code *code);

/** Collect @list and request its files' tables. @jit may be NULL. Returns 0 or -ENOMEM. */
int process_code_collect(struct process_code *code, struct unwind_tables *tables,
			 const struct mapping_list *list, const struct jit_code *jit);
