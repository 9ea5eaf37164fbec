// SPDX-License-Identifier: Apache-2.0
// The governor against a machine that is made of a few numbers: what it decides changes what it reads
// next.

#include <stdbool.h>
#include <stdlib.h>

#include "tests/test.h"

#include "agent/overhead/governor.h"
#include "base/cleanup.h"

#define BUDGET    0.02
#define ALL_KNOBS (KNOB_BIT(KNOB_GOVERNED) - 1)
#define HOUR_ROWS 360 // readings
/* In an hour, whatever the load does: a recovery every six minutes, in two steps, and as much down. */
#define DECISIONS_MAX 32

/* What the programs would cost of a core if everything was on. */
struct load {
	double sampling, off_cpu, page_faults, wakers, agent;
	double share[2]; // of the switches, of processes 100 and 101
};

static const struct load calm = {
	.sampling = 0.001, .off_cpu = 0.002, .page_faults = 0.0005, .agent = 0.004
};
static const struct load storm = { .sampling = 0.001,
				   .off_cpu = 0.6,
				   .page_faults = 0.0005,
				   .agent = 0.01,
				   .share = { 0.5, 0.49 } };

static struct governor new_governor(void)
{
	const struct governor_options options = {
		.budget = BUDGET,
		.frequency_hz = 99,
		.knobs = ALL_KNOBS & ~KNOB_BIT(KNOB_WAKERS),
		GOVERNOR_DEFAULTS,
	};
	struct governor governor;

	governor_init(&governor, &options);
	return governor;
}

static bool is_off(const struct governor *governor, uint32_t pid)
{
	for (uint32_t i = 0; i < governor->shed.steps[KNOB_PROCESS_OFF_CPU]; i++) {
		if (governor->shed.off[i].pid == pid)
			return true;
	}
	return false;
}

// What so many steps leave, each a quarter.
static double left_after(uint32_t steps)
{
	return 1.0 / (1 << (2 * steps));
}

// What the machine reads under @load with the governor's settings.
static struct governor_reading read_machine(const struct governor *governor,
					    const struct load *load)
{
	double stacks = left_after(governor->shed.steps[KNOB_OFF_CPU_UNWIND]);
	struct governor_reading reading = {
		.elapsed_ns = 10 * NS_PER_SECOND,
		.sampling = load->sampling * governor_frequency_hz(governor) / 99,
		.page_faults = load->page_faults *
			       left_after(governor->shed.steps[KNOB_PAGE_FAULTS_UNWIND]),
		.wakers = governor->shed.steps[KNOB_WAKERS] ? 0 : load->wakers,
		.agent = load->agent,
		.switches = 1e6 * load->off_cpu,
		.faults = 1e6 * load->page_faults,
	};
	double on = 1;

	for (uint32_t i = 0; i < 2; i++) {
		if (is_off(governor, 100 + i))
			on -= 0.5 * load->share[i];
		else if (load->share[i] > 0)
			reading.worst[reading.worst_count++] = (struct governor_process){
				.pid = 100 + i, .name = "pingpong", .share = load->share[i]
			};
	}
	reading.off_cpu_unwind = 0.3 * stacks / (0.7 + 0.3 * stacks);
	if (governor_is_off(governor, KNOB_PAGE_FAULTS))
		reading.page_faults = 0;
	if (!governor_is_off(governor, KNOB_OFF_CPU))
		reading.off_cpu = load->off_cpu * on * (0.7 + 0.3 * stacks);
	return reading;
}

static struct governor_decision pass(struct governor *governor, const struct load *load)
{
	struct governor_reading reading = read_machine(governor, load);
	struct governor_decision decision;

	governor_decide(governor, &reading, &decision);
	return decision;
}

static double cost_under(const struct governor *governor, const struct load *load)
{
	struct governor_reading r = read_machine(governor, load);

	return r.sampling + r.off_cpu + r.page_faults + r.wakers + r.other + r.agent;
}

