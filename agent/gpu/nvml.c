// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/nvml.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/contract/profile_types.h"

#define LIBRARY "libnvidia-ml.so.1"

/* Values of nvmlReturn_t. */
enum {
	NVML_SUCCESS = 0,
	NVML_ERROR_DRIVER_NOT_LOADED = 9,
	NVML_ERROR_GPU_IS_LOST = 15,
	NVML_ERROR_RESET_REQUIRED = 16,
};

enum {
	NVML_TEMPERATURE_GPU = 0,
	NVML_CLOCK_SM = 1,
	NVML_CLOCK_MEM = 2,
	NVML_PCIE_UTIL_TX_BYTES = 0,
	NVML_PCIE_UTIL_RX_BYTES = 1,
	NVML_GPM_VERSION = 1, // of nvmlGpmSupport_t and nvmlGpmMetricsGet_t
};

#define HERTZ_PER_MHZ    1000000ULL
#define BYTES_PER_KIB    1024ULL
#define MEMORY_NOT_KNOWN UINT64_MAX // NVML_VALUE_NOT_AVAILABLE, for instance under WDDM

typedef int nvml_return;
typedef void *nvml_device;
typedef void *gpm_sample;

struct utilization {
	unsigned int gpu, memory;
};

struct memory_v2 {
	unsigned int version; // its size, and 2 in the top byte
	unsigned long long total, reserved, free, used;
};

struct process_utilization {
	unsigned int pid;
	unsigned long long time_us;
	unsigned int sm, memory, encoder, decoder;
};

struct process_info {
	unsigned int pid;
	unsigned long long memory_bytes;
	unsigned int gpu_instance, compute_instance;
};

struct gpm_support {
	unsigned int version, is_supported;
};

struct gpm_metric {
	unsigned int id;
	nvml_return result;
	double value;
	const char *names[3];
};

/*
 * GPM metrics by their ids, but for PCIe's: all GPUs have those without GPM. The last one is read of MIG instances only:
 * GPUs have it without GPM.
 */
static const struct {
	enum nvml_figure figure;
	unsigned int id;
} gpm_metrics[] = {
	{ NVML_SM_ACTIVE_PERCENT, 2 },     { NVML_SM_OCCUPANCY_PERCENT, 3 },
	{ NVML_TENSOR_ACTIVE_PERCENT, 5 }, { NVML_DRAM_ACTIVE_PERCENT, 10 },
	{ NVML_FP64_ACTIVE_PERCENT, 11 },  { NVML_FP32_ACTIVE_PERCENT, 12 },
	{ NVML_FP16_ACTIVE_PERCENT, 13 },  { NVML_BUSY_PERCENT, 1 },
};

enum { GPM_METRIC_COUNT = ARRAY_SIZE(gpm_metrics) };

struct gpm_metrics_get {
	unsigned int version, count;
	gpm_sample before, now;
	struct gpm_metric metrics[GPM_METRIC_COUNT]; // the library reads no more than count
};

/* Functions by their names in the library. Those of the second list may be missing. */
#define REQUIRED_FUNCTIONS(X)                                                           \
	X(init, "nvmlInit_v2", (void))                                                  \
	X(shutdown, "nvmlShutdown", (void))                                             \
	X(gpu_count, "nvmlDeviceGetCount_v2", (unsigned int *))                         \
	X(gpu_by_index, "nvmlDeviceGetHandleByIndex_v2", (unsigned int, nvml_device *)) \
	X(uuid, "nvmlDeviceGetUUID", (nvml_device, char *, unsigned int))               \
	X(name, "nvmlDeviceGetName", (nvml_device, char *, unsigned int))

