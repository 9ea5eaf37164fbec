// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/gpu_evidence.h"

#include "collector/diagnose/gpu_frame.h"

static const char *type_of(const struct gpu_diagnosis *diagnosis, const char *type)
{
	return gpu_type_find(&diagnosis->types, type);
}

// Waits for the GPU: counted ones if stored, else the larger kind of sampled ones; launches if these waited for the GPU's queue.
static struct gpu_evidence waits(const struct gpu_diagnosis *diagnosis, unsigned int with)
{
	const int64_t *sums = diagnosis->threads.launching;
	const char *stored = type_of(diagnosis, PROFILE_TYPE_GPU_WAIT);

	if (!with && diagnosis->queued_ns > sums[THREAD_SUM_WAIT])
		return (struct gpu_evidence){ .type = PROFILE_TYPE_CPU, .with = GPU_MARK_LAUNCH };
	if (stored && diagnosis->threads.has_counted)
		return (struct gpu_evidence){ .type = stored, .with = with };
	if (sums[THREAD_SUM_SPIN] >= sums[THREAD_SUM_BLOCKED])
		return (struct gpu_evidence){ .type = PROFILE_TYPE_GPU_SPIN, .with = with };
	return (struct gpu_evidence){ .type = PROFILE_TYPE_OFF_CPU,
				      .wait = wait_class_name(WAIT_CLASS_GPU),
				      .with = with };
}

// The type that counts calls, if it is stored; else samples of the CPU or waits, whichever took longer.
static struct gpu_evidence calls(const struct gpu_diagnosis *diagnosis, const char *prefix,
				 enum gpu_mark mark, int64_t cpu_ns, int64_t wait_ns)
{
	const char *stored = prefix ? type_of(diagnosis, prefix) : NULL;

	if (stored)
		return (struct gpu_evidence){ .type = stored };
	if (wait_ns > cpu_ns)
		return waits(diagnosis, mark);
	return (struct gpu_evidence){ .type = PROFILE_TYPE_CPU, .with = mark };
}

static struct gpu_evidence blocked(enum wait_class what)
{
	return (struct gpu_evidence){ .type = PROFILE_TYPE_OFF_CPU, .wait = wait_class_name(what) };
}

// What launching threads did while the GPU was idle, if stored; else all of @type.
static struct gpu_evidence while_idle(const struct gpu_diagnosis *diagnosis, const char *type,
				      unsigned int without)
{
	const char *stored = type_of(diagnosis, PROFILE_TYPE_GPU_IDLE);

	return (struct gpu_evidence){ .type = stored ? stored : type, .without = without };
}

// The late rank's stacks are the cause; the other ranks' waits are its effect.
static struct gpu_evidence late_or_waiting(const struct gpu_diagnosis *diagnosis)
{
	const char *stored = type_of(diagnosis, PROFILE_TYPE_NCCL_SKEW);

	if (stored && gpu_figures_know(&diagnosis->figures, GPU_FIGURE_SKEW) &&
	    diagnosis->figures.values[GPU_FIGURE_SKEW] > 0)
		return (struct gpu_evidence){ .type = stored };
	return waits(diagnosis, GPU_MARK_COLLECTIVE);
}

// Memory in use, so that freed memory is no growth. Any thread may allocate it.
static struct gpu_evidence growing(const struct gpu_diagnosis *diagnosis)
{
	const char *level = type_of(diagnosis, PROFILE_TYPE_GPU_MEMORY);

	return (struct gpu_evidence){ .type = level ? level
						    : type_of(diagnosis, PROFILE_TYPE_GPU_ALLOC),
				      .threads = GPU_EVIDENCE_ALL,
				      .growth = level != NULL };
}

static struct gpu_evidence first_of(const struct gpu_diagnosis *diagnosis, enum gpu_class class)
{
	const int64_t *sums = diagnosis->threads.launching;

	switch (class) {
	case GPU_CLASS_STARVED:
		return while_idle(diagnosis, PROFILE_TYPE_OFF_CPU, 0);
	case GPU_CLASS_CPU_BOUND:
		return while_idle(diagnosis, PROFILE_TYPE_CPU, GPU_MARK_DRIVER);
	case GPU_CLASS_LAUNCH_BOUND:
		return calls(diagnosis, PROFILE_TYPE_GPU_LAUNCH, GPU_MARK_LAUNCH, 1, 0);
	case GPU_CLASS_COPY_BOUND:
		return calls(diagnosis, PROFILE_TYPE_GPU_COPY, GPU_MARK_COPY_IN,
			     sums[THREAD_SUM_CPU_COPY_IN], sums[THREAD_SUM_WAIT_COPY_IN]);
	case GPU_CLASS_IMPLICIT_SYNC:
		return waits(diagnosis, GPU_MARK_IMPLICIT);
	case GPU_CLASS_COMPUTE_BOUND:
	case GPU_CLASS_MEMORY_BOUND:
	case GPU_CLASS_BUSY:
	case GPU_CLASS_CONTENTION:
		return waits(diagnosis, 0);
	case GPU_CLASS_ALLOCATOR:
		return calls(diagnosis, NULL, GPU_MARK_ALLOCATION, sums[THREAD_SUM_CPU_ALLOCATION],
			     sums[THREAD_SUM_WAIT_ALLOCATION]);
	case GPU_CLASS_MEMORY_GROWTH:
		return growing(diagnosis);
	case GPU_CLASS_LOCK:
		return blocked(WAIT_CLASS_LOCK);
	case GPU_CLASS_GIL:
		return blocked(WAIT_CLASS_GIL);
	case GPU_CLASS_COLLECTIVE:
		return late_or_waiting(diagnosis);
	default:
		return (struct gpu_evidence){ 0 };
	}
}

// The wakers, where agents record them, and what the other threads run meanwhile.
static uint32_t add_others(const struct gpu_diagnosis *diagnosis, const char *wait,
			   struct gpu_evidence *evidence)
{
	const char *stored = type_of(diagnosis, PROFILE_TYPE_OFF_WAKE);
	uint32_t count = 0;

	if (stored)
		evidence[count++] = (struct gpu_evidence){ .what = "Waker stacks",
							   .type = stored,
							   .wait = wait };
	evidence[count++] = (struct gpu_evidence){
		.what = "CPU time of the service's other threads",
		.type = PROFILE_TYPE_CPU,
		.threads = GPU_EVIDENCE_OTHERS,
	};
	return count;
}

uint32_t gpu_evidence_find(const struct gpu_diagnosis *diagnosis, enum gpu_class class,
			   struct gpu_evidence ret_evidence[GPU_EVIDENCE_MAX])
{
	ret_evidence[0] = first_of(diagnosis, class);
	if (!ret_evidence[0].type)
		return 0;
	switch (class) {
	case GPU_CLASS_STARVED:
		return 1 + add_others(diagnosis, NULL, &ret_evidence[1]);
	case GPU_CLASS_LOCK:
	case GPU_CLASS_GIL:
		return 1 + add_others(diagnosis, ret_evidence[0].wait, &ret_evidence[1]);
	default:
		return 1;
	}
}
