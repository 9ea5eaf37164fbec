// SPDX-License-Identifier: Apache-2.0
// GPU verdicts from a store: each class that stored rows can show, with its evidence.
#include "base/contract/label_values.h"
#include "collector/diagnose/diagnosis.h"

#include "tests/unit/collector/diagnose/diagnosis_fixture.h"

#define SPIN    PROFILE_TYPE_GPU_SPIN
#define TRAINER "service=train,node=n1,thread=trainer"
#define LOADER  "service=train,node=n1,thread=loader"
#define DEVICE  "service=gpu,node=n1,gpu=0,gpu_uuid=GPU-1"

/** A gauge's value in each second of a minute. */
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
	add_level(fixture, "service=train,node=n1,gpu_uuid=GPU-1", PROFILE_TYPE_GPU_PROCESS_MEMORY,
		  1 << 30);
	add_level(fixture, DEVICE, PROFILE_TYPE_GPU_MEMORY_USED, 2 << 28);
	add_level(fixture, DEVICE, PROFILE_TYPE_GPU_BUSY, busy);
	// Another service's GPU, which must not count.
	add_level(fixture, "service=gpu,node=n2,gpu=0,gpu_uuid=GPU-2", PROFILE_TYPE_GPU_BUSY, 100);
	add_level(fixture, "service=gpu,node=n2,gpu=0,gpu_uuid=GPU-2", PROFILE_TYPE_GPU_MEMORY_USED,
		  1);
}

/** One second each: on a CPU, in a GPU busy-wait, blocked for input. */
static void add_trainer(struct fixture *fixture, double own, double spin, double input)
{
	add(fixture, 5, TRAINER ",state=running", PROFILE_TYPE_WALL, "", own + spin);
	add(fixture, 5, TRAINER ",state=run_queue", PROFILE_TYPE_WALL, "", 0.1);
	add(fixture, 5, TRAINER ",state=blocked", PROFILE_TYPE_WALL, "", input);
	add(fixture, 5, TRAINER, PROFILE_TYPE_CPU, "main;step;forward", own);
	add(fixture, 5, TRAINER, SPIN, "main;step;cudaStreamSynchronize;cuStreamSynchronize", spin);
	add(fixture, 5, TRAINER ",wait=pipe", PROFILE_TYPE_OFF_CPU, "main;step;next_batch;read",
	    input);
}