#define OPTIONAL_FUNCTIONS(X)                                                                     \
	X(utilization, "nvmlDeviceGetUtilizationRates", (nvml_device, struct utilization *))      \
	X(memory, "nvmlDeviceGetMemoryInfo_v2", (nvml_device, struct memory_v2 *))                \
	X(power, "nvmlDeviceGetPowerUsage", (nvml_device, unsigned int *))                        \
	X(temperature, "nvmlDeviceGetTemperature", (nvml_device, int, unsigned int *))            \
	X(clock, "nvmlDeviceGetClockInfo", (nvml_device, int, unsigned int *))                    \
	X(pcie, "nvmlDeviceGetPcieThroughput", (nvml_device, int, unsigned int *))                \
	X(link_generation, "nvmlDeviceGetCurrPcieLinkGeneration", (nvml_device, unsigned int *))  \
	X(link_width, "nvmlDeviceGetCurrPcieLinkWidth", (nvml_device, unsigned int *))            \
	X(reasons, "nvmlDeviceGetCurrentClocksEventReasons", (nvml_device, unsigned long long *)) \
	X(old_reasons, "nvmlDeviceGetCurrentClocksThrottleReasons",                               \
	  (nvml_device, unsigned long long *))                                                    \
	X(process_utilization, "nvmlDeviceGetProcessUtilization",                                 \
	  (nvml_device, struct process_utilization *, unsigned int *, unsigned long long))        \
	X(processes, "nvmlDeviceGetComputeRunningProcesses_v3",                                   \
	  (nvml_device, unsigned int *, struct process_info *))                                   \
	X(gpm_support, "nvmlGpmQueryDeviceSupport", (nvml_device, struct gpm_support *))          \
	X(gpm_alloc, "nvmlGpmSampleAlloc", (gpm_sample *))                                        \
	X(gpm_free, "nvmlGpmSampleFree", (gpm_sample))                                            \
	X(gpm_sample, "nvmlGpmSampleGet", (nvml_device, gpm_sample))                              \
	X(gpm_instance, "nvmlGpmMigSampleGet", (nvml_device, unsigned int, gpm_sample))           \
	X(mig_mode, "nvmlDeviceGetMigMode", (nvml_device, unsigned int *, unsigned int *))        \
	X(mig_count, "nvmlDeviceGetMaxMigDeviceCount", (nvml_device, unsigned int *))             \
	X(mig_device, "nvmlDeviceGetMigDeviceHandleByIndex",                                      \
	  (nvml_device, unsigned int, nvml_device *))                                             \
	X(mig_instance, "nvmlDeviceGetGpuInstanceId", (nvml_device, unsigned int *))              \
	X(gpm_metrics, "nvmlGpmMetricsGet", (struct gpm_metrics_get *))

struct functions {
#define X(name, symbol, arguments) nvml_return(*name) arguments;
	REQUIRED_FUNCTIONS(X)
	OPTIONAL_FUNCTIONS(X)
#undef X
};

/* GPU performance monitoring, of a GPU or a MIG instance. */
struct gpm {
	gpm_sample samples[2]; // NULL: not supported
	uint32_t next;         // index of the next sample
	bool has_sample;       // the other one is valid
};

struct instance {
	struct nvml_instance name;
	nvml_device device;
	struct gpm gpm;
};

struct gpu {
	nvml_device device;
	uint32_t index; // the driver's number
	char uuid[NVML_TEXT_BYTES], model[NVML_TEXT_BYTES];
	struct gpm gpm;
	struct instance instances[NVML_INSTANCES_MAX];
	uint32_t instance_count;
	unsigned long long seen_us; // process utilisation was read up to here
};

struct nvml {
	void *library;
	struct functions functions;
	bool started;
	struct gpu gpus[NVML_GPUS_MAX];
	uint32_t gpu_count;
	bool has_failed_gpus;
};

// ---- open and close -------------------------------------------------------------------------

static int find_functions(struct nvml *nvml, struct error *err)
{
	// POSIX lets a function's address pass through void *; ISO C has no way to say so.
#define X(name, symbol, arguments) *(void **)&nvml->functions.name = dlsym(nvml->library, symbol);
	REQUIRED_FUNCTIONS(X)
	OPTIONAL_FUNCTIONS(X)
#undef X
#define X(name, symbol, arguments) \
	if (!nvml->functions.name) \
		return error_set(err, -ENOSYS, "nvml: the library has no " symbol);
	REQUIRED_FUNCTIONS(X)
#undef X
	return 0;
}

