// SPDX-License-Identifier: Apache-2.0
// Excursions of noise whose truth is known: hours in which nothing happens, and bursts in them.
#include "collector/spikes/usual_range.h"

#include "tests/test.h"
#include "tests/unit/collector/spikes/noise.h"

#include "base/cleanup.h"

#define SLOT_NS   (20 * NS_PER_MS)
#define EXTRA_MIN (0.2e9)

enum { SLOTS_PER_S = 50, HISTORY_S = 1800, SLOTS = (HISTORY_S + 3600) * SLOTS_PER_S };

struct hour {
	int64_t *values; // half an hour of history, and the hour
	bool *present;   // by 10 s
	uint32_t count;
	uint64_t slot_ns;
	uint64_t scale_min_ns;
	struct excursions found;
};

static void hour_open(struct hour *hour, uint32_t count, uint64_t slot_ns)
{
	hour->count = count;
	hour->slot_ns = slot_ns;
	hour->scale_min_ns = 0;
	hour->values = calloc(count, sizeof(*hour->values));
	hour->present = malloc(count);
	assert_non_null(hour->values);
	assert_non_null(hour->present);
	memset(hour->present, true, count);
}

static void hour_close(struct hour *hour)
{
	free(hour->values);
	free(hour->present);
}

static uint32_t judge(struct hour *hour)
{
	const struct usual_series series = {
		.values = hour->values,
		.count = hour->count,
		.slot_ns = hour->slot_ns,
		.block_ns = usual_block_ns(hour->count * hour->slot_ns),
		.present = hour->present,
		.present_count = hour->count,
		.unit_ns = 10 * NS_PER_SECOND,
		.judged_from = (uint32_t)(HISTORY_S * NS_PER_SECOND / hour->slot_ns),
		.quantum = NOISE_SAMPLE_NS,
		.rise_min = 0.3e9,
		.scale_min_ns = hour->scale_min_ns,
	};

	EXPECT_EQ(0, usual_range_judge(&series, EXTRA_MIN, &hour->found), "judged");
	return hour->found.count;
}

static struct noise seeded(uint64_t seed)
{
	struct noise noise = { .state = seed * 0x9e3779b97f4a7c15ULL + 1 };

	for (int i = 0; i < 10; i++)
		noise_draw(&noise);
	return noise;
}

static double half_hour_wave(void *context, double second)
{
	(void)context;
	return 1 + 0.5 * sin(2 * M_PI * second / 1800);
}

static double day_wave(void *context, double second)
{
	(void)context;
	return 1 + 0.8 * sin(2 * M_PI * second / 86400);
}

/** Kinds of noise; each fills an hour of slots. */
enum kind {
	POISSON,
	WAVE,
	WANDERING,
	WANDERING_SLOWLY,
	REQUESTS,
	LONG_REQUESTS,
	HEAVY_TAILED,
	EVERY_MINUTE,
	EVERY_5_MINUTES
};

struct quiet_row {
	const char *what;
	enum kind kind;
	double size; // cores, or requests per second
};

static void fill(struct hour *hour, const struct quiet_row *row, struct noise *noise)
{
	int64_t *values = hour->values;
	uint32_t count = hour->count;
	uint64_t slot_ns = hour->slot_ns;

	if (row->kind == POISSON)
		noise_cpu(noise, values, count, slot_ns, row->size, NULL, NULL);
	else if (row->kind == WAVE)
		noise_cpu(noise, values, count, slot_ns, row->size, half_hour_wave, NULL);
	else if (row->kind == WANDERING)
		noise_wandering(noise, values, count, slot_ns, row->size, 10, 0.5);
	else if (row->kind == WANDERING_SLOWLY)
		noise_wandering(noise, values, count, slot_ns, row->size, 600, 0.5);
	else if (row->kind == REQUESTS)
		noise_requests(noise, values, count, slot_ns, row->size, 0.05, 0);
	else if (row->kind == LONG_REQUESTS)
		noise_requests(noise, values, count, slot_ns, row->size, 0.5, 0);
	else if (row->kind == HEAVY_TAILED)
		noise_requests(noise, values, count, slot_ns, row->size, 0.05, 1.2);
	else
		noise_cpu(noise, values, count, slot_ns, 0.1, NULL, NULL);
	if (row->kind >= EVERY_MINUTE)
		noise_periodic(noise, values, count, slot_ns, row->kind == EVERY_MINUTE ? 60 : 300,
			       2, row->size);
}

