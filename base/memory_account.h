// SPDX-License-Identifier: Apache-2.0
// What one piece of work, such as a query, may allocate: all that its thread allocates and has not freed is taken from a
// byte budget. Programs that are linked with ACCOUNTED (Makefile) account for each malloc() in our code, so that no
// table, tree or encoder can be forgotten; at the limit malloc() returns NULL, which every caller survives.
//
// Allocated for longer than the work, and bounded elsewhere, is what caches keep: memory_account_pause() around it.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/byte_budget.h"
#include "base/error.h"

enum {
	MEMORY_ACCOUNT_STEP_BYTES = 64 << 10, // are taken from the budget at a time
	MEMORY_ACCOUNT_OTHERS =
		2, // only the first may take more than one part of so many: it always goes on
	MEMORY_ACCOUNT_TRIM_BYTES =
		16 << 20, // after work that held more, malloc() gives free pages back
};

struct memory_account {
	struct byte_budget *budget;
	struct byte_budget *part; // what this work shares with some others; NULL: nothing
	size_t part_bytes_max;    // that they may have together
	size_t bytes_used;        // allocated since the beginning, and not freed
	size_t bytes_taken;       // from the budget
	size_t bytes_used_max;    // at any moment
	size_t bytes_refused;     // what it would have used when it was refused first; 0: never
	bool is_part_full;        // then it was the part that had no room
	bool is_part_small;       // and would have none for this work alone
	struct memory_account *outer;
};

/** Account for what this thread allocates from now on. A NULL @budget accounts for nothing. */
void memory_account_begin(struct memory_account *account, struct byte_budget *budget);
/**
 * Right after the beginning: of the budget, this work and all others with the same @part may have @bytes_max together. The part's
 * own bytes_max is not used: @bytes_max may be another for each work. NULL: no limit but the budget's.
 */
void memory_account_share(struct memory_account *account, struct byte_budget *part,
			  size_t bytes_max);
/** Give all back to the budget: the work has ended, and freed what it had. */
void memory_account_end(struct memory_account *account);
/**
 * After the end: 0; -E2BIG if the work alone needs more than the budget has; -EDQUOT if there is no room for it beside others'.
 * With these @err says so, and what to do. Where the part was full, whoever set it says so instead.
 */
int memory_account_check(const struct memory_account *account, struct error *err);

/** Bytes that this thread may allocate before it is refused, as long as others allocate nothing. Without an account SIZE_MAX. */
size_t memory_account_left(void);

/** Account for nothing until memory_account_resume() with what this returned. */
struct memory_account *memory_account_pause(void);
void memory_account_resume(struct memory_account *paused);

/** For the allocator's doubles: this thread allocates @bytes. False: refused, they must not be allocated. */
bool memory_account_take(size_t bytes);
/** For the allocator's doubles: this thread has freed @bytes. */
void memory_account_give(size_t bytes);
/** Is this thread's memory accounted for? */
bool memory_account_is_open(void);
