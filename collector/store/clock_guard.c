// SPDX-License-Identifier: Apache-2.0
#include "collector/store/clock_guard.h"

#include <stdio.h>
#include <stdlib.h>

/** a - b of times; those of a hostile batch may be anything. */
static int64_t difference(uint64_t a, uint64_t b)
{
	if (a >= b)
		return a - b > INT64_MAX ? INT64_MAX : (int64_t)(a - b);
	return b - a > INT64_MAX ? -INT64_MAX : -(int64_t)(b - a);
}

static bool is_within(int64_t ahead_ns, uint64_t limit_ns)
{
	return (uint64_t)llabs(ahead_ns) <= limit_ns;
}

static void trust(struct clock_guard *guard, const struct clock_reading *now)
{
	guard->doubt = CLOCK_TRUSTED;
	guard->trusted = *now;
	guard->ahead_ns = 0;
}

static void doubt(struct clock_guard *guard, enum clock_doubt why, int64_t ahead_ns)
{
	guard->doubt = why;
	guard->ahead_ns = ahead_ns;
}

void clock_guard_begin(struct clock_guard *guard, uint64_t mark_ns, bool accepted,
		       const struct clock_reading *now)
{
	int64_t ahead_ns = difference(now->realtime_ns, mark_ns);

	*guard = (struct clock_guard){ .mark_ns = mark_ns };
	trust(guard, now);
	if (!mark_ns || accepted)
		guard->mark_ns = now->realtime_ns;
	else if (ahead_ns < -(int64_t)CLOCK_JUMP_NS_MAX)
		doubt(guard, CLOCK_BEHIND_MARK, ahead_ns);
	else if (ahead_ns > (int64_t)CLOCK_AHEAD_NS_MAX)
		doubt(guard, CLOCK_UNCONFIRMED, ahead_ns);
}

// ---- votes ------------------------------------------------------------------------------------------

/** The sender's vote, or a free one, or the oldest. */
static struct clock_vote *find_vote(struct clock_guard *guard, struct id128 sender)
{
	struct clock_vote *oldest = &guard->votes[0];

	for (uint32_t i = 0; i < guard->vote_count; i++) {
		struct clock_vote *vote = &guard->votes[i];

		if (id128_equal(vote->sender, sender))
			return vote;
		if (vote->at.monotonic_ns < oldest->at.monotonic_ns)
			oldest = vote;
	}
	return guard->vote_count < CLOCK_VOTES_MAX ? &guard->votes[guard->vote_count++] : oldest;
}

void clock_guard_vote(struct clock_guard *guard, struct id128 sender, uint64_t time_ns,
		      const struct clock_reading *now)
{
	*find_vote(guard, sender) = (struct clock_vote){ sender, { time_ns, now->monotonic_ns } };
}

struct count_of_votes {
	uint32_t agree, ahead, all;
};

/**
 * Count what the agents of the last minute say. An agent that is behind may send batches that have
 * waited: it confirms nothing, and contradicts nothing.
 */
static struct count_of_votes count_votes(const struct clock_guard *guard,
					 const struct clock_reading *now)
{
	struct count_of_votes count = { 0 };

	for (uint32_t i = 0; i < guard->vote_count; i++) {
		const struct clock_reading *at = &guard->votes[i].at;
		uint64_t passed_ns = ns_between(at->monotonic_ns, now->monotonic_ns);
		int64_t ahead_ns = difference(at->realtime_ns, now->realtime_ns);

		if (passed_ns > CLOCK_VOTE_NS)
			continue;
		if (ahead_ns < INT64_MAX - (int64_t)CLOCK_VOTE_NS)
			ahead_ns += (int64_t)passed_ns;
		count.all++;
		count.agree += is_within(ahead_ns, CLOCK_AGENT_NS_MAX);
		count.ahead += ahead_ns > (int64_t)CLOCK_AGENT_NS_MAX;
	}
	return count;
}