TEST(changes_nothing_within_budget)
{
	struct governor governor = new_governor();

	for (int i = 0; i < HOUR_ROWS; i++)
		EXPECT_EQ(GOVERNOR_KEEP, pass(&governor, &calm).outcome, "calm");
	EXPECT_EQ(0, governor_level(&governor), "level");
	EXPECT_EQ(99, governor_frequency_hz(&governor), "frequency");
}

TEST(budget_grows_with_cores)
{
	static const struct {
		uint32_t cores, thousandths, boosted;
	} cases[] = {
		{ 1, 20, 80 }, { 2, 20, 80 }, { 16, 20, 640 }, { 32, 40, 1280 }, { 128, 160, 5120 }
	};

	for EACH (c, cases) {
		EXPECT_EQ(c->thousandths, (int)(1000 * governor_default_budget(c->cores) + 0.5),
			  "budget");
		EXPECT_EQ(c->boosted, (int)(1000 * governor_default_boost_budget(c->cores) + 0.5),
			  "boosted");
	}
}

// A load that can be brought down: 4.3 % of a core, of which two processes make most.
TEST(fits_storm_after_two_readings)
{
	const struct load load = {
		.sampling = 0.001, .off_cpu = 0.038, .agent = 0.004, .share = { 0.65, 0.3 }
	};
	struct governor governor = new_governor();
	struct governor_decision decision = pass(&governor, &load);

	EXPECT_EQ(GOVERNOR_CHANGE, decision.outcome, "the first reading");
	EXPECT_EQ(KNOB_OFF_CPU_UNWIND, decision.changes[0].knob,
		  "the ladder begins with the stacks");
	if (!strstr(decision.why, "4.30 % of a core in 10 s (off-CPU 3.80,"))
		fail_msg("no figures: %s", decision.why);
	pass(&governor, &load);
	if (cost_under(&governor, &load) > BUDGET)
		fail_msg("still %.4f", cost_under(&governor, &load));
	EXPECT_EQ(true, is_off(&governor, 100), "the worst");
	EXPECT_EQ(0, governor.shed.steps[KNOB_PAGE_FAULTS_UNWIND],
		  "page faults are not what costs");
}

TEST(turns_the_knob_that_costs)
{
	static const struct {
		const char *what;
		struct load load;
		enum knob knob;
	} cases[] = {
		{ "samples", { .sampling = 0.05, .agent = 0.005 }, KNOB_CPU_FREQUENCY },
		{ "page faults", { .page_faults = 0.05, .agent = 0.005 }, KNOB_PAGE_FAULTS_UNWIND },
		{ "stacks", { .off_cpu = 0.023, .agent = 0.001 }, KNOB_OFF_CPU_UNWIND },
	};

	for EACH (c, cases) {
		struct governor governor = new_governor();

		for (int i = 0; i < 8; i++)
			pass(&governor, &c->load);
		for (int knob = 0; knob < KNOB_GOVERNED; knob++)
			EXPECT_EQ(knob == (int)c->knob, governor.shed.steps[knob] > 0, c->what);
		if (cost_under(&governor, &c->load) > BUDGET)
			fail_msg("%s: still %.4f", c->what, cost_under(&governor, &c->load));
	}
}

TEST(detaches_and_retries_unaffordable_storm)
{
	struct governor governor = new_governor();
	enum governor_outcome seen[8];
	uint64_t tried_again_ns = 0;
	int reported = -1, detached = -1;

	for (int i = 0; i < 8; i++) {
		struct governor_decision decision = pass(&governor, &storm);

		seen[i] = decision.outcome;
		if (seen[i] == GOVERNOR_EXCEEDED && reported < 0)
			reported = i;
		if (governor_is_off(&governor, KNOB_OFF_CPU) && detached < 0)
			detached = i;
	}
	EXPECT_EQ(GOVERNOR_CHANGE, seen[0], "at once");
	if (reported >= 0)
		fail_msg("reported at reading %d that no step helps: one did", reported);
	if (detached < 3 || detached > 4)
		fail_msg("detached at reading %d", detached);
	if (cost_under(&governor, &storm) > BUDGET)
		fail_msg("without waits still %.4f", cost_under(&governor, &storm));

	EXPECT_EQ(99, governor_frequency_hz(&governor), "sampling is not what costs");

	uint64_t given_up_ns = governor.off_ns[KNOB_OFF_CPU];
	for (int i = 0; i < 2 * HOUR_ROWS; i++) {
		bool before = governor_is_off(&governor, KNOB_OFF_CPU);

		pass(&governor, &storm);
		if (before && !governor_is_off(&governor, KNOB_OFF_CPU) && !tried_again_ns)
			tried_again_ns = governor.now_ns;
	}
	EXPECT_EQ(300, (tried_again_ns - given_up_ns) / NS_PER_SECOND, "tried again after, in s");
	if (governor.changes > 60)
		fail_msg("%llu changes in two hours", (unsigned long long)governor.changes);
	for (int i = 0; i < 4 * HOUR_ROWS; i++)
		pass(&governor, &calm);
	EXPECT_EQ(0, governor_level(&governor), "everything is on again");
}

