// SPDX-License-Identifier: Apache-2.0
// What each payer has taken of something that all share: time of a thread, places of a table. A payer is a container, a
// pod, a user, a unit, or a process of none of these (work_payer_of()), as a number; 0 is nobody, who takes nothing.
// What several payers use has a share of its own, SHARES_SEVERAL: else who has two containers, and lets both use all, would
// have no bound.
//
// A payer may take at most what it leaves to others. So one alone gets half, and whoever comes later finds room, however
// much the first ones want.
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
	SHARES_MAX = 256, // payers; then the one with the least is evicted
};

#define SHARES_SEVERAL UINT64_MAX // a payer's number

struct share {
	uint64_t payer;
	uint64_t amount;
};

/** One thread at a time. */
struct shares {
	struct share shares[SHARES_MAX];
	uint32_t count;
};

uint64_t shares_of(const struct shares *shares, uint64_t payer);
/** The payer who has most; 0: none has anything. */
uint64_t shares_greediest(const struct shares *shares);
void shares_take(struct shares *shares, uint64_t payer, uint64_t amount);
void shares_give_back(struct shares *shares, uint64_t payer, uint64_t amount);
/** Each payer gives back so much, or what it has. */
void shares_give_back_all(struct shares *shares, uint64_t amount);

/** May @payer take more, now that @taken of @all are taken by whomever? */
bool shares_may_take(const struct shares *shares, uint64_t payer, uint64_t taken, uint64_t all);