TEST(waits_for_input_starve_a_gpu)
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
	EXPECT_EQ(1, diagnosis.evidence[0].stack_count, "stacks: of the trainer only");
	EXPECT_STR("next_batch", frame(&diagnosis, 0, 1), "who waits");
	EXPECT_EQ(4, diagnosis.evidence[0].stacks[0].frame_count, "the thread's name is no frame");
	EXPECT_EQ(2, diagnosis.evidence_count, "no waker was asked for");
	EXPECT_STR("decode", frame_of(&diagnosis, 1, 0, 0), "who prepares");
	// A busy-wait is a wait in the threads' figures, too.
	EXPECT_EQ(115, diagnosis.figures.running_ns / 1000000000, "running");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(evidence_has_the_stacks_of_its_class)
{
	struct fixture fixture;

	set_up(&fixture);
	add_trainer(&fixture, 10, 8, 0.5);
	add(&fixture, 6, TRAINER, SPIN,
	    "main;step;torch::autograd::THPVariable_item;cuStreamSynchronize", 40);
	add(&fixture, 6, TRAINER ",state=running", PROFILE_TYPE_WALL, "", 40);
	add_device(&fixture, 75);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);

	EXPECT_STR("gpu_implicit_sync", diagnosis_class_name(&diagnosis), "class");
	EXPECT_STR(SPIN, diagnosis.evidence[0].type, "profile");
	EXPECT_EQ(1, diagnosis.evidence[0].stack_count, "stacks");
	EXPECT_STR("torch::autograd::THPVariable_item", frame(&diagnosis, 0, 1), "who asked");
	EXPECT_EQ(100, diagnosis.evidence[0].stacks[0].share * 100, "of what shows it");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(counted_calls_take_precedence_over_samples)
{
	struct fixture fixture;

	set_up(&fixture);
	add_trainer(&fixture, 50, 2, 1);
	add(&fixture, 6, TRAINER, PROFILE_TYPE_GPU_LAUNCH, "main;step;small_kernel",
	    1.2e-3); // 1.2 million
	add_device(&fixture, 80);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);

	EXPECT_STR("gpu_launch_bound", diagnosis_class_name(&diagnosis), "class");
	EXPECT_STR(PROFILE_TYPE_GPU_LAUNCH, diagnosis.evidence[0].type, "profile");
	EXPECT_STR("small_kernel", frame(&diagnosis, 0, 0), "who launches");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(healthy_or_no_gpu_shows_the_threads_verdict)
{
	struct fixture fixture;

	set_up(&fixture);
	add_trainer(&fixture, 30, 25, 4);
	add_device(&fixture, 90);
	add(&fixture, 10, "service=llm,node=n1,state=running", PROFILE_TYPE_WALL, "", 60);
	add(&fixture, 10, "service=llm,node=n1,wait=gil", PROFILE_TYPE_OFF_CPU, "main;take_gil",
	    100);
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

TEST(idle_is_unknown_without_gauges)
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

// A gauge of @stack_text (NULL: without a stack) that goes from @from to @to in a quarter of an hour.
static void add_stack_slope(struct fixture *fixture, const char *labels, const char *type,
			    const char *stack_text, int64_t from, int64_t to)
{
	struct profile *profile = test_profile();
	uint32_t series = series_of_text(profile, labels, type), stack;

	if (stack_text)
		stack = stack_of_text(profile, stack_text, STACK_END_COMPLETE);
	else
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

static void add_slope(struct fixture *fixture, const char *labels, const char *type, int64_t from,
		      int64_t to)
{
	add_stack_slope(fixture, labels, type, NULL, from, to);
}

static double figure_of(const struct diagnosis *diagnosis, enum gpu_figure figure)
{
	const struct gpu_figures *figures = &diagnosis->gpu.figures;

	if (!gpu_figures_know(figures, figure))
		fail_msg("%s is unknown", gpu_figure_name(figure));
	return figures->values[figure];
}

TEST(gauges_become_shares)
{
	struct fixture fixture;

	set_up(&fixture);
	add_trainer(&fixture, 4, 50, 1);
	add_device(&fixture, 99);
	add_level(&fixture, DEVICE, PROFILE_TYPE_GPU_SM_ACTIVE, 90);
	add_level(&fixture, DEVICE, PROFILE_TYPE_GPU_TENSOR_ACTIVE, 70);
	add_level(&fixture, DEVICE, PROFILE_TYPE_GPU_FP32_ACTIVE, 5);
	add_level(&fixture, DEVICE, PROFILE_TYPE_GPU_FP16_ACTIVE, 15);
	add_level(&fixture, DEVICE, PROFILE_TYPE_GPU_DRAM_ACTIVE, 30);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);

	EXPECT_STR("gpu_compute_bound", diagnosis_class_name(&diagnosis), "class");
	EXPECT_EQ(15, figure_of(&diagnosis, GPU_FIGURE_FP_ACTIVE) * 100, "the busiest pipe");
	diagnosis_deinit(&diagnosis);

	// Throttled for a third of the time, for two reasons at once; at the power cap all the time.
	add(&fixture, 5, DEVICE ",reason=" REASON_THERMAL, PROFILE_TYPE_GPU_THROTTLED, "", 20);
	add(&fixture, 5, DEVICE ",reason=" REASON_HARDWARE, PROFILE_TYPE_GPU_THROTTLED, "", 18);
	add(&fixture, 5, DEVICE ",reason=" REASON_POWER_CAP, PROFILE_TYPE_GPU_THROTTLED, "", 60);
	diagnosis = diagnose(&fixture, "train", 0, 60);
	EXPECT_STR("gpu_throttled", diagnosis_class_name(&diagnosis), "class");
	EXPECT_EQ(33, figure_of(&diagnosis, GPU_FIGURE_THROTTLED) * 100, "the larger reason");
	EXPECT_EQ(100, figure_of(&diagnosis, GPU_FIGURE_POWER_CAPPED) * 100, "the power cap");
	EXPECT_EQ(0, diagnosis.evidence[0].stack_count, "it has no stacks");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(mig_instance_counts_as_a_gpu)
{
	const char *instance = "service=gpu,node=n1,gpu=0,gpu_instance=3,gpu_uuid=MIG-1";
	struct fixture fixture;

	set_up(&fixture);
	add_trainer(&fixture, 4, 50, 1);
	add_level(&fixture, "service=train,node=n1,gpu=0,gpu_instance=3,gpu_uuid=MIG-1",
		  PROFILE_TYPE_GPU_PROCESS_MEMORY, 1 << 30);
	add_level(&fixture, instance, PROFILE_TYPE_GPU_MEMORY_USED, 1 << 30);
	add_level(&fixture, instance, PROFILE_TYPE_GPU_BUSY, 98);
	add_level(&fixture, "service=gpu,node=n1,gpu=0,gpu_instance=4,gpu_uuid=MIG-2",
		  PROFILE_TYPE_GPU_BUSY, 10);
	add(&fixture, 5, DEVICE ",reason=" REASON_THERMAL, PROFILE_TYPE_GPU_THROTTLED, "", 20);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);

	EXPECT_STR("gpu_busy", diagnosis_class_name(&diagnosis), "class");
	EXPECT_EQ(2, (figure_of(&diagnosis, GPU_FIGURE_IDLE) + 0.001) * 100, "idle");
	assert_false(gpu_figures_know(&diagnosis.gpu.figures, GPU_FIGURE_THROTTLED));
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(tells_other_processes_on_the_gpu_apart)
{
	struct fixture fixture;
	const char *type = PROFILE_TYPE_GPU_PROCESS_BUSY;

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

TEST(finds_growing_memory_but_no_caches)
{
	struct fixture fixture;
	const char *type = PROFILE_TYPE_GPU_PROCESS_MEMORY;

	set_up(&fixture);
	add_slope(&fixture, "service=leak,node=n1,pod=a,gpu_uuid=GPU-1", type, 1 << 30, 5 << 28);
	add_slope(&fixture, "service=leak,node=n1,pod=b,gpu_uuid=GPU-1", type, 1 << 30, 1 << 30);
	add_slope(&fixture, "service=shrink,node=n1,pod=c,gpu_uuid=GPU-1", type, 5 << 28, 1 << 30);
	add_slope(&fixture, DEVICE, PROFILE_TYPE_GPU_MEMORY_USED, 1 << 30, 1 << 30);
	struct diagnosis diagnosis = diagnose(&fixture, "leak", 0, 900);

	// By 25 % in a quarter of an hour.
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

// ---- classes --------------------------------------------------------------------------------

/** Threads' time, spread over both halves of a minute. */
static void add_both(struct fixture *fixture, const char *labels, const char *type,
		     const char *stack, double seconds)
{
	add(fixture, 5, labels, type, stack, seconds / 2);
	add(fixture, 35, labels, type, stack, seconds / 2);
}

/** A thread with these times on a CPU, in busy-waits and blocked, and its wait class. */
static void add_thread(struct fixture *fixture, const char *labels, double running, double blocked)
{
	char with_state[128];

	snprintf(with_state, sizeof(with_state), "%s,state=running", labels);
	add_both(fixture, with_state, PROFILE_TYPE_WALL, "", running);
	snprintf(with_state, sizeof(with_state), "%s,state=blocked", labels);
	add_both(fixture, with_state, PROFILE_TYPE_WALL, "", blocked);
}

#define BUSY_LOOP "main;step;cudaStreamSynchronize;cuStreamSynchronize"

static struct diagnosis expect_class(struct fixture *fixture, const char *class,
				     const char *stack_type)
{
	struct diagnosis diagnosis = diagnose(fixture, "train", 0, 60);

	EXPECT_STR(class, gpu_class_name(diagnosis.gpu.verdict.class), class);
	EXPECT_EQ(stack_type != NULL, diagnosis.evidence_count > 0, class);
	if (stack_type)
		EXPECT_STR(stack_type, diagnosis.evidence[0].type, class);
	assert_false(diagnosis.gpu.verdict.is_intermittent);
	return diagnosis;
}

TEST(code_between_launches_makes_it_cpu_bound)
{
	struct fixture fixture;

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 60, 0);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step;augment", 40);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step;cudaLaunchKernel;cuLaunchKernel",
		 4);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 16);
	add_device(&fixture, 30);
	struct diagnosis diagnosis = expect_class(&fixture, "gpu_cpu_bound", PROFILE_TYPE_CPU);
	EXPECT_EQ(1, diagnosis.evidence[0].stack_count, "stacks: none of the driver's");
	EXPECT_STR("augment", frame(&diagnosis, 0, 0), "what runs");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

/** Copies of @size bytes each. */
static void add_copies(struct fixture *fixture, const char *labels, const char *stack, double count,
		       double size)
{
	add_both(fixture, labels, PROFILE_TYPE_GPU_COPY, stack, count * size / 1e9);
	add_both(fixture, labels, PROFILE_TYPE_GPU_COPIES, stack, count / 1e9);
}

TEST(copies_have_size_and_pageable_share)
{
	struct fixture fixture;
	const char *copy = "main;step;to_device;cudaMemcpy;cuMemcpyHtoD_v2";

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 60, 0);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step", 10);
	add_both(&fixture, TRAINER, SPIN, copy, 30);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 20);
	add_copies(&fixture, TRAINER ",direction=host_to_device,memory=pageable", copy, 3000, 1e6);
	add_copies(&fixture, TRAINER ",direction=host_to_device,memory=pinned", "main;other", 1000,
		   1e6);
	add_copies(&fixture, TRAINER ",direction=device_to_host,memory=pinned", "main;read", 600,
		   4);
	add_device(&fixture, 60);
	struct diagnosis diagnosis =
		expect_class(&fixture, "gpu_copy_bound", PROFILE_TYPE_GPU_COPY);
	EXPECT_EQ(75, figure_of(&diagnosis, GPU_FIGURE_PAGEABLE) * 100, "pageable");
	EXPECT_EQ(1000000, figure_of(&diagnosis, GPU_FIGURE_COPY_IN_BYTES), "a copy in");
	EXPECT_EQ(4, figure_of(&diagnosis, GPU_FIGURE_COPY_OUT_BYTES), "a copy out");
	EXPECT_EQ(10, figure_of(&diagnosis, GPU_FIGURE_READ_RATE), "results a second");
	EXPECT_STR("cuMemcpyHtoD_v2", frame(&diagnosis, 0, 0), "who copies");
	diagnosis_deinit(&diagnosis);

	// A GPU that always runs a GPU kernel is not copy bound.
	add_level(&fixture, DEVICE, PROFILE_TYPE_GPU_BUSY, 40);
	diagnosis = expect_class(&fixture, "gpu_busy", SPIN);
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(full_pcie_link_makes_it_copy_bound)
{
	struct fixture fixture;

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 60, 0);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step", 40);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 20);
	add_device(&fixture, 85);
	add_level(&fixture, DEVICE, PROFILE_TYPE_GPU_PCIE_RECEIVED, 20000000000);
	struct diagnosis diagnosis = expect_class(&fixture, "gpu_none", PROFILE_TYPE_CPU);
	assert_false(gpu_figures_know(&diagnosis.gpu.figures, GPU_FIGURE_PCIE_USE));
	diagnosis_deinit(&diagnosis);

	// 16 lanes of PCIe 5, slower while they saved power.
	add(&fixture, 7, DEVICE, PROFILE_TYPE_GPU_PCIE_LINK, "", 63.008);
	add(&fixture, 40, DEVICE, PROFILE_TYPE_GPU_PCIE_LINK, "", 63.008);
	diagnosis = expect_class(&fixture, "gpu_none", PROFILE_TYPE_CPU);
	EXPECT_EQ(31, figure_of(&diagnosis, GPU_FIGURE_PCIE_USE) * 100, "of the link");
	diagnosis_deinit(&diagnosis);

	add_level(&fixture, DEVICE, PROFILE_TYPE_GPU_PCIE_RECEIVED, 20000000000);
	diagnosis = expect_class(&fixture, "gpu_copy_bound", PROFILE_TYPE_CPU);
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(implicit_synchronization_has_rate_and_cost)
{
	struct fixture fixture;
	const char *item = "main;step;torch::autograd::THPVariable_item;cuStreamSynchronize";

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 60, 0);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step", 20);
	add_both(&fixture, TRAINER, SPIN, item, 30);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 10);
	add_copies(&fixture, TRAINER ",direction=device_to_host,memory=pageable", item, 6000, 4);
	add_device(&fixture, 75);
	struct diagnosis diagnosis = expect_class(&fixture, "gpu_implicit_sync", SPIN);
	EXPECT_EQ(100, figure_of(&diagnosis, GPU_FIGURE_READ_RATE), "a second");
	EXPECT_EQ(5000, figure_of(&diagnosis, GPU_FIGURE_READ_WAIT), "us each");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(launches_have_cost_and_repetition)
{
	struct fixture fixture;
	const char *type = PROFILE_TYPE_GPU_LAUNCH;

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 60, 0);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step", 24);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step;cudaLaunchKernel;cuLaunchKernel",
		 34);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 2);
	add_both(&fixture, TRAINER, type, "main;step;small_kernel", 3e6 / 1e9);
	add_both(&fixture, TRAINER, type, "main;other;small_kernel", 0.4e6 / 1e9);
	add_device(&fixture, 60);
	struct diagnosis diagnosis = expect_class(&fixture, "gpu_launch_bound", type);
	EXPECT_EQ(10, figure_of(&diagnosis, GPU_FIGURE_LAUNCH_COST), "us each");
	EXPECT_EQ(50000, figure_of(&diagnosis, GPU_FIGURE_LAUNCH_REPEAT), "of one stack");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(long_launches_count_as_waits)
{
	struct fixture fixture;

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 60, 0);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step", 16);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step;cudaLaunchKernel;cuLaunchKernel",
		 42);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 2);
	add_both(&fixture, TRAINER, PROFILE_TYPE_GPU_LAUNCH, "main;step;large_kernel", 6e4 / 1e9);
	struct diagnosis diagnosis = expect_class(&fixture, "gpu_busy", PROFILE_TYPE_CPU);
	EXPECT_EQ(700, figure_of(&diagnosis, GPU_FIGURE_LAUNCH_COST), "us each");
	EXPECT_STR("cuLaunchKernel", frame(&diagnosis, 0, 0), "where it waits");
	EXPECT_EQ(0, figure_of(&diagnosis, GPU_FIGURE_LAUNCH_CALLS), "no work of its own");
	diagnosis_deinit(&diagnosis);

	// The queue of an idle GPU has room: then not all launches were counted.
	add_device(&fixture, 50);
	diagnosis = expect_class(&fixture, "gpu_launch_bound", PROFILE_TYPE_GPU_LAUNCH);
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(long_graph_launches_are_no_waits)
{
	struct fixture fixture;

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 60, 0);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step", 24);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step;cudaGraphLaunch;cuGraphLaunch",
		 33);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step;cudaLaunchKernel;cuLaunchKernel",
		 0.1);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 2);
	add_both(&fixture, TRAINER, PROFILE_TYPE_GPU_LAUNCH, "main;step;sample", 1e4 / 1e9);
	struct diagnosis diagnosis =
		expect_class(&fixture, "gpu_launch_bound", PROFILE_TYPE_GPU_LAUNCH);
	EXPECT_EQ(10, figure_of(&diagnosis, GPU_FIGURE_LAUNCH_COST), "us, a kernel's");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(gauges_tell_compute_from_memory_bound)
{
	struct fixture fixture;

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 60, 0);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step", 6);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 54);
	add_device(&fixture, 99);
	struct diagnosis diagnosis = expect_class(&fixture, "gpu_busy", SPIN);
	diagnosis_deinit(&diagnosis);

	add_level(&fixture, DEVICE, PROFILE_TYPE_GPU_SM_ACTIVE, 85);
	add_level(&fixture, DEVICE, PROFILE_TYPE_GPU_TENSOR_ACTIVE, 12);
	add_level(&fixture, DEVICE, PROFILE_TYPE_GPU_DRAM_ACTIVE, 78);
	diagnosis = expect_class(&fixture, "gpu_memory_bound", SPIN);
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(allocations_count_by_time_and_by_rate)
{
	struct fixture fixture;

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 60, 0);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step", 38);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step;cudaMalloc;cuMemAlloc_v2", 2);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 20);
	add_device(&fixture, 85);
	struct diagnosis diagnosis = expect_class(&fixture, "gpu_allocator", PROFILE_TYPE_CPU);
	EXPECT_STR("cuMemAlloc_v2", frame(&diagnosis, 0, 0), "who allocates");
	diagnosis_deinit(&diagnosis);

	add_both(&fixture, "service=churn,node=n1,thread=trainer,state=running", PROFILE_TYPE_WALL,
		 "", 60);
	add_both(&fixture, "service=churn,node=n1,thread=trainer", SPIN, BUSY_LOOP, 20);
	add_both(&fixture, "service=churn,node=n1,thread=trainer", PROFILE_TYPE_GPU_ALLOCATIONS,
		 "main;step;cuMemAlloc_v2", 900e-9);
	diagnosis = diagnose(&fixture, "churn", 0, 60);
	EXPECT_STR("gpu_allocator", gpu_class_name(diagnosis.gpu.verdict.class), "15 a second");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