TEST(retries_detached_source_hourly)
{
	struct governor governor = new_governor();
	uint64_t off_ns = 0, longest_ns = 0;

	for (int i = 0; i < 8 * HOUR_ROWS; i++) {
		pass(&governor, &storm);
		if (!governor_is_off(&governor, KNOB_OFF_CPU))
			off_ns = 0;
		else if (!off_ns)
			off_ns = governor.now_ns;
		else if (governor.now_ns - off_ns > longest_ns)
			longest_ns = governor.now_ns - off_ns;
	}
	EXPECT_EQ(3600 - 10, longest_ns / NS_PER_SECOND, "the longest time without, in s");
}

// Page faults that cost the same whatever part of them is sampled.
TEST(detaches_page_faults_in_storm)
{
	struct governor governor = new_governor();
	struct governor_reading reading = { .elapsed_ns = 10 * NS_PER_SECOND, .off_cpu = 0.002 };
	struct governor_decision decision;

	for (int i = 0; i < 8 && !governor_is_off(&governor, KNOB_PAGE_FAULTS); i++) {
		reading.page_faults = 0.1;
		governor_decide(&governor, &reading, &decision);
	}
	EXPECT_EQ(KNOB_PAGE_FAULTS, decision.changes[0].knob, "detached");
	EXPECT_EQ(false, governor_is_off(&governor, KNOB_OFF_CPU), "waits are not what costs");
	reading.page_faults = 0;
	for (int i = 0; i < 30; i++)
		governor_decide(&governor, &reading, &decision);
	EXPECT_EQ(KNOB_PAGE_FAULTS, decision.changes[0].knob, "tried again after 5 minutes");
	EXPECT_EQ(false, decision.changes[0].down, "on");
}

static struct load at_rest(double factor, double agent)
{
	return (struct load){
		.sampling = 0.002 * factor,
		.off_cpu = 0.003 * factor,
		.page_faults = 0.001 * factor,
		.agent = agent,
		.share = { 0.5, 0.3 },
	};
}

/* Loads that a machine may have for a while: each sheds something. */
static const struct {
	const char *what;
	struct load load;
} loads[] = {
	{ "a storm of switches", { .off_cpu = 0.6, .agent = 0.01, .share = { 0.5, 0.49 } } },
	{ "switches", { .off_cpu = 0.03, .agent = 0.008, .share = { 0.2, 0.2 } } },
	{ "many samples", { .sampling = 0.06, .agent = 0.02 } },
	{ "page faults", { .page_faults = 0.2, .agent = 0.005 } },
	{ "all",
	  { .sampling = 0.05, .off_cpu = 0.3, .page_faults = 0.1, .agent = 0.05, { 0.9, 0.1 } } },
};

/* How long it takes after @load, which lasted so many readings, until nothing is shed. */
static uint64_t recovery_seconds(struct governor *governor, const struct load *load, int readings,
				 const struct load *rest)
{
	for (int i = 0; i < readings; i++)
		pass(governor, load);
	if (!governor_level(governor))
		fail_msg("nothing was shed");
	uint64_t from_ns = governor->now_ns;
	for (int i = 0; i < HOUR_ROWS && governor_level(governor); i++)
		pass(governor, rest);
	return (governor->now_ns - from_ns) / NS_PER_SECOND;
}