TEST(quiet_hours_have_no_spikes)
{
	static const struct quiet_row rows[] = {
		{ "a hundredth of a core", POISSON, 0.01 },
		{ "a tenth of a core", POISSON, 0.1 },
		{ "a core", POISSON, 1 },
		{ "8 cores", POISSON, 8 },
		{ "a wave of half an hour", WAVE, 1 },
		{ "a load that wanders", WANDERING, 0.5 },
		{ "a load that wanders slowly", WANDERING_SLOWLY, 0.5 },
		{ "rare short waits", REQUESTS, 0.1 },
		{ "many short waits", REQUESTS, 5 },
		{ "long waits", LONG_REQUESTS, 1 },
		{ "waits with a heavy tail", HEAVY_TAILED, 3 },
		{ "a job every minute", EVERY_MINUTE, 1 },
		{ "a job every 5 minutes", EVERY_5_MINUTES, 1 },
	};

	for EACH (row, rows) {
		for (uint64_t seed = 1; seed <= 2; seed++) {
			struct noise noise = seeded(seed);
			struct hour hour;

			hour_open(&hour, SLOTS, SLOT_NS);
			fill(&hour, row, &noise);
			EXPECT_EQ(0, judge(&hour), row->what);
			hour_close(&hour);
		}
	}
}

TEST(a_day_with_a_wave_has_no_spikes)
{
	struct noise noise = seeded(7);
	struct hour hour;

	hour_open(&hour, 86400 + HISTORY_S, NS_PER_SECOND);
	noise_cpu(&noise, hour.values, hour.count, NS_PER_SECOND, 2, day_wave, NULL);
	noise_periodic(&noise, hour.values, hour.count, NS_PER_SECOND, 60, 2, 1);
	EXPECT_EQ(0, judge(&hour), "a day");
	hour_close(&hour);
}

static void add_burst(struct hour *hour, double at_s, double length_s, double cores)
{
	double slot_s = (double)hour->slot_ns / (double)NS_PER_SECOND;
	uint32_t first = (uint32_t)(at_s / slot_s);
	uint32_t slots = (uint32_t)(length_s / slot_s + 0.5);

	for (uint32_t i = first; i < first + slots && i < hour->count; i++)
		hour->values[i] += (int64_t)(cores * (double)hour->slot_ns);
}

TEST(finds_bursts_at_every_scale_with_their_bounds)
{
	static const struct {
		const char *what;
		double length_s, cores, slack_s;
	} rows[] = {
		{ "40 ms of 8 cores", 0.04, 8, 0.03 },
		{ "100 ms of 4 cores", 0.1, 4, 0.06 },

		{ "half a second", 0.5, 2, 0.3 },
		{ "2 s of a core", 2, 1, 1 },
		{ "10 s", 10, 0.6, 2 },
		{ "a minute", 60, 0.6, 6 },
		{ "10 minutes", 600, 0.6, 30 },
	};

	for EACH (row, rows) {
		struct noise noise = seeded((uint64_t)(row - rows) + 100);
		struct hour hour;
		double at = HISTORY_S + 300 + 1000 * noise_draw(&noise);

		hour_open(&hour, SLOTS, SLOT_NS);
		noise_cpu(&noise, hour.values, hour.count, SLOT_NS, 0.2, NULL, NULL);
		add_burst(&hour, at, row->length_s, row->cores);
		EXPECT_EQ(1, judge(&hour), row->what);
		const struct excursion *found = &hour.found.items[0];
		double first = (double)found->first / SLOTS_PER_S;
		double end = (double)found->end / SLOTS_PER_S;

		EXPECT_EQ(true, fabs(first - at) <= row->slack_s, row->what);
		EXPECT_EQ(true, fabs(end - at - row->length_s) <= row->slack_s, row->what);
		double extra = row->length_s * row->cores;
		EXPECT_EQ(true, fabs(found->extra / 1e9 - extra) < 0.25 * extra + 0.1, row->what);
		EXPECT_EQ(true, found->surprise > 6, row->what);
		hour_close(&hour);
	}
}

TEST(what_came_twice_before_is_usual)
{
	struct noise noise = seeded(3);
	struct hour hour;

	hour_open(&hour, SLOTS, SLOT_NS);
	noise_cpu(&noise, hour.values, hour.count, SLOT_NS, 0.1, NULL, NULL);
	for (int i = 0; i < 4; i++)
		add_burst(&hour, HISTORY_S + 900 * i + 60, 3, 1);
	EXPECT_EQ(2, judge(&hour), "the first two of four");
	hour_close(&hour);
}