/** A trainer that waits for a lock of wait class @wait, and another thread that holds it. */
static void add_locked(struct fixture *fixture, const char *wait, const char *leaf)
{
	char labels[128], stack[128];

	snprintf(labels, sizeof(labels), TRAINER ",wait=%s", wait);
	snprintf(stack, sizeof(stack), "main;step;%s", leaf);
	add_thread(fixture, TRAINER, 30, 30);
	add_both(fixture, TRAINER, PROFILE_TYPE_CPU, "main;step", 6);
	add_both(fixture, TRAINER, SPIN, BUSY_LOOP, 24);
	add_both(fixture, labels, PROFILE_TYPE_OFF_CPU, stack, 30);
	add_both(fixture, labels, PROFILE_TYPE_OFF_WAKE, "main;step;take;release;tokenize", 30);
	add_thread(fixture, LOADER, 30, 30);
	add_both(fixture, LOADER, PROFILE_TYPE_CPU, "main;tokenize", 30);
	add_device(fixture, 70);
}

TEST(lock_evidence_has_wakers_and_other_threads)
{
	static const struct {
		const char *class, *wait, *leaf;
	} locks[] = {
		{ "gpu_gil", "gil", "take_gil" },
		{ "gpu_lock", "lock", "pthread_mutex_lock" },
	};

	for EACH (lock, locks) {
		struct fixture fixture;

		set_up(&fixture);
		add_locked(&fixture, lock->wait, lock->leaf);
		struct diagnosis diagnosis =
			expect_class(&fixture, lock->class, PROFILE_TYPE_OFF_CPU);
		EXPECT_STR(lock->leaf, frame(&diagnosis, 0, 0), lock->class);
		EXPECT_EQ(3, diagnosis.evidence_count, lock->class);
		EXPECT_STR("Waker stacks", diagnosis.evidence[1].what, lock->class);
		EXPECT_STR(lock->wait, diagnosis.evidence[1].wait, lock->class);
		EXPECT_STR("tokenize", frame_of(&diagnosis, 1, 0, 0), "the waker");
		EXPECT_STR(PROFILE_TYPE_CPU, diagnosis.evidence[2].type, lock->class);
		EXPECT_EQ(1, diagnosis.evidence[2].stack_count, "not the trainer's");
		EXPECT_STR("tokenize", frame_of(&diagnosis, 2, 0, 0), "who runs");
		diagnosis_deinit(&diagnosis);
		tear_down(&fixture);
	}
}

