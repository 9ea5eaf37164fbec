// SPDX-License-Identifier: Apache-2.0
// How the space for unwind tables is divided between payers (agent/guard/shares.h) when it is full: who may have whose
// table evicted. A table that many samples need pushes out those that few need, but by that a payer takes no more than
// half; and who has little is let in by who has most, whatever samples say.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/guard/shares.h"

struct table_shares {
	struct shares held; // bytes of tables
	uint64_t bytes_max; // of all
};

/** A table, there or wanted. */
struct table_share {
	uint64_t payer;
	uint64_t bytes;
};

void table_shares_add(struct table_shares *shares, struct table_share table);
void table_shares_remove(struct table_shares *shares, struct table_share table);

/** Needed by many more samples: may @wanting take the space of @table? */
bool table_shares_may_push_out(const struct table_shares *shares, struct table_share wanting,
			       struct table_share table);
/** Has the payer of @table so much more than that of @wanting that it has no less afterwards? Nobody evicts in turns. */
bool table_shares_lets_in(const struct table_shares *shares, struct table_share wanting,
			  struct table_share table);
