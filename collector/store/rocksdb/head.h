// SPDX-License-Identifier: Apache-2.0
// The open minutes of a partition. Each batch adds a run of rows; closing the minute turns its runs
// into chunks. Runs are reference counted: a query keeps those it saw. The partition's lock guards
// the head.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "collector/store/rocksdb/raw_rows.h"

/** One batch's rows in one minute. Immutable. */
struct raw_run {
	atomic_uint refs;
	uint32_t minute;
	uint64_t sequence; // the commit's; 0 before it
	struct raw_rows rows;
	size_t size;
	uint8_t bytes[]; // the database's value
};

/** Make a run of a copy of @record. Returns 0; -ENOMEM; -EBADMSG if it is damaged. */
int raw_run_new(uint32_t minute, struct bytes record, struct raw_run **ret_run);
void raw_run_unref(struct raw_run *run);

/** Runs, ascending by sequence. */
struct run_list {
	struct raw_run **runs;
	uint32_t count, capacity;
};
void run_list_deinit(struct run_list *list);

struct minute {
	uint32_t number; // in the partition
	uint64_t due_ns; // Unix time to close it; 0: not set
	uint64_t bytes;
	uint32_t prepared; // runs with reserved room that are not added yet
	struct run_list runs;
};

/** A zeroed struct is an empty head. */
struct head {
	struct minute *minutes; // by number
	uint32_t count, capacity;
	uint64_t bytes;
};

void head_deinit(struct head *head);
/** Reserve room for one run in @minute: head_add() cannot fail then. Returns 0 or -ENOMEM. */
int head_prepare(struct head *head, uint32_t minute);
/** Add a run after head_prepare(); takes a reference of its own. */
void head_add(struct head *head, struct raw_run *run);
/** Undo one head_prepare(). */
void head_cancel(struct head *head, uint32_t minute);
/** Remove the runs of minute @number up to @sequence. */
void head_remove(struct head *head, uint32_t number, uint64_t sequence);
/** Add references to the runs of minutes [from, to] to @list. Returns 0 or -ENOMEM. */
int head_list(const struct head *head, uint32_t from, uint32_t to, struct run_list *list);
