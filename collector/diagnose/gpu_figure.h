// SPDX-License-Identifier: Apache-2.0
// Figures of a service that uses a GPU, by which its GPU verdict is judged. A figure that was not recorded is unknown, never
// zero.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/** Launching threads call the driver. A share is of all their time, unless another whole is named. */
enum gpu_figure {
	GPU_FIGURE_IDLE,          // share of the range in which the GPU was idle
	GPU_FIGURE_WAIT,          // share of waits for the GPU, busy-waits included
	GPU_FIGURE_OWN_CPU,       // share on a CPU outside of the driver
	GPU_FIGURE_INPUT,         // share of waits for input
	GPU_FIGURE_FEEDERS,       // cores used by other threads, with their waits for storage
	GPU_FIGURE_LAUNCH_CALLS,  // share of their CPU time in launches
	GPU_FIGURE_LAUNCH_RATE,   // GPU kernels and CUDA graphs per second and thread
	GPU_FIGURE_COPY_IN,       // share in copies to the GPU
	GPU_FIGURE_PCIE_RECEIVED, // bytes per second of the GPU that received most
	GPU_FIGURE_PAGEABLE, // share of the bytes copied to the GPU that came from pageable memory
	GPU_FIGURE_IMPLICIT, // share in implicit synchronization
	GPU_FIGURE_COPY_OUT_BYTES,  // mean size of copies from the GPU
	GPU_FIGURE_ALLOCATION,      // share in calls that allocate and free
	GPU_FIGURE_ALLOCATION_RATE, // such calls per second and thread
	GPU_FIGURE_MEMORY_GROWTH,   // of GPU memory in use, share per hour; 0 unless it never falls
	GPU_FIGURE_LOCK,            // share
	GPU_FIGURE_GIL,             // share
	GPU_FIGURE_COLLECTIVE,      // share in waits for other ranks
	GPU_FIGURE_THROTTLED,       // share of the range, for other reasons than the power cap
	GPU_FIGURE_POWER_CAPPED,    // share of the range; what a GPU at full load does
	GPU_FIGURE_OTHERS,          // share of the GPU used by other processes
	GPU_FIGURE_SM_ACTIVE,       // shares of the range
	GPU_FIGURE_TENSOR_ACTIVE,
	GPU_FIGURE_FP_ACTIVE, // the busiest of the floating point pipes
	GPU_FIGURE_DRAM_ACTIVE,
	GPU_FIGURE_SKEW, // share of the range in which others of its node waited for the latest rank
	GPU_FIGURE_LAUNCH_COST,   // mean CPU time per launch
	GPU_FIGURE_LAUNCH_REPEAT, // launches per second and thread by the stack with most of them
	GPU_FIGURE_PCIE_USE,      // received over PCIe, share of the link's capacity
	GPU_FIGURE_COPY_IN_BYTES, // mean size of copies to the GPU
	GPU_FIGURE_READ_RATE,     // copies from the GPU per second and thread
	GPU_FIGURE_READ_WAIT,     // implicit synchronization per copy from the GPU
	GPU_FIGURE_COUNT,
};

enum gpu_unit {
	GPU_UNIT_SHARE,
	GPU_UNIT_CORES,
	GPU_UNIT_PER_SECOND,
	GPU_UNIT_BYTES_PER_SECOND,
	GPU_UNIT_BYTES,
	GPU_UNIT_MICROSECONDS,
};

_Static_assert(GPU_FIGURE_COUNT <= 32, "a bit each");

struct gpu_figures {
	bool in_use; // the selected threads use a GPU
	uint64_t range_ns;
	uint32_t known; // bits of enum gpu_figure
	double values[GPU_FIGURE_COUNT];
};

void gpu_figures_set(struct gpu_figures *figures, enum gpu_figure figure, double value);
bool gpu_figures_know(const struct gpu_figures *figures, enum gpu_figure figure);

/** "idle": for machines. */
const char *gpu_figure_name(enum gpu_figure figure);
/** "the GPU had nothing to do": for people, a part of a sentence. */
const char *gpu_figure_title(enum gpu_figure figure);
/** Who would have to record it: "the driver's management library". */
const char *gpu_figure_source(enum gpu_figure figure);
enum gpu_unit gpu_figure_unit(enum gpu_figure figure);
const char *gpu_unit_name(enum gpu_unit unit);
