// SPDX-License-Identifier: Apache-2.0
// All profile types, in Pyroscope's five-part form: name:sample_type:sample_unit:period_type:period_unit.
// A type that ends in gauge:second is a level, sampled once a second.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/contract/knobs.h"

// Thread time.
#define PROFILE_TYPE_CPU         "process_cpu:cpu:nanoseconds:cpu:nanoseconds" // the default everywhere
#define PROFILE_TYPE_OFF_CPU     "off_cpu:blocked:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_OFF_WAKE    "off_wake:blocked:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_SCHED_DELAY "sched_delay:wait:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_WALL        "wall:time:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_GPU_SPIN    "gpu_wait:spin:nanoseconds:cpu:nanoseconds"
#define PROFILE_TYPE_THROTTLED   "cpu_throttled:time:nanoseconds:wall:nanoseconds"
// Memory.
#define PROFILE_TYPE_PAGE_FAULT   "memory:page_fault:bytes:page_fault:bytes"
#define PROFILE_TYPE_RSS          "memory:rss:bytes:gauge:second"
#define PROFILE_TYPE_MAJOR_FAULTS "memory:major_faults:count:event:count"
#define PROFILE_TYPE_OOM_KILLS    "memory:oom_kills:count:event:count"
// GPU: what programs ask of it.
#define PROFILE_TYPE_GPU_WAIT          "gpu_wait:wait:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_GPU_LAUNCH        "gpu_launch:launches:count:launch:count"
#define PROFILE_TYPE_GPU_KERNEL        "gpu_kernel:device_time:nanoseconds:gpu:nanoseconds"
#define PROFILE_TYPE_GPU_KERNELS       "gpu_kernel:kernels:count:kernel:count"
#define PROFILE_TYPE_GPU_GRAPH         "gpu_graph:launches:count:launch:count"
#define PROFILE_TYPE_GPU_GRAPH_KERNELS "gpu_graph:kernels:count:launch:count"
#define PROFILE_TYPE_GPU_COPY          "gpu_copy:bytes:bytes:copy:bytes"
#define PROFILE_TYPE_GPU_COPIES        "gpu_copy:copies:count:copy:count"
#define PROFILE_TYPE_GPU_ALLOC         "gpu_memory:alloc:bytes:allocation:bytes"
#define PROFILE_TYPE_GPU_ALLOCATIONS   "gpu_memory:allocations:count:allocation:count"
#define PROFILE_TYPE_GPU_MEMORY        "gpu_memory:inuse:bytes:gauge:second"
#define PROFILE_TYPE_GPU_IDLE          "gpu_idle:idle:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_GPU_IDLE_TIME     "gpu_idle:time:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_NCCL_ENQUEUE      "nccl:enqueue:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_NCCL_SKEW         "nccl:skew:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_NCCL_BYTES        "nccl:bytes:bytes:call:bytes"
#define PROFILE_TYPE_NCCL_CALLS        "nccl:calls:count:call:count"
#define PROFILE_TYPE_GPU_LOAD          "gpu_module:load:nanoseconds:wall:nanoseconds"
// GPU: what its driver's management library (NVML) reports.
#define PROFILE_TYPE_GPU_BUSY           "gpu:busy:percent:gauge:second"
#define PROFILE_TYPE_GPU_SM_ACTIVE      "gpu:sm_active:percent:gauge:second"
#define PROFILE_TYPE_GPU_SM_OCCUPANCY   "gpu:sm_occupancy:percent:gauge:second"
#define PROFILE_TYPE_GPU_TENSOR_ACTIVE  "gpu:tensor_active:percent:gauge:second"
#define PROFILE_TYPE_GPU_FP64_ACTIVE    "gpu:fp64_active:percent:gauge:second"
#define PROFILE_TYPE_GPU_FP32_ACTIVE    "gpu:fp32_active:percent:gauge:second"
#define PROFILE_TYPE_GPU_FP16_ACTIVE    "gpu:fp16_active:percent:gauge:second"
#define PROFILE_TYPE_GPU_DRAM_ACTIVE    "gpu:dram_active:percent:gauge:second"
#define PROFILE_TYPE_GPU_MEMORY_BUSY    "gpu:memory_busy:percent:gauge:second"
#define PROFILE_TYPE_GPU_MEMORY_USED    "gpu:memory_used:bytes:gauge:second"
#define PROFILE_TYPE_GPU_PCIE_RECEIVED  "gpu:pcie_received:bytes:gauge:second"
#define PROFILE_TYPE_GPU_PCIE_SENT      "gpu:pcie_sent:bytes:gauge:second"
#define PROFILE_TYPE_GPU_PCIE_LINK      "gpu:pcie_link:bytes:gauge:second"
#define PROFILE_TYPE_GPU_POWER          "gpu:power:milliwatts:gauge:second"
#define PROFILE_TYPE_GPU_TEMPERATURE    "gpu:temperature:celsius:gauge:second"
#define PROFILE_TYPE_GPU_SM_CLOCK       "gpu:sm_clock:hertz:gauge:second"
#define PROFILE_TYPE_GPU_MEMORY_CLOCK   "gpu:memory_clock:hertz:gauge:second"
#define PROFILE_TYPE_GPU_THROTTLED      "gpu:throttled:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_GPU_PROCESS_BUSY   "gpu_process:busy:percent:gauge:second"
#define PROFILE_TYPE_GPU_PROCESS_MEMORY "gpu_process:memory_used:bytes:gauge:second"
// The profiler itself: service="cairn-agent".
#define PROFILE_TYPE_EVENTS           "cairn:events:count:event:count"
#define PROFILE_TYPE_OVERHEAD         "cairn:overhead:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_SHEDDING_CHANGES "cairn:shedding_changes:count:change:count"
#define PROFILE_TYPE_SHEDDING         "cairn:shedding:nanoseconds:wall:nanoseconds"

