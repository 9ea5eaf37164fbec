// SPDX-License-Identifier: Apache-2.0
// The NVIDIA Management Library, loaded when it is there: what each GPU of this machine does, and
// for which processes. Declarations follow the library's documented ABI (NVML API reference, r535
// and newer); what a driver lacks is unknown, not an error. One thread; calls may block for as long
// as a driver does.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct nvml;

enum {
	NVML_GPUS_MAX = 64,       // of one machine; 16 are the most that are sold in one
	NVML_PROCESSES_MAX = 256, // with work on one GPU; more are counted as one too many
	NVML_TEXT_BYTES = 96,     // NVML_DEVICE_NAME_V2_BUFFER_SIZE, and room for any UUID
	NVML_INSTANCES_MAX = 8,   // of one GPU under MIG; seven are the most there are
};

/** The instance of what is no part of a GPU; the library's number for it, too. */
#define NVML_NO_INSTANCE UINT32_MAX

/** What is read of a GPU each time. A figure's unit is in its name. */
enum nvml_figure {
	NVML_BUSY_PERCENT,        // of the time some kernel was resident, however small
	NVML_MEMORY_BUSY_PERCENT, // of the time its memory was read or written
	NVML_MEMORY_USED_BYTES,
	NVML_POWER_MILLIWATTS,
	NVML_TEMPERATURE_CELSIUS,
	NVML_SM_CLOCK_HERTZ,
	NVML_MEMORY_CLOCK_HERTZ,
	NVML_PCIE_SENT_BYTES, // per second
	NVML_PCIE_RECEIVED_BYTES,
	NVML_PCIE_LINK_BYTES, // per second and direction, what the link carries as it is trained now
	// GPU performance monitoring, Hopper and newer: the mean since the reading before.
	NVML_SM_ACTIVE_PERCENT,
	NVML_SM_OCCUPANCY_PERCENT,
	NVML_TENSOR_ACTIVE_PERCENT,
	NVML_DRAM_ACTIVE_PERCENT,
	NVML_FP64_ACTIVE_PERCENT,
	NVML_FP32_ACTIVE_PERCENT,
	NVML_FP16_ACTIVE_PERCENT,
	NVML_FIGURE_COUNT,
};

/** Why clocks are lower than they could be: bits, as nvmlDeviceGetCurrentClocksEventReasons() has them. */
enum nvml_throttle {
	NVML_THROTTLE_POWER_CAP = 0x4,
	NVML_THROTTLE_HARDWARE = 0x8,
	NVML_THROTTLE_THERMAL = 0x20,
	NVML_THROTTLE_HARDWARE_THERMAL = 0x40,
	NVML_THROTTLE_POWER_BRAKE = 0x80,
};

struct nvml_reading {
	uint32_t known; // a bit for each figure that was read
	uint64_t figures[NVML_FIGURE_COUNT];
	bool throttle_known;
	uint64_t throttle; // enum nvml_throttle, and bits that slow nothing down
};

/** One process on one GPU, by its pid in the host's namespace; under MIG on one instance of it. */
struct nvml_process {
	uint32_t pid;
	uint32_t instance; // or NVML_NO_INSTANCE
	bool memory_known, busy_known;
	uint64_t memory_bytes;
	uint32_t busy_percent; // of the multiprocessors' time
};

/**
 * Load @library (NULL: libnvidia-ml.so.1, as the loader finds it) and start it. Returns 0; -ENOENT
 * if there is no such library or no driver behind it, which is no failure on a machine without a
 * GPU; -ENOSYS if it lacks what every version has; otherwise a negative errno.
 */
int nvml_open(const char *library, struct nvml **ret_nvml, struct error *err);
void nvml_close(struct nvml *nvml);

uint32_t nvml_gpu_count(const struct nvml *nvml);
/** Are there GPUs that could not be had? */
bool nvml_has_failed_gpus(const struct nvml *nvml);
/** "GPU-2f9c...", stable over restarts; valid until nvml_close(). */
const char *nvml_gpu_uuid(const struct nvml *nvml, uint32_t gpu);
/** Its number among the machine's, below NVML_GPUS_MAX; also where one before it cannot be had. */
uint32_t nvml_gpu_index(const struct nvml *nvml, uint32_t gpu);
/** "NVIDIA H200"; valid until nvml_close(). */
const char *nvml_gpu_model(const struct nvml *nvml, uint32_t gpu);

/**
 * What @gpu does now. Returns 0; -ENODEV if the GPU has fallen off the bus or needs a reset, and
 * nothing is known then; -EIO for another failure of all figures. A GPU with instances under MIG leaves to
 * them what they tell: memory, and the means of performance monitoring.
 */
int nvml_read_gpu(struct nvml *nvml, uint32_t gpu, struct nvml_reading *ret_reading);

/** A part of a GPU under MIG. */
struct nvml_instance {
	uint32_t id; // among the GPU's
	char uuid[NVML_TEXT_BYTES],
		model[NVML_TEXT_BYTES]; // "MIG-1b2c...", "NVIDIA H200 MIG 1g.18gb"
};

/** How many there were when @gpu was read the last time: they come and go while a machine runs. */
uint32_t nvml_instance_count(const struct nvml *nvml, uint32_t gpu);
/** One of them; valid until @gpu is read again. */
const struct nvml_instance *nvml_instance(const struct nvml *nvml, uint32_t gpu, uint32_t instance);
/** What it does now: its memory, and on Hopper and newer performance monitoring. As nvml_read_gpu(). */
int nvml_read_instance(struct nvml *nvml, uint32_t gpu, uint32_t instance,
		       struct nvml_reading *ret_reading);

/**
 * The processes with work on @gpu, at most NVML_PROCESSES_MAX of them; a GPU in MIG mode tells their
 * memory only. Returns 0, -ENODEV as above or -EIO.
 */
int nvml_read_processes(struct nvml *nvml, uint32_t gpu,
			struct nvml_process ret_processes[NVML_PROCESSES_MAX], uint32_t *ret_count);

/** "gpu:busy:percent:gauge:second" ... : the profile type that a figure is kept as. */
const char *nvml_figure_type(enum nvml_figure figure);
