// SPDX-License-Identifier: Apache-2.0
// Figures of a service that uses a GPU: what a verdict is judged by. A figure that was not recorded is
// unknown, never zero.
#pragma once

#include <stdbool.h>
#include <stdint.h>

/**
 * What is measured. Launching threads are those that call the driver. "Share" is of all time of these
 * threads, unless another whole is named.
 */
enum gpu_figure {
	GPU_FIGURE_IDLE,          // share of the range in which the GPU had nothing to do
	GPU_FIGURE_WAIT,          // share that they waited for the GPU, in loops or asleep
	GPU_FIGURE_OWN_CPU,       // share on a CPU outside the driver
	GPU_FIGURE_INPUT,         // share that they waited for something to do
	GPU_FIGURE_FEEDERS,       // cores that other threads used, or would have but for storage
	GPU_FIGURE_LAUNCH_CALLS,  // share of their time on a CPU that launching took
	GPU_FIGURE_LAUNCH_RATE,   // kernels and graphs a second, of each thread
	GPU_FIGURE_COPY_IN,       // share in copies to the GPU
	GPU_FIGURE_PCIE_RECEIVED, // bytes a second, of the GPU that received most
	GPU_FIGURE_PAGEABLE, // share of bytes copied to the GPU out of memory that is not pinned
	GPU_FIGURE_IMPLICIT, // share in waits that no code asked for by name
	GPU_FIGURE_COPY_OUT_BYTES,  // mean size of copies from the GPU
	GPU_FIGURE_ALLOCATION,      // share in calls that allocate and free
	GPU_FIGURE_ALLOCATION_RATE, // such calls a second
	GPU_FIGURE_MEMORY_GROWTH, // of the GPU's memory in use, part an hour; 0 unless it only grows
	GPU_FIGURE_LOCK,          // share
	GPU_FIGURE_GIL,           // share
	GPU_FIGURE_COLLECTIVE,    // share in waits for other ranks
	GPU_FIGURE_THROTTLED,     // share of the range, for other reasons than the power cap
	GPU_FIGURE_POWER_CAPPED,  // share of the range; what a GPU at full load does
	GPU_FIGURE_OTHERS,        // share of the GPU that other processes had
	GPU_FIGURE_SM_ACTIVE,     // shares of the range
	GPU_FIGURE_TENSOR_ACTIVE,
	GPU_FIGURE_FP_ACTIVE, // the busiest of the floating point pipes
	GPU_FIGURE_DRAM_ACTIVE,
	GPU_FIGURE_SKEW, // share of the range in which the latest rank had others of its node wait
	GPU_FIGURE_LAUNCH_COST,   // CPU time of a launch, mean
	GPU_FIGURE_LAUNCH_REPEAT, // launches a second by the stack that launches most, of each thread
	GPU_FIGURE_PCIE_USE,      // received over PCIe, share of what the link carries
	GPU_FIGURE_COPY_IN_BYTES, // mean size of copies to the GPU
	GPU_FIGURE_READ_RATE,     // copies from the GPU a second, of each thread
	GPU_FIGURE_READ_WAIT,     // time in waits that no code asked for by name, of each such copy
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
