// SPDX-License-Identifier: Apache-2.0
// Each scenario of a GPU service has exactly one class, healthy ones none; figures that were not recorded are listed, not judged.
#include "collector/diagnose/gpu_verdict.h"

#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "tests/test.h"

enum { FIGURES_MAX = 14 };

struct figure_value {
	enum gpu_figure figure;
	double value;
};

#define V(figure, value)                   \
	{                                  \
		GPU_FIGURE_##figure, value \
	}
/* Further figures of an agent with NVML and all profile types. */
#define QUIET V(THROTTLED, 0), V(OTHERS, 0), V(LOCK, 0.01), V(GIL, 0.01), V(COLLECTIVE, 0)

static const struct {
	const char *what;
	struct figure_value values[FIGURES_MAX];
	enum gpu_class class;
} cases[] = {
	{ "workers decode images, the trainer waits at their queue",
	  { QUIET, V(IDLE, 0.55), V(INPUT, 0.60), V(FEEDERS, 3.9), V(WAIT, 0.3), V(OWN_CPU, 0.1),
	    V(IMPLICIT, 0.02), V(COPY_IN, 0.03) },
	  GPU_CLASS_STARVED },
	{ "a server without requests",
	  { QUIET, V(IDLE, 0.99), V(INPUT, 0.99), V(FEEDERS, 0.05), V(WAIT, 0), V(OWN_CPU, 0.005) },
	  GPU_CLASS_NO_DEMAND },
	{ "a server with a request now and then",
	  { QUIET, V(IDLE, 0.95), V(INPUT, 0.93), V(FEEDERS, 0.1), V(WAIT, 0.04), V(OWN_CPU, 0.02),
	    V(IMPLICIT, 0.01) },
	  GPU_CLASS_NO_DEMAND },
	{ "Python between the steps",
	  { QUIET, V(IDLE, 0.60), V(INPUT, 0.02), V(FEEDERS, 0.1), V(WAIT, 0.32), V(OWN_CPU, 0.65),
	    V(LAUNCH_CALLS, 0.05), V(IMPLICIT, 0.01) },
	  GPU_CLASS_CPU_BOUND },
	{ "thousands of small kernels",
	  { QUIET, V(IDLE, 0.40), V(INPUT, 0.01), V(FEEDERS, 0.1), V(WAIT, 0.02), V(OWN_CPU, 0.45),
	    V(LAUNCH_CALLS, 0.55), V(LAUNCH_RATE, 42000), V(IMPLICIT, 0.01) },
	  GPU_CLASS_LAUNCH_BOUND },
	{ "many launches, but the GPU is behind",
	  { QUIET, V(IDLE, 0.01), V(INPUT, 0), V(FEEDERS, 0), V(WAIT, 0.75), V(OWN_CPU, 0.1),
	    V(LAUNCH_CALLS, 0.5), V(LAUNCH_RATE, 12000) },
	  GPU_CLASS_BUSY },
	{ "pageable batches",
	  { QUIET, V(IDLE, 0.35), V(INPUT, 0.02), V(FEEDERS, 0.3), V(WAIT, 0.5), V(OWN_CPU, 0.1),
	    V(COPY_IN, 0.45), V(PAGEABLE, 1), V(IMPLICIT, 0.02) },
	  GPU_CLASS_COPY_BOUND },
	{ "a full link, copied without waiting",
	  { QUIET, V(IDLE, 0.1), V(WAIT, 0.1), V(OWN_CPU, 0.1), V(COPY_IN, 0.01),
	    V(PCIE_RECEIVED, 24e9), V(PCIE_USE, 0.76), V(IMPLICIT, 0) },
	  GPU_CLASS_COPY_BOUND },
	{ ".item() in each step",
	  { QUIET, V(IDLE, 0.25), V(INPUT, 0.02), V(FEEDERS, 0.1), V(WAIT, 0.7), V(OWN_CPU, 0.12),
	    V(COPY_IN, 0.01), V(IMPLICIT, 0.62), V(COPY_OUT_BYTES, 4) },
	  GPU_CLASS_IMPLICIT_SYNC },
	{ ".item() in each step of a GPU that is full anyway",
	  { QUIET, V(IDLE, 0.02), V(WAIT, 0.8), V(OWN_CPU, 0.1), V(IMPLICIT, 0.7),
	    V(COPY_OUT_BYTES, 4), V(SM_ACTIVE, 0.9), V(TENSOR_ACTIVE, 0.6), V(DRAM_ACTIVE, 0.3) },
	  GPU_CLASS_COMPUTE_BOUND },
	{ "large matrices",
	  { QUIET, V(IDLE, 0.01), V(INPUT, 0), V(WAIT, 0.9), V(OWN_CPU, 0.05), V(IMPLICIT, 0.01),
	    V(SM_ACTIVE, 0.95), V(TENSOR_ACTIVE, 0.72), V(DRAM_ACTIVE, 0.35) },
	  GPU_CLASS_COMPUTE_BOUND },
	{ "decoding",
	  { QUIET, V(IDLE, 0.02), V(INPUT, 0), V(WAIT, 0.85), V(OWN_CPU, 0.05), V(IMPLICIT, 0.03),
	    V(SM_ACTIVE, 0.85), V(TENSOR_ACTIVE, 0.12), V(DRAM_ACTIVE, 0.78) },
	  GPU_CLASS_MEMORY_BOUND },
	{ "synchronous copies all the time, and nobody knows whether the GPU was busy",
	  { V(WAIT, 0.9), V(OWN_CPU, 0.05), V(COPY_IN, 0.85), V(IMPLICIT, 0) },
	  GPU_CLASS_COPY_BOUND },
	{ "a full GPU without performance monitoring",
	  { QUIET, V(IDLE, 0.01), V(WAIT, 0.85), V(OWN_CPU, 0.05), V(IMPLICIT, 0.03) },
	  GPU_CLASS_BUSY },
	{ "cudaMalloc in a loop",
	  { QUIET, V(IDLE, 0.15), V(WAIT, 0.3), V(OWN_CPU, 0.3), V(IMPLICIT, 0.02),
	    V(ALLOCATION, 0.35), V(ALLOCATION_RATE, 900) },
	  GPU_CLASS_ALLOCATOR },
	{ "a cache without a limit",
	  { QUIET, V(IDLE, 0.10), V(WAIT, 0.3), V(OWN_CPU, 0.3), V(IMPLICIT, 0.02),
	    V(MEMORY_GROWTH, 0.4) },
	  GPU_CLASS_MEMORY_GROWTH },
	{ "a cache without a limit beside large matrices",
	  { QUIET, V(IDLE, 0.01), V(WAIT, 0.9), V(OWN_CPU, 0.05), V(IMPLICIT, 0.02),
	    V(MEMORY_GROWTH, 1.4), V(SM_ACTIVE, 0.95), V(TENSOR_ACTIVE, 0.72),
	    V(DRAM_ACTIVE, 0.3) },
	  GPU_CLASS_COMPUTE_BOUND },
	{ "a tokenizer's threads hold the GIL",
	  { V(THROTTLED, 0), V(OTHERS, 0), V(LOCK, 0.01), V(COLLECTIVE, 0), V(IDLE, 0.5),
	    V(INPUT, 0.02), V(FEEDERS, 0.9), V(WAIT, 0.2), V(OWN_CPU, 0.38), V(GIL, 0.4) },
	  GPU_CLASS_GIL },
	{ "a mutex around the launches",
	  { V(THROTTLED, 0), V(OTHERS, 0), V(GIL, 0), V(COLLECTIVE, 0), V(IDLE, 0.4),
	    V(INPUT, 0.02), V(FEEDERS, 0.2), V(WAIT, 0.2), V(OWN_CPU, 0.1), V(LOCK, 0.5) },
	  GPU_CLASS_LOCK },
	{ "a rank that is late",
	  { V(THROTTLED, 0), V(OTHERS, 0), V(LOCK, 0), V(GIL, 0), V(IDLE, 0.01), V(WAIT, 0.9),
	    V(OWN_CPU, 0.05), V(IMPLICIT, 0.2), V(COLLECTIVE, 0.8), V(SM_ACTIVE, 0.9),
	    V(TENSOR_ACTIVE, 0.1), V(DRAM_ACTIVE, 0.1) },
	  GPU_CLASS_COLLECTIVE },
	{ "a rank that comes late, seen by when ranks call",
	  { V(THROTTLED, 0), V(OTHERS, 0), V(LOCK, 0), V(GIL, 0), V(IDLE, 0.01), V(WAIT, 0.4),
	    V(OWN_CPU, 0.5), V(IMPLICIT, 0.02), V(COLLECTIVE, 0.02), V(SKEW, 0.3) },
	  GPU_CLASS_COLLECTIVE },
	{ "a hot GPU",
	  { V(THROTTLED, 0.8), V(OTHERS, 0), V(IDLE, 0.01), V(WAIT, 0.9), V(OWN_CPU, 0.05),
	    V(IMPLICIT, 0.02) },
	  GPU_CLASS_THROTTLED },
	{ "a neighbour",
	  { V(THROTTLED, 0), V(OTHERS, 0.6), V(IDLE, 0.01), V(WAIT, 0.9), V(OWN_CPU, 0.05),
	    V(IMPLICIT, 0.02) },
	  GPU_CLASS_CONTENTION },
	{ "as much copying as scalars",
	  { QUIET, V(IDLE, 0.3), V(WAIT, 0.7), V(OWN_CPU, 0.1), V(COPY_IN, 0.33),
	    V(IMPLICIT, 0.35) },
	  GPU_CLASS_AMBIGUOUS },
	{ "a full launch queue: what launching takes is waiting for room",
	  { QUIET, V(IDLE, 0.01), V(INPUT, 0), V(WAIT, 0.05), V(OWN_CPU, 0.3), V(LAUNCH_CALLS, 0.7),
	    V(LAUNCH_RATE, 15000) },
	  GPU_CLASS_NONE },
	{ "copies on a stream of their own, beside kernels that fill the GPU",
	  { QUIET, V(IDLE, 0.01), V(WAIT, 0.5), V(OWN_CPU, 0.2), V(COPY_IN, 0.3), V(PCIE_USE, 0.7),
	    V(IMPLICIT, 0.01) },
	  GPU_CLASS_NONE },
	// Healthy ones.
	{ "as much over PCIe 5 as PCIe 4 could hardly carry",
	  { QUIET, V(IDLE, 0.12), V(WAIT, 0.45), V(OWN_CPU, 0.3), V(PCIE_RECEIVED, 20e9),
	    V(PCIE_USE, 0.32), V(COPY_IN, 0.02), V(IMPLICIT, 0.01) },
	  GPU_CLASS_NONE },
	{ "ranks that are never quite in step",
	  { QUIET, V(IDLE, 0.12), V(INPUT, 0.1), V(FEEDERS, 2), V(WAIT, 0.45), V(OWN_CPU, 0.3),
	    V(SKEW, 0.08) },
	  GPU_CLASS_NONE },
	{ "overlapped, and neither side is full",
	  { QUIET, V(IDLE, 0.12), V(INPUT, 0.1), V(FEEDERS, 2), V(WAIT, 0.45), V(OWN_CPU, 0.3),
	    V(LAUNCH_CALLS, 0.2), V(LAUNCH_RATE, 3000), V(COPY_IN, 0.04), V(IMPLICIT, 0.03) },
	  GPU_CLASS_NONE },
	{ "results that are copied to the host, large ones",
	  { QUIET, V(IDLE, 0.15), V(INPUT, 0.1), V(FEEDERS, 0.2), V(WAIT, 0.4), V(OWN_CPU, 0.2),
	    V(IMPLICIT, 0.2), V(COPY_OUT_BYTES, 8e6) },
	  GPU_CLASS_NONE },
	{ "at its power cap, which is where full GPUs are",
	  { QUIET, V(POWER_CAPPED, 0.9), V(IDLE, 0.1), V(WAIT, 0.5), V(OWN_CPU, 0.2),
	    V(IMPLICIT, 0.02) },
	  GPU_CLASS_NONE },
};

