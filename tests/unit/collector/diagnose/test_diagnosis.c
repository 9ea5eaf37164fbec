// SPDX-License-Identifier: Apache-2.0
// Verdicts out of a store: figures of the range, of the selected series only, and the stacks.
#include "collector/diagnose/diagnosis.h"

#include "tests/unit/collector/diagnose/diagnosis_fixture.h"

#define GIL  "service=llm,node=n1,wait=gil"
#define IDLE "service=llm,node=n1,wait=idle"

static void add_contended_service(struct fixture *fixture)
{
	add(fixture, 10, "service=llm,node=n1,state=running", PROFILE_TYPE_WALL, "", 60);
	add(fixture, 10, "service=llm,node=n1,state=run_queue", PROFILE_TYPE_WALL, "", 2);
	add(fixture, 10, "service=llm,node=n1", PROFILE_TYPE_CPU, "main;decode", 59);
	add(fixture, 10, GIL, PROFILE_TYPE_OFF_CPU, "main;tokenize;take_gil", 100);
	add(fixture, 11, GIL, PROFILE_TYPE_OFF_CPU, "main;sample;take_gil", 60);
	add(fixture, 12, IDLE, PROFILE_TYPE_OFF_CPU, "main;epoll_wait", 900);
	add(fixture, 70, "service=llm,node=n1,wait=disk", PROFILE_TYPE_OFF_CPU, "main;read", 500);
	add(fixture, 10, "service=web,node=n1,wait=lock", PROFILE_TYPE_OFF_CPU, "main;lock", 800);
}

