// SPDX-License-Identifier: Apache-2.0
#include "agent/boost/boosts.h"

#include <stdio.h>
#include <string.h>

static uint64_t lease_ns(const struct boosts *boosts)
{
	uint64_t intervals_ns = BOOST_LEASE_INTERVALS * boosts->limits.interval_ns;

	return intervals_ns > BOOST_LEASE_NS ? intervals_ns : BOOST_LEASE_NS;
}

static const struct boost_entry *find(const struct boosts *boosts, uint32_t id)
{
	for (uint32_t i = 0; i < boosts->count; i++) {
		if (boosts->entries[i].boost.id == id)
			return &boosts->entries[i];
	}
	return NULL;
}

static uint64_t end_of(const struct boost *boost, uint64_t answered_ns)
{
	uint32_t left_ms = boost->left_ms < BOOST_SECONDS_MAX * 1000U ? boost->left_ms
								      : BOOST_SECONDS_MAX * 1000U;

	return answered_ns + left_ms * NS_PER_MS;
}

void boosts_receive(struct boosts *boosts, const struct boost *received, uint32_t count,
		    uint64_t answered_ns)
{
	struct boosts next = { .limits = boosts->limits,
			       .answered_ns = answered_ns,
			       .begun = boosts->begun,
			       .refused = boosts->refused };

	for (uint32_t i = 0; i < count && next.count < BOOSTS_OF_AGENT_MAX; i++) {
		const struct boost_entry *before = find(boosts, received[i].id);
		struct boost_entry *entry = &next.entries[next.count];

		if (find(&next, received[i].id))
			continue;
		*entry = (struct boost_entry){ received[i], end_of(&received[i], answered_ns) };
		// A collector that stretches a boost, answer by answer, does not get it.
		if (before && before->until_ns < entry->until_ns)
			entry->until_ns = before->until_ns;
		if (!before && boosts->limits.hz_max)
			next.begun++;
		else if (!before)
			next.refused++;
		next.count++;
	}
	*boosts = next;
}

void boosts_expire(struct boosts *boosts, uint64_t now_ns)
{
	bool is_gone = ns_between(boosts->answered_ns, now_ns) >= lease_ns(boosts);
	uint32_t kept = 0;

	for (uint32_t i = 0; i < boosts->count && !is_gone; i++) {
		if (boosts->entries[i].until_ns > now_ns)
			boosts->entries[kept++] = boosts->entries[i];
	}
	boosts->count = kept;
}

// A list that is too long loses its last names: their wakers are missing, nothing else.
static void add_services(char services[BOOST_SERVICES_BYTES], const char *more)
{
	size_t used = strlen(services), size = strlen(more);

	if (!size || used + size + 2 > BOOST_SERVICES_BYTES)
		return;
	snprintf(services + used, BOOST_SERVICES_BYTES - used, "%s%s", used ? "," : "", more);
}

static uint32_t within_limits(const struct boosts *boosts, uint32_t hz)
{
	return hz < boosts->limits.hz_max ? hz : boosts->limits.hz_max;
}

void boosts_demand(const struct boosts *boosts, struct boost_demand *ret_demand)
{
	struct boost_demand demand;

	memset(&demand, 0, sizeof(demand)); // also what lies between its fields
	for (uint32_t i = 0; i < boosts->count && boosts->limits.hz_max; i++) {
		const struct boost *boost = &boosts->entries[i].boost;
		uint32_t hz = within_limits(boosts, boost->hz);

		demand.hz = hz > demand.hz ? hz : demand.hz;
		demand.profiles |= boost->profiles & BOOST_PROFILES;
		demand.stop |= boost->stop;
		if (boost->profiles & BOOST_WAKERS)
			add_services(demand.services, boost->services);
	}
	memcpy(ret_demand, &demand, sizeof(demand));
}

void boosts_report(const struct boosts *boosts, uint32_t hz, uint32_t profiles, bool stopped,
		   struct boost_report *ret_report)
{
	*ret_report = (struct boost_report){ .count = boosts->count };
	for (uint32_t i = 0; i < boosts->count; i++) {
		const struct boost *boost = &boosts->entries[i].boost;

		ret_report->states[i] = (struct boost_state){
			.id = boost->id,
			.hz = hz,
			.hz_max = boosts->limits.hz_max,
			.profiles = boosts->limits.hz_max ? boost->profiles & profiles : 0,
			.stopped = boost->stop && stopped
		};
	}
}
