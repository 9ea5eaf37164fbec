// SPDX-License-Identifier: Apache-2.0
#include "agent/gpu_usage.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "agent/nvml.h"
#include "base/cleanup.h"
#include "base/clock.h"

#define READ_NS       NS_PER_SECOND
#define RETRY_NS      (60 * NS_PER_SECOND) // a driver that is installed later, or comes back
#define REOPEN_NS     (60 * NS_PER_SECOND)
#define CLOSE_WAIT_NS NS_PER_SECOND
#define SERVICE       "gpu"
#define LABEL_GPU     "gpu"
#define LABEL_UUID    "gpu_uuid"
#define LABEL_MODEL   "gpu_model"
#define LABEL_REASON  "reason"

/** One figure at one second. */
struct usage_value {
	uint64_t time_ns; // Unix time
	int64_t value;
	const char *type;   // a constant
	const char *reason; // a constant, or NULL
	uint32_t gpu;       // the driver's number
	uint32_t pid;       // 0: the GPU's own
};

struct gpu_name {
	char uuid[NVML_TEXT_BYTES], model[NVML_TEXT_BYTES];
};

struct gpu_usage {
	struct gpu_usage_options options;
	struct labels labels; // of what is no process's
	pthread_t thread;
	// What the two threads share.
	pthread_mutex_t lock;
	pthread_cond_t stop_asked;
	bool stop, left_behind;
	struct gpu_name names[NVML_GPUS_MAX];
	struct usage_value *values; // GPU_USAGE_VALUES_MAX
	uint32_t value_count;
	uint64_t values_dropped;
	char notice[ERROR_TEXT_BYTES];
	// The main thread's.
	struct usage_value *taken;
	char told[ERROR_TEXT_BYTES];
	uint64_t dropped_told;
	// The reading thread's.
	struct nvml *nvml;
	bool lost[NVML_GPUS_MAX], told_missing;
	uint64_t silent_since_ns; // some GPU has not answered since then; 0: all do
};

// ---- the reading thread ---------------------------------------------------------------------

static void notice(struct gpu_usage *usage, const char *text)
{
	pthread_mutex_lock(&usage->lock);
	snprintf(usage->notice, sizeof(usage->notice), "%s", text);
	pthread_mutex_unlock(&usage->lock);
}

static void keep(struct gpu_usage *usage, const struct usage_value *value)
{
	pthread_mutex_lock(&usage->lock);
	if (usage->value_count < GPU_USAGE_VALUES_MAX)
		usage->values[usage->value_count++] = *value;
	else
		usage->values_dropped++;
	pthread_mutex_unlock(&usage->lock);
}

static void keep_throttling(struct gpu_usage *usage, const struct usage_value *at,
			    const struct nvml_reading *reading)
{
	static const struct {
		uint64_t bit;
		const char *reason;
	} reasons[] = {
		{ NVML_THROTTLE_POWER_CAP, "power cap" },
		{ NVML_THROTTLE_HARDWARE, "hardware" },
		{ NVML_THROTTLE_THERMAL, "temperature" },
		{ NVML_THROTTLE_HARDWARE_THERMAL, "temperature (hardware)" },
		{ NVML_THROTTLE_POWER_BRAKE, "power brake" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(reasons); i++) {
		struct usage_value value = *at;

		if (!(reading->throttle & reasons[i].bit))
			continue;
		value.type = PROFILE_TYPE_GPU_THROTTLED;
		value.reason = reasons[i].reason;
		value.value = READ_NS;
		keep(usage, &value);
	}
}

static void keep_reading(struct gpu_usage *usage, const struct usage_value *at,
			 const struct nvml_reading *reading)
{
	for (int i = 0; i < NVML_FIGURE_COUNT; i++) {
		struct usage_value value = *at;

		if (!(reading->known & 1U << i))
			continue;
		value.type = nvml_figure_type((enum nvml_figure)i);
		value.value = (int64_t)reading->figures[i];
		keep(usage, &value);
	}
	if (reading->throttle_known)
		keep_throttling(usage, at, reading);
}

static void keep_processes(struct gpu_usage *usage, const struct usage_value *at,
			   const struct nvml_process *processes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct usage_value value = *at;

		value.pid = processes[i].pid;
		value.type = PROFILE_TYPE_GPU_PROCESS_MEMORY;
		value.value = (int64_t)processes[i].memory_bytes;
		if (processes[i].memory_known)
			keep(usage, &value);
		value.type = PROFILE_TYPE_GPU_PROCESS_BUSY;
		value.value = processes[i].busy_percent;
		if (processes[i].busy_known)
			keep(usage, &value);
	}
}