TEST(recovers_in_two_minutes)
{
	// The rest costs 0.9, 1.3 and 1.6 % of a core, of a budget of 2.
	const struct load rests[] = { at_rest(1, 0.003), at_rest(1, 0.007), at_rest(1, 0.010) };
	static const int lengths[] = { 12, 30, 360, 8640 };

	for EACH (l, loads) {
		for EACH (rest, rests) {
			for EACH (length, lengths) {
				struct governor governor = new_governor();
				uint64_t seconds =
					recovery_seconds(&governor, &l->load, *length, rest);

				if (seconds > 120)
					fail_msg("%s of %d readings: %llu s, level %u", l->what,
						 *length, (unsigned long long)seconds,
						 governor_level(&governor));
			}
		}
	}
}

// Loads that come and go again and again, with room of ten minutes between.
TEST(recovers_from_each_of_many_loads)
{
	const struct load rest = at_rest(1, 0.007);
	struct governor governor = new_governor();

	for (int i = 0; i < 40; i++) {
		const struct load *load = &loads[i % (int)ARRAY_SIZE(loads)].load;
		uint64_t seconds = recovery_seconds(&governor, load, 12, &rest);

		if (seconds > 120)
			fail_msg("%s, load %d: %llu s", loads[i % (int)ARRAY_SIZE(loads)].what, i,
				 (unsigned long long)seconds);
		while (governor.now_ns - governor.last_down_ns < 600 * NS_PER_SECOND)
			pass(&governor, &rest);
	}
}

// A node with five small pods: 1.3 % of a core at rest, and bursts of work on new processes.
TEST(sheds_nothing_on_quiet_node)
{
	const struct load rest = at_rest(1, 0.007), burst = at_rest(2, 0.030);
	struct governor governor = new_governor();

	for (int i = 0; i < 12 * HOUR_ROWS; i++) {
		// Pods start now and then: 40 s of it.
		pass(&governor, i % 60 < 4 ? &burst : &rest);
		EXPECT_EQ(0, governor_level(&governor), "level");
	}
}

// What is left at the edge of the budget stays as it is instead of trying again and again.
TEST(holds_still_near_budget)
{
	for (int percent = 150; percent <= 260; percent += 2) {
		struct governor governor = new_governor();
		uint32_t decisions = 0;

		for (int i = 0; i < 6 * HOUR_ROWS; i++) {
			srandom((unsigned int)(i * 7919 + percent));
			double noise = 0.95 + (double)(random() % 1000) / 10000;
			struct load load = at_rest(noise * percent / 100.0, 0.007 * noise);

			decisions += pass(&governor, &load).change_count > 0;
		}
		if (decisions > 6 * 4)
			fail_msg("%d %% of rest: %u decisions in 6 hours", percent, decisions);
	}
}

// 20 ms of resolution are worth more than the detail of rare stacks.
TEST(sheds_cpu_sampling_after_all_detail)
{
	const struct load busy = { .sampling = 0.02,
				   .off_cpu = 0.05,
				   .page_faults = 0.03,
				   .agent = 0.02,
				   .share = { 0.4, 0.4 } };
	struct governor governor = new_governor();
	uint64_t detail_ns = 0;

	for (int i = 0; i < HOUR_ROWS && governor_frequency_hz(&governor) == 99; i++) {
		uint32_t before = governor_level(&governor);

		pass(&governor, &busy);
		if (governor_level(&governor) > before && governor_frequency_hz(&governor) == 99)
			detail_ns = governor.now_ns;
	}
	EXPECT_EQ(SHEDDING_UNWIND_STEPS, governor.shed.steps[KNOB_OFF_CPU_UNWIND],
		  "off-CPU stacks");
	EXPECT_EQ(SHEDDING_UNWIND_STEPS, governor.shed.steps[KNOB_PAGE_FAULTS_UNWIND],
		  "page-fault stacks");
	EXPECT_EQ(2, governor.shed.steps[KNOB_PROCESS_OFF_CPU], "processes");
	if (governor_frequency_hz(&governor) < 99 &&
	    governor.now_ns - detail_ns < 30 * NS_PER_SECOND)
		fail_msg("CPU sampling %llu s after the detail",
			 (unsigned long long)((governor.now_ns - detail_ns) / NS_PER_SECOND));
}

