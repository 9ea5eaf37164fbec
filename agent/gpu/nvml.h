// SPDX-License-Identifier: Apache-2.0
// NVML, the NVIDIA Management Library, loaded if present: utilization of each GPU, MIG instance and process. Declarations
// follow the library's documented ABI (NVML API reference, r535 and newer). A figure that a driver does not have is unknown,
// not an error. One thread; calls may block for as long as the driver does.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct nvml;

enum {
	NVML_GPUS_MAX = 64,       // of one machine; 16 are the most that are sold in one
	NVML_PROCESSES_MAX = 256, // of one GPU
	NVML_TEXT_BYTES = 96,     // NVML_DEVICE_NAME_V2_BUFFER_SIZE, and any UUID
	NVML_INSTANCES_MAX = 8,   // of one GPU under MIG; hardware has at most seven
};

/** No MIG instance; the library has the same number for it. */
#define NVML_NO_INSTANCE UINT32_MAX

/** A figure of one reading. Its unit is in its name. */
enum nvml_figure {
	NVML_BUSY_PERCENT,        // of the time some GPU kernel was resident, however small
	NVML_MEMORY_BUSY_PERCENT, // of the time its memory was read or written
	NVML_MEMORY_USED_BYTES,
	NVML_POWER_MILLIWATTS,
	NVML_TEMPERATURE_CELSIUS,
	NVML_SM_CLOCK_HERTZ,
	NVML_MEMORY_CLOCK_HERTZ,
	NVML_PCIE_SENT_BYTES, // per second
	NVML_PCIE_RECEIVED_BYTES,
	NVML_PCIE_LINK_BYTES, // per second and direction: capacity at the current generation and width
	// GPU performance monitoring (GPM), Hopper and newer: means since the last reading.
	NVML_SM_ACTIVE_PERCENT,
	NVML_SM_OCCUPANCY_PERCENT,
	NVML_TENSOR_ACTIVE_PERCENT,
	NVML_DRAM_ACTIVE_PERCENT,
	NVML_FP64_ACTIVE_PERCENT,
	NVML_FP32_ACTIVE_PERCENT,
	NVML_FP16_ACTIVE_PERCENT,
	NVML_FIGURE_COUNT,
};

/** Why clocks are throttled: bits of nvmlDeviceGetCurrentClocksEventReasons(). */
enum nvml_throttle {
	NVML_THROTTLE_POWER_CAP = 0x4,
	NVML_THROTTLE_HARDWARE = 0x8,
	NVML_THROTTLE_THERMAL = 0x20,
	NVML_THROTTLE_HARDWARE_THERMAL = 0x40,
	NVML_THROTTLE_POWER_BRAKE = 0x80,
};

struct nvml_reading {
	uint32_t known; // bits of enum nvml_figure
	uint64_t figures[NVML_FIGURE_COUNT];
	bool throttle_known;
	uint64_t throttle; // enum nvml_throttle, and bits of other reasons
};

/** A process on a GPU or on a MIG instance, by its pid in the host's namespace. */
struct nvml_process {
	uint32_t pid;
	uint32_t instance; // or NVML_NO_INSTANCE
	bool memory_known, busy_known;
	uint64_t memory_bytes;
	uint32_t busy_percent; // of the multiprocessors' time
};

/**
 * Load @library (NULL: libnvidia-ml.so.1 from the loader's path) and initialize it. Returns 0; -ENOENT without the library
 * or its driver, as on any machine without a GPU; -ENOSYS if a required function is missing; another negative errno.
 */
int nvml_open(const char *library, struct nvml **ret_nvml, struct error *err);
void nvml_close(struct nvml *nvml);

uint32_t nvml_gpu_count(const struct nvml *nvml);
/** Did some GPU fail to open? */
bool nvml_has_failed_gpus(const struct nvml *nvml);
/** "GPU-2f9c...", stable over restarts; valid until nvml_close(). */
const char *nvml_gpu_uuid(const struct nvml *nvml, uint32_t gpu);
/** NVML's index of the GPU, below NVML_GPUS_MAX; unlike @gpu it counts those that failed to open. */
uint32_t nvml_gpu_index(const struct nvml *nvml, uint32_t gpu);
/** "NVIDIA H200"; valid until nvml_close(). */
const char *nvml_gpu_model(const struct nvml *nvml, uint32_t gpu);

/**
 * Read the figures of @gpu. Returns 0; -ENODEV if the GPU fell off the bus or needs a reset; -EIO if all figures failed
 * otherwise. Memory and GPM of a GPU with MIG instances are those of its instances, and not read here.
 */
int nvml_read_gpu(struct nvml *nvml, uint32_t gpu, struct nvml_reading *ret_reading);

/** A part of a GPU under MIG. */
struct nvml_instance {
	uint32_t id; // among the GPU's
	char uuid[NVML_TEXT_BYTES],
		model[NVML_TEXT_BYTES]; // "MIG-1b2c...", "NVIDIA H200 MIG 1g.18gb"
};

/** As of the last reading of @gpu: instances come and go while a machine runs. */
uint32_t nvml_instance_count(const struct nvml *nvml, uint32_t gpu);
/** One of them; valid until @gpu is read again. */
const struct nvml_instance *nvml_instance(const struct nvml *nvml, uint32_t gpu, uint32_t instance);
/** Read an instance's memory and, on Hopper and newer, GPM. Returns as nvml_read_gpu(). */
int nvml_read_instance(struct nvml *nvml, uint32_t gpu, uint32_t instance,
		       struct nvml_reading *ret_reading);

/** Read the processes of @gpu, at most NVML_PROCESSES_MAX; under MIG their memory only. Returns 0, -ENODEV or -EIO. */
int nvml_read_processes(struct nvml *nvml, uint32_t gpu,
			struct nvml_process ret_processes[NVML_PROCESSES_MAX], uint32_t *ret_count);

/** The profile type of a figure: "gpu:busy:percent:gauge:second". */
const char *nvml_figure_type(enum nvml_figure figure);
