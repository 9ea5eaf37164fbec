// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu/gpu_usage.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/gpu/nvml.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_values.h"
#include "base/contract/label_names.h"

#define READ_NS       NS_PER_SECOND
#define RETRY_NS      (60 * NS_PER_SECOND) // a driver may be installed, or come back
#define REOPEN_NS     (60 * NS_PER_SECOND)
#define CLOSE_WAIT_NS NS_PER_SECOND
#define SERVICE       "gpu"

/** One figure at one second. */
struct usage_value {
	uint64_t time_ns; // Unix time
	int64_t value;
	const char *type;   // a constant
	const char *reason; // a constant, or NULL
	uint32_t name;      // of the GPU, or of its instance: in the batch's
	uint32_t pid;       // 0: the GPU's own
};

/** A GPU, or a part of it. */
struct gpu_name {
	uint32_t gpu;      // the driver's number
	uint32_t instance; // or NVML_NO_INSTANCE
	char uuid[NVML_TEXT_BYTES], model[NVML_TEXT_BYTES];
};

enum { NAMES_MAX = NVML_GPUS_MAX * (1 + NVML_INSTANCES_MAX) };

/** The values of one export interval, with their names: MIG instances come and go. */
struct usage_batch {
	struct usage_value *values; // GPU_USAGE_VALUES_MAX
	uint32_t value_count;
	struct gpu_name *names; // NAMES_MAX
	uint32_t name_count;
};

struct gpu_usage {
	struct gpu_usage_options options;
	struct labels labels; // of GPUs' own series
	pthread_t thread;
	// What the two threads share.
	pthread_mutex_t lock;
	pthread_cond_t stop_requested;
	bool stop, is_detached;
	struct usage_batch batch;
	uint64_t values_dropped;
	// The main thread's.
	struct usage_batch drained;
	uint64_t dropped_logged;
	// The reading thread's.
	struct nvml *nvml;
	bool lost[NVML_GPUS_MAX], is_failure_logged;
	uint64_t failing_since_ns; // some GPU fails since then; 0: none does
};

// ---- the reading thread ---------------------------------------------------------------------

// A thread that was left behind has no log any more.
static void report(struct gpu_usage *usage, const char *text)
{
	pthread_mutex_lock(&usage->lock);
	if (!usage->stop)
		event_warn(usage->options.events, "gpu", "%s", text);
	pthread_mutex_unlock(&usage->lock);
}

/** Whose figures are kept, and of when. */
struct reading_of {
	uint64_t time_ns;
	struct gpu_name name;
};

// Its number in the batch; NAMES_MAX if that is full.
static uint32_t number_of(struct usage_batch *batch, const struct gpu_name *name)
{
	uint32_t at = 0;

	while (at < batch->name_count && strcmp(batch->names[at].uuid, name->uuid) != 0)
		at++;
	if (at == batch->name_count && at < NAMES_MAX)
		batch->names[batch->name_count++] = *name;
	return at;
}

static void keep(struct gpu_usage *usage, const struct reading_of *of,
		 const struct usage_value *value)
{
	pthread_mutex_lock(&usage->lock);
	struct usage_batch *batch = &usage->batch;
	uint32_t name = number_of(batch, &of->name);

	if (batch->value_count < GPU_USAGE_VALUES_MAX && name < NAMES_MAX) {
		struct usage_value *kept = &batch->values[batch->value_count++];

		*kept = *value;
		kept->time_ns = of->time_ns;
		kept->name = name;
	} else {
		usage->values_dropped++;
	}
	pthread_mutex_unlock(&usage->lock);
}

