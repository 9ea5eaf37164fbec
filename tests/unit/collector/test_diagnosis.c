// SPDX-License-Identifier: Apache-2.0
// Verdicts out of a store: figures of the range, of the selected series only, and the stacks.
#include "collector/diagnosis.h"

#include "diagnosis_fixture.h"

#define GIL  "service=llm,node=n1,wait=gil"
#define IDLE "service=llm,node=n1,wait=idle"

static void add_contended_service(struct fixture *fixture)
{
	add(fixture, 10, "service=llm,node=n1,state=running", PROFILE_TYPE_WALL, "", 60);
	add(fixture, 10, "service=llm,node=n1,state=waiting", PROFILE_TYPE_WALL, "", 2);
	add(fixture, 10, "service=llm,node=n1", PROFILE_TYPE_CPU, "main;decode", 59);
	add(fixture, 10, GIL, PROFILE_TYPE_OFF_CPU, "main;tokenize;take_gil", 100);
	add(fixture, 11, GIL, PROFILE_TYPE_OFF_CPU, "main;sample;take_gil", 60);
	add(fixture, 12, IDLE, PROFILE_TYPE_OFF_CPU, "main;epoll_wait", 900);
	add(fixture, 70, "service=llm,node=n1,wait=disk", PROFILE_TYPE_OFF_CPU, "main;read", 500);
	add(fixture, 10, "service=web,node=n1,wait=lock", PROFILE_TYPE_OFF_CPU, "main;lock", 800);
}

TEST(the_verdict_comes_with_the_stacks_that_show_it)
{
	struct fixture fixture;

	set_up(&fixture);
	add_contended_service(&fixture);
	struct diagnosis diagnosis = diagnose(&fixture, "llm", 0, 60);
	EXPECT_STR("gil", verdict_class_name(diagnosis.verdict.class), "class");
	EXPECT_EQ(60, diagnosis.figures.running_ns / 1000000000, "running");
	EXPECT_EQ(900, diagnosis.figures.wait_ns[WAIT_FOR_IDLE] / 1000000000, "idle");
	EXPECT_EQ(0, diagnosis.figures.wait_ns[WAIT_FOR_DISK], "after the range");
	EXPECT_EQ(0, diagnosis.figures.wait_ns[WAIT_FOR_LOCK], "of another service");
	EXPECT_EQ(2, diagnosis.evidence[0].stack_count, "stacks");
	EXPECT_STR("take_gil", frame(&diagnosis, 0, 0), "leaf");
	EXPECT_STR("tokenize", frame(&diagnosis, 0, 1), "caller of the largest");
	EXPECT_STR("sample", frame(&diagnosis, 1, 1), "caller of the second");
	assert_true(diagnosis.evidence[0].stacks[0].share > 0.62 &&
		    diagnosis.evidence[0].stacks[0].share < 0.63);
	assert_false(diagnosis.evidence[0].stacks[0].cut);
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(another_range_has_another_verdict)
{
	struct fixture fixture;

	set_up(&fixture);
	add_contended_service(&fixture);
	struct diagnosis diagnosis = diagnose(&fixture, "llm", 60, 120);
	EXPECT_STR("disk", verdict_class_name(diagnosis.verdict.class), "class");
	assert_false(diagnosis.figures.has_waits); // no totals in this range
	EXPECT_EQ(CONFIDENCE_LOW, diagnosis.verdict.confidence, "confidence");
	diagnosis_deinit(&diagnosis);

	diagnosis = diagnose(&fixture, "nobody", 0, 60);
	EXPECT_STR("no_data", verdict_class_name(diagnosis.verdict.class), "nothing selected");
	EXPECT_EQ(0, diagnosis.evidence[0].stack_count, "stacks");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(without_waits_the_samples_of_the_cpu_speak)
{
	struct fixture fixture;

	set_up(&fixture);
	add(&fixture, 1, "service=old", PROFILE_TYPE_CPU, "main;a;b;c", 30);
	add(&fixture, 1, "service=old", PROFILE_TYPE_CPU, "main;a;d", 50);
	struct diagnosis diagnosis = diagnose(&fixture, "old", 0, 60);
	EXPECT_STR("cpu_native", verdict_class_name(diagnosis.verdict.class), "class");
	EXPECT_EQ(CONFIDENCE_LOW, diagnosis.verdict.confidence, "confidence");
	EXPECT_STR("d", frame(&diagnosis, 0, 0), "largest");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(the_node_that_was_throttled_most_counts)
{
	const char *type = "cpu_throttled:time:nanoseconds:wall:nanoseconds";
	struct fixture fixture;

	set_up(&fixture);
	add(&fixture, 1, "service=q,node=n1,state=running", PROFILE_TYPE_WALL, "", 20);
	add(&fixture, 1, "service=q,node=n1", type, "", 1);
	add(&fixture, 2, "service=q,node=n2", type, "", 2.5);
	struct diagnosis diagnosis = diagnose(&fixture, "q", 0, 60);
	EXPECT_EQ(2500000000, diagnosis.figures.throttled_ns, "throttled");
	diagnosis_deinit(&diagnosis);
	diagnosis = diagnose(&fixture, "q", 0, 30);
	EXPECT_STR("throttled", verdict_class_name(diagnosis.verdict.class),
		   "a twelfth of the time");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

RUN_TESTS(cmocka_unit_test(the_verdict_comes_with_the_stacks_that_show_it),
	  cmocka_unit_test(another_range_has_another_verdict),
	  cmocka_unit_test(without_waits_the_samples_of_the_cpu_speak),
	  cmocka_unit_test(the_node_that_was_throttled_most_counts))
