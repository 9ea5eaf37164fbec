// SPDX-License-Identifier: Apache-2.0
// The open windows of a partition: runs of rows as they came, until the window is closed and they
// become chunks. Runs are shared by counted references, so that a query keeps what it saw. The
// head itself is guarded by its partition's lock.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "collector/store/rocksdb/raw_rows.h"

/** One batch's rows in one window. Never changes. */
struct raw_run {
	atomic_uint refs;
	uint32_t window;
	uint64_t sequence; // of the commit; 0 until then
	struct raw_rows rows;
	size_t size;
	uint8_t bytes[]; // as in the database
};

/** Copy @record. Returns 0; -ENOMEM; -EBADMSG if it is damaged. */
int raw_run_new(uint32_t window, struct bytes record, struct raw_run **ret_run);
struct raw_run *raw_run_ref(struct raw_run *run);
void raw_run_unref(struct raw_run *run);

/** Runs in the order of their sequences. */
struct run_list {
	struct raw_run **runs;
	uint32_t count, capacity;
};
void run_list_deinit(struct run_list *list);
/** Takes a reference of its own. Returns 0 or -ENOMEM. */
int run_list_add(struct run_list *list, struct raw_run *run);

struct window {
	uint32_t number; // in the partition
	uint64_t due_ns; // when to close it; 0: not yet decided
	uint64_t bytes;
	uint32_t prepared; // runs for which there is room but that are not here yet
	struct run_list runs;
};

/** A zeroed struct is an empty head. */
struct head {
	struct window *windows; // by number
	uint32_t count, capacity;
	uint64_t bytes;
};

void head_deinit(struct head *head);
/** Make room for one run in @window, so that adding it cannot fail. Returns 0 or -ENOMEM. */
int head_prepare(struct head *head, uint32_t window);
/** Add a run for which there is room; a reference of its own is taken. */
void head_add(struct head *head, struct raw_run *run);
/** Give up the room for one run in @window. */
void head_cancel(struct head *head, uint32_t window);
/** The window with @number, or NULL. Valid until the next add or remove. */
struct window *head_find(struct head *head, uint32_t number);
/** Forget the runs of window @number with sequences up to @sequence. */
void head_remove(struct head *head, uint32_t number, uint64_t sequence);
/** References to the runs of windows [from, to], added to @list. */
int head_list(const struct head *head, uint32_t from, uint32_t to, struct run_list *list);