enum { RANGE_S = 120 };

static struct gpu_figures figures_of(const struct figure_value values[FIGURES_MAX])
{
	struct gpu_figures figures = { .in_use = true, .range_ns = RANGE_S * NS_PER_SECOND };

	// All that are not given are 0 and GPU_FIGURE_IDLE: the first one given is never that.
	for (int i = 0; i < FIGURES_MAX && (values[i].figure || values[i].value > 0); i++)
		gpu_figures_set(&figures, values[i].figure, values[i].value);
	return figures;
}

TEST(each_cause_has_one_verdict)
{
	for EACH (c, cases) {
		struct gpu_figures figures = figures_of(c->values);
		struct gpu_verdict verdict = gpu_verdict_of(&figures);

		EXPECT_STR(gpu_class_name(c->class), gpu_class_name(verdict.class), c->what);
		if (c->class != GPU_CLASS_AMBIGUOUS && gpu_class_is_bottleneck(c->class))
			EXPECT_EQ(c->class, verdict.shares[0].class, c->what);
	}
}

TEST(unknown_figures_are_listed_not_judged)
{
	struct gpu_figures figures = { .in_use = true, .range_ns = RANGE_S * NS_PER_SECOND };
	struct gpu_verdict verdict = gpu_verdict_of(&figures);

	EXPECT_EQ(GPU_CLASS_NONE, verdict.class, "nothing known");
	EXPECT_EQ(CONFIDENCE_LOW, verdict.confidence, "nothing known");
	for (uint32_t i = 0; i < verdict.share_count; i++)
		EXPECT_EQ(false, verdict.shares[i].judged, "nothing known");
	assert_true(verdict.missing & 1U << GPU_FIGURE_IDLE);
	assert_true(verdict.missing & 1U << GPU_FIGURE_LAUNCH_RATE);

	// Without NVML it is unknown whether the GPU was busy.
	gpu_figures_set(&figures, GPU_FIGURE_WAIT, 0.05);
	gpu_figures_set(&figures, GPU_FIGURE_OWN_CPU, 0.9);
	gpu_figures_set(&figures, GPU_FIGURE_INPUT, 0);
	gpu_figures_set(&figures, GPU_FIGURE_LAUNCH_CALLS, 0.1);
	verdict = gpu_verdict_of(&figures);
	EXPECT_EQ(GPU_CLASS_NONE, verdict.class, "whether the GPU was idle is unknown");
	assert_true(verdict.missing & 1U << GPU_FIGURE_IDLE);
	assert_false(verdict.missing &
		     1U << GPU_FIGURE_LAUNCH_RATE); // the share of launch calls suffices

	gpu_figures_set(&figures, GPU_FIGURE_IDLE, 0.8);
	verdict = gpu_verdict_of(&figures);
	EXPECT_EQ(GPU_CLASS_CPU_BOUND, verdict.class, "now it is known");
}

