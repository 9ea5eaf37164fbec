// SPDX-License-Identifier: Apache-2.0
// What `cairn top` shows of an interval: a table of functions, a call tree, or a table of threads.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/profile/profile.h"
#include "cli/call_lines.h"
#include "cli/function_table.h"
#include "cli/printable_text.h"
#include "cli/thread_table.h"

enum top_shown { TOP_FUNCTIONS, TOP_CALLS, TOP_THREADS, TOP_SHOWN_COUNT };

struct top_choice {
	enum top_shown shown;
	bool by_process;
	enum call_direction direction;      // of TOP_CALLS
	char function[FUNCTION_NAME_BYTES]; // of CALLS_CALLEES and CALLS_CALLERS
};

/** One of them is filled. A zeroed struct is empty. */
struct top_tables {
	enum top_shown shown;
	struct function_table functions;
	struct call_lines calls;
	struct thread_table threads;
};

/** "functions", "calls", "threads". */
const char *top_shown_name(enum top_shown shown);
/** Returns 0, or -EINVAL and @err with the names that there are. */
int top_shown_find(const char *name, enum top_shown *ret_shown, struct error *err);

/** Build what @choice says, of samples of @type. Errors as of the tables. */
int top_tables_build(const struct profile *profile, const struct top_choice *choice,
		     const char *type, struct top_tables *ret_tables, struct error *err);
void top_tables_deinit(struct top_tables *tables);

/** Choose and order the rows to show. Returns 0 or -ENOMEM. */
int top_tables_select(struct top_tables *tables, const char *filter, enum function_order order,
		      const struct call_toggles *toggles);
/** Rows to show. */
uint32_t top_tables_count(const struct top_tables *tables);
/** The sum of all counted samples. */
int64_t top_tables_total(const struct top_tables *tables);

/** Print the first @rows_max rows (0: all) as text. */
void top_tables_print(const struct top_tables *tables, uint32_t rows_max, FILE *stream);
/** The same as an array of objects, for the caller to release; NULL when out of memory. */
json_t *top_tables_json(const struct top_tables *tables, uint32_t rows_max);
