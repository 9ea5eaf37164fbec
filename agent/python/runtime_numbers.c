// SPDX-License-Identifier: Apache-2.0
#include "agent/python/runtime_numbers.h"

#include <errno.h>
#include <stddef.h>

/* Of those that are alike, the least recently used. */
static bool goes_before(const struct runtime_number *number, const struct runtime_number *other)
{
	return !other || number->used_at < other->used_at;
}

static uint32_t count_of(const struct runtime_numbers *numbers, uint64_t payer)
{
	uint32_t count = 0;

	for (uint32_t i = 1; i < PYTHON_RUNTIMES_MAX; i++)
		count += numbers->numbers[i].is_taken && numbers->numbers[i].payer == payer;
	return count;
}

static struct runtime_number *find_free(struct runtime_numbers *numbers)
{
	for (uint32_t i = 1; i < PYTHON_RUNTIMES_MAX; i++)
		if (!numbers->numbers[i].is_taken)
			return &numbers->numbers[i];
	return NULL;
}

static struct runtime_number *find_unused(struct runtime_numbers *numbers)
{
	struct runtime_number *found = NULL;

	for (uint32_t i = 1; i < PYTHON_RUNTIMES_MAX; i++)
		if (!numbers->numbers[i].users && goes_before(&numbers->numbers[i], found))
			found = &numbers->numbers[i];
	return found;
}

/* With the new one @payer still has no more than who loses one: nobody evicts in turns. */
static struct runtime_number *find_of_greediest(struct runtime_numbers *numbers, uint64_t payer)
{
	uint32_t most = count_of(numbers, payer) + 1;
	struct runtime_number *found = NULL;

	for (uint32_t i = 1; i < PYTHON_RUNTIMES_MAX; i++) {
		struct runtime_number *number = &numbers->numbers[i];
		uint32_t count = number->payer ? count_of(numbers, number->payer) : 0;

		if (count <= most && !(found && count == most && goes_before(number, found)))
			continue;
		most = count;
		found = number;
	}
	return found;
}

int runtime_numbers_take(struct runtime_numbers *numbers, uint64_t payer, uint32_t *ret_number,
			 bool *ret_evicted)
{
	struct runtime_number *number = find_free(numbers);

	if (!number)
		number = find_unused(numbers);
	if (!number)
		number = find_of_greediest(numbers, payer);
	if (!number)
		return -ENOSPC;
	*ret_evicted = number->is_taken;
	*ret_number = (uint32_t)(number - numbers->numbers);
	number->is_taken = true; // the evicted build's users release it
	number->payer = payer;
	runtime_numbers_use(numbers, *ret_number);
	return 0;
}

void runtime_numbers_use(struct runtime_numbers *numbers, uint32_t number)
{
	numbers->numbers[number].used_at = ++numbers->uses;
}

void runtime_numbers_hold(struct runtime_numbers *numbers, uint32_t number)
{
	if (number)
		numbers->numbers[number].users++;
}

void runtime_numbers_release(struct runtime_numbers *numbers, uint32_t number)
{
	if (number)
		numbers->numbers[number].users--;
}
