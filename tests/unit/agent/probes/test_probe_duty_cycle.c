// SPDX-License-Identifier: Apache-2.0
#include "agent/probes/probe_duty_cycle.h"

#include <math.h>

#include "tests/test.h"

enum { SYNC, COPY, LAUNCH, GRAPH };

#define BUDGET  0.005
#define TICK_NS (20 * NS_PER_MS)

/* The machine: how often each kind is called, and a clock. */
struct machine {
	struct probe_duty_cycle cycle;
	double rates[4];
	uint64_t now_ns;
	// What came of it.
	uint64_t on_ns; // in on phases, in all
	uint32_t opened, closed;
	double counted;  // launches, as weighed
	double launches; // that there were
	double cost_ns;  // of all probes
	struct gpu_on_phase phase;
};

static void start(struct machine *machine, uint64_t seed)
{
	*machine = (struct machine){ .now_ns = 1000 * NS_PER_SECOND };
	probe_duty_cycle_init(&machine->cycle, BUDGET, seed);
}

static void measure(struct machine *machine, uint32_t kind, uint64_t elapsed_ns)
{
	double calls = machine->rates[kind] * (double)elapsed_ns / NS_PER_SECOND;

	machine->cost_ns += calls * machine->cycle.kinds[kind].cost_ns;
	probe_duty_cycle_measure(&machine->cycle, kind, (uint64_t)calls, elapsed_ns);
}

static void measure_mode(struct machine *machine, enum probe_mode mode, uint64_t elapsed_ns)
{
	for (uint32_t i = 0; i < 4; i++) {
		if (machine->cycle.kinds[i].mode == mode)
			measure(machine, i, elapsed_ns);
	}
}

/* As the agent does it: attaching takes 3 ms. */
static void run(struct machine *machine, double seconds)
{
	uint64_t end_ns = machine->now_ns + (uint64_t)(seconds * NS_PER_SECOND);
	uint64_t looked_ns = machine->now_ns;

	for (; machine->now_ns < end_ns; machine->now_ns += TICK_NS) {
		machine->launches += machine->rates[LAUNCH] * TICK_NS / NS_PER_SECOND;
		switch (probe_duty_cycle_step(&machine->cycle, machine->now_ns)) {
		case PROBE_STEP_ATTACH:
			probe_duty_cycle_begin_phase(
				&machine->cycle, machine->now_ns + 3 * NS_PER_MS, &machine->phase);
			machine->opened++;
			machine->on_ns += machine->phase.end_ns - machine->phase.begin_ns;
			machine->counted +=
				machine->rates[LAUNCH] * machine->phase.weight *
				(double)(machine->phase.end_ns - machine->phase.begin_ns) /
				NS_PER_SECOND;
			break;
		case PROBE_STEP_DETACH:
			machine->closed++;
			measure_mode(machine, PROBE_DUTY_CYCLE,
				     machine->now_ns - machine->phase.begin_ns);
			probe_duty_cycle_decide(&machine->cycle, machine->now_ns);
			break;
		default:
			break;
		}
		if (machine->now_ns - looked_ns < 10 * NS_PER_SECOND)
			continue;
		measure_mode(machine, PROBE_ALWAYS, machine->now_ns - looked_ns);
		probe_duty_cycle_decide(&machine->cycle, machine->now_ns);
		looked_ns = machine->now_ns;
	}
}

static enum probe_mode mode_of(const struct machine *machine, uint32_t kind)
{
	return machine->cycle.kinds[kind].mode;
}