TEST(names_the_latest_rank_of_a_communicator)
{
	struct fixture fixture;
	const char *type = PROFILE_TYPE_NCCL_SKEW;
	const char *stack = "main;step;load;ncclAllReduce";

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 60, 0);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step", 40);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 20);
	add_device(&fixture, 90);
	// One communicator over two nodes, and another one.
	add_both(&fixture, TRAINER ",communicator=c1,rank=1", type, stack, 10);
	add_both(&fixture, "service=train,node=n2,thread=trainer,communicator=c1,rank=5", type,
		 stack, 15);
	add_both(&fixture, TRAINER ",communicator=c2,rank=0", type, stack, 20);
	struct diagnosis diagnosis = expect_class(&fixture, "gpu_collective", type);
	EXPECT_EQ(25, figure_of(&diagnosis, GPU_FIGURE_SKEW) * 100, "of the range");
	EXPECT_STR("c1", diagnosis.gpu.late_communicator, "communicator");
	EXPECT_STR("5", diagnosis.gpu.late_rank, "rank");
	EXPECT_STR("n2", diagnosis.gpu.late_node, "node");
	EXPECT_STR("load", frame(&diagnosis, 0, 1), "what it did");
	diagnosis_deinit(&diagnosis);

	// An unknown rank.
	add_both(&fixture, TRAINER ",communicator=c3", type, stack, 50);
	diagnosis = diagnose(&fixture, "train", 0, 60);
	EXPECT_EQ(83, figure_of(&diagnosis, GPU_FIGURE_SKEW) * 100, "of the range");
	EXPECT_STR("", diagnosis.gpu.late_rank, "rank");
	EXPECT_STR("n1", diagnosis.gpu.late_node, "node");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(large_idle_bound_replaces_missing_gauges)
{
	struct fixture fixture;

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 60, 0);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step;augment", 50);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 10);
	add_both(&fixture, TRAINER, PROFILE_TYPE_GPU_IDLE_TIME, "", 10);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);
	assert_false(gpu_figures_know(&diagnosis.gpu.figures, GPU_FIGURE_IDLE));
	diagnosis_deinit(&diagnosis);

	add_both(&fixture, TRAINER, PROFILE_TYPE_GPU_IDLE_TIME, "", 20);
	add_both(&fixture, TRAINER, PROFILE_TYPE_GPU_IDLE, "main;step;augment", 28);
	diagnosis = expect_class(&fixture, "gpu_cpu_bound", PROFILE_TYPE_GPU_IDLE);
	EXPECT_EQ(50, figure_of(&diagnosis, GPU_FIGURE_IDLE) * 100, "of the launching thread");
	diagnosis_deinit(&diagnosis);

	add_device(&fixture, 90);
	diagnosis = diagnose(&fixture, "train", 0, 60);
	EXPECT_EQ(10, (figure_of(&diagnosis, GPU_FIGURE_IDLE) + 0.001) * 100, "the gauge");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(names_two_causes_of_one_size)
{
	struct fixture fixture;

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 60, 0);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step", 6);
	add_both(&fixture, TRAINER, SPIN, "main;step;cuMemcpyHtoD_v2", 26);
	add_both(&fixture, TRAINER, SPIN, "main;step;cuMemcpyDtoH_v2", 28);
	add_device(&fixture, 75);
	struct diagnosis diagnosis = expect_class(&fixture, "gpu_ambiguous", SPIN);
	EXPECT_EQ(2, diagnosis.gpu.verdict.reached_count, "causes");
	EXPECT_STR("cuMemcpyDtoH_v2", frame(&diagnosis, 0, 0), "the larger one's");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(idle_launching_threads_mean_no_demand)
{
	struct fixture fixture;

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 1, 59);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 1);
	add_both(&fixture, TRAINER ",wait=poll", PROFILE_TYPE_OFF_CPU, "main;serve;select", 58);
	add_device(&fixture, 1);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);
	EXPECT_STR("gpu_no_demand", gpu_class_name(diagnosis.gpu.verdict.class), "class");
	assert_false(diagnosis.is_of_gpu);
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(few_samples_of_launches_are_no_cause)
{
	struct fixture fixture;

	set_up(&fixture);
	add_thread(&fixture, TRAINER, 1, 59);
	add_both(&fixture, TRAINER, PROFILE_TYPE_CPU, "main;step;cudaLaunchKernel;cuLaunchKernel",
		 1);
	add_both(&fixture, TRAINER, SPIN, BUSY_LOOP, 0.5);
	add_both(&fixture, TRAINER ",wait=poll", PROFILE_TYPE_OFF_CPU, "main;serve;select", 58);
	add_device(&fixture, 30);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);
	EXPECT_STR("gpu_no_demand", gpu_class_name(diagnosis.gpu.verdict.class), "class");
	assert_false(gpu_figures_know(&diagnosis.gpu.figures, GPU_FIGURE_LAUNCH_CALLS));
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(cause_in_one_half_is_intermittent)
{
	struct fixture fixture;

	set_up(&fixture);
	add_device(&fixture, 99);
	add(&fixture, 5, TRAINER ",state=running", PROFILE_TYPE_WALL, "", 30);
	add(&fixture, 5, TRAINER, SPIN, BUSY_LOOP, 30);
	add(&fixture, 35, TRAINER ",state=running", PROFILE_TYPE_WALL, "", 15);
	add(&fixture, 35, TRAINER, PROFILE_TYPE_CPU, "main;other", 15);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 60);
	EXPECT_STR("gpu_busy", gpu_class_name(diagnosis.gpu.verdict.class), "class");
	assert_true(diagnosis.gpu.verdict.is_intermittent);
	EXPECT_EQ(CONFIDENCE_LOW, diagnosis.gpu.verdict.confidence, "confidence");
	diagnosis_deinit(&diagnosis);

	add(&fixture, 36, TRAINER ",state=running", PROFILE_TYPE_WALL, "", 30);
	add(&fixture, 36, TRAINER, SPIN, BUSY_LOOP, 30);
	diagnosis = expect_class(&fixture, "gpu_busy", SPIN);
	EXPECT_EQ(CONFIDENCE_HIGH, diagnosis.gpu.verdict.confidence, "confidence");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