static void note_loss(struct gpu_usage *usage, uint32_t gpu, bool is_lost)
{
	char text[ERROR_TEXT_BYTES];
	bool *lost = &usage->lost[nvml_gpu_index(usage->nvml, gpu)];

	if (*lost == is_lost)
		return;
	*lost = is_lost;
	snprintf(text, sizeof(text), "GPU %u (%s) %s", nvml_gpu_index(usage->nvml, gpu),
		 nvml_gpu_uuid(usage->nvml, gpu),
		 is_lost ? "does not answer the driver any more: its series end here"
			 : "answers again");
	notice(usage, text);
}

// Whether it answered.
static bool read_gpu(struct gpu_usage *usage, uint32_t gpu)
{
	struct nvml_process processes[NVML_PROCESSES_MAX];
	struct usage_value at = { .time_ns = clock_realtime_ns(),
				  .gpu = nvml_gpu_index(usage->nvml, gpu) };
	struct nvml_reading reading;
	uint32_t count;
	int rc = nvml_read_gpu(usage->nvml, gpu, &reading);

	if (!rc)
		keep_reading(usage, &at, &reading);
	note_loss(usage, gpu, rc != 0);
	if (!rc && !nvml_read_processes(usage->nvml, gpu, processes, &count))
		keep_processes(usage, &at, processes, count);
	return !rc;
}

static void copy_names(struct gpu_usage *usage)
{
	pthread_mutex_lock(&usage->lock);
	for (uint32_t i = 0; i < nvml_gpu_count(usage->nvml); i++) {
		struct gpu_name *name = &usage->names[nvml_gpu_index(usage->nvml, i)];

		snprintf(name->uuid, sizeof(name->uuid), "%s", nvml_gpu_uuid(usage->nvml, i));
		snprintf(name->model, sizeof(name->model), "%s", nvml_gpu_model(usage->nvml, i));
	}
	pthread_mutex_unlock(&usage->lock);
}

static bool find_gpus(struct gpu_usage *usage)
{
	struct error err = { 0 };
	int rc = nvml_open(usage->options.library, &usage->nvml, &err);

	if (!rc) {
		copy_names(usage);
		return true;
	}
	// Most machines have none, and no reader of a log wants to be told that.
	if (rc != -ENOENT && !usage->told_missing) {
		usage->told_missing = true;
		notice(usage, err.text);
	}
	return false;
}

// Until @until_ns of Unix time, or until one is to stop: then false.
static bool sleep_until(struct gpu_usage *usage, uint64_t until_ns)
{
	const struct timespec until = { (time_t)(until_ns / NS_PER_SECOND),
					(long)(until_ns % NS_PER_SECOND) };
	int rc = 0;

	pthread_mutex_lock(&usage->lock);
	while (!usage->stop && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&usage->stop_asked, &usage->lock, &until);
	bool go_on = !usage->stop;
	pthread_mutex_unlock(&usage->lock);
	return go_on;
}

static void free_all(struct gpu_usage *usage)
{
	nvml_close(usage->nvml);
	pthread_mutex_destroy(&usage->lock);
	pthread_cond_destroy(&usage->stop_asked);
	labels_deinit(&usage->labels);
	free(usage->values);
	free(usage->taken);
	free(usage);
}

static void read_gpus(struct gpu_usage *usage, uint64_t now_ns)
{
	bool all_answer = !nvml_lacks_gpus(usage->nvml);

	for (uint32_t i = 0; i < nvml_gpu_count(usage->nvml); i++)
		all_answer &= read_gpu(usage, i);
	if (all_answer)
		usage->silent_since_ns = 0;
	else if (!usage->silent_since_ns)
		usage->silent_since_ns = now_ns;
}

// Handles from before a reset of a GPU, and a library from before another driver, never answer again: both
// are had anew.
static void reopen(struct gpu_usage *usage, uint64_t now_ns)
{
	uint64_t after_ns = usage->options.reopen_ns ? usage->options.reopen_ns : REOPEN_NS;

	if (!usage->silent_since_ns || now_ns - usage->silent_since_ns < after_ns)
		return;
	nvml_close(take(usage->nvml));
	usage->silent_since_ns = 0;
}