static void open_gpm(const struct functions *call, nvml_device gpu, struct gpm *gpm)
{
	struct gpm_support support = { .version = NVML_GPM_VERSION };

	if (!call->gpm_support || !call->gpm_alloc || !call->gpm_free || !call->gpm_sample ||
	    !call->gpm_metrics)
		return;
	if (call->gpm_support(gpu, &support) != NVML_SUCCESS || !support.is_supported)
		return;
	if (call->gpm_alloc(&gpm->samples[0]) != NVML_SUCCESS)
		gpm->samples[0] = NULL;
	else if (call->gpm_alloc(&gpm->samples[1]) != NVML_SUCCESS)
		gpm->samples[1] = NULL;
}

static void close_gpm(const struct functions *call, struct gpm *gpm)
{
	for (size_t i = 0; i < ARRAY_SIZE(gpm->samples); i++) {
		if (gpm->samples[i])
			call->gpm_free(gpm->samples[i]);
	}
	*gpm = (struct gpm){ 0 };
}

// A GPU that fails to open is left out.
static void open_gpu(struct nvml *nvml, unsigned int index)
{
	const struct functions *call = &nvml->functions;
	struct gpu *gpu = &nvml->gpus[nvml->gpu_count];

	*gpu = (struct gpu){ .index = index };
	if (call->gpu_by_index(index, &gpu->device) != NVML_SUCCESS) {
		nvml->has_failed_gpus = true;
		return;
	}
	if (call->uuid(gpu->device, gpu->uuid, sizeof(gpu->uuid)) != NVML_SUCCESS)
		snprintf(gpu->uuid, sizeof(gpu->uuid), "gpu-%u", index);
	if (call->name(gpu->device, gpu->model, sizeof(gpu->model)) != NVML_SUCCESS)
		snprintf(gpu->model, sizeof(gpu->model), "unknown");
	gpu->uuid[sizeof(gpu->uuid) - 1] = gpu->model[sizeof(gpu->model) - 1] = 0;
	open_gpm(call, gpu->device, &gpu->gpm);
	nvml->gpu_count++;
}

static int start(struct nvml *nvml, struct error *err)
{
	unsigned int count = 0;
	nvml_return result = nvml->functions.init();

	if (result == NVML_ERROR_DRIVER_NOT_LOADED)
		return error_set(err, -ENOENT, "nvml: the driver is not loaded");
	if (result != NVML_SUCCESS)
		return error_set(err, -EIO, "nvml: nvmlInit_v2 failed with %d", result);
	nvml->started = true;
	result = nvml->functions.gpu_count(&count);
	if (result != NVML_SUCCESS)
		return error_set(err, -EIO, "nvml: nvmlDeviceGetCount_v2 failed with %d", result);
	for (unsigned int i = 0; i < count && i < NVML_GPUS_MAX; i++)
		open_gpu(nvml, i);
	return 0;
}

int nvml_open(const char *library, struct nvml **ret_nvml, struct error *err)
{
	struct nvml *nvml = calloc(1, sizeof(*nvml));
	if (!nvml)
		return error_set(err, -ENOMEM, "out of memory");

	int rc = 0;
	nvml->library = dlopen(library ? library : LIBRARY, RTLD_NOW | RTLD_LOCAL);
	if (!nvml->library)
		rc = error_set(err, -ENOENT, "nvml: %.150s", dlerror());
	if (!rc)
		rc = find_functions(nvml, err);
	if (!rc)
		rc = start(nvml, err);
	if (rc) {
		nvml_close(nvml);
		return rc;
	}
	*ret_nvml = nvml;
	return 0;
}

void nvml_close(struct nvml *nvml)
{
	if (!nvml)
		return;
	for (uint32_t i = 0; i < nvml->gpu_count; i++) {
		struct gpu *gpu = &nvml->gpus[i];

		close_gpm(&nvml->functions, &gpu->gpm);
		for (uint32_t k = 0; k < gpu->instance_count; k++)
			close_gpm(&nvml->functions, &gpu->instances[k].gpm);
	}
	if (nvml->started)
		nvml->functions.shutdown();
	if (nvml->library)
		dlclose(nvml->library);
	free(nvml);
}

uint32_t nvml_gpu_count(const struct nvml *nvml)
{
	return nvml->gpu_count;
}

