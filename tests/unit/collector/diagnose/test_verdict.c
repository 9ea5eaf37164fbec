// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/verdict.h"

#include "base/clock.h"
#include "tests/test.h"

#define SECONDS(s) ((int64_t)((s)*1e9))

enum { RANGE_S = 60 };

/** Seconds of threads' time in a minute. */
static const struct {
	const char *what;
	double running, python, native, kernel, queued, throttled;
	double gil, lock, disk, network, pipe, idle, sleep, poll, child, other;
	enum verdict_class class;
} cases[] = {
	{ "nothing stored", .class = VERDICT_NO_DATA },
	{ "a pool without work", .running = 0.2, .python = 0.2, .idle = 480,
	  .class = VERDICT_NO_DEMAND },
	{ "only sleeping", .running = 0.1, .native = 0.1, .sleep = 120, .idle = 1,
	  .class = VERDICT_NO_DEMAND },
	{ "a loop in C", .running = 55, .native = 50, .kernel = 5, .queued = 1, .idle = 100,
	  .class = VERDICT_CPU_NATIVE },
	{ "a loop in Python", .running = 58, .python = 50, .native = 8,
	  .class = VERDICT_CPU_PYTHON },
	{ "system calls", .running = 30, .kernel = 25, .native = 5, .disk = 3,
	  .class = VERDICT_CPU_KERNEL },
	{ "four Python threads", .running = 60, .python = 60, .gil = 175, .class = VERDICT_GIL },
	{ "a mutex", .running = 30, .native = 30, .lock = 150, .class = VERDICT_LOCK },
	{ "a cold cache", .running = 10, .native = 10, .disk = 45, .class = VERDICT_DISK },
	{ "a slow database", .running = 8, .python = 8, .network = 110, .idle = 300,
	  .class = VERDICT_NETWORK },
	{ "a slow filter", .running = 3, .native = 3, .pipe = 50, .class = VERDICT_OTHER_PROCESS },
	{ "a master of busy workers", .running = 40, .native = 40, .child = 120,
	  .class = VERDICT_CPU_NATIVE },
	{ "a crowded node", .running = 30, .native = 30, .queued = 60, .class = VERDICT_RUN_QUEUE },
	{ "a quota", .running = 30, .native = 30, .queued = 88, .throttled = 29,
	  .class = VERDICT_THROTTLED },
	{ "throttled, and busy otherwise", .running = 30, .native = 30, .lock = 90, .throttled = 6,
	  .class = VERDICT_THROTTLED },
	{ "a large node's quota, hardly used up", .running = 600, .native = 600, .queued = 5,
	  .throttled = 5, .class = VERDICT_CPU_NATIVE },
	{ "a device that nobody knows", .running = 10, .native = 10, .other = 90,
	  .class = VERDICT_OTHER_WAIT },
	{ "as much disk as CPU", .running = 50, .native = 50, .disk = 48,
	  .class = VERDICT_AMBIGUOUS },
	{ "a little of everything", .running = 20, .native = 20, .queued = 8, .lock = 7, .disk = 7,
	  .network = 8, .class = VERDICT_NONE },
	{ "a poller", .running = 0.5, .native = 0.5, .poll = 59, .idle = 1,
	  .class = VERDICT_NO_DEMAND },
};

static struct verdict_figures figures_of(size_t i)
{
	return (struct verdict_figures){
		.range_ns = RANGE_S * NS_PER_SECOND,
		.has_wall_clock = true,
		.running_ns = SECONDS(cases[i].running),
		.cpu_ns = { SECONDS(cases[i].python), SECONDS(cases[i].native),
			    SECONDS(cases[i].kernel) },
		.queued_ns = SECONDS(cases[i].queued),
		.throttled_ns = SECONDS(cases[i].throttled),
		.throttled_of_ns = SECONDS(cases[i].running + cases[i].queued),
		.wait_ns = { [WAIT_CLASS_GIL] = SECONDS(cases[i].gil),
			     [WAIT_CLASS_LOCK] = SECONDS(cases[i].lock),
			     [WAIT_CLASS_DISK] = SECONDS(cases[i].disk),
			     [WAIT_CLASS_NETWORK] = SECONDS(cases[i].network),
			     [WAIT_CLASS_PIPE] = SECONDS(cases[i].pipe),
			     [WAIT_CLASS_IDLE] = SECONDS(cases[i].idle),
			     [WAIT_CLASS_SLEEP] = SECONDS(cases[i].sleep),
			     [WAIT_CLASS_POLL] = SECONDS(cases[i].poll),
			     [WAIT_CLASS_CHILD] = SECONDS(cases[i].child),
			     [WAIT_CLASS_OTHER] = SECONDS(cases[i].other) },
	};
}

