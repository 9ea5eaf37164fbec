// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/gpu_figure.h"

#define CALLS   "GPU calls by the agent"
#define SAMPLES "CPU and off-CPU samples of launching threads"
#define WALL    "the wall clock by the agent"
#define NVML    "GPU telemetry (NVML)"
#define GPM     "GPU telemetry (GPM, Hopper and newer)"

static const struct {
	const char *name, *title, *source;
	enum gpu_unit unit;
} figures_known[GPU_FIGURE_COUNT] = {
	[GPU_FIGURE_IDLE] = { "idle", "GPU idle", NVML ", or GPU idle time by the agent",
			      GPU_UNIT_SHARE },
	[GPU_FIGURE_WAIT] = { "wait", "of launching threads' time: waiting for the GPU", SAMPLES,
			      GPU_UNIT_SHARE },
	[GPU_FIGURE_OWN_CPU] = { "own_cpu",
				 "of launching threads' time: on a CPU outside of the driver", WALL,
				 GPU_UNIT_SHARE },
	[GPU_FIGURE_INPUT] = { "input", "of launching threads' time: waiting for input", WALL,
			       GPU_UNIT_SHARE },
	[GPU_FIGURE_FEEDERS] = { "feeders", "used by the service's other threads", WALL,
				 GPU_UNIT_CORES },
	[GPU_FIGURE_LAUNCH_CALLS] = { "launch_calls", "of launching threads' CPU time: launching",
				      SAMPLES, GPU_UNIT_SHARE },
	[GPU_FIGURE_LAUNCH_RATE] = { "launch_rate", "launches per launching thread", CALLS,
				     GPU_UNIT_PER_SECOND },
	[GPU_FIGURE_COPY_IN] = { "copy_in", "of launching threads' time: copying to the GPU",
				 SAMPLES, GPU_UNIT_SHARE },
	[GPU_FIGURE_PCIE_RECEIVED] = { "pcie_received", "received by a GPU over PCIe", NVML,
				       GPU_UNIT_BYTES_PER_SECOND },
	[GPU_FIGURE_PAGEABLE] = { "pageable",
				  "of the bytes copied to the GPU: from pageable memory", CALLS,
				  GPU_UNIT_SHARE },
	[GPU_FIGURE_IMPLICIT] = { "implicit",
				  "of launching threads' time: implicit synchronization", SAMPLES,
				  GPU_UNIT_SHARE },
	[GPU_FIGURE_COPY_OUT_BYTES] = { "copy_out_bytes", "mean size of copies from the GPU", CALLS,
					GPU_UNIT_BYTES },
	[GPU_FIGURE_ALLOCATION] = { "allocation",
				    "of launching threads' time: allocating and freeing", SAMPLES,
				    GPU_UNIT_SHARE },
	[GPU_FIGURE_ALLOCATION_RATE] = { "allocation_rate", "calls that allocate or free", CALLS,
					 GPU_UNIT_PER_SECOND },
	[GPU_FIGURE_MEMORY_GROWTH] = { "memory_growth", "growth of GPU memory per hour", NVML,
				       GPU_UNIT_SHARE },
	[GPU_FIGURE_LOCK] = { "lock", "of launching threads' time: waiting for locks", WALL,
			      GPU_UNIT_SHARE },
	[GPU_FIGURE_GIL] = { "gil", "of launching threads' time: waiting for the GIL", WALL,
			     GPU_UNIT_SHARE },
	[GPU_FIGURE_COLLECTIVE] = { "collective",
				    "of launching threads' time: waiting for other ranks", SAMPLES,
				    GPU_UNIT_SHARE },
	[GPU_FIGURE_THROTTLED] = { "throttled", "GPU throttled, power cap aside", NVML,
				   GPU_UNIT_SHARE },
	[GPU_FIGURE_POWER_CAPPED] = { "power_capped", "GPU at its power cap", NVML,
				      GPU_UNIT_SHARE },
	[GPU_FIGURE_OTHERS] = { "others", "of the GPU: used by other processes", NVML,
				GPU_UNIT_SHARE },
	[GPU_FIGURE_SM_ACTIVE] = { "sm_active", "SMs active", GPM, GPU_UNIT_SHARE },
	[GPU_FIGURE_TENSOR_ACTIVE] = { "tensor_active", "tensor cores active", GPM,
				       GPU_UNIT_SHARE },
	[GPU_FIGURE_FP_ACTIVE] = { "fp_active", "busiest floating-point pipe active", GPM,
				   GPU_UNIT_SHARE },
	[GPU_FIGURE_SKEW] = { "nccl_skew", "others waited for the latest rank", CALLS,
			      GPU_UNIT_SHARE },
	[GPU_FIGURE_LAUNCH_COST] = { "launch_cost", "CPU time per launch", CALLS,
				     GPU_UNIT_MICROSECONDS },
	[GPU_FIGURE_LAUNCH_REPEAT] = { "launch_repeat",
				       "launches by the busiest stack, per launching thread", CALLS,
				       GPU_UNIT_PER_SECOND },
	[GPU_FIGURE_PCIE_USE] = { "pcie_use", "of the PCIe link: received by a GPU", NVML,
				  GPU_UNIT_SHARE },
	[GPU_FIGURE_COPY_IN_BYTES] = { "copy_in_bytes", "mean size of copies to the GPU", CALLS,
				       GPU_UNIT_BYTES },
	[GPU_FIGURE_READ_RATE] = { "read_rate", "copies from the GPU per launching thread", CALLS,
				   GPU_UNIT_PER_SECOND },
	[GPU_FIGURE_READ_WAIT] = { "read_wait", "implicit synchronization per copy from the GPU",
				   CALLS, GPU_UNIT_MICROSECONDS },
	[GPU_FIGURE_DRAM_ACTIVE] = { "dram_active", "DRAM active", GPM, GPU_UNIT_SHARE },
};

void gpu_figures_set(struct gpu_figures *figures, enum gpu_figure figure, double value)
{
	figures->known |= 1U << figure;
	figures->values[figure] = value;
}

bool gpu_figures_know(const struct gpu_figures *figures, enum gpu_figure figure)
{
	return figures->known & 1U << figure;
}

const char *gpu_figure_name(enum gpu_figure figure)
{
	return figures_known[figure].name;
}

const char *gpu_figure_title(enum gpu_figure figure)
{
	return figures_known[figure].title;
}

const char *gpu_figure_source(enum gpu_figure figure)
{
	return figures_known[figure].source;
}

enum gpu_unit gpu_figure_unit(enum gpu_figure figure)
{
	return figures_known[figure].unit;
}

const char *gpu_unit_name(enum gpu_unit unit)
{
	static const char *const names[] = { "share",      "cores",
					     "per_second", "bytes_per_second",
					     "bytes",      "microseconds" };

	return names[unit];
}
