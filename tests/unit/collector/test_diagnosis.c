// SPDX-License-Identifier: Apache-2.0
// Verdicts out of a store: figures of the range, of the selected series only, and the stacks.
#include "collector/diagnosis.h"

#include "store_fixture.h"

#define GIL  "service=llm,node=n1,wait=gil"
#define IDLE "service=llm,node=n1,wait=idle"

struct fixture {
	char path[64];
	struct store *store;
	uint64_t begin_ns;
	uint64_t sequence;
};

static void set_up(struct fixture *fixture)
{
	struct error err = { 0 };

	directory_new(fixture->path);
	const struct store_options options = { .path = fixture->path };
	if (store_open_rocksdb(&options, &fixture->store, &err) < 0)
		fail_msg("%s", err.text);
	fixture->begin_ns = hour_ns(0);
	fixture->sequence = 0;
}

static void tear_down(struct fixture *fixture)
{
	store_close(fixture->store);
	directory_remove(fixture->path);
}

/** @seconds of threads' time at second @at of the hour; @stack "" for none. */
static void add(struct fixture *fixture, unsigned int at, const char *labels, const char *type,
		const char *stack_text, double seconds)
{
	struct profile *profile = test_profile();
	uint32_t stack;

	if (*stack_text)
		stack = stack_of_text(profile, stack_text, STACK_END_COMPLETE);
	else
		EXPECT_EQ(0, profile_add_stack(profile, NULL, 0, STACK_END_COMPLETE, &stack), type);
	EXPECT_EQ(0,
		  profile_add_sample(profile, series_of_text(profile, labels, type), stack,
				     (fixture->begin_ns + at * NS_PER_SECOND) / TEST_SLOT_NS,
				     (int64_t)(seconds * 1e9)),
		  type);
	append_profile(fixture->store, 1, ++fixture->sequence, profile);
}

static struct diagnosis diagnose(const struct fixture *fixture, const char *selector_text,
				 unsigned int from, unsigned int to)
{
	struct selector selector = selector_of(selector_text);
	const struct query query = {
		.store = fixture->store,
		.selector = &selector,
		.range = { fixture->begin_ns + from * NS_PER_SECOND,
			   fixture->begin_ns + to * NS_PER_SECOND },
	};
	struct diagnosis diagnosis = { 0 };
	struct error err = { 0 };

	if (query_diagnosis(&query, &diagnosis, &err) < 0)
		fail_msg("%s", err.text);
	selector_deinit(&selector);
	return diagnosis;
}

static const char *frame(const struct diagnosis *diagnosis, uint32_t stack, uint32_t at)
{
	return string_table_get(&diagnosis->strings, diagnosis->stacks[stack].frames[at]);
}

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
	EXPECT_EQ(2, diagnosis.stack_count, "stacks");
	EXPECT_STR("take_gil", frame(&diagnosis, 0, 0), "leaf");
	EXPECT_STR("tokenize", frame(&diagnosis, 0, 1), "caller of the largest");
	EXPECT_STR("sample", frame(&diagnosis, 1, 1), "caller of the second");
	assert_true(diagnosis.stacks[0].share > 0.62 && diagnosis.stacks[0].share < 0.63);
	assert_false(diagnosis.stacks[0].cut);
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
	EXPECT_EQ(0, diagnosis.stack_count, "stacks");
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

// ---- GPUs -----------------------------------------------------------------------------------

#define SPIN    PROFILE_TYPE_GPU_SPIN
#define TRAINER "service=train,node=n1,thread=trainer"
#define LOADER  "service=train,node=n1,thread=loader"
#define DEVICE  "service=gpu,node=n1,gpu=0,gpu_uuid=GPU-1"

/** A level, in each second of a minute. */
static void add_level(struct fixture *fixture, const char *labels, const char *type, int64_t value)
{
	struct profile *profile = test_profile();
	uint32_t series = series_of_text(profile, labels, type), stack;

	EXPECT_EQ(0, profile_add_stack(profile, NULL, 0, STACK_END_COMPLETE, &stack), type);
	for (uint64_t i = 0; i < 60; i++)
		EXPECT_EQ(0,
			  profile_add_sample(profile, series, stack,
					     (fixture->begin_ns + i * NS_PER_SECOND) / TEST_SLOT_NS,
					     value),
			  type);
	append_profile(fixture->store, 1, ++fixture->sequence, profile);
}