static void keep_throttling(struct gpu_usage *usage, const struct reading_of *of,
			    const struct nvml_reading *reading)
{
	static const struct {
		uint64_t bit;
		const char *reason;
	} reasons[] = {
		{ NVML_THROTTLE_POWER_CAP, REASON_POWER_CAP },
		{ NVML_THROTTLE_HARDWARE, REASON_HARDWARE },
		{ NVML_THROTTLE_THERMAL, REASON_THERMAL },
		{ NVML_THROTTLE_HARDWARE_THERMAL, REASON_HARDWARE_THERMAL },
		{ NVML_THROTTLE_POWER_BRAKE, REASON_POWER_BRAKE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		const struct usage_value value = {
			.type = PROFILE_TYPE_GPU_THROTTLED,
			.reason = reasons[i].reason,
			.value = READ_NS,
		};

		if (reading->throttle & reasons[i].bit)
			keep(usage, of, &value);
	}
}

static void keep_reading(struct gpu_usage *usage, const struct reading_of *of,
			 const struct nvml_reading *reading)
{
	for (int i = 0; i < NVML_FIGURE_COUNT; i++) {
		const struct usage_value value = {
			.type = nvml_figure_type((enum nvml_figure)i),
			.value = (int64_t)reading->figures[i],
		};

		if (reading->known & 1U << i)
			keep(usage, of, &value);
	}
	if (reading->throttle_known)
		keep_throttling(usage, of, reading);
}

static void name_gpu(const struct nvml *nvml, uint32_t gpu, struct gpu_name *ret_name)
{
	*ret_name =
		(struct gpu_name){ .gpu = nvml_gpu_index(nvml, gpu), .instance = NVML_NO_INSTANCE };
	snprintf(ret_name->uuid, sizeof(ret_name->uuid), "%s", nvml_gpu_uuid(nvml, gpu));
	snprintf(ret_name->model, sizeof(ret_name->model), "%s", nvml_gpu_model(nvml, gpu));
}

static void name_instance(const struct nvml *nvml, uint32_t gpu, uint32_t at,
			  struct gpu_name *ret_name)
{
	const struct nvml_instance *instance = nvml_instance(nvml, gpu, at);

	*ret_name = (struct gpu_name){ .gpu = nvml_gpu_index(nvml, gpu), .instance = instance->id };
	snprintf(ret_name->uuid, sizeof(ret_name->uuid), "%s", instance->uuid);
	snprintf(ret_name->model, sizeof(ret_name->model), "%s", instance->model);
}

// An instance may have been made since the GPU was read: then its processes count as the GPU's for a second.
static void name_of_process(const struct nvml *nvml, uint32_t gpu,
			    const struct nvml_process *process, struct gpu_name *ret_name)
{
	for (uint32_t i = 0; i < nvml_instance_count(nvml, gpu); i++) {
		if (nvml_instance(nvml, gpu, i)->id == process->instance) {
			name_instance(nvml, gpu, i, ret_name);
			return;
		}
	}
	name_gpu(nvml, gpu, ret_name);
}

static void keep_processes(struct gpu_usage *usage, uint32_t gpu, uint64_t time_ns,
			   const struct nvml_process *processes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct nvml_process *process = &processes[i];
		struct usage_value value = { .type = PROFILE_TYPE_GPU_PROCESS_MEMORY,
					     .pid = process->pid,
					     .value = (int64_t)process->memory_bytes };
		struct reading_of of = { .time_ns = time_ns };

		name_of_process(usage->nvml, gpu, process, &of.name);
		if (process->memory_known)
			keep(usage, &of, &value);
		value.type = PROFILE_TYPE_GPU_PROCESS_BUSY;
		value.value = process->busy_percent;
		if (process->busy_known)
			keep(usage, &of, &value);
	}
}

static void keep_instances(struct gpu_usage *usage, uint32_t gpu, uint64_t time_ns)
{
	for (uint32_t i = 0; i < nvml_instance_count(usage->nvml, gpu); i++) {
		struct reading_of of = { .time_ns = time_ns };
		struct nvml_reading reading;

		// An instance that was destroyed just now is no failure.
		if (nvml_read_instance(usage->nvml, gpu, i, &reading))
			continue;
		name_instance(usage->nvml, gpu, i, &of.name);
		keep_reading(usage, &of, &reading);
	}
}