bool nvml_has_failed_gpus(const struct nvml *nvml)
{
	return nvml->has_failed_gpus;
}

const char *nvml_gpu_uuid(const struct nvml *nvml, uint32_t gpu)
{
	return nvml->gpus[gpu].uuid;
}

uint32_t nvml_gpu_index(const struct nvml *nvml, uint32_t gpu)
{
	return nvml->gpus[gpu].index;
}

const char *nvml_gpu_model(const struct nvml *nvml, uint32_t gpu)
{
	return nvml->gpus[gpu].model;
}

// ---- instances ------------------------------------------------------------------------------

static bool is_mig(const struct functions *call, nvml_device gpu)
{
	unsigned int current = 0, pending = 0;

	return call->mig_mode && call->mig_count && call->mig_device && call->mig_instance &&
	       call->mig_mode(gpu, &current, &pending) == NVML_SUCCESS && current;
}

static struct instance *instance_with_id(struct instance *instances, uint32_t count, uint32_t id)
{
	for (uint32_t i = 0; i < count; i++) {
		if (instances[i].name.id == id)
			return &instances[i];
	}
	return NULL;
}

// A handle may become another instance's: the UUID identifies an instance.
static bool read_instance_name(const struct functions *call, nvml_device device,
			       struct nvml_instance *name)
{
	if (call->mig_instance(device, &name->id) != NVML_SUCCESS ||
	    call->uuid(device, name->uuid, sizeof(name->uuid)) != NVML_SUCCESS)
		return false;
	if (call->name(device, name->model, sizeof(name->model)) != NVML_SUCCESS)
		snprintf(name->model, sizeof(name->model), "unknown");
	name->uuid[sizeof(name->uuid) - 1] = name->model[sizeof(name->model) - 1] = 0;
	return true;
}

// Move the GPM samples of the same instance from the last reading.
static void move_samples(struct gpu *gpu, struct instance *instance)
{
	struct instance *known =
		instance_with_id(gpu->instances, gpu->instance_count, instance->name.id);

	if (!known || strcmp(known->name.uuid, instance->name.uuid) != 0)
		return;
	instance->gpm = known->gpm;
	known->gpm = (struct gpm){ 0 };
}

/* At each reading: instances are made and destroyed while the machine runs. */
static void find_instances(const struct functions *call, struct gpu *gpu)
{
	struct instance found[NVML_INSTANCES_MAX] = { 0 };
	unsigned int places = 0;
	uint32_t count = 0;

	if (is_mig(call, gpu->device) && call->mig_count(gpu->device, &places) != NVML_SUCCESS)
		places = 0;
	for (unsigned int i = 0; i < places && count < NVML_INSTANCES_MAX; i++) {
		struct instance instance = { 0 };

		// Compute instances of one GPU instance share its memory, and count as one.
		if (call->mig_device(gpu->device, i, &instance.device) != NVML_SUCCESS ||
		    !read_instance_name(call, instance.device, &instance.name) ||
		    instance_with_id(found, count, instance.name.id))
			continue;
		move_samples(gpu, &instance);
		if (!instance.gpm.samples[0] && call->gpm_instance)
			open_gpm(call, gpu->device, &instance.gpm);
		found[count++] = instance;
	}
	for (uint32_t i = 0; i < gpu->instance_count; i++)
		close_gpm(call, &gpu->instances[i].gpm);
	memcpy(gpu->instances, found, sizeof(found));
	gpu->instance_count = count;
}

uint32_t nvml_instance_count(const struct nvml *nvml, uint32_t gpu)
{
	return nvml->gpus[gpu].instance_count;
}

const struct nvml_instance *nvml_instance(const struct nvml *nvml, uint32_t gpu, uint32_t instance)
{
	return &nvml->gpus[gpu].instances[instance].name;
}

// ---- figures of a GPU -----------------------------------------------------------------------

/* The outcome of reading all figures. */
struct outcome {
	bool lost, any;
};

static bool succeeded(struct outcome *outcome, nvml_return result)
{
	if (result == NVML_ERROR_GPU_IS_LOST || result == NVML_ERROR_RESET_REQUIRED)
		outcome->lost = true;
	outcome->any |= result == NVML_SUCCESS;
	return result == NVML_SUCCESS;
}