TEST(duty_cycles_launches_but_not_rare_calls)
{
	struct machine machine;

	start(&machine, 1);
	assert_true(probe_duty_cycle_set_kind(&machine.cycle, SYNC, false, 900, machine.now_ns));
	assert_true(probe_duty_cycle_set_kind(&machine.cycle, LAUNCH, true, 450, machine.now_ns));
	assert_false(probe_duty_cycle_set_kind(&machine.cycle, LAUNCH, true, 450, machine.now_ns));
	machine.rates[SYNC] = 100;
	machine.rates[LAUNCH] = 1000;
	run(&machine, 600);
	assert_int_equal(PROBE_ALWAYS, mode_of(&machine, SYNC));
	assert_int_equal(PROBE_DUTY_CYCLE, mode_of(&machine, LAUNCH));
	// Cheap ones are seen as much as may be: a second of each five.
	assert_int_equal(PROBE_WEIGHT_MIN, machine.cycle.weight);
	assert_true(machine.opened - machine.closed <= 1);
	assert_in_range(machine.opened, 115, 130);
	assert_in_range(machine.on_ns / NS_PER_MS, 115000, 125000);
}

TEST(weighted_calls_match_the_true_count)
{
	static const double rates[] = { 200, 5000, 100000, 800000 };

	for EACH (rate, rates) {
		double counted = 0, launches = 0;

		for (uint64_t seed = 1; seed <= 5; seed++) {
			struct machine machine;

			start(&machine, seed);
			probe_duty_cycle_set_kind(&machine.cycle, LAUNCH, true, 450,
						  machine.now_ns);
			machine.rates[LAUNCH] = *rate;
			run(&machine, 400);
			counted += machine.counted;
			launches += machine.launches;
		}
		if (fabs(counted / launches - 1) > 0.02)
			fail_msg("at %g/s: %g counted of %g", *rate, counted, launches);
	}
}

TEST(launches_stay_within_the_budget)
{
	static const struct {
		const char *what;
		double rate, cost_ns;
		enum probe_mode mode;
	} rows[] = {
		{ "100,000 launches a second", 100e3, 450, PROBE_DUTY_CYCLE },
		{ "a million", 1e6, 450, PROBE_DUTY_CYCLE },
		{ "100,000 at an expensive site", 100e3, 15000, PROBE_DUTY_CYCLE },
		{ "more than anything does", 10e6, 15000, PROBE_OFF },
	};

	for EACH (row, rows) {
		struct machine machine;

		start(&machine, 7);
		probe_duty_cycle_set_kind(&machine.cycle, LAUNCH, true, row->cost_ns,
					  machine.now_ns);
		machine.rates[LAUNCH] = row->rate;
		run(&machine, 20); // until the rate is known
		machine.cost_ns = 0;
		run(&machine, 240);
		EXPECT_EQ(row->mode, mode_of(&machine, LAUNCH), row->what);
		// A phase ends up to a tick late, which matters in short ones.
		double share = machine.cost_ns / (240.0 * NS_PER_SECOND);
		if (share > BUDGET * 1.5)
			fail_msg("%s: %.2f %% of a core", row->what, share * 100);
		if (row->mode == PROBE_OFF)
			EXPECT_EQ(0, machine.cost_ns, row->what);
	}
}

TEST(demotes_the_costliest_probe_and_promotes_it_later)
{
	struct machine machine;

	start(&machine, 3);
	probe_duty_cycle_set_kind(&machine.cycle, SYNC, false, 900, machine.now_ns);
	probe_duty_cycle_set_kind(&machine.cycle, COPY, false, 450, machine.now_ns);
	probe_duty_cycle_set_kind(&machine.cycle, GRAPH, false, 450, machine.now_ns);
	machine.rates[SYNC] = 1000;  // 0.09 %
	machine.rates[COPY] = 20000; // 0.9 %: a loop that polls
	machine.rates[GRAPH] = 5000; // 0.225 %
	run(&machine, 15);
	assert_int_equal(PROBE_DUTY_CYCLE, mode_of(&machine, COPY));
	assert_int_equal(PROBE_ALWAYS, mode_of(&machine, SYNC));
	assert_int_equal(PROBE_ALWAYS, mode_of(&machine, GRAPH));
	assert_true(machine.cycle.always < BUDGET);
	// It stays duty-cycled while it is frequent.
	run(&machine, 300);
	assert_int_equal(PROBE_DUTY_CYCLE, mode_of(&machine, COPY));
	machine.rates[COPY] = machine.rates[GRAPH] = 100;
	run(&machine, 200);
	assert_int_equal(PROBE_ALWAYS, mode_of(&machine, COPY));
}

