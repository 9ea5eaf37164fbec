// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "agent/bpf/perf_events.h"
#include "agent/overhead/budget_source.h"
#include "agent/profiler.h"
#include "agent/profiler_state.h"
#include "agent/sources/sources.h"
#include "agent/sources/wakers.h"
#include "base/cleanup.h"

static const struct {
	enum boost_profile profile;
	uint32_t sources;
} sources_of_boosts[] = {
	{ BOOST_WALL, SOURCE_WALL },
	{ BOOST_MEMORY, SOURCE_MEMORY },
	{ BOOST_WAKERS, SOURCE_WALL | SOURCE_WAKERS },
};

static uint32_t boost_sources(uint32_t profiles)
{
	uint32_t sources = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sources_of_boosts); i++) {
		if (profiles & sources_of_boosts[i].profile)
			sources |= sources_of_boosts[i].sources;
	}
	return sources;
}

// --wakers, and the boost's services.
static void set_wakers(struct profiler *profiler, const char *services)
{
	struct wakers *wakers = sources_find(profiler->sources, SOURCE_WAKERS);
	const char *own = profiler->wakers ? profiler->wakers : "";

	snprintf(profiler->boosted_services, PROFILER_SERVICES_BYTES, "%s%s%s", own,
		 *own && *services ? "," : "", services);
	sources_set_wakers(profiler->sources, profiler->boosted_services);
	if (wakers && wakers_set_services(wakers, profiler->boosted_services))
		event_warn(profiler->event_log, "boost",
			   "off-wake time not collected: out of memory");
}

static void set_boosted_sources(struct profiler *profiler, uint32_t profiles, const char *services)
{
	uint32_t wanted = boost_sources(profiles);

	sources_remove(profiler->sources, profiler->boosted_sources & ~wanted);
	profiler->boosted_sources &= wanted;
	set_wakers(profiler, services);
	profiler->boosted_sources |= sources_add(profiler->sources, wanted);
}

static void set_stopped(struct profiler *profiler, bool stopped)
{
	perf_events_set_running(profiler->events, !stopped);
	sources_set_stopped(profiler->sources, stopped);
}

// Without a boost the agent's own budget holds again.
static double boost_percent(const struct profiler *profiler)
{
	if (profiler->boosted_hz <= profiler->frequency_hz && !profiler->boosted_sources)
		return 0;
	return profiler->boost_budget_percent > 0 ? profiler->boost_budget_percent : -1;
}

void profiler_set_boost(struct profiler *profiler, const struct boost_demand *demand)
{
	const struct boost_demand before = profiler->boost;
	uint32_t own_hz = profiler->frequency_hz;

	if (!profiler->events)
		return; // it has stopped for good
	profiler->boost = *demand;
	if (before.stop && !demand->stop)
		set_stopped(profiler, false);
	// What would begin while all is stopped begins afterwards.
	set_boosted_sources(profiler, demand->stop ? 0 : demand->profiles, demand->services);
	if (demand->stop && !before.stop)
		set_stopped(profiler, true);
	profiler->boosted_hz = demand->hz > own_hz ? demand->hz : own_hz;
	if (profiler->sources)
		budget_source_boost(profiler->sources, profiler->boosted_hz,
				    boost_percent(profiler));
	else
		profiler_set_frequency(profiler, profiler->boosted_hz);
}

void profiler_read_boost(const struct profiler *profiler, struct profiler_boost *ret_boost)
{
	const struct budget *budget = sources_find(profiler->sources, SOURCE_GOVERNOR);
	uint32_t running = sources_running(profiler->sources);
	struct budget_stats stats;

	*ret_boost = (struct profiler_boost){ .hz = profiler->boosted_hz,
					      .stopped = profiler->boost.stop };
	if (budget) {
		budget_read_stats(budget, &stats);
		ret_boost->hz = stats.frequency_hz;
	}
	for (size_t i = 0; i < ARRAY_SIZE(sources_of_boosts); i++) {
		uint32_t needed = sources_of_boosts[i].sources;

		if ((running & needed) == needed)
			ret_boost->profiles |= sources_of_boosts[i].profile;
	}
}