static void set(struct nvml_reading *reading, enum nvml_figure figure, uint64_t value)
{
	reading->figures[figure] = value;
	reading->known |= 1U << figure;
}

static void read_use(const struct functions *call, const struct gpu *gpu,
		     struct nvml_reading *reading, struct outcome *outcome)
{
	struct utilization use = { 0 };

	if (call->utilization && succeeded(outcome, call->utilization(gpu->device, &use))) {
		set(reading, NVML_BUSY_PERCENT, use.gpu);
		set(reading, NVML_MEMORY_BUSY_PERCENT, use.memory);
	}
}

static void read_memory(const struct functions *call, nvml_device device,
			struct nvml_reading *reading, struct outcome *outcome)
{
	struct memory_v2 memory = { .version = sizeof(memory) | 2U << 24 };

	if (call->memory && succeeded(outcome, call->memory(device, &memory)))
		set(reading, NVML_MEMORY_USED_BYTES, memory.used);
}

/* Bytes per second of a PCIe lane in one direction, by generation: transfers less the encoding (8b/10b, 128b/130b, flits
 * from generation 6 on). */
static const uint64_t lane_bytes[] = { 0,          250000000,  500000000,  984615000,
				       1969231000, 3938462000, 7563000000, 15125000000 };

static void read_link(const struct functions *call, const struct gpu *gpu,
		      struct nvml_reading *reading, struct outcome *outcome)
{
	unsigned int generation, width;

	if (!call->link_generation || !call->link_width ||
	    !succeeded(outcome, call->link_generation(gpu->device, &generation)) ||
	    !succeeded(outcome, call->link_width(gpu->device, &width)))
		return;
	// An unknown generation is a newer one: no capacity rather than a wrong one.
	if (generation && generation < ARRAY_SIZE(lane_bytes) && width)
		set(reading, NVML_PCIE_LINK_BYTES, lane_bytes[generation] * width);
}

static void read_board(const struct functions *call, const struct gpu *gpu,
		       struct nvml_reading *reading, struct outcome *outcome)
{
	unsigned int value;

	if (call->power && succeeded(outcome, call->power(gpu->device, &value)))
		set(reading, NVML_POWER_MILLIWATTS, value);
	if (call->temperature &&
	    succeeded(outcome, call->temperature(gpu->device, NVML_TEMPERATURE_GPU, &value)))
		set(reading, NVML_TEMPERATURE_CELSIUS, value);
	if (call->clock && succeeded(outcome, call->clock(gpu->device, NVML_CLOCK_SM, &value)))
		set(reading, NVML_SM_CLOCK_HERTZ, value * HERTZ_PER_MHZ);
	if (call->clock && succeeded(outcome, call->clock(gpu->device, NVML_CLOCK_MEM, &value)))
		set(reading, NVML_MEMORY_CLOCK_HERTZ, value * HERTZ_PER_MHZ);
	if (call->pcie &&
	    succeeded(outcome, call->pcie(gpu->device, NVML_PCIE_UTIL_TX_BYTES, &value)))
		set(reading, NVML_PCIE_SENT_BYTES, value * BYTES_PER_KIB);
	if (call->pcie &&
	    succeeded(outcome, call->pcie(gpu->device, NVML_PCIE_UTIL_RX_BYTES, &value)))
		set(reading, NVML_PCIE_RECEIVED_BYTES, value * BYTES_PER_KIB);
}

static void read_throttle(const struct functions *call, const struct gpu *gpu,
			  struct nvml_reading *reading, struct outcome *outcome)
{
	nvml_return (*reasons)(nvml_device, unsigned long long *) =
		call->reasons ? call->reasons : call->old_reasons;
	unsigned long long bits;

	if (!reasons || !succeeded(outcome, reasons(gpu->device, &bits)))
		return;
	reading->throttle_known = true;
	reading->throttle = bits;
}

static nvml_return get_sample(const struct functions *call, nvml_device gpu, uint32_t instance,
			      gpm_sample sample)
{
	return instance == NVML_NO_INSTANCE ? call->gpm_sample(gpu, sample)
					    : call->gpm_instance(gpu, instance, sample);
}