static void note_loss(struct gpu_usage *usage, uint32_t gpu, bool is_lost)
{
	char text[ERROR_TEXT_BYTES];
	bool *lost = &usage->lost[nvml_gpu_index(usage->nvml, gpu)];

	if (*lost == is_lost)
		return;
	*lost = is_lost;
	snprintf(text, sizeof(text), "GPU %u (%s)%s", nvml_gpu_index(usage->nvml, gpu),
		 nvml_gpu_uuid(usage->nvml, gpu),
		 is_lost ? ": no telemetry: it does not answer the driver; see the kernel's log "
			   "for Xid errors"
			 : " answers again");
	report(usage, text);
}

// Whether it answered.
static bool read_gpu(struct gpu_usage *usage, uint32_t gpu)
{
	struct nvml_process processes[NVML_PROCESSES_MAX];
	struct reading_of of = { .time_ns = clock_realtime_ns() };
	struct nvml_reading reading;
	uint32_t count;
	int rc = nvml_read_gpu(usage->nvml, gpu, &reading);

	name_gpu(usage->nvml, gpu, &of.name);
	if (!rc)
		keep_reading(usage, &of, &reading);
	note_loss(usage, gpu, rc != 0);
	if (rc)
		return false;
	keep_instances(usage, gpu, of.time_ns);
	if (!nvml_read_processes(usage->nvml, gpu, processes, &count))
		keep_processes(usage, gpu, of.time_ns, processes, count);
	return true;
}

static bool find_gpus(struct gpu_usage *usage)
{
	struct error err = { 0 };
	int rc = nvml_open(usage->options.library, &usage->nvml, &err);

	if (!rc)
		return true;
	// -ENOENT: most machines have no GPU, which is not worth a log line.
	if (rc != -ENOENT && !usage->is_failure_logged) {
		usage->is_failure_logged = true;
		report(usage, err.text);
	}
	return false;
}

// Until @until_ns of Unix time. False: the thread is to stop.
static bool sleep_until(struct gpu_usage *usage, uint64_t until_ns)
{
	const struct timespec until = { (time_t)(until_ns / NS_PER_SECOND),
					(long)(until_ns % NS_PER_SECOND) };
	int rc = 0;

	pthread_mutex_lock(&usage->lock);
	while (!usage->stop && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&usage->stop_requested, &usage->lock, &until);
	bool go_on = !usage->stop;
	pthread_mutex_unlock(&usage->lock);
	return go_on;
}

// calloc(): pages that are never used take no memory.
static int batch_init(struct usage_batch *batch)
{
	batch->values = calloc(GPU_USAGE_VALUES_MAX, sizeof(*batch->values));
	batch->names = calloc(NAMES_MAX, sizeof(*batch->names));
	return batch->values && batch->names ? 0 : -ENOMEM;
}

static void batch_deinit(struct usage_batch *batch)
{
	free(batch->values);
	free(batch->names);
}

static void free_all(struct gpu_usage *usage)
{
	nvml_close(usage->nvml);
	pthread_mutex_destroy(&usage->lock);
	pthread_cond_destroy(&usage->stop_requested);
	labels_deinit(&usage->labels);
	batch_deinit(&usage->batch);
	batch_deinit(&usage->drained);
	free(usage);
}

static void read_gpus(struct gpu_usage *usage, uint64_t now_ns)
{
	bool all_work = !nvml_has_failed_gpus(usage->nvml);

	for (uint32_t i = 0; i < nvml_gpu_count(usage->nvml); i++)
		all_work &= read_gpu(usage, i);
	if (all_work)
		usage->failing_since_ns = 0;
	else if (!usage->failing_since_ns)
		usage->failing_since_ns = now_ns;
}