/** A process on a GPU that was busy for @busy percent. */
static void add_device(struct fixture *fixture, int64_t busy)
{
	add_level(fixture, "service=train,node=n1,gpu_uuid=GPU-1",
		  "gpu_process:memory_used:bytes:gauge:second", 1 << 30);
	add_level(fixture, DEVICE, "gpu:memory_used:bytes:gauge:second", 2 << 28);
	add_level(fixture, DEVICE, "gpu:busy:percent:gauge:second", busy);
	// Somebody else's: must not be looked at.
	add_level(fixture, "service=gpu,node=n2,gpu=0,gpu_uuid=GPU-2",
		  "gpu:busy:percent:gauge:second", 100);
	add_level(fixture, "service=gpu,node=n2,gpu=0,gpu_uuid=GPU-2",
		  "gpu:memory_used:bytes:gauge:second", 1);
}

/** One second in each of: on a CPU, in the driver's loop, blocked for input. */
static void add_trainer(struct fixture *fixture, double own, double spin, double input)
{
	add(fixture, 5, TRAINER ",state=running", PROFILE_TYPE_WALL, "", own + spin);
	add(fixture, 5, TRAINER ",state=waiting", PROFILE_TYPE_WALL, "", 0.1);
	add(fixture, 5, TRAINER ",state=blocked", PROFILE_TYPE_WALL, "", input);
	add(fixture, 5, TRAINER, PROFILE_TYPE_CPU, "main;step;forward", own);
	add(fixture, 5, TRAINER, SPIN, "main;step;cudaStreamSynchronize;cuStreamSynchronize", spin);
	add(fixture, 5, TRAINER ",wait=pipe", PROFILE_TYPE_OFF_CPU, "main;step;next_batch;read",
	    input);
}

TEST(a_gpu_that_waits_for_its_input_is_starved)
{
	struct fixture fixture;

	set_up(&fixture);
	add_trainer(&fixture, 5, 20, 35);
	add(&fixture, 5, LOADER ",state=running", PROFILE_TYPE_WALL, "", 110);
	add(&fixture, 5, LOADER, PROFILE_TYPE_CPU, "main;load;decode", 110);
	add_device(&fixture, 40);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);
	const struct gpu_figures *figures = &diagnosis.gpu.figures;

	assert_true(diagnosis.is_of_gpu);
	EXPECT_STR("gpu_starved", diagnosis_class_name(&diagnosis), "class");
	EXPECT_EQ(60, (figures->values[GPU_FIGURE_IDLE] + 0.001) * 100, "idle, of its own GPU");
	EXPECT_EQ(58, figures->values[GPU_FIGURE_INPUT] * 100, "waits for input");
	EXPECT_EQ(18, figures->values[GPU_FIGURE_FEEDERS] * 10, "cores");
	assert_false(gpu_figures_know(figures, GPU_FIGURE_SM_ACTIVE));
	assert_true(diagnosis.gpu.verdict.missing & 1U << GPU_FIGURE_SM_ACTIVE);
	EXPECT_EQ(1, diagnosis.stack_count, "stacks: of the trainer only");
	EXPECT_STR("next_batch", frame(&diagnosis, 0, 1), "who waits");
	EXPECT_EQ(4, diagnosis.stacks[0].frame_count, "the thread's name is no frame");
	// The loop's time is a wait in the threads' figures, too.
	EXPECT_EQ(115, diagnosis.figures.running_ns / 1000000000, "running");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(the_stacks_of_a_class_are_those_that_show_it)
{
	struct fixture fixture;

	set_up(&fixture);
	add_trainer(&fixture, 10, 8, 0.5);
	add(&fixture, 6, TRAINER, SPIN,
	    "main;step;THPVariable_item;at::_ops::_local_scalar_dense::call;cuStreamSynchronize",
	    40);
	add(&fixture, 6, TRAINER ",state=running", PROFILE_TYPE_WALL, "", 40);
	add_device(&fixture, 75);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);

	EXPECT_STR("gpu_implicit_sync", diagnosis_class_name(&diagnosis), "class");
	EXPECT_STR(SPIN, diagnosis.type, "profile");
	EXPECT_EQ(1, diagnosis.stack_count, "stacks");
	EXPECT_STR("THPVariable_item", frame(&diagnosis, 0, 2), "who asked");
	EXPECT_EQ(100, diagnosis.stacks[0].share * 100, "of what shows it");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(lanes_that_count_calls_are_taken_before_samples)
{
	struct fixture fixture;

	set_up(&fixture);
	add_trainer(&fixture, 50, 2, 1);
	add(&fixture, 6, TRAINER, "gpu_launch:launches:count:launch:count",
	    "main;step;small_kernel", 1.2e-3); // 1.2 million
	add_device(&fixture, 95);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);

	EXPECT_STR("gpu_launch_bound", diagnosis_class_name(&diagnosis), "class");
	EXPECT_STR("gpu_launch:launches:count:launch:count", diagnosis.type, "profile");
	EXPECT_STR("small_kernel", frame(&diagnosis, 0, 0), "who launches");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(a_healthy_gpu_and_a_service_without_one_leave_the_word_to_the_threads)
{
	struct fixture fixture;

	set_up(&fixture);
	add_trainer(&fixture, 30, 25, 4);
	add_device(&fixture, 90);
	add_contended_service(&fixture);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);

	EXPECT_STR("gpu_none", gpu_class_name(diagnosis.gpu.verdict.class), "its GPU");
	assert_false(diagnosis.is_of_gpu);
	EXPECT_STR("cpu_native", diagnosis_class_name(&diagnosis), "its threads");
	diagnosis_deinit(&diagnosis);

	diagnosis = diagnose(&fixture, "llm", 0, 60);
	EXPECT_STR("no_gpu", gpu_class_name(diagnosis.gpu.verdict.class), "no GPU");
	EXPECT_STR("gil", diagnosis_class_name(&diagnosis), "no GPU");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(without_gauges_of_the_gpu_idleness_is_unknown)
{
	struct fixture fixture;

	set_up(&fixture);
	add_trainer(&fixture, 50, 5, 4);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);

	assert_false(gpu_figures_know(&diagnosis.gpu.figures, GPU_FIGURE_IDLE));
	EXPECT_STR("gpu_none", gpu_class_name(diagnosis.gpu.verdict.class), "class");
	assert_true(diagnosis.gpu.verdict.missing & 1U << GPU_FIGURE_IDLE);
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