// NVML computes means between two samples; the first reading has only one.
static void read_gpm(const struct functions *call, nvml_device gpu, uint32_t instance,
		     struct gpm *gpm, struct nvml_reading *reading, struct outcome *outcome)
{
	gpm_sample now = gpm->samples[gpm->next], before = gpm->samples[!gpm->next];
	struct gpm_metrics_get get = {
		.version = NVML_GPM_VERSION,
		.count = instance == NVML_NO_INSTANCE ? GPM_METRIC_COUNT - 1 : GPM_METRIC_COUNT,
		.before = before,
		.now = now,
	};

	if (!now || !before || !succeeded(outcome, get_sample(call, gpu, instance, now)))
		return;
	gpm->next = !gpm->next;
	for (size_t i = 0; i < get.count; i++)
		get.metrics[i].id = gpm_metrics[i].id;
	if (gpm->has_sample && succeeded(outcome, call->gpm_metrics(&get))) {
		for (size_t i = 0; i < get.count; i++) {
			double value = get.metrics[i].value;

			if (get.metrics[i].result == NVML_SUCCESS && value >= 0 && value <= 100)
				set(reading, gpm_metrics[i].figure, (uint64_t)(value + 0.5));
		}
	}
	gpm->has_sample = true;
}

static int result_of(const struct outcome *outcome)
{
	if (outcome->lost)
		return -ENODEV;
	return outcome->any ? 0 : -EIO;
}

int nvml_read_gpu(struct nvml *nvml, uint32_t at, struct nvml_reading *ret_reading)
{
	const struct functions *call = &nvml->functions;
	struct gpu *gpu = &nvml->gpus[at];
	struct nvml_reading reading = { 0 };
	struct outcome outcome = { 0 };

	find_instances(call, gpu);
	read_use(call, gpu, &reading, &outcome);
	read_board(call, gpu, &reading, &outcome);
	read_link(call, gpu, &reading, &outcome);
	read_throttle(call, gpu, &reading, &outcome);
	if (!gpu->instance_count) {
		read_memory(call, gpu->device, &reading, &outcome);
		read_gpm(call, gpu->device, NVML_NO_INSTANCE, &gpu->gpm, &reading, &outcome);
	}

	int rc = result_of(&outcome);
	if (!rc)
		*ret_reading = reading;
	return rc;
}

int nvml_read_instance(struct nvml *nvml, uint32_t at, uint32_t number,
		       struct nvml_reading *ret_reading)
{
	const struct functions *call = &nvml->functions;
	struct gpu *gpu = &nvml->gpus[at];
	struct instance *instance = &gpu->instances[number];
	struct nvml_reading reading = { 0 };
	struct outcome outcome = { 0 };

	read_memory(call, instance->device, &reading, &outcome);
	read_gpm(call, gpu->device, instance->name.id, &instance->gpm, &reading, &outcome);

	int rc = result_of(&outcome);
	if (!rc)
		*ret_reading = reading;
	return rc;
}

// ---- processes ------------------------------------------------------------------------------

struct process_list {
	struct nvml_process *processes;
	uint32_t count;
};

static struct nvml_process *process_with(struct process_list *list, uint32_t pid, uint32_t instance)
{
	for (uint32_t i = 0; i < list->count; i++) {
		if (list->processes[i].pid == pid && list->processes[i].instance == instance)
			return &list->processes[i];
	}
	if (list->count == NVML_PROCESSES_MAX)
		return NULL;
	list->processes[list->count] = (struct nvml_process){ .pid = pid, .instance = instance };
	return &list->processes[list->count++];
}

static void read_memory_use(const struct functions *call, const struct gpu *gpu,
			    struct process_list *list, struct outcome *outcome)
{
	struct process_info infos[NVML_PROCESSES_MAX];
	unsigned int count = NVML_PROCESSES_MAX;

	if (!call->processes || !succeeded(outcome, call->processes(gpu->device, &count, infos)))
		return;
	for (unsigned int i = 0; i < count && i < NVML_PROCESSES_MAX; i++) {
		struct nvml_process *process =
			process_with(list, infos[i].pid, infos[i].gpu_instance);

		if (!process || infos[i].memory_bytes == MEMORY_NOT_KNOWN)
			continue;
		// Listed once for each compute instance.
		process->memory_bytes += infos[i].memory_bytes;
		process->memory_known = true;
	}
}

