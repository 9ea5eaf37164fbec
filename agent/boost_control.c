// SPDX-License-Identifier: Apache-2.0
#include "agent/boost_control.h"

#include <stdio.h>
#include <string.h>

#include "agent/guard/watchdog.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/knobs.h"
#include "base/contract/profile_types.h"

enum { ASKED_BYTES = 120 };

/* "999 Hz, wakers". */
static const char *asked_text(const struct boost *boost, char text[ASKED_BYTES])
{
	char profiles[BOOST_PROFILES_BYTES], rate[24] = "";

	boost_profiles_text(boost->profiles, profiles);
	if (boost->hz)
		snprintf(rate, sizeof(rate), "%u Hz", boost->hz);
	snprintf(text, ASKED_BYTES, "%s%s%s%s%s", boost->stop ? "stop" : "",
		 boost->stop && (*rate || *profiles) ? ", " : "", rate,
		 *rate && *profiles ? ", " : "", profiles);
	return text;
}

static bool is_known(const struct boosts *boosts, uint32_t id)
{
	for (uint32_t i = 0; i < boosts->count; i++) {
		if (boosts->entries[i].boost.id == id)
			return true;
	}
	return false;
}

static void log_new(const struct boost_control *control, const struct boosts *before)
{
	const struct boosts *now = &control->boosts;

	for (uint32_t i = 0; i < now->count; i++) {
		const struct boost *boost = &now->entries[i].boost;
		char id[BOOST_ID_BYTES], asked[ASKED_BYTES];

		if (is_known(before, boost->id))
			continue;
		boost_id_text(boost->id, id);
		asked_text(boost, asked);
		if (!now->limits.hz_max)
			event_warn(control->events, "boost",
				   "refused %s (%s): boosts are off (--boost-hz 0); raise "
				   "--boost-hz to allow them",
				   id, asked);
		else
			event_warn(control->events, "boost",
				   "began %s: %s for %u s: requested by an administrator (limit "
				   "--boost-hz %u); --boost-hz 0 refuses boosts",
				   id, asked, boost->left_ms / 1000, now->limits.hz_max);
	}
}

static void log_ended(const struct boost_control *control, const struct boosts *before)
{
	for (uint32_t i = 0; i < before->count; i++) {
		char id[BOOST_ID_BYTES];

		if (is_known(&control->boosts, before->entries[i].boost.id))
			continue;
		boost_id_text(before->entries[i].boost.id, id);
		event_info(control->events, "boost", "ended %s", id);
	}
}

static void receive(struct boost_control *control, uint64_t now_ns)
{
	struct boost received[BOOSTS_OF_AGENT_MAX];
	const struct boosts before = control->boosts;
	uint64_t answered_ns;
	uint32_t count;

	if (boost_mailbox_take(&control->mailbox, received, &count, &answered_ns))
		boosts_receive(&control->boosts, received, count, answered_ns);
	boosts_expire(&control->boosts, now_ns);
	log_ended(control, &before);
	log_new(control, &before);
}

static void meet(struct boost_control *control, struct profiler *profiler)
{
	struct boost_demand demand;

	boosts_demand(&control->boosts, &demand);
	if (memcmp(&demand, &control->demand, sizeof(demand)) == 0)
		return;
	if (demand.stop != control->demand.stop)
		control->stop_changed_ns = clock_realtime_ns();
	memcpy(&control->demand, &demand, sizeof(demand));
	watchdog_begin_turn("loading what a boost asks for");
	profiler_set_boost(profiler, &demand);
}

void boost_control_tick(struct boost_control *control, struct profiler *profiler, uint64_t now_ns)
{
	struct profiler_boost boost;
	struct boost_report report;

	receive(control, now_ns);
	meet(control, profiler);
	profiler_read_boost(profiler, &boost);
	boosts_report(&control->boosts, boost.hz, boost.profiles, boost.stopped, &report);
	boost_mailbox_set_report(&control->mailbox, &report);
}

// ---- series ---------------------------------------------------------------------------------

static int add_setting(const struct labels *own, struct export_interval *interval, const char *type,
		       bool stopped, uint64_t slot, uint64_t last_slot, uint64_t value)
{
	struct knob_setting setting = { .knob = KNOB_SAMPLING };
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	int rc = labels_copy(own, &labels);

	snprintf(setting.step, sizeof(setting.step), "%s", stopped ? STEP_OFF : STEP_ON);
	if (!rc)
		rc = knob_set_labels(&setting, &labels);
	return rc ? rc
		  : export_interval_add_value(interval, &labels, type, slot, last_slot,
					      (int64_t)value);
}

// As it is when the interval ends, for all of it, as the governor's settings are.
int boost_control_add_series(struct boost_control *control, const struct labels *labels,
			     struct export_interval *interval)
{
	const struct profile *profile = interval->profile;
	uint64_t slot = profile->from_ns / profile->slot_ns;
	uint64_t end_slot = clock_realtime_ns() / profile->slot_ns;
	bool stopped = control->demand.stop;
	int rc = 0;

	if (stopped && end_slot > slot)
		rc = add_setting(labels, interval, PROFILE_TYPE_SHEDDING, true, slot, end_slot - 1,
				 (end_slot - slot) * profile->slot_ns);
	if (rc || !control->stop_changed_ns)
		return rc;
	slot = control->stop_changed_ns / profile->slot_ns;
	rc = add_setting(labels, interval, PROFILE_TYPE_SHEDDING_CHANGES, stopped, slot, slot, 1);
	if (!rc)
		control->stop_changed_ns = 0;
	return rc;
}
