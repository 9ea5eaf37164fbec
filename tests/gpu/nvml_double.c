// SPDX-License-Identifier: Apache-2.0
// Test equipment: a double of libnvidia-ml.so.1, without a driver. See nvml_double.h.
#include "tests/gpu/nvml_double.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum {
	SUCCESS = 0,
	UNINITIALIZED = 1,
	INVALID_ARGUMENT = 2,
	NOT_SUPPORTED = 3,
	NOT_FOUND = 6,
	INSUFFICIENT_SIZE = 7,
	DRIVER_NOT_LOADED = 9,
	GPU_IS_LOST = 15,
	ARGUMENT_VERSION_MISMATCH = 25,
};

static struct nvml_double state;
/* Handles by whether the number of resets was even at nvmlInit_v2(). */
static struct device {
	unsigned int index;
} devices[2][2] = { { { 0 }, { 1 } }, { { 0 }, { 1 } } };
static unsigned int begun_at; // resets at nvmlInit_v2()
/* A MIG instance's handle is its place's: after repartitioning it is another instance's. */
static struct device places[2][NVML_DOUBLE_PLACES];

/* From the environment: the number of GPUs, and that they are busy. */
__attribute__((constructor)) static void read_environment(void)
{
	const char *count = getenv("NVML_DOUBLE_GPUS");

	if (!count)
		return;
	state = (struct nvml_double){ .gpu_count = (unsigned int)atoi(count),
				      .busy = 64,
				      .used_bytes = 5ULL << 30,
				      .power_mw = 300000,
				      .sm_active = 40,
				      .tensor_active = 101 };
	if (state.gpu_count > sizeof(devices[0]) / sizeof(devices[0][0]))
		state.gpu_count = sizeof(devices[0]) / sizeof(devices[0][0]);
}

EXPORT struct nvml_double *nvml_double(void)
{
	return &state;
}

// The instance of a handle; NULL: none has it now.
static const struct nvml_double_instance *instance_of(const struct device *device)
{
	if (device < places[0] || device >= places[0] + 2 * NVML_DOUBLE_PLACES || !state.is_mig)
		return NULL;
	const struct nvml_double_instance *instance =
		&state.instances[(device - places[0]) % NVML_DOUBLE_PLACES];
	return instance->is_there ? instance : NULL;
}

// Checks of each call on a GPU.
static int check(const struct device *device, const void *result)
{
	if (state.inits == state.shutdowns)
		return UNINITIALIZED;
	if (device < devices[begun_at % 2] || device >= devices[begun_at % 2] + state.gpu_count ||
	    !result)
		return INVALID_ARGUMENT;
	return state.is_lost || begun_at != state.resets ? GPU_IS_LOST : SUCCESS;
}

// Checks of each call on a GPU or instance.
static int check_part(const struct device *device, const void *result)
{
	if (!instance_of(device))
		return check(device, result);
	return state.is_lost || begun_at != state.resets ? GPU_IS_LOST : SUCCESS;
}

EXPORT int nvmlInit_v2(void)
{
	if (state.no_driver)
		return DRIVER_NOT_LOADED;
	if (state.inits++ == state.shutdowns)
		begun_at = state.resets;
	return SUCCESS;
}