#define SERVICE_AGENT "cairn-agent"

/* Headings of the page's picker, in its order. */
enum profile_section {
	PROFILE_SECTION_THREAD_TIME,
	PROFILE_SECTION_MEMORY,
	PROFILE_SECTION_GPU,
	PROFILE_SECTION_GPU_TELEMETRY,
	PROFILE_SECTION_PROFILER,
	PROFILE_SECTION_COUNT,
};

enum { PROFILE_TYPE_LABELS_MAX = 5, PROFILE_TYPE_KNOBS_MAX = 4, PROFILE_TYPE_SEE_MAX = 3 };

struct profile_type_spec {
	const char *id;   // "OFF_CPU": the end of its name in C and in the page's module
	const char *type; // in five parts
	const char *word; // for --type and links: "off-cpu"; NULL: none
	const char *title;
	enum profile_section section;
	const char *meaning; // one sentence without its full stop
	// What its time per time is counted in: "cores"; of a gauge what follows its unit. NULL: the unit says it.
	const char *rate;
	const char *group_by; // unless somebody says otherwise; NULL: the service
	const char *labels[PROFILE_TYPE_LABELS_MAX + 1]; // that not all types have; NULL-terminated
	enum knob reduced_by[PROFILE_TYPE_KNOBS_MAX];    // those that take most first
	uint32_t reduced_by_count;
	const char *no_stacks; // why there are none, and what `see` has; NULL: there are stacks
	const char *
		see[PROFILE_TYPE_SEE_MAX + 1]; // types with stacks that explain it; NULL-terminated
};

/** All of them, in the picker's order. */
const struct profile_type_spec *profile_type_specs(uint32_t *ret_count);
/** The one of @type in five parts; NULL: this version does not know it. */
const struct profile_type_spec *profile_type_spec(const char *type);
/** Do its series have the label @name, which not all types have? */
bool profile_type_spec_has_label(const struct profile_type_spec *spec, const char *name);
/** "Thread time": a heading. */
const char *profile_section_title(enum profile_section section);