TEST(each_cause_has_its_verdict)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct verdict_figures figures = figures_of(i);
		struct verdict verdict = verdict_of(&figures);

		EXPECT_STR(verdict_class_name(cases[i].class), verdict_class_name(verdict.class),
			   cases[i].what);
	}
}

TEST(verdicts_are_independent_of_pod_count)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct verdict_figures figures = figures_of(i);

		if (cases[i].class == VERDICT_NO_DEMAND) // a hundred quiet pods are some demand
			continue;
		figures.running_ns *= 100;
		figures.queued_ns *= 100;
		for (int k = 0; k < CPU_USE_COUNT; k++)
			figures.cpu_ns[k] *= 100;
		for (int k = 0; k < WAIT_CLASS_COUNT; k++)
			figures.wait_ns[k] *= 100;
		struct verdict verdict = verdict_of(&figures);
		EXPECT_STR(verdict_class_name(cases[i].class), verdict_class_name(verdict.class),
			   cases[i].what);
	}
}

TEST(sorts_shares_by_threshold_then_size)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct verdict_figures figures = figures_of(i);
		struct verdict verdict = verdict_of(&figures);

		for (uint32_t k = 0; k < verdict.share_count; k++) {
			const struct verdict_share *share = &verdict.shares[k];
			bool reached = share->share >= share->threshold;

			EXPECT_EQ(k < verdict.passed_count, reached, cases[i].what);
			if (k && k != verdict.passed_count)
				assert_true(share[-1].share >= share->share);
		}
	}
}

TEST(confidence_needs_time_and_distance)
{
	struct verdict_figures figures = figures_of(7); // a mutex
	EXPECT_EQ(CONFIDENCE_HIGH, verdict_of(&figures).confidence, "far above");
	figures.wait_ns[WAIT_CLASS_LOCK] = SECONDS(12);
	figures.running_ns = SECONDS(20);
	EXPECT_EQ(VERDICT_CPU_NATIVE, verdict_of(&figures).class, "CPU");
	EXPECT_EQ(CONFIDENCE_MEDIUM, verdict_of(&figures).confidence, "not far above");
	figures.range_ns = 10 * NS_PER_SECOND;
	EXPECT_EQ(CONFIDENCE_LOW, verdict_of(&figures).confidence, "a short range");
	figures.range_ns = RANGE_S * NS_PER_SECOND;
	figures.has_wall_clock = false;
	EXPECT_EQ(CONFIDENCE_LOW, verdict_of(&figures).confidence, "CPU time only");
}

TEST(each_class_has_title_advice_and_profile)
{
	for (int i = 0; i < VERDICT_CLASS_COUNT; i++) {
		enum verdict_class class = (enum verdict_class)i;
		const char *wait;

		assert_non_null(verdict_class_name(class));
		assert_non_null(verdict_class_title(class));
		assert_non_null(verdict_class_advice(class)[0]);
		EXPECT_EQ(class >= VERDICT_THROTTLED, verdict_class_profile(class, &wait) != NULL,
			  verdict_class_name(class));
	}
	for (int i = 0; i < WAIT_CLASS_COUNT; i++)
		EXPECT_EQ(i, wait_class_find(wait_class_name((enum wait_class)i)), "wait");
	EXPECT_EQ(WAIT_CLASS_OTHER, wait_class_find("of a newer agent"), "unknown");
}

TEST(sums_beyond_64_bits_saturate)
{
	const struct verdict_figures figures = {
		.range_ns = RANGE_S * NS_PER_SECOND,
		.has_wall_clock = true,
		.running_ns = INT64_MAX,
		.cpu_ns = { INT64_MAX, INT64_MAX, INT64_MAX },
		.queued_ns = INT64_MAX,
		.wait_ns = { [WAIT_CLASS_DISK] = INT64_MAX, [WAIT_CLASS_PAGE_FAULT] = INT64_MAX },
	};
	struct verdict verdict = verdict_of(&figures);

	EXPECT_EQ(INT64_MAX, verdict.active_ns, "time with work to do");
}

RUN_TESTS(cmocka_unit_test(each_cause_has_its_verdict),
	  cmocka_unit_test(verdicts_are_independent_of_pod_count),
	  cmocka_unit_test(sorts_shares_by_threshold_then_size),
	  cmocka_unit_test(confidence_needs_time_and_distance),
	  cmocka_unit_test(sums_beyond_64_bits_saturate),
	  cmocka_unit_test(each_class_has_title_advice_and_profile))