// A storm of switches and faults costs no CPU samples, however long it lasts.
TEST(keeps_resolution_in_storm)
{
	struct governor governor = new_governor();

	for (int i = 0; i < HOUR_ROWS; i++) {
		pass(&governor, &storm);
		EXPECT_EQ(99, governor_frequency_hz(&governor), "frequency");
	}
}

TEST(drops_exited_processes)
{
	struct governor governor = new_governor();
	struct governor_change change;
	struct knob_setting setting;

	for (int i = 0; i < 2; i++)
		pass(&governor, &storm);
	assert_true(is_off(&governor, 100) && is_off(&governor, 101));
	assert_true(governor_drop_process(&governor, 100, &change));
	governor_setting(&governor, &change, &setting);
	EXPECT_EQ(100, setting.pid, "process");
	EXPECT_STR(STEP_ON, setting.step, "step");
	assert_false(governor_drop_process(&governor, 100, &change));
	assert_true(is_off(&governor, 101));
	EXPECT_EQ(1, governor.shed.steps[KNOB_PROCESS_OFF_CPU], "one is left");
}

TEST(reports_exceeded_after_last_step)
{
	// Above the budget, below twice of it: page faults and waits are needed, and nothing else helps.
	const struct load heavy = { .sampling = 0.001, .off_cpu = 0.04, .agent = 0.001 };
	const struct load worse = { .sampling = 0.001, .off_cpu = 0.4, .agent = 0.001 };
	struct governor governor = new_governor();
	struct governor_decision decision = { 0 };
	int at = 0;

	while (decision.outcome != GOVERNOR_EXCEEDED && ++at < 20)
		decision = pass(&governor, &heavy);
	EXPECT_STR("overhead budget exceeded, no step left below twice the budget", decision.what,
		   "a last resort is left");
	EXPECT_EQ(true, governor.exceeded_ns >= governor.options.over_ns, "after its time");
	for (int i = 0; i < 8; i++) {
		decision = pass(&governor, &worse);
		EXPECT_EQ(true, decision.outcome != GOVERNOR_EXCEEDED, "one is taken");
	}
	EXPECT_EQ(true, governor_is_off(&governor, KNOB_OFF_CPU), "above twice the budget");
}

TEST(own_work_sheds_no_source)
{
	const struct load busy = { .sampling = 0.001, .off_cpu = 0.001, .agent = 0.0001 };
	struct governor governor = new_governor();
	struct governor_reading reading = read_machine(&governor, &busy);
	struct governor_decision decision;
	int reported = 0;

	// That of a machine on which processes come and go.
	reading.agent = 0.5;
	for (int i = 0; i < 30; i++) {
		governor_decide(&governor, &reading, &decision);
		reported += decision.outcome == GOVERNOR_EXCEEDED;
	}
	EXPECT_EQ(0, governor_level(&governor), "nothing would help");
	EXPECT_EQ(1, reported, "said once");
	reading.agent = 0.001;
	governor_decide(&governor, &reading, &decision);
	EXPECT_EQ(GOVERNOR_MET, decision.outcome, "that it is over, too");
}

// ---- adversaries ------------------------------------------------------------------------------

static struct load scaled(double factor)
{
	struct load load = storm;

	load.sampling *= factor;
	load.off_cpu *= factor;
	load.page_faults *= factor;
	load.agent *= factor;
	return load;
}

/* Loads that are meant to make it flap, by reading and by what it did last. */
static double square(const struct governor *governor, int at, int period)
{
	(void)governor;
	return at / period % 2 ? 0.01 : 1;
}

static double noise(const struct governor *governor, int at, int seed)
{
	(void)governor;
	srandom(at * 7919 + seed);
	return (double)(random() % 1000) / 1000 * 0.2;
}

// High as soon as a step up was made, low as soon as one down was.
static double contrary(const struct governor *governor, int at, int unused)
{
	(void)at;
	(void)unused;
	return governor->last_up_ns > governor->last_down_ns || !governor_level(governor) ? 1
											  : 0.01;
}