TEST(history_alone_is_not_answered)
{
	struct noise noise = seeded(4);
	struct hour hour;

	hour_open(&hour, SLOTS, SLOT_NS);
	noise_cpu(&noise, hour.values, hour.count, SLOT_NS, 0.1, NULL, NULL);
	add_burst(&hour, HISTORY_S - 100, 5, 1);
	EXPECT_EQ(0, judge(&hour), "before the range");
	hour_close(&hour);
}

TEST(a_start_is_not_a_spike)
{
	struct noise noise = seeded(5);
	struct hour hour;

	hour_open(&hour, SLOTS, SLOT_NS);
	noise_cpu(&noise, hour.values, hour.count, SLOT_NS, 0.1, NULL, NULL);
	// It restarts with 10 s of work, after as long a history.
	uint32_t end = (HISTORY_S + 1200) * SLOTS_PER_S, begin = end - 60 * SLOTS_PER_S;
	for (uint32_t i = begin; i < end; i++) {
		hour.values[i] = 0;
		hour.present[i / SLOTS_PER_S / 10] = false;
	}
	add_burst(&hour, HISTORY_S + 1200, 10, 2);
	EXPECT_EQ(0, judge(&hour), "a start");
	add_burst(&hour, HISTORY_S + 1300, 10, 2);
	EXPECT_EQ(1, judge(&hour), "and a spike after it");
	hour_close(&hour);
}

TEST(too_short_a_history_judges_nothing)
{
	struct noise noise = seeded(6);
	struct hour hour;

	hour_open(&hour, SLOTS, SLOT_NS);
	noise_cpu(&noise, hour.values, hour.count, SLOT_NS, 0.1, NULL, NULL);
	uint32_t begin = HISTORY_S + 600;
	memset(hour.present, false, begin / 10);
	memset(hour.values, 0, begin * SLOTS_PER_S * sizeof(*hour.values));
	add_burst(&hour, begin + 200, 10, 3);
	EXPECT_EQ(0, judge(&hour), "three minutes after it began");
	hour_close(&hour);
}

TEST(ignores_small_rise_of_idle_series)
{
	struct hour hour;

	hour_open(&hour, SLOTS, SLOT_NS);
	add_burst(&hour, HISTORY_S + 500, 60, 0.2);
	EXPECT_EQ(0, judge(&hour), "a fifth of a thread");
	add_burst(&hour, HISTORY_S + 1500, 60, 0.5);
	EXPECT_EQ(1, judge(&hour), "half a thread");
	hour_close(&hour);
}

TEST(sampled_values_are_judged_at_coarse_scales_alone)
{
	struct noise noise = seeded(9);
	struct hour hour;

	hour_open(&hour, SLOTS, SLOT_NS);
	noise_periodic(&noise, hour.values, hour.count, SLOT_NS, 7, 0.5, 2);
	add_burst(&hour, HISTORY_S + 500, 0.5, 10);
	EXPECT_EQ(1, judge(&hour), "one on phase with a large weight");
	hour.scale_min_ns = 30 * NS_PER_SECOND;
	EXPECT_EQ(0, judge(&hour), "it is one sample");
	add_burst(&hour, HISTORY_S + 900, 90, 1);
	EXPECT_EQ(1, judge(&hour), "a rise over many");
	hour_close(&hour);
}

TEST(hostile_values_end_in_some_answer)
{
	struct noise noise = seeded(8);
	struct hour hour;

	hour_open(&hour, 60 * 60 * SLOTS_PER_S, SLOT_NS);
	for (uint32_t i = 0; i < hour.count; i++)
		hour.values[i] = (int64_t)(noise_draw(&noise) * 1.8e19 - 9e18);
	judge(&hour);
	for (uint32_t i = 0; i < hour.count; i++)
		hour.values[i] = i % 2 ? INT64_MAX : INT64_MIN;
	judge(&hour);
	hour_close(&hour);
}

RUN_TESTS(cmocka_unit_test(quiet_hours_have_no_spikes),
	  cmocka_unit_test(a_day_with_a_wave_has_no_spikes),
	  cmocka_unit_test(finds_bursts_at_every_scale_with_their_bounds),
	  cmocka_unit_test(what_came_twice_before_is_usual),
	  cmocka_unit_test(history_alone_is_not_answered), cmocka_unit_test(a_start_is_not_a_spike),
	  cmocka_unit_test(too_short_a_history_judges_nothing),
	  cmocka_unit_test(ignores_small_rise_of_idle_series),
	  cmocka_unit_test(sampled_values_are_judged_at_coarse_scales_alone),
	  cmocka_unit_test(hostile_values_end_in_some_answer))