// After a reset of a GPU its handles fail for ever, and so does the library after an update of the driver: load it anew.
static void reopen(struct gpu_usage *usage, uint64_t now_ns)
{
	uint64_t after_ns = usage->options.reopen_ns ? usage->options.reopen_ns : REOPEN_NS;

	if (!usage->failing_since_ns || now_ns - usage->failing_since_ns < after_ns)
		return;
	nvml_close(take(usage->nvml));
	usage->failing_since_ns = 0;
}

static void *run(void *context)
{
	struct gpu_usage *usage = context;
	bool go_on = true;

	while (go_on) {
		uint64_t now_ns = clock_realtime_ns();

		reopen(usage, clock_monotonic_ns());
		bool found = usage->nvml || find_gpus(usage);

		if (found)
			read_gpus(usage, clock_monotonic_ns());
		go_on = sleep_until(usage,
				    found ? (now_ns / READ_NS + 1) * READ_NS : now_ns + RETRY_NS);
	}
	pthread_mutex_lock(&usage->lock);
	bool is_detached = usage->is_detached;
	pthread_mutex_unlock(&usage->lock);
	if (is_detached)
		free_all(usage);
	return NULL;
}

// ---- open and close -------------------------------------------------------------------------

static int make_labels(struct gpu_usage *usage)
{
	char node[HOST_NAME_MAX + 1] = "";
	int rc = labels_copy(usage->options.labels, &usage->labels);

	if (!rc && !labels_get(&usage->labels, LABEL_SERVICE))
		rc = labels_set(&usage->labels, LABEL_SERVICE, SERVICE);
	if (!rc && !labels_get(&usage->labels, LABEL_NODE) &&
	    gethostname(node, sizeof(node) - 1) == 0)
		rc = labels_set(&usage->labels, LABEL_NODE, node);
	usage->options.labels = NULL;
	return rc;
}

int gpu_usage_open(const struct gpu_usage_options *options, struct gpu_usage **ret_usage,
		   struct error *err)
{
	struct gpu_usage *usage = calloc(1, sizeof(*usage));

	if (!usage)
		return error_set(err, -ENOMEM, "out of memory");
	usage->options = *options;
	pthread_mutex_init(&usage->lock, NULL);
	pthread_cond_init(&usage->stop_requested, NULL);
	int rc = batch_init(&usage->batch);
	if (!rc)
		rc = batch_init(&usage->drained);
	if (!rc)
		rc = make_labels(usage);
	if (!rc)
		rc = -pthread_create(&usage->thread, NULL, run, usage);
	if (rc) {
		free_all(usage);
		return error_errno(err, rc, "the thread that reads GPUs");
	}
	*ret_usage = usage;
	return 0;
}

void gpu_usage_close(void *state)
{
	struct gpu_usage *usage = state;

	uint64_t deadline_ns = clock_realtime_ns() + CLOSE_WAIT_NS;
	const struct timespec deadline = { (time_t)(deadline_ns / NS_PER_SECOND),
					   (long)(deadline_ns % NS_PER_SECOND) };

	if (!usage)
		return;
	pthread_mutex_lock(&usage->lock);
	usage->stop = true;
	pthread_cond_signal(&usage->stop_requested);
	pthread_mutex_unlock(&usage->lock);
	if (!pthread_timedjoin_np(usage->thread, NULL, &deadline)) {
		free_all(usage);
		return;
	}
	// The thread blocks in the driver, or is about to end: it frees everything itself.
	pthread_t thread = usage->thread;
	pthread_mutex_lock(&usage->lock);
	usage->is_detached = true;
	pthread_mutex_unlock(&usage->lock);
	pthread_detach(thread);
}

// ---- export ---------------------------------------------------------------------------------

static int set_label(struct labels *labels, const char *name, const char *value)
{
	int rc = labels_set(labels, name, value);

	return rc == -E2BIG ? 0 : rc; // a series with so many labels does without this one
}