// Waits until everything is on again, then strikes.
static double patient(const struct governor *governor, int at, int unused)
{
	(void)at;
	(void)unused;
	return governor_level(governor) ? 0.01 : 1;
}

static const struct {
	const char *what;
	double (*factor)(const struct governor *governor, int at, int parameter);
	int parameter;
} adversaries[] = {
	{ "every reading another", square, 1 },
	{ "two and two", square, 2 },
	{ "a minute", square, 6 },
	{ "seven readings", square, 7 },
	{ "ten minutes", square, 60 },
	{ "half an hour", square, 180 },
	{ "noise", noise, 1 },
	{ "other noise", noise, 2 },
	{ "contrary", contrary, 0 },
	{ "patient", patient, 0 },
};

TEST(never_flaps)
{
	for EACH (a, adversaries) {
		struct governor governor = new_governor();
		uint32_t most = 0;

		for (int hour = 0; hour < 24; hour++) {
			uint32_t decisions = 0;

			for (int i = 0; i < HOUR_ROWS; i++) {
				struct load load = scaled(
					a->factor(&governor, hour * HOUR_ROWS + i, a->parameter));

				decisions += pass(&governor, &load).change_count > 0;
			}
			most = decisions > most ? decisions : most;
		}
		if (getenv("TEST_GOVERNOR_TALK"))
			printf("%s: %llu changes in a day, %u decisions in an hour\n", a->what,
			       (unsigned long long)governor.changes, most);
		if (most > DECISIONS_MAX)
			fail_msg("%s: %u decisions in an hour", a->what, most);
	}
}

static struct governor new_governor_with_wakers(void)
{
	const struct governor_options options = {
		.budget = BUDGET,
		.frequency_hz = 99,
		.knobs = KNOB_BIT(KNOB_WAKERS) | KNOB_BIT(KNOB_OFF_CPU_UNWIND) |
			 KNOB_BIT(KNOB_OFF_CPU),
		GOVERNOR_DEFAULTS,
	};
	struct governor governor;

	governor_init(&governor, &options);
	return governor;
}

TEST(sheds_wakers_first)
{
	const struct load busy = { .sampling = 0.001, .off_cpu = 0.01, .wakers = 0.03 };
	struct governor governor = new_governor_with_wakers();
	struct governor_decision decision = pass(&governor, &busy);

	for (int i = 0; i < 2 && !decision.change_count; i++)
		decision = pass(&governor, &busy);
	EXPECT_EQ(1, decision.change_count, "they suffice");
	EXPECT_EQ(KNOB_WAKERS, decision.changes[0].knob, "wakers");
	EXPECT_EQ(true, decision.changes[0].down, "off");
	for (int i = 0; i < HOUR_ROWS / 18; i++)
		pass(&governor, &busy);
	EXPECT_EQ(1, governor_level(&governor), "the rest fits");
}

TEST(restores_wakers_after_load)
{
	const struct load busy = { .sampling = 0.001, .off_cpu = 0.015, .wakers = 0.2 };
	const struct load calm_again = { .sampling = 0.001, .off_cpu = 0.001, .wakers = 0.001 };
	struct governor governor = new_governor_with_wakers();
	int readings = 0;

	while (!governor.shed.steps[KNOB_WAKERS])
		pass(&governor, &busy);
	for (; governor_level(&governor) && readings < HOUR_ROWS; readings++)
		pass(&governor, &calm_again);
	if (readings < 6 || readings > HOUR_ROWS / 6)
		fail_msg("after %d readings", readings);
}

