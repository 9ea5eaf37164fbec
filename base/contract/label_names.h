// SPDX-License-Identifier: Apache-2.0
// Names of the labels that cairn sets. A label's value is a token, never a sentence.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Whose it is.
#define LABEL_TENANT  "tenant"
#define LABEL_SERVICE "service"
#define LABEL_NODE    "node"
#define LABEL_PROCESS "process"
#define LABEL_THREAD  "thread"
// Where it runs.
#define LABEL_CONTAINER     "container"
#define LABEL_CONTAINER_ID  "container_id"
#define LABEL_POD           "pod"
#define LABEL_POD_UID       "pod_uid"
#define LABEL_NAMESPACE     "namespace"
#define LABEL_WORKLOAD      "workload"
#define LABEL_WORKLOAD_KIND "workload_kind"
#define LABEL_VERSION       "version"
#define LABEL_UNIT          "unit"
// What a process says of itself: no label of label_specs().
#define LABEL_INSTANCE "instance" // service.instance.id
// What was measured.
#define LABEL_WAIT         "wait"
#define LABEL_STATE        "state"
#define LABEL_DIRECTION    "direction"
#define LABEL_MEMORY       "memory"
#define LABEL_GRID         "grid"
#define LABEL_COLLECTIVE   "collective"
#define LABEL_COMMUNICATOR "communicator"
#define LABEL_RANK         "rank"
#define LABEL_RANKS        "ranks"
#define LABEL_GPU          "gpu"
#define LABEL_GPU_UUID     "gpu_uuid"
#define LABEL_GPU_MODEL    "gpu_model"
#define LABEL_GPU_INSTANCE "gpu_instance"
#define LABEL_REASON       "reason"
// The profiler itself.
#define LABEL_PROGRAM "program"
#define LABEL_COUNTER "counter"
#define LABEL_KNOB    "knob"
#define LABEL_STEP    "step"
#define LABEL_PID     "pid"
#define LABEL_COMM    "comm"
// The collector.
#define LABEL_OTHER "other"

struct label_spec {
	const char *name;
	const char *meaning;
};

/** All of them. */
const struct label_spec *label_specs(uint32_t *ret_count);

/** Is it one of them? Then what a process or a pod says of itself does not set it. */
bool label_is_reserved(const char *name);
