// SPDX-License-Identifier: Apache-2.0
#include "base/byte_budget.h"

#include <assert.h>

bool byte_budget_take(struct byte_budget *budget, size_t bytes)
{
	return !budget || byte_budget_take_below(budget, bytes, budget->bytes_max);
}

bool byte_budget_take_below(struct byte_budget *budget, size_t bytes, size_t bytes_max)
{
	size_t taken = atomic_load(&budget->bytes_taken);
	do {
		if (taken > bytes_max || bytes > bytes_max - taken)
			return false;
	} while (!atomic_compare_exchange_weak(&budget->bytes_taken, &taken, taken + bytes));
	return true;
}

void byte_budget_give(struct byte_budget *budget, size_t bytes)
{
	if (!budget)
		return;

	size_t taken = atomic_fetch_sub(&budget->bytes_taken, bytes);
	assert(taken >= bytes);
	(void)taken;
}
