// SPDX-License-Identifier: Apache-2.0
#include "base/memory_account.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>

static _Thread_local struct memory_account *open_account;

/** One always goes on: while all need more, the others are refused. It is the first, and then the next that asks. */
static bool is_first(struct memory_account *account)
{
	const void *none = NULL;

	return account->budget &&
	       (atomic_load(&account->budget->first) == account ||
		atomic_compare_exchange_strong(&account->budget->first, &none, account));
}

void memory_account_begin(struct memory_account *account, struct byte_budget *budget)
{
	*account = (struct memory_account){ .budget = budget, .outer = open_account };
	if (budget)
		open_account = account;
	is_first(account);
}

void memory_account_share(struct memory_account *account, struct byte_budget *part,
			  size_t bytes_max)
{
	account->part = part;
	account->part_bytes_max = bytes_max;
}

static void give_back(struct memory_account *account, size_t bytes)
{
	byte_budget_give(account->budget, bytes);
	byte_budget_give(account->part, bytes);
}

void memory_account_end(struct memory_account *account)
{
	if (!account->budget)
		return;
	open_account = account->outer;
	give_back(account, account->bytes_taken);
	account->bytes_taken = 0;
	const void *ours = account;
	atomic_compare_exchange_strong(&account->budget->first, &ours, NULL);
	// What malloc() keeps for later is nobody's, but resident.
	if (account->bytes_used_max >= MEMORY_ACCOUNT_TRIM_BYTES)
		malloc_trim(0);
}

int memory_account_check(const struct memory_account *account, struct error *err)
{
	if (!account->bytes_refused)
		return 0;
	size_t bytes_max = account->budget->bytes_max;
	if (account->bytes_refused > bytes_max)
		return error_set(err, -E2BIG,
				 "it needs more than the %zu MiB that queries have (a quarter of "
				 "the collector's --memory); choose a shorter range or fewer "
				 "series, or raise --memory",
				 bytes_max >> 20);
	return error_set(err, -EDQUOT,
			 "the %zu MiB that queries have (a quarter of the collector's --memory) "
			 "are in use; try again in a moment, ask for less, or raise --memory",
			 bytes_max >> 20);
}

static size_t left_of(struct byte_budget *budget, size_t bytes_max)
{
	size_t taken = atomic_load(&budget->bytes_taken);

	return taken < bytes_max ? bytes_max - taken : 0;
}

size_t memory_account_left(void)
{
	struct memory_account *account = open_account;

	if (!account)
		return SIZE_MAX;
	size_t max = account->budget->bytes_max / (is_first(account) ? 1 : MEMORY_ACCOUNT_OTHERS);
	size_t left = left_of(account->budget, max);
	size_t part = account->part ? left_of(account->part, account->part_bytes_max) : left;
	return (part < left ? part : left) + account->bytes_taken - account->bytes_used;
}

struct memory_account *memory_account_pause(void)
{
	struct memory_account *paused = open_account;

	open_account = NULL;
	return paused;
}

void memory_account_resume(struct memory_account *paused)
{
	open_account = paused;
}

bool memory_account_is_open(void)
{
	return open_account;
}

static bool take_of_budget(struct memory_account *account, size_t bytes)
{
	struct byte_budget *budget = account->budget;

	return byte_budget_take_below(budget, bytes, budget->bytes_max / MEMORY_ACCOUNT_OTHERS) ||
	       (is_first(account) && byte_budget_take(budget, bytes));
}

static bool take_step(struct memory_account *account, size_t bytes)
{
	if (account->part &&
	    !byte_budget_take_below(account->part, bytes, account->part_bytes_max)) {
		if (!account->bytes_refused) {
			account->is_part_full = true;
			account->is_part_small =
				account->bytes_taken + bytes > account->part_bytes_max;
		}
		return false;
	}
	if (take_of_budget(account, bytes))
		return true;
	byte_budget_give(account->part, bytes);
	return false;
}

static size_t in_steps(size_t bytes)
{
	return (bytes + MEMORY_ACCOUNT_STEP_BYTES - 1) / MEMORY_ACCOUNT_STEP_BYTES *
	       MEMORY_ACCOUNT_STEP_BYTES;
}

bool memory_account_take(size_t bytes)
{
	struct memory_account *account = open_account;

	if (!account)
		return true;
	size_t used = account->bytes_used + bytes;
	if (used > account->bytes_taken) {
		size_t step = in_steps(used - account->bytes_taken);

		if (!take_step(account, step)) {
			if (!account->bytes_refused)
				account->bytes_refused = used;
			return false;
		}
		account->bytes_taken += step;
	}
	account->bytes_used = used;
	if (used > account->bytes_used_max)
		account->bytes_used_max = used;
	return true;
}

void memory_account_give(size_t bytes)
{
	struct memory_account *account = open_account;

	if (!account)
		return;
	// It may free what was allocated before it began.
	account->bytes_used -= bytes < account->bytes_used ? bytes : account->bytes_used;
	size_t kept = in_steps(account->bytes_used) + MEMORY_ACCOUNT_STEP_BYTES;
	if (account->bytes_taken <= kept + MEMORY_ACCOUNT_STEP_BYTES)
		return;
	give_back(account, account->bytes_taken - kept);
	account->bytes_taken = kept;
}