TEST(growth_evidence_has_memory_not_freed)
{
	struct fixture fixture;
	const char *type = PROFILE_TYPE_GPU_MEMORY;
	const char *used = PROFILE_TYPE_GPU_PROCESS_MEMORY;
	const struct {
		const char *stack;
		int64_t from, to;
	} stacks[] = {
		{ "main;load_weights", 1 << 30, 1 << 30 },
		{ "main;serve;keep", 1 << 20, 1 << 28 },
		{ "main;serve;cache", 1 << 28, 1 << 27 },
	};

	set_up(&fixture);
	add_slope(&fixture, "service=train,node=n1,pod=a,gpu_uuid=GPU-1", used, 1 << 30, 5 << 28);
	add_slope(&fixture, DEVICE, PROFILE_TYPE_GPU_MEMORY_USED, 1 << 30, 1 << 30);
	for EACH (s, stacks)
		add_stack_slope(&fixture, TRAINER, type, s->stack, s->from, s->to);
	add(&fixture, 10, TRAINER, PROFILE_TYPE_GPU_ALLOC, "main;scratch", 900);
	struct diagnosis diagnosis = diagnose(&fixture, "train", 0, 900);
	EXPECT_STR("gpu_memory_growth", gpu_class_name(diagnosis.gpu.verdict.class), "class");
	EXPECT_STR(type, diagnosis.evidence[0].type, "profile");
	EXPECT_EQ(1, diagnosis.evidence[0].stack_count, "what stays or shrinks is none");
	EXPECT_STR("keep", frame(&diagnosis, 0, 0), "what grows");
	diagnosis_deinit(&diagnosis);
	tear_down(&fixture);
}

