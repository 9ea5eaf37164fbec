// SPDX-License-Identifier: Apache-2.0
// Is the collector's clock right? Retention deletes by it, and rows are refused by it, so it is held
// against three others: the monotonic clock, the highest time that the store has trusted (the mark,
// kept on disk), and the times of the agents' batches. A clock in doubt deletes nothing until it is
// right again, agents confirm it, or the operator does. Pure, and one thread at a time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/id128.h"

#define CLOCK_JUMP_NS_MAX  (5 * 60 * NS_PER_SECOND) // NTP slews; a step at boot is smaller or a jump
#define CLOCK_AGENT_NS_MAX (5 * 60 * NS_PER_SECOND) // an agent's clock that agrees
#define CLOCK_AHEAD_NS_MAX (3600 * NS_PER_SECOND)   // at start: a longer stop needs agents' word
#define CLOCK_VOTE_NS      (60 * NS_PER_SECOND)     // agents send every 5 s

enum {
	// Senders whose times are compared. A vote each: a few wrong clocks do not decide.
	CLOCK_VOTES_MAX = 256,
};

enum clock_doubt {
	CLOCK_TRUSTED,
	CLOCK_JUMPED,       // against the monotonic clock
	CLOCK_BEHIND_MARK,  // at start: before the highest trusted time
	CLOCK_UNCONFIRMED,  // at start: long after it
	CLOCK_AGENTS_AHEAD, // most agents' batches come from the future
};

struct clock_reading {
	uint64_t realtime_ns, monotonic_ns;
};

/** One sender's clock: its time at a reading of the collector's monotonic clock. */
struct clock_vote {
	struct id128 sender;
	struct clock_reading at;
};

struct clock_guard {
	enum clock_doubt doubt;
	struct clock_reading trusted; // the last one; not with CLOCK_UNCONFIRMED
	uint64_t mark_ns;             // the highest trusted time; 0: none
	int64_t ahead_ns;             // in doubt: how far the clock is ahead of what was expected
	struct clock_vote votes[CLOCK_VOTES_MAX];
	uint32_t vote_count;
};

/** Begin with the mark of the last process (0: none). @accepted: the operator confirms the clock. */
void clock_guard_begin(struct clock_guard *guard, uint64_t mark_ns, bool accepted,
		       const struct clock_reading *now);
/**
 * Note that @sender sent a batch that ends at @time_ns. It is who the connection shows: agent ids in messages can be
 * invented, and each would have a vote.
 */
void clock_guard_vote(struct clock_guard *guard, struct id128 sender, uint64_t time_ns,
		      const struct clock_reading *now);
/** Judge the clock. Moves the mark while it is trusted. */
enum clock_doubt clock_guard_check(struct clock_guard *guard, const struct clock_reading *now);

/** Does the collector itself see that its clock is wrong? Then agents had better keep their rows. */
static inline bool clock_guard_is_wrong(const struct clock_guard *guard)
{
	return guard->doubt == CLOCK_JUMPED || guard->doubt == CLOCK_BEHIND_MARK;
}

/** What is wrong, in words; "" if nothing is. */
void clock_guard_describe(const struct clock_guard *guard, char *text, size_t size);