// Each class lists the figures that it needs: without one of them it is not reached.
TEST(no_class_without_its_figures)
{
	for EACH (c, cases) {
		struct gpu_figures figures = figures_of(c->values);

		if (!gpu_class_is_bottleneck(c->class) || c->class == GPU_CLASS_AMBIGUOUS)
			continue;
		for (int i = 0; i < GPU_FIGURE_COUNT; i++) {
			struct gpu_figures fewer = figures;

			fewer.known &= ~(1U << i);
			struct gpu_verdict verdict = gpu_verdict_of(&fewer);
			for (uint32_t k = 0; k < verdict.share_count; k++)
				assert_true(verdict.shares[k].judged || !verdict.shares[k].reached);
		}
		figures.known = 0;
		EXPECT_EQ(GPU_CLASS_NONE, gpu_verdict_of(&figures).class, c->what);
	}
}

TEST(confidence_needs_time_distance_and_idle)
{
	struct gpu_figures figures = figures_of(cases[0].values);

	EXPECT_EQ(CONFIDENCE_HIGH, gpu_verdict_of(&figures).confidence, "far above");
	figures.range_ns = 10 * NS_PER_SECOND;
	EXPECT_EQ(CONFIDENCE_LOW, gpu_verdict_of(&figures).confidence, "a short range");
	figures.range_ns = RANGE_S * NS_PER_SECOND;
	gpu_figures_set(&figures, GPU_FIGURE_IDLE, 0.22);
	EXPECT_EQ(CONFIDENCE_MEDIUM, gpu_verdict_of(&figures).confidence, "not far above");

	struct gpu_figures waits = { .in_use = true, .range_ns = RANGE_S * NS_PER_SECOND };
	gpu_figures_set(&waits, GPU_FIGURE_WAIT, 0.95);
	gpu_figures_set(&waits, GPU_FIGURE_IMPLICIT, 0);
	EXPECT_EQ(GPU_CLASS_BUSY, gpu_verdict_of(&waits).class, "waits only");
	EXPECT_EQ(CONFIDENCE_LOW, gpu_verdict_of(&waits).confidence, "busy with what is unknown");
}