TEST(changes_are_knob_settings)
{
	struct governor governor = new_governor();
	static const struct {
		struct governor_change change;
		const char *step;
		uint32_t pid;
	} cases[] = {
		{ { .knob = KNOB_OFF_CPU_UNWIND, .step = 1, .down = true }, "1/4", 0 },
		{ { .knob = KNOB_OFF_CPU_UNWIND, .step = 0 }, "1/1", 0 },
		{ { .knob = KNOB_PAGE_FAULTS_UNWIND, .step = 3, .down = true }, "1/64", 0 },
		{ { .knob = KNOB_CPU_FREQUENCY, .step = 1, .down = true }, "49Hz", 0 },
		{ { .knob = KNOB_CPU_FREQUENCY, .step = 0 }, "99Hz", 0 },
		{ { .knob = KNOB_PROCESS_OFF_CPU, .down = true, .process = { 7, "a", 0 } },
		  "off",
		  7 },
		{ { .knob = KNOB_PROCESS_OFF_CPU, .process = { 7, "a", 0 } }, "on", 7 },
		{ { .knob = KNOB_OFF_CPU, .down = true }, "off", 0 },
		{ { .knob = KNOB_OFF_CPU }, "on", 0 },
		{ { .knob = KNOB_PAGE_FAULTS, .down = true }, "off", 0 },
		{ { .knob = KNOB_WAKERS }, "on", 0 },
	};

	for EACH (c, cases) {
		struct knob_setting setting;

		governor_setting(&governor, &c->change, &setting);
		EXPECT_EQ(c->change.knob, setting.knob, c->step);
		EXPECT_STR(c->step, setting.step, c->step);
		EXPECT_EQ(c->pid, setting.pid, c->step);
		EXPECT_STR(c->pid ? "a" : "", setting.comm, c->step);
	}
}

static void describe_shedding(const struct governor *governor, char text[1024])
{
	struct governor_change changes[GOVERNOR_CHANGES_MAX];
	uint32_t count = governor_shedding(governor, changes);
	char sentence[KNOB_SENTENCE_BYTES];

	text[0] = 0;
	for (uint32_t i = 0; i < count; i++) {
		struct knob_setting setting;

		governor_setting(governor, &changes[i], &setting);
		strcat(strcat(text, knob_sentence(&setting, sentence)), "; ");
	}
}

#define BOOST_BUDGET 0.08

static void boost(struct governor *governor, uint32_t frequency_hz, double budget)
{
	const struct governor_target target = { .frequency_hz = frequency_hz,
						.budget = budget,
						.knobs = governor->options.knobs };

	governor_set_target(governor, &target);
}

TEST(a_boost_that_fits_costs_no_detail)
{
	struct governor governor = new_governor();

	boost(&governor, 999, BOOST_BUDGET);
	for (int i = 0; i < HOUR_ROWS; i++) {
		pass(&governor, &calm);
		EXPECT_EQ(0, governor_level(&governor), "nothing is shed");
	}
	EXPECT_EQ(999, governor_frequency_hz(&governor), "rate");
	boost(&governor, 99, BUDGET);
	EXPECT_EQ(99, governor_frequency_hz(&governor), "its own again");
}

// 999 Hz would cost 40 % of a core: it is lowered as far as its budget demands, at once, and nothing else is.
TEST(a_boost_goes_before_all_detail)
{
	const struct load busy = {
		.sampling = 0.04, .off_cpu = 0.005, .page_faults = 0.005, .agent = 0.01
	};
	struct governor governor = new_governor();
	char text[1024];

	boost(&governor, 999, BOOST_BUDGET);
	for (int i = 0; i < 2; i++)
		pass(&governor, &busy);
	EXPECT_EQ(99, governor_frequency_hz(&governor), "its own rate after two readings");
	EXPECT_EQ(0, governor.shed.steps[KNOB_OFF_CPU_UNWIND], "off-CPU stacks");
	EXPECT_EQ(0, governor.shed.steps[KNOB_PAGE_FAULTS_UNWIND], "page-fault stacks");
	describe_shedding(&governor, text);
	EXPECT_STR("", text, "less of a boost is no gap");
	for (int i = 0; i < HOUR_ROWS; i++)
		pass(&governor, &calm);
	EXPECT_EQ(999, governor_frequency_hz(&governor), "it comes back where it fits");
}

