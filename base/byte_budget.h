// SPDX-License-Identifier: Apache-2.0
// Memory that several threads share: each takes bytes before it allocates them, and gives them back.
// Bytes that are not there are refused at once, so that the caller can say so and free what it holds.
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/** Any thread. `bytes_max` is set before the first use. */
struct byte_budget {
	size_t bytes_max;
	_Atomic size_t bytes_taken;
	const void *_Atomic
		first; // the piece of work that may take all of it (memory_account.h); NULL: none
};

/** False: fewer than @bytes are left, and none are taken. A NULL @budget has no limit. */
bool byte_budget_take(struct byte_budget *budget, size_t bytes);
/** The same, as if there were only @bytes_max. */
bool byte_budget_take_below(struct byte_budget *budget, size_t bytes, size_t bytes_max);
void byte_budget_give(struct byte_budget *budget, size_t bytes);
