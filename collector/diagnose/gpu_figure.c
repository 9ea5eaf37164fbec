// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/gpu_figure.h"

#define CALLS   "the agent's records of GPU driver calls"
#define SAMPLES "samples of threads that call the driver"
#define WALL    "the agent's wall clock"
#define NVML    "the driver's management library"
#define GPM     "the management library's performance monitoring (Hopper and newer)"

static const struct {
	const char *name, *title, *source;
	enum gpu_unit unit;
} figures_known[GPU_FIGURE_COUNT] = {
	[GPU_FIGURE_IDLE] = { "idle", "the GPU had nothing to do",
			      NVML ", or the agent's records of GPU idle time", GPU_UNIT_SHARE },
	[GPU_FIGURE_WAIT] = { "wait", "launching threads waited for the GPU", SAMPLES,
			      GPU_UNIT_SHARE },
	[GPU_FIGURE_OWN_CPU] = { "own_cpu", "launching threads ran code outside the driver", WALL,
				 GPU_UNIT_SHARE },
	[GPU_FIGURE_INPUT] = { "input", "launching threads waited for something to do", WALL,
			       GPU_UNIT_SHARE },
	[GPU_FIGURE_FEEDERS] = { "feeders", "cores that the service's other threads used", WALL,
				 GPU_UNIT_CORES },
	[GPU_FIGURE_LAUNCH_CALLS] = { "launch_calls", "of their CPU time, launching took", SAMPLES,
				      GPU_UNIT_SHARE },
	[GPU_FIGURE_LAUNCH_RATE] = { "launch_rate", "launches, of each thread", CALLS,
				     GPU_UNIT_PER_SECOND },
	[GPU_FIGURE_COPY_IN] = { "copy_in", "launching threads copied to the GPU", SAMPLES,
				 GPU_UNIT_SHARE },
	[GPU_FIGURE_PCIE_RECEIVED] = { "pcie_received", "a GPU received over PCIe", NVML,
				       GPU_UNIT_BYTES_PER_SECOND },
	[GPU_FIGURE_PAGEABLE] = { "pageable",
				  "of the bytes copied to the GPU came from pageable memory", CALLS,
				  GPU_UNIT_SHARE },
	[GPU_FIGURE_IMPLICIT] = { "implicit",
				  "launching threads waited where no code asked to wait", SAMPLES,
				  GPU_UNIT_SHARE },
	[GPU_FIGURE_COPY_OUT_BYTES] = { "copy_out_bytes", "a copy from the GPU had", CALLS,
					GPU_UNIT_BYTES },
	[GPU_FIGURE_ALLOCATION] = { "allocation", "launching threads allocated and freed", SAMPLES,
				    GPU_UNIT_SHARE },
	[GPU_FIGURE_ALLOCATION_RATE] = { "allocation_rate", "calls that allocate or free", CALLS,
					 GPU_UNIT_PER_SECOND },
	[GPU_FIGURE_MEMORY_GROWTH] = { "memory_growth", "the GPU's memory grew by, an hour", NVML,
				       GPU_UNIT_SHARE },
	[GPU_FIGURE_LOCK] = { "lock", "launching threads waited for locks", WALL, GPU_UNIT_SHARE },
	[GPU_FIGURE_GIL] = { "gil", "launching threads waited for Python's lock", WALL,
			     GPU_UNIT_SHARE },
	[GPU_FIGURE_COLLECTIVE] = { "collective", "launching threads waited for other ranks",
				    SAMPLES, GPU_UNIT_SHARE },
	[GPU_FIGURE_THROTTLED] = { "throttled", "a GPU's clocks were held down", NVML,
				   GPU_UNIT_SHARE },
	[GPU_FIGURE_POWER_CAPPED] = { "power_capped", "a GPU was at its power cap", NVML,
				      GPU_UNIT_SHARE },
	[GPU_FIGURE_OTHERS] = { "others", "of the GPU other processes had", NVML, GPU_UNIT_SHARE },
	[GPU_FIGURE_SM_ACTIVE] = { "sm_active", "multiprocessors had work", GPM, GPU_UNIT_SHARE },
	[GPU_FIGURE_TENSOR_ACTIVE] = { "tensor_active", "tensor cores worked", GPM,
				       GPU_UNIT_SHARE },
	[GPU_FIGURE_FP_ACTIVE] = { "fp_active", "the busiest floating point pipe worked", GPM,
				   GPU_UNIT_SHARE },
	[GPU_FIGURE_SKEW] = { "nccl_skew", "the latest rank had others wait", CALLS,
			      GPU_UNIT_SHARE },
	[GPU_FIGURE_LAUNCH_COST] = { "launch_cost", "of CPU time, for each launch", CALLS,
				     GPU_UNIT_MICROSECONDS },
	[GPU_FIGURE_LAUNCH_REPEAT] = { "launch_repeat", "launches, by the stack that launches most",
				       CALLS, GPU_UNIT_PER_SECOND },
	[GPU_FIGURE_PCIE_USE] = { "pcie_use", "of what its PCIe link carries a GPU received", NVML,
				  GPU_UNIT_SHARE },
	[GPU_FIGURE_COPY_IN_BYTES] = { "copy_in_bytes", "a copy to the GPU had", CALLS,
				       GPU_UNIT_BYTES },
	[GPU_FIGURE_READ_RATE] = { "read_rate", "copies from the GPU, by each thread", CALLS,
				   GPU_UNIT_PER_SECOND },
	[GPU_FIGURE_READ_WAIT] = { "read_wait", "waits where no code asked to, for each such copy",
				   CALLS, GPU_UNIT_MICROSECONDS },
	[GPU_FIGURE_DRAM_ACTIVE] = { "dram_active", "the GPU's memory transferred", GPM,
				     GPU_UNIT_SHARE },
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