TEST(bursts_do_not_make_modes_flap)
{
	struct machine machine;
	uint32_t changes = 0;

	start(&machine, 3);
	probe_duty_cycle_set_kind(&machine.cycle, COPY, false, 450, machine.now_ns);
	enum probe_mode mode = mode_of(&machine, COPY);
	for (int minute = 0; minute < 240; minute++) {
		machine.rates[COPY] = minute % 3 ? 10 : 20000;
		run(&machine, 60);
		changes += mode_of(&machine, COPY) != mode;
		mode = mode_of(&machine, COPY);
	}
	assert_in_range(changes, 1, 24);
}

/* Who adds a kind reads the clock itself, after who decides. */
TEST(kind_added_after_now_has_no_age)
{
	struct machine machine;

	start(&machine, 3);
	probe_duty_cycle_set_kind(&machine.cycle, COPY, false, 450, machine.now_ns + 1);
	probe_duty_cycle_measure(&machine.cycle, COPY, 20000, NS_PER_SECOND);
	assert_true(probe_duty_cycle_decide(&machine.cycle, machine.now_ns));
	assert_int_equal(PROBE_DUTY_CYCLE, mode_of(&machine, COPY));
	assert_int_equal(2, machine.cycle.kinds[COPY].cooldown);
}

TEST(measures_rates_in_short_on_phases_first)
{
	struct machine machine;

	start(&machine, 9);
	probe_duty_cycle_set_kind(&machine.cycle, LAUNCH, true, 15000, machine.now_ns);
	machine.rates[LAUNCH] = 100e3;
	run(&machine, 1.1);
	assert_int_equal(1, machine.closed);
	assert_int_equal(PROBE_ON_NS_MIN, machine.on_ns);
	assert_int_equal(300, machine.cycle.weight);
}

TEST(no_on_phases_without_duty_cycled_kinds)
{
	struct machine machine;

	start(&machine, 9);
	probe_duty_cycle_set_kind(&machine.cycle, SYNC, false, 900, machine.now_ns);
	run(&machine, 60);
	assert_int_equal(0, machine.opened);
	// The last file disappears in an on phase.
	probe_duty_cycle_set_kind(&machine.cycle, LAUNCH, true, 450, machine.now_ns);
	while (machine.opened == machine.closed)
		run(&machine, 0.02);
	assert_true(probe_duty_cycle_set_kind(&machine.cycle, LAUNCH, true, 0, machine.now_ns));
	assert_int_equal(PROBE_STEP_DETACH, probe_duty_cycle_step(&machine.cycle, machine.now_ns));
	assert_int_equal(PROBE_STEP_NONE, probe_duty_cycle_step(&machine.cycle, machine.now_ns));
}

TEST(suspend_begins_a_new_period)
{
	struct machine machine;

	start(&machine, 9);
	probe_duty_cycle_set_kind(&machine.cycle, LAUNCH, true, 450, machine.now_ns);
	machine.rates[LAUNCH] = 1000;
	run(&machine, 30);
	uint32_t opened = machine.opened;
	machine.now_ns += 3600 * NS_PER_SECOND;
	run(&machine, 10.1);
	assert_in_range(machine.opened - opened, 1, 4);
}

RUN_TESTS(cmocka_unit_test(duty_cycles_launches_but_not_rare_calls),
	  cmocka_unit_test(weighted_calls_match_the_true_count),
	  cmocka_unit_test(launches_stay_within_the_budget),
	  cmocka_unit_test(demotes_the_costliest_probe_and_promotes_it_later),
	  cmocka_unit_test(bursts_do_not_make_modes_flap),
	  cmocka_unit_test(kind_added_after_now_has_no_age),
	  cmocka_unit_test(measures_rates_in_short_on_phases_first),
	  cmocka_unit_test(no_on_phases_without_duty_cycled_kinds),
	  cmocka_unit_test(suspend_begins_a_new_period))