TEST(a_boost_ends_with_its_steps)
{
	static const uint32_t own_rates[] = { 10, 99, 150, 999 };

	for EACH (own_hz, own_rates) {
		struct governor_options options = new_governor().options;
		const struct load busy = { .sampling = 2 };
		struct governor governor;
		char what[16];

		snprintf(what, sizeof(what), "%u Hz", *own_hz);
		options.frequency_hz = *own_hz;
		governor_init(&governor, &options);
		boost(&governor, 1000, BOOST_BUDGET);
		EXPECT_EQ(1000, governor_frequency_hz(&governor), what);
		for (int i = 0; i < 2; i++)
			pass(&governor, &busy);
		EXPECT_EQ(*own_hz, governor_frequency_hz(&governor), what);
		boost(&governor, *own_hz, BUDGET);
		EXPECT_EQ(*own_hz, governor_frequency_hz(&governor), what);
		EXPECT_EQ(0, governor.shed.steps[KNOB_CPU_FREQUENCY], what);
	}
}

TEST(sources_of_a_boost_can_be_shed)
{
	struct governor governor = new_governor();
	const struct governor_target with = { .frequency_hz = 99,
					      .budget = BUDGET,
					      .knobs = ALL_KNOBS };
	const struct governor_target without = { .frequency_hz = 99,
						 .budget = BUDGET,
						 .knobs = ALL_KNOBS & ~KNOB_BIT(KNOB_WAKERS) };
	const struct load waking = { .wakers = 0.1 };

	for (int i = 0; i < 3; i++)
		pass(&governor, &waking);
	EXPECT_EQ(0, governor.shed.steps[KNOB_WAKERS], "no such source");
	governor_set_target(&governor, &with);
	for (int i = 0; i < 3; i++)
		pass(&governor, &waking);
	EXPECT_EQ(1, governor.shed.steps[KNOB_WAKERS], "shed");
	governor_set_target(&governor, &without);
	EXPECT_EQ(0, governor_level(&governor), "it went with its source");
}

TEST(lists_active_steps_once)
{
	struct governor governor = new_governor();
	struct load busy = storm;
	char text[1024];

	describe_shedding(&governor, text);
	EXPECT_STR("", text, "nothing at first");
	busy.sampling = 0.1;
	for (int i = 0; i < 8; i++)
		pass(&governor, &busy);
	describe_shedding(&governor, text);
	EXPECT_STR("off-CPU stacks at 1/64; "
		   "off-CPU stacks of pingpong (100) off; off-CPU stacks of pingpong (101) off; "
		   "CPU sampling at 19Hz; off-CPU, run queue and wall clock off; ",
		   text, "one of each knob, and each process");
	for (int i = 0; i < 4 * HOUR_ROWS; i++)
		pass(&governor, &calm);
	describe_shedding(&governor, text);
	EXPECT_STR("", text, "nothing in the end");
}

RUN_TESTS(cmocka_unit_test(changes_nothing_within_budget),
	  cmocka_unit_test(budget_grows_with_cores),
	  cmocka_unit_test(fits_storm_after_two_readings),
	  cmocka_unit_test(turns_the_knob_that_costs),
	  cmocka_unit_test(detaches_and_retries_unaffordable_storm),
	  cmocka_unit_test(retries_detached_source_hourly),
	  cmocka_unit_test(detaches_page_faults_in_storm),
	  cmocka_unit_test(recovers_in_two_minutes),
	  cmocka_unit_test(recovers_from_each_of_many_loads),
	  cmocka_unit_test(sheds_nothing_on_quiet_node), cmocka_unit_test(holds_still_near_budget),
	  cmocka_unit_test(sheds_cpu_sampling_after_all_detail),
	  cmocka_unit_test(keeps_resolution_in_storm), cmocka_unit_test(drops_exited_processes),
	  cmocka_unit_test(reports_exceeded_after_last_step),
	  cmocka_unit_test(own_work_sheds_no_source), cmocka_unit_test(sheds_wakers_first),
	  cmocka_unit_test(restores_wakers_after_load), cmocka_unit_test(never_flaps),
	  cmocka_unit_test(changes_are_knob_settings),
	  cmocka_unit_test(a_boost_that_fits_costs_no_detail),
	  cmocka_unit_test(a_boost_goes_before_all_detail),
	  cmocka_unit_test(a_boost_ends_with_its_steps),
	  cmocka_unit_test(sources_of_a_boost_can_be_shed),
	  cmocka_unit_test(lists_active_steps_once))