static int set_number(struct labels *labels, const char *name, uint32_t value)
{
	char text[12];

	snprintf(text, sizeof(text), "%u", value);
	return set_label(labels, name, text);
}

struct pid_search {
	uint32_t pid;
	const struct labels *labels; // NULL: not found
};

static void match_pid(void *context, const struct process *process)
{
	struct pid_search *search = context;

	if (process->key.pid == search->pid)
		search->labels = &process->labels;
}

// A process that was never sampled is the machine's: it has a GPU's memory, but does nothing.
static const struct labels *labels_of_pid(const struct gpu_usage *usage, uint32_t pid)
{
	struct pid_search search = { .pid = pid };

	process_table_each_sampled(usage->options.processes, match_pid, &search);
	return search.labels ? search.labels : &usage->labels;
}

static int labels_of_value(const struct gpu_usage *usage, const struct usage_value *value,
			   const struct gpu_name *name, struct labels *labels)
{
	const struct labels *owner = value->pid ? labels_of_pid(usage, value->pid) : &usage->labels;
	int rc = labels_copy(owner, labels);

	if (!rc)
		rc = set_number(labels, LABEL_GPU, name->gpu);
	if (!rc && name->instance != NVML_NO_INSTANCE)
		rc = set_number(labels, LABEL_GPU_INSTANCE, name->instance);
	if (!rc)
		rc = set_label(labels, LABEL_GPU_UUID, name->uuid);
	if (!rc && !value->pid)
		rc = set_label(labels, LABEL_GPU_MODEL, name->model);
	if (!rc && value->reason)
		rc = set_label(labels, LABEL_REASON, value->reason);
	return rc;
}

static int add_value(struct gpu_usage *usage, struct export_interval *interval,
		     const struct usage_value *value, const struct gpu_name *name)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	int rc = labels_of_value(usage, value, name, &labels);

	if (rc)
		return rc;
	// A gauge is of its moment; throttling is of the second before.
	uint64_t first_ns = value->reason ? value->time_ns - READ_NS : value->time_ns;
	uint64_t slot = first_ns / usage->options.slot_ns;
	uint64_t last = value->reason ? value->time_ns / usage->options.slot_ns - 1 : slot;

	return export_interval_add_value(interval, &labels, value->type, slot, last, value->value);
}

int gpu_usage_add(void *state, struct export_interval *interval)
{
	struct gpu_usage *usage = state;
	struct usage_batch batch;
	int rc = 0;

	pthread_mutex_lock(&usage->lock);
	batch = usage->batch;
	usage->batch = usage->drained;
	usage->batch.value_count = usage->batch.name_count = 0;
	uint64_t dropped = usage->values_dropped;
	pthread_mutex_unlock(&usage->lock);
	usage->drained = batch;
	if (dropped != usage->dropped_logged)
		event_warn(
			usage->options.events, "gpu",
			"dropped %llu readings of utilization, clocks and memory: more than %d in "
			"one export interval; use a shorter --interval",
			(unsigned long long)(dropped - usage->dropped_logged),
			GPU_USAGE_VALUES_MAX);
	usage->dropped_logged = dropped;

	for (uint32_t i = 0; i < batch.value_count && !rc; i++)
		rc = add_value(usage, interval, &batch.values[i],
			       &batch.names[batch.values[i].name]);
	return rc;
}

static int open_source(const struct source_setup *setup, void **ret_state, struct error *err)
{
	const struct gpu_usage_options options = {
		.slot_ns = setup->slot_ns,
		.processes = setup->processes,
		.labels = setup->labels,
		.events = setup->events,
	};
	struct gpu_usage *usage;
	int rc = gpu_usage_open(&options, &usage, err);

	if (!rc)
		*ret_state = usage;
	return rc;
}

const struct source gpu_usage_source = {
	.name = "gpu",
	.bit = SOURCE_GPU,
	.open = open_source,
	.close = gpu_usage_close,
	.after_drain = gpu_usage_add,
};
