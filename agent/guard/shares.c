// SPDX-License-Identifier: Apache-2.0
#include "agent/guard/shares.h"

#include <stddef.h>

static struct share *find(const struct shares *shares, uint64_t payer)
{
	for (uint32_t i = 0; i < shares->count; i++)
		if (shares->shares[i].payer == payer)
			return (struct share *)&shares->shares[i];
	return NULL;
}

static struct share *find_least(struct shares *shares)
{
	struct share *least = &shares->shares[0];

	for (uint32_t i = 1; i < shares->count; i++)
		if (shares->shares[i].amount < least->amount)
			least = &shares->shares[i];
	return least;
}

static void drop(struct shares *shares, struct share *share)
{
	*share = shares->shares[--shares->count];
}

uint64_t shares_of(const struct shares *shares, uint64_t payer)
{
	const struct share *share = find(shares, payer);

	return share ? share->amount : 0;
}

uint64_t shares_greediest(const struct shares *shares)
{
	struct share most = { 0 };

	for (uint32_t i = 0; i < shares->count; i++)
		if (shares->shares[i].amount > most.amount)
			most = shares->shares[i];
	return most.payer;
}

void shares_take(struct shares *shares, uint64_t payer, uint64_t amount)
{
	struct share *share = find(shares, payer);

	if (!payer || !amount)
		return;
	if (!share) {
		if (shares->count == SHARES_MAX)
			drop(shares, find_least(shares));
		share = &shares->shares[shares->count++];
		*share = (struct share){ .payer = payer };
	}
	share->amount += amount;
}

static void reduce(struct shares *shares, struct share *share, uint64_t amount)
{
	if (share->amount <= amount)
		drop(shares, share);
	else
		share->amount -= amount;
}

void shares_give_back(struct shares *shares, uint64_t payer, uint64_t amount)
{
	struct share *share = find(shares, payer);

	if (share)
		reduce(shares, share, amount);
}

void shares_give_back_all(struct shares *shares, uint64_t amount)
{
	// Backwards: the last one takes the place of one that is dropped.
	for (uint32_t i = shares->count; i; i--)
		reduce(shares, &shares->shares[i - 1], amount);
}

bool shares_may_take(const struct shares *shares, uint64_t payer, uint64_t taken, uint64_t all)
{
	return taken < all && shares_of(shares, payer) < all - taken;
}