// A level that goes from @from to @to in an hour's first quarter.
static void add_slope(struct fixture *fixture, const char *labels, const char *type, int64_t from,
		      int64_t to)
{
	struct profile *profile = test_profile();
	uint32_t series = series_of_text(profile, labels, type), stack;

	EXPECT_EQ(0, profile_add_stack(profile, NULL, 0, STACK_END_COMPLETE, &stack), type);
	for (int64_t i = 0; i < 900; i++)
		EXPECT_EQ(0,
			  profile_add_sample(profile, series, stack,
					     (fixture->begin_ns + (uint64_t)i * NS_PER_SECOND) /
						     TEST_SLOT_NS,
					     from + (to - from) * i / 900),
			  type);
	append_profile(fixture->store, 1, ++fixture->sequence, profile);
}

static double figure_of(const struct diagnosis *diagnosis, enum gpu_figure figure)
{
	const struct gpu_figures *figures = &diagnosis->gpu.figures;

	if (!gpu_figures_know(figures, figure))
		fail_msg("%s is unknown", gpu_figure_name(figure));
	return figures->values[figure];
}

TEST(gauges_of_the_services_gpus_become_shares)
{
	struct fixture fixture;

	set_up(&fixture);
	add_trainer(&fixture, 4, 50, 1);
	add_device(&fixture, 99);
	add_level(&fixture, DEVICE, "gpu:sm_active:percent:gauge:second", 90);
	add_level(&fixture, DEVICE, "gpu:tensor_active:percent:gauge:second", 70);
	add_level(&fixture, DEVICE, "gpu:fp32_active:percent:gauge:second", 5);
	add_level(&fixture, DEVICE, "gpu:fp16_active:percent:gauge:second", 15);
	add_level(&fixture, DEVICE, "gpu:dram_active:percent:gauge:second", 30);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);

	EXPECT_STR("gpu_compute_bound", diagnosis_class_name(&diagnosis), "class");
	EXPECT_EQ(15, figure_of(&diagnosis, GPU_FIGURE_FP_ACTIVE) * 100, "the busiest pipe");
	diagnosis_deinit(&diagnosis);

	// Clocks held down for a third of the time, for two reasons at once; at the power cap for all of it.
	add(&fixture, 5, DEVICE ",reason=temperature", "gpu:throttled:nanoseconds:wall:nanoseconds",
	    "", 20);
	add(&fixture, 5, DEVICE ",reason=hardware", "gpu:throttled:nanoseconds:wall:nanoseconds",
	    "", 18);
	add(&fixture, 5, DEVICE ",reason=power cap", "gpu:throttled:nanoseconds:wall:nanoseconds",
	    "", 60);
	diagnosis = diagnose(&fixture, "train", 0, 60);
	EXPECT_STR("gpu_throttled", diagnosis_class_name(&diagnosis), "class");
	EXPECT_EQ(33, figure_of(&diagnosis, GPU_FIGURE_THROTTLED) * 100, "the larger reason");
	EXPECT_EQ(100, figure_of(&diagnosis, GPU_FIGURE_POWER_CAPPED) * 100, "the power cap");
	EXPECT_EQ(0, diagnosis.stack_count, "it has no stacks");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(a_neighbour_on_the_same_gpu_is_told_from_oneself)
{
	struct fixture fixture;
	const char *type = "gpu_process:busy:percent:gauge:second";

	set_up(&fixture);
	add_trainer(&fixture, 4, 50, 1);
	add_device(&fixture, 99);
	add_level(&fixture, "service=train,node=n1,gpu_uuid=GPU-1", type, 30);
	add_level(&fixture, "service=other,node=n1,gpu_uuid=GPU-1", type, 60);
	add_level(&fixture, "service=third,node=n2,gpu_uuid=GPU-2", type, 90);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);

	EXPECT_STR("gpu_contention", diagnosis_class_name(&diagnosis), "class");
	double others = figure_of(&diagnosis, GPU_FIGURE_OTHERS);
	assert_true(others > 0.58 && others < 0.62);
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(memory_that_only_grows_is_told_and_a_cache_is_not)
{
	struct fixture fixture;
	const char *type = "gpu_process:memory_used:bytes:gauge:second";

	set_up(&fixture);
	add_slope(&fixture, "service=leak,node=n1,pod=a,gpu_uuid=GPU-1", type, 1 << 30, 5 << 28);
	add_slope(&fixture, "service=leak,node=n1,pod=b,gpu_uuid=GPU-1", type, 1 << 30, 1 << 30);
	add_slope(&fixture, "service=shrink,node=n1,pod=c,gpu_uuid=GPU-1", type, 5 << 28, 1 << 30);
	add_slope(&fixture, DEVICE, "gpu:memory_used:bytes:gauge:second", 1 << 30, 1 << 30);
	struct diagnosis diagnosis = diagnose(&fixture, "leak", 0, 900);

	// A quarter in a quarter of an hour.
	double growth = figure_of(&diagnosis, GPU_FIGURE_MEMORY_GROWTH);
	assert_true(growth > 0.9 && growth < 1.1);
	EXPECT_STR("gpu_memory_growth", diagnosis_class_name(&diagnosis), "class");
	diagnosis_deinit(&diagnosis);

	diagnosis = diagnose(&fixture, "shrink", 0, 900);
	EXPECT_EQ(0, figure_of(&diagnosis, GPU_FIGURE_MEMORY_GROWTH), "it shrinks");
	diagnosis_deinit(&diagnosis);
	diagnosis = diagnose(&fixture, "leak", 0, 300);
	assert_false(gpu_figures_know(&diagnosis.gpu.figures, GPU_FIGURE_MEMORY_GROWTH));
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

RUN_TESTS(cmocka_unit_test(gauges_of_the_services_gpus_become_shares),
	  cmocka_unit_test(a_neighbour_on_the_same_gpu_is_told_from_oneself),
	  cmocka_unit_test(memory_that_only_grows_is_told_and_a_cache_is_not),
	  cmocka_unit_test(a_gpu_that_waits_for_its_input_is_starved),
	  cmocka_unit_test(the_stacks_of_a_class_are_those_that_show_it),
	  cmocka_unit_test(lanes_that_count_calls_are_taken_before_samples),
	  cmocka_unit_test(a_healthy_gpu_and_a_service_without_one_leave_the_word_to_the_threads),
	  cmocka_unit_test(without_gauges_of_the_gpu_idleness_is_unknown),
	  cmocka_unit_test(the_verdict_comes_with_the_stacks_that_show_it),
	  cmocka_unit_test(another_range_has_another_verdict),
	  cmocka_unit_test(without_waits_the_samples_of_the_cpu_speak),
	  cmocka_unit_test(the_node_that_was_throttled_most_counts))
