// SPDX-License-Identifier: Apache-2.0
// The threads of a profile: series whose labels node, process and thread are equal are one row of a timeline.
#pragma once

#include <stdint.h>

#include "base/profile/profile.h"

enum { THREAD_ROWS_MAX = 4096 };

struct thread_row {
	uint32_t process;      // from 1: rows of one node and process have the same
	uint32_t process_name; // string: "python3", with its node: "python3 on a17"
	uint32_t thread_name;  // string
};

struct thread_rows {
	struct string_table strings;
	struct thread_row *rows;
	uint32_t count, capacity;
	uint32_t process_count;
	uint32_t *of_series; // by the profile's series: its row
	struct hash_table index;
};

/** Rows of the series that have @type. Returns 0; -ENOMEM; -E2BIG at THREAD_ROWS_MAX. */
int thread_rows_init(struct thread_rows *ret_rows, const struct profile *profile, const char *type);
void thread_rows_deinit(struct thread_rows *rows);

/**
 * The samples of @type, by row and then in time order: an array of positions in the profile's samples.
 * Returns 0 or -ENOMEM; *ret_order is the caller's to free.
 */
int thread_rows_order(const struct thread_rows *rows, const struct profile *profile,
		      const char *type, uint32_t **ret_order, uint32_t *ret_count);