// ---- judgement --------------------------------------------------------------------------------------

/** How far the clock is ahead of where the monotonic clock expects it. */
static int64_t jump_of(const struct clock_guard *guard, const struct clock_reading *now)
{
	uint64_t passed_ns = ns_between(guard->trusted.monotonic_ns, now->monotonic_ns);

	return difference(now->realtime_ns, guard->trusted.realtime_ns + passed_ns);
}

static void check_trusted(struct clock_guard *guard, const struct clock_reading *now)
{
	int64_t ahead_ns = jump_of(guard, now);
	struct count_of_votes votes = count_votes(guard, now);

	if (!is_within(ahead_ns, CLOCK_JUMP_NS_MAX)) {
		doubt(guard, CLOCK_JUMPED, ahead_ns);
		return;
	}
	if (2 * votes.ahead > votes.all) {
		doubt(guard, CLOCK_AGENTS_AHEAD, 0);
		return;
	}
	trust(guard, now);
	if (now->realtime_ns > guard->mark_ns)
		guard->mark_ns = now->realtime_ns;
}

/** Has the clock returned to where it is expected? */
static bool has_returned(const struct clock_guard *guard, const struct clock_reading *now,
			 struct count_of_votes votes)
{
	switch (guard->doubt) {
	case CLOCK_JUMPED:
		return is_within(jump_of(guard, now), CLOCK_JUMP_NS_MAX);
	case CLOCK_BEHIND_MARK:
		return difference(now->realtime_ns, guard->mark_ns) >=
			       -(int64_t)CLOCK_JUMP_NS_MAX &&
		       difference(now->realtime_ns, guard->mark_ns) <= (int64_t)CLOCK_AHEAD_NS_MAX;
	case CLOCK_AGENTS_AHEAD:
		return 2 * votes.ahead <= votes.all;
	default:
		return false;
	}
}

enum clock_doubt clock_guard_check(struct clock_guard *guard, const struct clock_reading *now)
{
	struct count_of_votes votes = count_votes(guard, now);

	if (guard->doubt == CLOCK_TRUSTED) {
		check_trusted(guard, now);
	} else if (2 * votes.agree > votes.all) {
		// The mark may have been wrong, too.
		trust(guard, now);
		guard->mark_ns = now->realtime_ns;
	} else if (has_returned(guard, now, votes)) {
		trust(guard, now);
	} else if (guard->doubt == CLOCK_JUMPED) {
		guard->ahead_ns = jump_of(guard, now);
	}
	return guard->doubt;
}

static int64_t rounded_seconds(int64_t ns)
{
	int64_t half = (int64_t)NS_PER_SECOND / 2;

	return (ns + (ns < 0 ? -half : half)) / (int64_t)NS_PER_SECOND;
}

void clock_guard_describe(const struct clock_guard *guard, char *text, size_t size)
{
	static const char *const causes[] = {
		[CLOCK_TRUSTED] = "",
		[CLOCK_JUMPED] = "it jumped",
		[CLOCK_BEHIND_MARK] = "it is before the last trusted time",
		[CLOCK_UNCONFIRMED] = "it is long after the last trusted time",
		[CLOCK_AGENTS_AHEAD] = "most agents' batches come from its future",
	};

	if (guard->doubt == CLOCK_TRUSTED)
		snprintf(text, size, "%s", "");
	else if (guard->ahead_ns)
		snprintf(text, size, "%s by %+lld s (limit %llu s)", causes[guard->doubt],
			 (long long)rounded_seconds(guard->ahead_ns),
			 (guard->doubt == CLOCK_UNCONFIRMED ? CLOCK_AHEAD_NS_MAX
							    : CLOCK_JUMP_NS_MAX) /
				 NS_PER_SECOND);
	else
		snprintf(text, size, "%s by more than %llu s", causes[guard->doubt],
			 CLOCK_AGENT_NS_MAX / NS_PER_SECOND);
}