static void *run(void *context)
{
	struct gpu_usage *usage = context;
	bool go_on = true;

	while (go_on) {
		uint64_t now_ns = clock_realtime_ns();

		reopen(usage, now_ns);
		bool found = usage->nvml || find_gpus(usage);

		if (found)
			read_gpus(usage, now_ns);
		go_on = sleep_until(usage,
				    found ? (now_ns / READ_NS + 1) * READ_NS : now_ns + RETRY_NS);
	}
	pthread_mutex_lock(&usage->lock);
	bool left_behind = usage->left_behind;
	pthread_mutex_unlock(&usage->lock);
	if (left_behind)
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
	pthread_cond_init(&usage->stop_asked, NULL);
	// Touched only as far as they are used.
	usage->values = calloc(GPU_USAGE_VALUES_MAX, sizeof(*usage->values));
	usage->taken = calloc(GPU_USAGE_VALUES_MAX, sizeof(*usage->taken));
	int rc = usage->values && usage->taken ? make_labels(usage) : -ENOMEM;
	if (!rc)
		rc = -pthread_create(&usage->thread, NULL, run, usage);
	if (rc) {
		free_all(usage);
		return error_errno(err, rc, "the thread that reads GPUs");
	}
	*ret_usage = usage;
	return 0;
}

void gpu_usage_close(struct gpu_usage *usage)
{
	uint64_t deadline_ns = clock_realtime_ns() + CLOSE_WAIT_NS;
	const struct timespec deadline = { (time_t)(deadline_ns / NS_PER_SECOND),
					   (long)(deadline_ns % NS_PER_SECOND) };

	if (!usage)
		return;
	pthread_mutex_lock(&usage->lock);
	usage->stop = true;
	pthread_cond_signal(&usage->stop_asked);
	pthread_mutex_unlock(&usage->lock);
	if (!pthread_timedjoin_np(usage->thread, NULL, &deadline)) {
		free_all(usage);
		return;
	}
	// It hangs in the driver, or is about to end: the last to look frees.
	pthread_t thread = usage->thread;
	pthread_mutex_lock(&usage->lock);
	usage->left_behind = true;
	pthread_mutex_unlock(&usage->lock);
	pthread_detach(thread);
}

// ---- into the window ------------------------------------------------------------------------

static int set_label(struct labels *labels, const char *name, const char *value)
{
	int rc = labels_set(labels, name, value);

	return rc == -E2BIG ? 0 : rc; // a series with so many labels does without this one
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
	char number[12];
	int rc = labels_copy(owner, labels);

	snprintf(number, sizeof(number), "%u", value->gpu);
	if (!rc)
		rc = set_label(labels, LABEL_GPU, number);
	if (!rc)
		rc = set_label(labels, LABEL_UUID, name->uuid);
	if (!rc && !value->pid)
		rc = set_label(labels, LABEL_MODEL, name->model);
	if (!rc && value->reason)
		rc = set_label(labels, LABEL_REASON, value->reason);
	return rc;
}

static int add_value(struct gpu_usage *usage, struct window *window,
		     const struct usage_value *value, const struct gpu_name *name)
{
	_cleanup_(labels_deinit) struct labels labels = { 0 };
	int rc = labels_of_value(usage, value, name, &labels);

	if (rc)
		return rc;
	// A gauge is a moment's; throttling is told of the second before.
	uint64_t first_ns = value->reason ? value->time_ns - READ_NS : value->time_ns;
	uint64_t slot = first_ns / usage->options.slot_ns;
	uint64_t last = value->reason ? value->time_ns / usage->options.slot_ns - 1 : slot;

	return window_add_value(window, &labels, value->type, slot, last, value->value);
}

int gpu_usage_add(struct gpu_usage *usage, struct window *window)
{
	struct gpu_name names[NVML_GPUS_MAX];
	struct usage_value *values;
	uint32_t count;
	int rc = 0;

	pthread_mutex_lock(&usage->lock);
	values = usage->values;
	count = usage->value_count;
	usage->values = usage->taken;
	usage->value_count = 0;
	memcpy(names, usage->names, sizeof(names));
	pthread_mutex_unlock(&usage->lock);
	usage->taken = values;

	for (uint32_t i = 0; i < count && !rc; i++)
		rc = add_value(usage, window, &values[i], &names[values[i].gpu]);
	return rc;
}

const char *gpu_usage_next_notice(struct gpu_usage *usage)
{
	pthread_mutex_lock(&usage->lock);
	memcpy(usage->told, usage->notice, sizeof(usage->told));
	usage->notice[0] = '\0';
	uint64_t dropped = usage->values_dropped;
	pthread_mutex_unlock(&usage->lock);
	if (usage->told[0])
		return usage->told;
	if (dropped == usage->dropped_told)
		return NULL;
	snprintf(usage->told, sizeof(usage->told),
		 "%llu figures of GPUs were dropped: more than %d between two windows",
		 (unsigned long long)(dropped - usage->dropped_told), GPU_USAGE_VALUES_MAX);
	usage->dropped_told = dropped;
	return usage->told;
}