TEST(threads_without_a_gpu_have_none)
{
	struct gpu_figures figures = figures_of(cases[0].values);

	figures.in_use = false;
	struct gpu_verdict verdict = gpu_verdict_of(&figures);
	EXPECT_EQ(GPU_CLASS_NO_GPU, verdict.class, "class");
	EXPECT_EQ(0, verdict.share_count, "shares");
	assert_false(gpu_class_is_bottleneck(verdict.class));
	assert_false(gpu_class_is_bottleneck(GPU_CLASS_NO_DEMAND));
	assert_true(gpu_class_is_bottleneck(GPU_CLASS_AMBIGUOUS));
}

TEST(classes_and_figures_have_texts)
{
	for (int i = 0; i < GPU_CLASS_COUNT; i++) {
		assert_non_null(gpu_class_name((enum gpu_class)i));
		assert_non_null(gpu_class_title((enum gpu_class)i));
		EXPECT_EQ(i != GPU_CLASS_NO_GPU, gpu_class_advice((enum gpu_class)i)[0] != NULL,
			  gpu_class_name((enum gpu_class)i));
	}
	for (int i = 0; i < GPU_FIGURE_COUNT; i++) {
		assert_non_null(gpu_figure_name((enum gpu_figure)i));
		assert_non_null(gpu_figure_title((enum gpu_figure)i));
		assert_non_null(gpu_figure_source((enum gpu_figure)i));
		assert_non_null(gpu_unit_name(gpu_figure_unit((enum gpu_figure)i)));
	}
}

RUN_TESTS(cmocka_unit_test(each_cause_has_one_verdict),
	  cmocka_unit_test(unknown_figures_are_listed_not_judged),
	  cmocka_unit_test(no_class_without_its_figures),
	  cmocka_unit_test(confidence_needs_time_distance_and_idle),
	  cmocka_unit_test(threads_without_a_gpu_have_none),
	  cmocka_unit_test(classes_and_figures_have_texts))