TEST(shows_the_stacks_of_the_verdict)
{
	struct fixture fixture;

	set_up(&fixture);
	add_contended_service(&fixture);
	struct diagnosis diagnosis = diagnose(&fixture, "llm", 0, 60);
	EXPECT_STR("gil", verdict_class_name(diagnosis.verdict.class), "class");
	EXPECT_EQ(60, diagnosis.figures.running_ns / 1000000000, "running");
	EXPECT_EQ(900, diagnosis.figures.wait_ns[WAIT_CLASS_IDLE] / 1000000000, "idle");
	EXPECT_EQ(0, diagnosis.figures.wait_ns[WAIT_CLASS_DISK], "after the range");
	EXPECT_EQ(0, diagnosis.figures.wait_ns[WAIT_CLASS_LOCK], "of another service");
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
	assert_false(diagnosis.figures.has_wall_clock); // no totals in this range
	EXPECT_EQ(CONFIDENCE_LOW, diagnosis.verdict.confidence, "confidence");
	diagnosis_deinit(&diagnosis);

	diagnosis = diagnose(&fixture, "nobody", 0, 60);
	EXPECT_STR("no_data", verdict_class_name(diagnosis.verdict.class), "nothing selected");
	EXPECT_EQ(0, diagnosis.evidence[0].stack_count, "stacks");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(falls_back_to_cpu_samples)
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

TEST(judges_the_most_throttled_node)
{
	const char *type = PROFILE_TYPE_THROTTLED;
	struct fixture fixture;

	set_up(&fixture);
	add(&fixture, 1, "service=q,node=n1,state=running", PROFILE_TYPE_WALL, "", 20);
	add(&fixture, 1, "service=q,node=n1", type, "", 1);
	add(&fixture, 2, "service=q,node=n2", type, "", 2.5);
	struct diagnosis diagnosis = diagnose(&fixture, "q", 0, 60);
	EXPECT_EQ(1000000000, diagnosis.figures.throttled_ns, "of the 20 s that it ran on n1");
	EXPECT_STR("throttled", verdict_class_name(diagnosis.verdict.class), "a twentieth");
	diagnosis_deinit(&diagnosis);
	diagnosis = diagnose(&fixture, "q", 0, 30);
	EXPECT_EQ(2500000000, diagnosis.figures.throttled_ns, "of 30 s on n2, where nobody knows");
	EXPECT_STR("throttled", verdict_class_name(diagnosis.verdict.class),
		   "a twelfth of the time");
	diagnosis_deinit(&diagnosis);

	// Twenty CPUs' threads were held back for an eighth of a second each, and ran for the rest
	// of it.
	add(&fixture, 3, "service=wide,node=n1,state=running", PROFILE_TYPE_WALL, "", 400);
	add(&fixture, 3, "service=wide,node=n1,state=run_queue", PROFILE_TYPE_WALL, "", 10);
	add(&fixture, 3, "service=wide,node=n1", PROFILE_TYPE_CPU, "main;work", 400);
	add(&fixture, 3, "service=wide,node=n1", type, "", 2.5);
	diagnosis = diagnose(&fixture, "wide", 0, 30);
	EXPECT_STR("cpu_native", verdict_class_name(diagnosis.verdict.class), "hardly throttled");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

/* A thread that waits on a pipe all the time, beside @workers that do so in turns. */
static void add_parked(struct fixture *fixture, const char *service, double workers_first,
		       double workers_later)
{
	char wall[64], pipe[64];

	snprintf(wall, sizeof(wall), "service=%s,node=n1,state=blocked", service);
	snprintf(pipe, sizeof(pipe), "service=%s,node=n1,wait=pipe", service);
	for (unsigned int second = 0; second < 60; second += 5) {
		double workers = second < 30 ? workers_first : workers_later;

		add(fixture, second, wall, PROFILE_TYPE_WALL, "", 10 + workers);
		add(fixture, second, pipe, PROFILE_TYPE_OFF_CPU, "main;read_input;read", 10);
		if (workers > 0)
			add(fixture, second, pipe, PROFILE_TYPE_OFF_CPU, "worker;ask;read",
			    workers);
	}
}

TEST(parked_threads_are_idle)
{
	struct fixture fixture;

	set_up(&fixture);
	add_parked(&fixture, "served", 0, 0);
	add(&fixture, 5, "service=served,node=n1,wait=lock", PROFILE_TYPE_OFF_CPU, "main;get;lock",
	    20);
	add(&fixture, 5, "service=served,node=n1,state=running", PROFILE_TYPE_WALL, "", 10);
	struct diagnosis diagnosis = diagnose(&fixture, "served", 0, 60);
	EXPECT_STR("lock", verdict_class_name(diagnosis.verdict.class),
		   "of those that do something");
	EXPECT_EQ(0, diagnosis.figures.wait_ns[WAIT_CLASS_PIPE], "two threads are parked");
	EXPECT_EQ(120, diagnosis.figures.wait_ns[WAIT_CLASS_IDLE] / 1000000000, "idle");
	diagnosis_deinit(&diagnosis);

	add_parked(&fixture, "asking", 5.5, 4);
	add(&fixture, 5, "service=asking,node=n1,state=running", PROFILE_TYPE_WALL, "", 10);
	diagnosis = diagnose(&fixture, "asking", 0, 60);
	EXPECT_STR("other_process", verdict_class_name(diagnosis.verdict.class), "workers wait");
	EXPECT_EQ(57, diagnosis.figures.wait_ns[WAIT_CLASS_PIPE] / 1000000000, "of workers only");
	EXPECT_STR("ask", frame(&diagnosis, 0, 1), "no stack of a parked thread");
	EXPECT_EQ(1, diagnosis.evidence[0].stack_count, "stacks");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(a_service_that_hangs_is_not_idle)
{
	struct fixture fixture;

	set_up(&fixture);
	add_parked(&fixture, "hangs", 0, 0);
	struct diagnosis diagnosis = diagnose(&fixture, "hangs", 0, 60);
	EXPECT_STR("other_process", verdict_class_name(diagnosis.verdict.class), "class");
	EXPECT_EQ(120, diagnosis.figures.wait_ns[WAIT_CLASS_PIPE] / 1000000000,
		  "all that there is");
	EXPECT_STR("read_input", frame(&diagnosis, 0, 1), "where");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

static uint32_t location_of_kind(struct profile *profile, enum frame_kind kind, const char *name)
{
	struct location location = { .kind = kind };
	struct line line = { 0 };
	uint32_t number;

	location.id = location_id_of_line(kind, name, "a.py", 1);
	assert_int_equal(0, profile_add_string(profile, name, &line.name));
	assert_int_equal(0, profile_add_location(profile, &location, &line, 1, &number));
	return number;
}

/* A stack of frames "kind:name@module", leaf first. */
static void add_frames(struct fixture *fixture, const char *labels, const char *type,
		       const char *const *frames, uint32_t count, double seconds)
{
	struct profile *profile = test_profile();
	uint32_t locations[64], stack;

	for (uint32_t i = 0; i < count; i++) {
		const char *text = frames[i], *module = strchr(text, '@');
		struct location location = { .kind = text[0] == 'k'   ? FRAME_KIND_KERNEL
						     : text[0] == 'p' ? FRAME_KIND_PYTHON
								      : FRAME_KIND_NATIVE };
		struct line line = { .number = 40 };
		char name[64];

		snprintf(name, sizeof(name), "%.*s", (int)strcspn(text + 2, "@"), text + 2);
		location.id = id128_of(text, strlen(text));
		assert_int_equal(0, profile_add_string(profile, name, &line.name));
		if (location.kind == FRAME_KIND_PYTHON)
			assert_int_equal(0, profile_add_string(profile, "serve.py", &line.file));
		assert_int_equal(
			0, profile_add_string(profile, module ? module + 1 : "", &location.module));
		assert_int_equal(0,
				 profile_add_location(profile, &location, &line, 1, &locations[i]));
	}
	assert_int_equal(0,
			 profile_add_stack(profile, locations, count, STACK_END_COMPLETE, &stack));
	assert_int_equal(0,
			 profile_add_sample(profile, series_of_text(profile, labels, type), stack,
					    (fixture->begin_ns + NS_PER_SECOND) / TEST_SLOT_NS,
					    (int64_t)(seconds * 1e9)));
	append_profile(fixture->store, 1, ++fixture->sequence, profile);
}

#define ADD_FRAMES(fixture, labels, type, seconds, ...)                                   \
	do {                                                                              \
		static const char *const frames_[] = { __VA_ARGS__ };                     \
		add_frames(fixture, labels, type, frames_, ARRAY_SIZE(frames_), seconds); \
	} while (0)

TEST(names_the_function_and_its_python_caller)
{
	const char *advice[DIAGNOSIS_ADVICE_MAX + 1];
	struct fixture fixture;

	set_up(&fixture);
	ADD_FRAMES(&fixture, "service=nn", PROFILE_TYPE_CPU, 60, "n:matmul@/usr/lib/libblas.so.3",
		   "n:_PyEval_EvalFrameDefault@/usr/bin/python3.11", "p:forward",
		   "n:method_vectorcall@/usr/bin/python3.11", "p:main");
	ADD_FRAMES(&fixture, "service=nn", PROFILE_TYPE_CPU, 23, "n:matmul@/usr/lib/libblas.so.3",
		   "p:backward", "p:main");
	ADD_FRAMES(&fixture, "service=nn", PROFILE_TYPE_CPU, 16.8,
		   "n:dict_lookup@/usr/bin/python3.11", "p:log", "p:main");
	ADD_FRAMES(&fixture, "service=nn", PROFILE_TYPE_CPU, 0.2, "n:free@/usr/lib/libc.so.6",
		   "p:main");
	struct diagnosis diagnosis = diagnose(&fixture, "nn", 0, 60);
	const struct diagnosis_evidence *evidence = &diagnosis.evidence[0];
	EXPECT_STR("`matmul` takes 83 % of CPU time, called by `forward (serve.py:40)`.",
		   evidence->finding, "finding");
	diagnosis_advice(&diagnosis, advice);
	EXPECT_STR("Call `matmul` less often from `forward (serve.py:40)`, with more work at a "
		   "time, or "
		   "make it cheaper.",
		   advice[0], "first advice");
	EXPECT_EQ(3, evidence->stack_count, "without that of 0 %");
	EXPECT_STR("matmul", frame(&diagnosis, 0, 0), "leaf");
	EXPECT_STR("forward (serve.py:40)", frame(&diagnosis, 0, 2), "its caller");
	EXPECT_STR("main (serve.py:40)", frame(&diagnosis, 0, 3), "no interpreter between");
	EXPECT_STR("backward (serve.py:40)", frame(&diagnosis, 1, 1), "the second caller");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(adds_up_stacks_of_one_function)
{
	char deep[16], labels[] = "service=flat";
	struct fixture fixture;

	set_up(&fixture);
	// 300 stacks of 0.3 % each: one function of theirs.
	for (int i = 0; i < 300; i++) {
		char text[64];

		snprintf(deep, sizeof(deep), "f%d", i);
		snprintf(text, sizeof(text), "main;%s;dispatch;hash_block", deep);
		add(&fixture, 1, labels, PROFILE_TYPE_CPU, text, 0.1);
	}
	add(&fixture, 1, labels, PROFILE_TYPE_CPU, "main;free", 0.1);
	struct diagnosis diagnosis = diagnose(&fixture, "flat", 0, 60);
	EXPECT_EQ(1, diagnosis.evidence[0].stack_count, "none of less than 1 %");
	EXPECT_STR("`hash_block` takes 100 % of CPU time, called by `dispatch`.",
		   diagnosis.evidence[0].finding, "finding");
	assert_true(diagnosis.evidence[0].stacks[0].share > 0.99);
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(reaches_the_users_code_above_kernel_and_libraries)
{
	struct fixture fixture;

	set_up(&fixture);
	ADD_FRAMES(&fixture, "service=db,wait=disk", PROFILE_TYPE_OFF_CPU, 50, "k:io_schedule",
		   "k:folio_wait", "k:filemap_read", "k:ext4_read", "k:vfs_read", "k:ksys_read",
		   "k:do_syscall_64", "k:entry", "n:read@/lib/libc.so.6", "n:a@/lib/libssl.so",
		   "n:b@/lib/libssl.so", "n:c@/lib/libssl.so", "n:d@/lib/libssl.so",
		   "n:e@/lib/libssl.so", "n:f@/lib/libssl.so", "n:g@/lib/libssl.so",
		   "n:h@/lib/libssl.so", "n:load_page@/usr/bin/db", "n:main@/usr/bin/db");
	struct diagnosis diagnosis = diagnose(&fixture, "db", 0, 60);
	const struct diagnosis_stack *shown = &diagnosis.evidence[0].stacks[0];
	EXPECT_STR("... (6 more in the kernel)", frame(&diagnosis, 0, 2), "the kernel's are few");
	EXPECT_STR("... (2 more in libraries)", frame(&diagnosis, 0, 10), "and the libraries'");
	EXPECT_STR("load_page", frame(&diagnosis, 0, 11), "the user's code");
	EXPECT_STR("main", frame(&diagnosis, 0, shown->frame_count - 1), "to the end");
	EXPECT_STR("100 % of this time is below `load_page`, in `io_schedule_[k]`.",
		   diagnosis.evidence[0].finding, "finding");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(shows_python_callers_of_deep_library_stacks)
{
	enum { KERNEL_FRAMES = 6, LIBRARY_FRAMES = 30 };
	struct profile *profile = test_profile();
	uint32_t locations[KERNEL_FRAMES + LIBRARY_FRAMES + 2], count = 0, stack;
	struct fixture fixture;
	char name[16];

	set_up(&fixture);
	for (uint32_t i = 0; i < KERNEL_FRAMES; i++) {
		snprintf(name, sizeof(name), "kernel%u", i);
		locations[count++] = location_of_kind(profile, FRAME_KIND_KERNEL, name);
	}
	for (uint32_t i = 0; i < LIBRARY_FRAMES; i++) {
		snprintf(name, sizeof(name), "native%u", i);
		locations[count++] = location_of_name(profile, name, true);
	}
	locations[count++] = location_of_kind(profile, FRAME_KIND_PYTHON, "step");
	locations[count++] = location_of_kind(profile, FRAME_KIND_PYTHON, "main");
	assert_int_equal(0,
			 profile_add_stack(profile, locations, count, STACK_END_COMPLETE, &stack));
	assert_int_equal(
		0, profile_add_sample(profile,
				      series_of_text(profile, "service=deep", PROFILE_TYPE_CPU),
				      stack, fixture.begin_ns / TEST_SLOT_NS, 30000000000));
	append_profile(fixture.store, 1, ++fixture.sequence, profile);
	struct diagnosis diagnosis = diagnose(&fixture, "deep", 0, 60);
	const struct diagnosis_stack *shown = &diagnosis.evidence[0].stacks[0];
	EXPECT_STR("kernel0_[k]", frame(&diagnosis, 0, 0), "innermost");
	EXPECT_STR("... (4 more in the kernel)", frame(&diagnosis, 0, 2), "of the kernel");
	EXPECT_STR("native0", frame(&diagnosis, 0, 3), "how it came into the kernel");
	EXPECT_STR("native6", frame(&diagnosis, 0, 9), "the last of the library's");
	EXPECT_STR("... (23 more in libraries)", frame(&diagnosis, 0, 10), "what is left out");
	assert_non_null(strstr(frame(&diagnosis, 0, 11), "step"));
	assert_non_null(strstr(frame(&diagnosis, 0, 12), "main"));
	EXPECT_EQ(13, shown->frame_count, "frames");
	assert_false(shown->cut);
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(names_the_services_that_use_the_cpus)
{
	struct fixture fixture;

	set_up(&fixture);
	add(&fixture, 1, "service=slow,node=n1,state=running", PROFILE_TYPE_WALL, "", 10);
	add(&fixture, 1, "service=slow,node=n1,state=run_queue", PROFILE_TYPE_WALL, "", 40);
	add(&fixture, 1, "service=slow,node=n1", PROFILE_TYPE_CPU, "main;work", 10);
	add(&fixture, 1, "service=slow,node=n1", PROFILE_TYPE_SCHED_DELAY, "main;work", 40);
	add(&fixture, 1, "service=batch,node=n1", PROFILE_TYPE_CPU, "main;crunch", 90);
	add(&fixture, 1, "service=batch,node=n2", PROFILE_TYPE_CPU, "main;crunch", 500);
	struct diagnosis diagnosis = diagnose(&fixture, "slow", 0, 60);
	EXPECT_STR("run_queue", diagnosis_class_name(&diagnosis), "class");
	EXPECT_EQ(2, diagnosis.evidence_count, "where, and who");
	EXPECT_STR("work", frame_of(&diagnosis, 0, 0, 0), "where");
	EXPECT_STR("100 % of this time threads waited to go on below `main`, in `work`.",
		   diagnosis.evidence[0].finding, "finding");
	EXPECT_EQ(2, diagnosis.evidence[1].stack_count, "services");
	EXPECT_STR("batch", frame_of(&diagnosis, 1, 0, 0), "the largest");
	EXPECT_EQ(90, diagnosis.evidence[1].stacks[0].share * 100, "of that node's");
	EXPECT_STR("slow", frame_of(&diagnosis, 1, 1, 0), "itself");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(names_no_services_of_other_tenants)
{
	struct fixture fixture;

	set_up(&fixture);
	add(&fixture, 1, "service=slow,node=n1,state=running,tenant=a", PROFILE_TYPE_WALL, "", 10);
	add(&fixture, 1, "service=slow,node=n1,state=run_queue,tenant=a", PROFILE_TYPE_WALL, "",
	    40);
	add(&fixture, 1, "service=slow,node=n1,tenant=a", PROFILE_TYPE_CPU, "main;work", 10);
	add(&fixture, 1, "service=slow,node=n1,tenant=a", PROFILE_TYPE_SCHED_DELAY, "main;work",
	    40);
	add(&fixture, 1, "service=secret,node=n1,tenant=b", PROFILE_TYPE_CPU, "main;crunch", 90);
	struct diagnosis diagnosis = diagnose_as(&fixture, "a", "slow", 0, 60);
	EXPECT_STR("run_queue", diagnosis_class_name(&diagnosis), "class");
	EXPECT_EQ(1, diagnosis.evidence[1].stack_count, "services");
	EXPECT_STR("slow", frame_of(&diagnosis, 1, 0, 0), "itself");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

/* Whether the sentence is among what is advised. */
static bool is_advised(const struct diagnosis *diagnosis, const char *sentence)
{
	const char *advice[DIAGNOSIS_ADVICE_MAX + 1];
	bool found = false;

	diagnosis_advice(diagnosis, advice);
	for (int i = 0; advice[i]; i++)
		found |= strcmp(advice[i], sentence) == 0;
	return found;
}

TEST(shows_both_of_two_causes)
{
	struct fixture fixture;

	set_up(&fixture);
	add(&fixture, 1, "service=two,node=n1,state=running", PROFILE_TYPE_WALL, "", 50);
	add(&fixture, 1, "service=two,node=n1", PROFILE_TYPE_CPU, "main;work", 50);
	add(&fixture, 1, "service=two,node=n1,wait=disk", PROFILE_TYPE_OFF_CPU, "main;load;read",
	    48);
	struct diagnosis diagnosis = diagnose(&fixture, "two", 0, 60);
	EXPECT_STR("ambiguous", diagnosis_class_name(&diagnosis), "class");
	EXPECT_EQ(2, diagnosis.evidence_count, "both");
	EXPECT_STR(verdict_class_title(VERDICT_CPU_NATIVE), diagnosis.evidence[0].what, "first");
	EXPECT_STR("work", frame_of(&diagnosis, 0, 0, 0), "first");
	EXPECT_STR(verdict_class_title(VERDICT_DISK), diagnosis.evidence[1].what, "second");
	EXPECT_STR("load", frame_of(&diagnosis, 1, 0, 1), "second");
	assert_true(is_advised(&diagnosis, verdict_class_advice(VERDICT_CPU_NATIVE)[0]));
	assert_true(is_advised(&diagnosis, verdict_class_advice(VERDICT_DISK)[0]));
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(shows_the_largest_share_without_a_bottleneck)
{
	struct fixture fixture;

	set_up(&fixture);
	add(&fixture, 1, "service=even,node=n1,state=running", PROFILE_TYPE_WALL, "", 20);
	add(&fixture, 1, "service=even,node=n1,state=run_queue", PROFILE_TYPE_WALL, "", 8);
	add(&fixture, 1, "service=even,node=n1", PROFILE_TYPE_CPU, "main;work", 20);
	add(&fixture, 1, "service=even,node=n1,wait=disk", PROFILE_TYPE_OFF_CPU, "main;read", 8);
	add(&fixture, 1, "service=even,node=n1,wait=lock", PROFILE_TYPE_OFF_CPU, "main;lock", 8);
	struct diagnosis diagnosis = diagnose(&fixture, "even", 0, 60);
	EXPECT_STR("none", diagnosis_class_name(&diagnosis), "class");
	EXPECT_EQ(1, diagnosis.evidence_count, "one");
	EXPECT_STR(verdict_class_title(VERDICT_CPU_NATIVE), diagnosis.evidence[0].what, "what");
	EXPECT_STR("work", frame(&diagnosis, 0, 0), "where");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

RUN_TESTS(cmocka_unit_test(parked_threads_are_idle),
	  cmocka_unit_test(a_service_that_hangs_is_not_idle),
	  cmocka_unit_test(shows_the_stacks_of_the_verdict),
	  cmocka_unit_test(another_range_has_another_verdict),
	  cmocka_unit_test(falls_back_to_cpu_samples),
	  cmocka_unit_test(judges_the_most_throttled_node),
	  cmocka_unit_test(names_the_function_and_its_python_caller),
	  cmocka_unit_test(adds_up_stacks_of_one_function),
	  cmocka_unit_test(reaches_the_users_code_above_kernel_and_libraries),
	  cmocka_unit_test(shows_python_callers_of_deep_library_stacks),
	  cmocka_unit_test(names_the_services_that_use_the_cpus),
	  cmocka_unit_test(names_no_services_of_other_tenants),
	  cmocka_unit_test(shows_both_of_two_causes),
	  cmocka_unit_test(shows_the_largest_share_without_a_bottleneck))