RUN_TESTS(cmocka_unit_test(waits_for_input_starve_a_gpu),
	  cmocka_unit_test(evidence_has_the_stacks_of_its_class),
	  cmocka_unit_test(counted_calls_take_precedence_over_samples),
	  cmocka_unit_test(healthy_or_no_gpu_shows_the_threads_verdict),
	  cmocka_unit_test(idle_is_unknown_without_gauges), cmocka_unit_test(gauges_become_shares),
	  cmocka_unit_test(mig_instance_counts_as_a_gpu),
	  cmocka_unit_test(tells_other_processes_on_the_gpu_apart),
	  cmocka_unit_test(finds_growing_memory_but_no_caches),
	  cmocka_unit_test(code_between_launches_makes_it_cpu_bound),
	  cmocka_unit_test(copies_have_size_and_pageable_share),
	  cmocka_unit_test(full_pcie_link_makes_it_copy_bound),
	  cmocka_unit_test(implicit_synchronization_has_rate_and_cost),
	  cmocka_unit_test(launches_have_cost_and_repetition),
	  cmocka_unit_test(long_launches_count_as_waits),
	  cmocka_unit_test(long_graph_launches_are_no_waits),
	  cmocka_unit_test(gauges_tell_compute_from_memory_bound),
	  cmocka_unit_test(allocations_count_by_time_and_by_rate),
	  cmocka_unit_test(lock_evidence_has_wakers_and_other_threads),
	  cmocka_unit_test(names_the_latest_rank_of_a_communicator),
	  cmocka_unit_test(large_idle_bound_replaces_missing_gauges),
	  cmocka_unit_test(names_two_causes_of_one_size),
	  cmocka_unit_test(idle_launching_threads_mean_no_demand),
	  cmocka_unit_test(few_samples_of_launches_are_no_cause),
	  cmocka_unit_test(cause_in_one_half_is_intermittent),
	  cmocka_unit_test(growth_evidence_has_memory_not_freed))