// NVML returns one sample for each process that ran GPU kernels since the last call.
static void read_busy(const struct functions *call, struct gpu *gpu, struct process_list *list,
		      struct outcome *outcome)
{
	struct process_utilization samples[NVML_PROCESSES_MAX] = { 0 };
	unsigned int count = NVML_PROCESSES_MAX;
	unsigned long long before = gpu->seen_us;

	if (!call->process_utilization ||
	    !succeeded(outcome,
		       call->process_utilization(gpu->device, samples, &count, gpu->seen_us)))
		return;
	for (unsigned int i = 0; i < count && i < NVML_PROCESSES_MAX; i++) {
		struct nvml_process *process;

		if (samples[i].time_us <= before || samples[i].sm > 100)
			continue;
		process = process_with(list, samples[i].pid, NVML_NO_INSTANCE);
		if (!process)
			continue;
		process->busy_percent = samples[i].sm;
		process->busy_known = true;
		if (samples[i].time_us > gpu->seen_us)
			gpu->seen_us = samples[i].time_us;
	}
}

int nvml_read_processes(struct nvml *nvml, uint32_t gpu,
			struct nvml_process ret_processes[NVML_PROCESSES_MAX], uint32_t *ret_count)
{
	struct process_list list = { .processes = ret_processes };
	struct outcome outcome = { 0 };

	read_memory_use(&nvml->functions, &nvml->gpus[gpu], &list, &outcome);
	read_busy(&nvml->functions, &nvml->gpus[gpu], &list, &outcome);
	*ret_count = list.count;
	return result_of(&outcome);
}

// ---- names ----------------------------------------------------------------------------------

const char *nvml_figure_type(enum nvml_figure figure)
{
	static const char *const types[NVML_FIGURE_COUNT] = {
		[NVML_BUSY_PERCENT] = PROFILE_TYPE_GPU_BUSY,
		[NVML_MEMORY_BUSY_PERCENT] = PROFILE_TYPE_GPU_MEMORY_BUSY,
		[NVML_MEMORY_USED_BYTES] = PROFILE_TYPE_GPU_MEMORY_USED,
		[NVML_POWER_MILLIWATTS] = PROFILE_TYPE_GPU_POWER,
		[NVML_TEMPERATURE_CELSIUS] = PROFILE_TYPE_GPU_TEMPERATURE,
		[NVML_SM_CLOCK_HERTZ] = PROFILE_TYPE_GPU_SM_CLOCK,
		[NVML_MEMORY_CLOCK_HERTZ] = PROFILE_TYPE_GPU_MEMORY_CLOCK,
		[NVML_PCIE_SENT_BYTES] = PROFILE_TYPE_GPU_PCIE_SENT,
		[NVML_PCIE_RECEIVED_BYTES] = PROFILE_TYPE_GPU_PCIE_RECEIVED,
		[NVML_PCIE_LINK_BYTES] = PROFILE_TYPE_GPU_PCIE_LINK,
		[NVML_SM_ACTIVE_PERCENT] = PROFILE_TYPE_GPU_SM_ACTIVE,
		[NVML_SM_OCCUPANCY_PERCENT] = PROFILE_TYPE_GPU_SM_OCCUPANCY,
		[NVML_TENSOR_ACTIVE_PERCENT] = PROFILE_TYPE_GPU_TENSOR_ACTIVE,
		[NVML_DRAM_ACTIVE_PERCENT] = PROFILE_TYPE_GPU_DRAM_ACTIVE,
		[NVML_FP64_ACTIVE_PERCENT] = PROFILE_TYPE_GPU_FP64_ACTIVE,
		[NVML_FP32_ACTIVE_PERCENT] = PROFILE_TYPE_GPU_FP32_ACTIVE,
		[NVML_FP16_ACTIVE_PERCENT] = PROFILE_TYPE_GPU_FP16_ACTIVE,
	};

	return types[figure];
}