EXPORT int nvmlShutdown(void)
{
	if (state.inits == state.shutdowns)
		return UNINITIALIZED;
	state.shutdowns++;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetCount_v2(unsigned int *count)
{
	if (state.inits == state.shutdowns)
		return UNINITIALIZED;
	*count = state.gpu_count;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned int index, struct device **device)
{
	if (state.inits == state.shutdowns)
		return UNINITIALIZED;
	if (index >= state.gpu_count || !device)
		return INVALID_ARGUMENT;
	if (state.is_hidden && index == 0)
		return GPU_IS_LOST;
	*device = &devices[begun_at % 2][index];
	return begun_at == state.resets ? SUCCESS : GPU_IS_LOST;
}

static int write_text(char *text, unsigned int size, const char *what, unsigned int index)
{
	int needed = snprintf(NULL, 0, "%s%u", what, index);

	if ((unsigned int)needed >= size)
		return INSUFFICIENT_SIZE;
	snprintf(text, size, "%s%u", what, index);
	return SUCCESS;
}

EXPORT int nvmlDeviceGetUUID(struct device *device, char *uuid, unsigned int size)
{
	const struct nvml_double_instance *instance = instance_of(device);
	int rc = check_part(device, uuid);

	if (!rc && instance)
		return write_text(uuid, size, "MIG-00000000-0000-0000-0000-00000000000",
				  instance->uuid);
	return rc ? rc
		  : write_text(uuid, size, "GPU-00000000-0000-0000-0000-00000000000",
			       device->index);
}

EXPORT int nvmlDeviceGetName(struct device *device, char *name, unsigned int size)
{
	const struct nvml_double_instance *instance = instance_of(device);
	int rc = check_part(device, name);

	if (!rc && instance)
		return write_text(name, size, "Double of a GPU MIG 1g.", instance->uuid);
	return rc ? rc : write_text(name, size, "Double of a GPU ", device->index);
}

struct utilization {
	unsigned int gpu, memory;
};

EXPORT int nvmlDeviceGetUtilizationRates(struct device *device, struct utilization *use)
{
	int rc = check_part(device, use);

	if (rc)
		return rc;
	if (state.is_mig)
		return NOT_SUPPORTED;
	*use = (struct utilization){ state.busy, state.memory_busy };
	return SUCCESS;
}

struct memory_v2 {
	unsigned int version;
	unsigned long long total, reserved, free, used;
};

EXPORT int nvmlDeviceGetMemoryInfo_v2(struct device *device, struct memory_v2 *memory)
{
	const struct nvml_double_instance *instance = instance_of(device);
	int rc = check_part(device, memory);

	if (rc)
		return rc;
	if (memory->version != (sizeof(*memory) | 2U << 24))
		return ARGUMENT_VERSION_MISMATCH;
	memory->used = instance ? instance->used_bytes : state.used_bytes;
	return SUCCESS;
}

EXPORT int nvmlDeviceGetMigMode(struct device *device, unsigned int *current, unsigned int *pending)
{
	int rc = check(device, current);

	if (!rc)
		*current = *pending = state.is_mig;
	return rc;
}

EXPORT int nvmlDeviceGetMaxMigDeviceCount(struct device *device, unsigned int *count)
{
	int rc = check(device, count);

	if (!rc)
		*count = NVML_DOUBLE_PLACES;
	return rc;
}

EXPORT int nvmlDeviceGetMigDeviceHandleByIndex(struct device *device, unsigned int index,
					       struct device **instance)
{
	int rc = check(device, instance);

	if (rc)
		return rc;
	if (index >= NVML_DOUBLE_PLACES)
		return INVALID_ARGUMENT;
	if (!state.is_mig || !state.instances[index].is_there)
		return NOT_FOUND;
	*instance = &places[device->index][index];
	return SUCCESS;
}

EXPORT int nvmlDeviceGetGpuInstanceId(struct device *device, unsigned int *id)
{
	const struct nvml_double_instance *instance = instance_of(device);
	int rc = check_part(device, id);

	if (!rc && instance)
		*id = instance->id;
	return rc || instance ? rc : NOT_SUPPORTED;
}

static int answer(struct device *device, unsigned int *to, unsigned int value)
{
	int rc = check(device, to);

	if (!rc)
		*to = value;
	return rc;
}

EXPORT int nvmlDeviceGetPowerUsage(struct device *device, unsigned int *milliwatts)
{
	return answer(device, milliwatts, state.power_mw);
}

EXPORT int nvmlDeviceGetTemperature(struct device *device, int sensor, unsigned int *celsius)
{
	return sensor ? INVALID_ARGUMENT : answer(device, celsius, state.temperature);
}

EXPORT int nvmlDeviceGetClockInfo(struct device *device, int clock, unsigned int *mhz)
{
	if (clock != 1 && clock != 2)
		return INVALID_ARGUMENT;
	return answer(device, mhz, clock == 1 ? state.sm_mhz : state.memory_mhz);
}

EXPORT int nvmlDeviceGetPcieThroughput(struct device *device, int counter, unsigned int *kib)
{
	if (counter != 0 && counter != 1)
		return INVALID_ARGUMENT;
	return answer(device, kib, counter == 0 ? state.sent_kib : state.received_kib);
}

EXPORT int nvmlDeviceGetCurrPcieLinkGeneration(struct device *device, unsigned int *generation)
{
	return answer(device, generation, state.link_generation);
}

EXPORT int nvmlDeviceGetCurrPcieLinkWidth(struct device *device, unsigned int *width)
{
	return answer(device, width, state.link_width);
}

// Only the older of two names, as in drivers before 535.
EXPORT int nvmlDeviceGetCurrentClocksThrottleReasons(struct device *device,
						     unsigned long long *reasons)
{
	int rc = check(device, reasons);

	if (!rc)
		*reasons = state.reasons;
	return rc;
}

struct process_utilization {
	unsigned int pid;
	unsigned long long time_us;
	unsigned int sm, memory, encoder, decoder;
};

EXPORT int nvmlDeviceGetProcessUtilization(struct device *device,
					   struct process_utilization *samples, unsigned int *count,
					   unsigned long long last_seen_us)
{
	unsigned int room = *count, found = 0;
	int rc = check(device, samples);

	if (rc)
		return rc;
	if (state.is_mig)
		return NOT_SUPPORTED;
	for (int i = 0; i < NVML_DOUBLE_PROCESSES; i++) {
		const struct nvml_double_process *process = &state.processes[i];

		if (!process->sm || process->time_us <= last_seen_us)
			continue;
		if (found == room)
			return INSUFFICIENT_SIZE;
		samples[found++] = (struct process_utilization){ .pid = process->pid,
								 .time_us = process->time_us,
								 .sm = process->sm };
	}
	*count = found;
	return found ? SUCCESS : NOT_FOUND;
}

struct process_info {
	unsigned int pid;
	unsigned long long memory_bytes;
	unsigned int gpu_instance, compute_instance;
};

EXPORT int nvmlDeviceGetComputeRunningProcesses_v3(struct device *device, unsigned int *count,
						   struct process_info *infos)
{
	unsigned int room = *count, found = 0;
	int rc = check(device, infos);

	if (rc)
		return rc;
	for (int i = 0; i < NVML_DOUBLE_PROCESSES; i++) {
		const struct nvml_double_process *process = &state.processes[i];

		if (!process->pid)
			continue;
		if (found == room)
			return INSUFFICIENT_SIZE;
		infos[found++] = (struct process_info){
			.pid = process->pid,
			.memory_bytes = process->memory_bytes,
			.gpu_instance = state.is_mig ? process->instance : ~0U,
		};
	}
	*count = found;
	return SUCCESS;
}

struct gpm_support {
	unsigned int version, is_supported;
};

EXPORT int nvmlGpmQueryDeviceSupport(struct device *device, struct gpm_support *support)
{
	int rc = check(device, support);

	if (rc)
		return rc;
	if (support->version != 1)
		return ARGUMENT_VERSION_MISMATCH;
	support->is_supported = !state.no_gpm;
	return SUCCESS;
}

struct gpm_sample {
	bool taken;
	const struct nvml_double_instance *of; // NULL: the GPU
};

EXPORT int nvmlGpmSampleAlloc(struct gpm_sample **sample)
{
	*sample = calloc(1, sizeof(**sample));
	state.samples_alive++;
	return SUCCESS;
}

EXPORT int nvmlGpmSampleFree(struct gpm_sample *sample)
{
	free(sample);
	state.samples_alive--;
	return SUCCESS;
}

EXPORT int nvmlGpmSampleGet(struct device *device, struct gpm_sample *sample)
{
	int rc = check(device, sample);

	if (rc)
		return rc;
	if (state.no_gpm)
		return NOT_SUPPORTED;
	*sample = (struct gpm_sample){ .taken = true };
	return SUCCESS;
}

EXPORT int nvmlGpmMigSampleGet(struct device *device, unsigned int instance,
			       struct gpm_sample *sample)
{
	int rc = check(device, sample);

	if (rc)
		return rc;
	if (state.no_gpm || !state.is_mig)
		return NOT_SUPPORTED;
	for (int i = 0; i < NVML_DOUBLE_PLACES; i++) {
		if (!state.instances[i].is_there || state.instances[i].id != instance)
			continue;
		*sample = (struct gpm_sample){ .taken = true, .of = &state.instances[i] };
		return SUCCESS;
	}
	return INVALID_ARGUMENT;
}

struct gpm_metric {
	unsigned int id;
	int result;
	double value;
	const char *names[3];
};

struct gpm_metrics_get {
	unsigned int version, count;
	struct gpm_sample *before, *now;
	struct gpm_metric metrics[];
};

EXPORT int nvmlGpmMetricsGet(struct gpm_metrics_get *get)
{
	if (get->version != 1)
		return ARGUMENT_VERSION_MISMATCH;
	if (!get->before->taken || !get->now->taken || get->before == get->now ||
	    get->before->of != get->now->of)
		return INVALID_ARGUMENT;
	for (unsigned int i = 0; i < get->count; i++) {
		struct gpm_metric *metric = &get->metrics[i];
		double value = metric->id == 2                   ? state.sm_active
			       : metric->id == 5                 ? state.tensor_active
			       : metric->id == 1 && get->now->of ? get->now->of->busy
								 : 101;

		metric->result = value <= 100 ? SUCCESS : NOT_SUPPORTED;
		metric->value = value;
	}
	return SUCCESS;
}
