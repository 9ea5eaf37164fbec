// SPDX-License-Identifier: Apache-2.0
#include "base/contract/profile_types.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/contract/label_names.h"

static const char *const sections[PROFILE_SECTION_COUNT] = {
	[PROFILE_SECTION_THREAD_TIME] = "Thread time",
	[PROFILE_SECTION_MEMORY] = "Memory",
	[PROFILE_SECTION_GPU] = "GPU",
	[PROFILE_SECTION_GPU_TELEMETRY] = "GPU telemetry",
	[PROFILE_SECTION_PROFILER] = "Profiler",
};

#define TYPE(name) .id = #name, .type = PROFILE_TYPE_##name
#define IN(name)   .section = PROFILE_SECTION_##name
#define REDUCED_BY(...)                \
	.reduced_by = { __VA_ARGS__ }, \
	.reduced_by_count = ARRAY_SIZE(((enum knob[]){ __VA_ARGS__ }))
#define OFF_CPU_KNOBS KNOB_OFF_CPU, KNOB_OFF_CPU_UNWIND, KNOB_PROCESS_OFF_CPU
#define GPU_CALL      IN(GPU), REDUCED_BY(KNOB_OFF_CPU_UNWIND)
#define NCCL_LABELS   LABEL_COLLECTIVE, LABEL_COMMUNICATOR, LABEL_RANK, LABEL_RANKS
#define COPY_LABELS   LABEL_DIRECTION, LABEL_MEMORY
#define GPU_LABELS    LABEL_GPU, LABEL_GPU_UUID, LABEL_GPU_MODEL, LABEL_GPU_INSTANCE
#define HOPPER        "; Hopper and newer"
#define OF_GPU                                                                                     \
	IN(GPU_TELEMETRY),                                                                         \
		.no_stacks = "NVML reports this for the whole GPU, without stacks. The code that " \
			     "keeps it "                                                           \
			     "busy or idle:",                                                      \
		.see = { PROFILE_TYPE_GPU_LAUNCH, PROFILE_TYPE_GPU_WAIT, PROFILE_TYPE_GPU_IDLE }
#define GAUGE_OF_GPU OF_GPU, .group_by = LABEL_GPU_UUID, .labels = { GPU_LABELS }
#define GAUGE_OF_PROCESS                                                                    \
	IN(GPU_TELEMETRY), .group_by = LABEL_SERVICE,                                       \
			   .labels = { LABEL_GPU, LABEL_GPU_UUID, LABEL_GPU_INSTANCE },     \
			   .no_stacks = "NVML reports this for the whole process, without " \
					"stacks. The code behind it:"
#define SHEDDING_LABELS LABEL_KNOB, LABEL_STEP, LABEL_PID, LABEL_COMM

static const struct profile_type_spec specs[] = {
	{ TYPE(CPU), IN(THREAD_TIME), .word = "cpu", .title = "CPU time", .rate = "cores",
	  REDUCED_BY(KNOB_CPU_FREQUENCY), .meaning = "Time on a CPU, user and kernel, by stack" },
	{ TYPE(OFF_CPU), IN(THREAD_TIME), .word = "off-cpu", .title = "Blocked (off-CPU)",
	  .rate = "threads", .group_by = LABEL_WAIT, .labels = { LABEL_WAIT },
	  REDUCED_BY(OFF_CPU_KNOBS),
	  .meaning =
		  "Time blocked, by the stack that blocked: on a lock, a disk, a socket, another "
		  "process" },
	{ TYPE(OFF_WAKE), IN(THREAD_TIME), .word = "off-wake", .title = "Off-wake (wakers)",
	  .rate = "threads", .group_by = LABEL_WAIT, .labels = { LABEL_WAIT },
	  REDUCED_BY(KNOB_WAKERS, OFF_CPU_KNOBS),
	  .meaning = "Time blocked, by the blocked stack with its waker's stack on top" },
	{ TYPE(SCHED_DELAY), IN(THREAD_TIME), .word = "run-queue", .title = "Run queue",
	  .rate = "threads", REDUCED_BY(OFF_CPU_KNOBS),
	  .meaning = "Run-queue latency: time runnable without a CPU, by stack" },
	{ TYPE(WALL), IN(THREAD_TIME), .word = "wall", .title = "Wall clock", .rate = "threads",
	  .group_by = LABEL_STATE, .labels = { LABEL_STATE }, REDUCED_BY(KNOB_OFF_CPU),
	  .meaning = "All time of all threads, by state; exact, not sampled",
	  .no_stacks =
		  "Exact sums per thread, without stacks. Each state has a profile with stacks:",
	  .see = { PROFILE_TYPE_CPU, PROFILE_TYPE_SCHED_DELAY, PROFILE_TYPE_OFF_CPU } },
	{ TYPE(GPU_SPIN), IN(THREAD_TIME), .word = "gpu-spin", .title = "GPU busy-wait",
	  .rate = "cores", REDUCED_BY(KNOB_CPU_FREQUENCY),
	  .meaning = "CPU time spent polling for a GPU in its driver, by stack; not in CPU time: "
		     "CPU time + busy-wait = what top shows" },
	{ TYPE(THROTTLED), IN(THREAD_TIME), .word = "throttled", .title = "Throttled",
	  .rate = "CPUs throttled",
	  .meaning = "Time that a container's CPU quota throttled it, summed over CPUs",
	  .no_stacks = "The kernel counts this per container, without stacks. What used up the "
		       "quota, and what waited for it:",
	  .see = { PROFILE_TYPE_CPU, PROFILE_TYPE_SCHED_DELAY } },

	{ TYPE(PAGE_FAULT), IN(MEMORY), .word = "memory", .title = "Memory growth",
	  REDUCED_BY(KNOB_PAGE_FAULTS, KNOB_PAGE_FAULTS_UNWIND),
	  .meaning = "Memory touched for the first time (page faults), by stack" },
	{ TYPE(RSS), IN(MEMORY), .word = "rss", .title = "Resident memory",
	  .meaning = "Resident memory, sampled once a second",
	  .no_stacks = "The kernel counts this per process, without stacks. The code that makes it "
		       "grow:",
	  .see = { PROFILE_TYPE_PAGE_FAULT } },
	{ TYPE(MAJOR_FAULTS), IN(MEMORY), .word = "major-faults", .title = "Major faults",
	  .meaning = "Page faults that read from a disk",
	  .no_stacks = "The kernel counts these per process, without stacks. The time that threads "
		       "were blocked on them:",
	  .see = { PROFILE_TYPE_OFF_CPU } },
	{ TYPE(OOM_KILLS), IN(MEMORY), .word = "oom-kills", .title = "OOM kills",
	  .meaning = "Processes killed by the kernel's out-of-memory killer",
	  .no_stacks = "A process that is killed has no stack any more. What used the "
		       "memory:",
	  .see = { PROFILE_TYPE_RSS, PROFILE_TYPE_PAGE_FAULT } },

	{ TYPE(GPU_WAIT), GPU_CALL, .word = "gpu-wait", .title = "Waiting for a GPU",
	  .rate = "threads",
	  .meaning = "Time in driver calls that wait for a GPU, busy or asleep, by stack" },
	{ TYPE(GPU_LAUNCH), GPU_CALL, .word = "gpu-launch", .title = "GPU kernel launches",
	  .labels = { LABEL_GRID },
	  .meaning = "GPU kernels launched, by the launching stack; the leaf is the GPU kernel" },
	{ TYPE(GPU_KERNEL), IN(GPU), .word = "gpu-kernel", .title = "GPU kernel time",
	  .rate = "GPU kernels at a time",
	  .meaning = "Time of GPU kernels on the device, by the launching stack; measured in CUPTI "
		     "sessions of half a second" },
	{ TYPE(GPU_KERNELS), IN(GPU), .title = "GPU kernels run",
	  .meaning = "GPU kernels run on the device, by the launching stack; measured in CUPTI "
		     "sessions of half a second" },
	{ TYPE(GPU_GRAPH), GPU_CALL, .word = "gpu-graph", .title = "CUDA graph launches",
	  .meaning = "CUDA graphs launched, by the stack that captured them" },
	{ TYPE(GPU_GRAPH_KERNELS), IN(GPU), .word = "gpu-graph-kernels",
	  .title = "CUDA graph kernels",
	  .meaning = "GPU kernels launched by CUDA graphs, by the stack that launched them during "
		     "capture; the leaf is the GPU kernel" },
	{ TYPE(GPU_COPY), GPU_CALL, .word = "gpu-copy", .title = "GPU copies",
	  .group_by = LABEL_DIRECTION, .labels = { COPY_LABELS },
	  .meaning = "Bytes copied to, from and on GPUs, by stack" },
	{ TYPE(GPU_COPIES), GPU_CALL, .title = "GPU copies (count)", .group_by = LABEL_DIRECTION,
	  .labels = { COPY_LABELS }, .meaning = "Copies to, from and on GPUs, by stack" },
	{ TYPE(GPU_ALLOC), GPU_CALL, .word = "gpu-alloc", .title = "GPU memory allocated",
	  .meaning = "GPU memory allocated, by stack, whether freed since or not" },
	{ TYPE(GPU_ALLOCATIONS), GPU_CALL, .title = "GPU allocations (count)",
	  .meaning = "Allocations of GPU memory, by stack" },
	{ TYPE(GPU_MEMORY), IN(GPU), .word = "gpu-memory", .title = "GPU memory in use",
	  REDUCED_BY(KNOB_GPU_MEMORY, KNOB_OFF_CPU_UNWIND),
	  .meaning =
		  "GPU memory allocated and not freed, by the allocating stack; the mean over the "
		  "range" },
	{ TYPE(GPU_IDLE), IN(GPU), .word = "gpu-idle", .title = "GPU idle (no work queued)",
	  .rate = "GPUs", REDUCED_BY(OFF_CPU_KNOBS, KNOB_CPU_FREQUENCY),
	  .meaning = "Time in which a process's GPU had no work queued, by the stack of the thread "
		     "that launches; a lower bound" },
	{ TYPE(GPU_IDLE_TIME), IN(GPU), .title = "GPU idle, total (no work queued)", .rate = "GPUs",
	  .meaning = "Time in which a process's GPU had no work queued: from the end of a full "
		     "synchronization to the next launch; a lower bound",
	  .no_stacks = "This is the whole idle time, without stacks. What the launching thread did "
		       "meanwhile:",
	  .see = { PROFILE_TYPE_GPU_IDLE } },
	{ TYPE(NCCL_ENQUEUE), GPU_CALL, .word = "nccl-enqueue", .title = "NCCL call time",
	  .rate = "threads", .group_by = LABEL_COLLECTIVE, .labels = { NCCL_LABELS },
	  .meaning =
		  "Time in NCCL calls on the CPU, by stack; they enqueue work and rarely wait for "
		  "it" },
	{ TYPE(NCCL_SKEW), GPU_CALL, .word = "nccl-skew", .title = "NCCL skew", .rate = "ranks",
	  .group_by = LABEL_RANK, .labels = { NCCL_LABELS },
	  .meaning = "Collective skew: arrival lag of a rank after the node's first, by the rank's "
		     "stack" },
	{ TYPE(NCCL_BYTES), GPU_CALL, .word = "nccl-bytes", .title = "NCCL bytes",
	  .group_by = LABEL_COLLECTIVE, .labels = { NCCL_LABELS },
	  .meaning = "Bytes passed to NCCL calls (count times element size), by stack" },
	{ TYPE(NCCL_CALLS), GPU_CALL, .title = "NCCL calls (count)", .group_by = LABEL_COLLECTIVE,
	  .labels = { NCCL_LABELS }, .meaning = "NCCL calls, by stack" },
	{ TYPE(GPU_LOAD), GPU_CALL, .title = "GPU module loading", .rate = "threads",
	  .meaning = "Time in driver calls that load GPU code, by stack" },

	{ TYPE(GPU_BUSY), GAUGE_OF_GPU, .title = "GPU busy",
	  .meaning = "Percent of time with at least one GPU kernel resident, however small" },
	{ TYPE(GPU_SM_ACTIVE), GAUGE_OF_GPU, .title = "SM active",
	  .meaning = "Percent of SM time with work" HOPPER },
	{ TYPE(GPU_SM_OCCUPANCY), GAUGE_OF_GPU, .title = "SM occupancy",
	  .meaning = "Resident warps in percent of the maximum" HOPPER },
	{ TYPE(GPU_TENSOR_ACTIVE), GAUGE_OF_GPU, .title = "Tensor cores active",
	  .meaning = "Percent of time with tensor cores active" HOPPER },
	{ TYPE(GPU_FP64_ACTIVE), GAUGE_OF_GPU, .title = "FP64 pipe active",
	  .meaning = "Percent of time with the 64-bit floating-point pipe active" HOPPER },
	{ TYPE(GPU_FP32_ACTIVE), GAUGE_OF_GPU, .title = "FP32 pipe active",
	  .meaning = "Percent of time with the 32-bit floating-point pipe active" HOPPER },
	{ TYPE(GPU_FP16_ACTIVE), GAUGE_OF_GPU, .title = "FP16 pipe active",
	  .meaning = "Percent of time with the 16-bit floating-point pipe active" HOPPER },
	{ TYPE(GPU_DRAM_ACTIVE), GAUGE_OF_GPU, .title = "DRAM active",
	  .meaning = "Percent of GPU memory bandwidth in use" HOPPER },
	{ TYPE(GPU_MEMORY_BUSY), GAUGE_OF_GPU, .title = "GPU memory busy",
	  .meaning = "Percent of time with GPU memory being read or written" },
	{ TYPE(GPU_MEMORY_USED), GAUGE_OF_GPU, .title = "GPU memory used",
	  .meaning = "GPU memory used by all processes" },
	{ TYPE(GPU_PCIE_RECEIVED), GAUGE_OF_GPU, .title = "PCIe received", .rate = "per second",
	  .meaning = "Bytes per second that a GPU received over PCIe" },
	{ TYPE(GPU_PCIE_SENT), GAUGE_OF_GPU, .title = "PCIe sent", .rate = "per second",
	  .meaning = "Bytes per second that a GPU sent over PCIe" },
	{ TYPE(GPU_PCIE_LINK), GAUGE_OF_GPU, .title = "PCIe link capacity", .rate = "per second",
	  .meaning = "Bytes per second that the PCIe link can carry one way; lower while it saves "
		     "power" },
	{ TYPE(GPU_POWER), GAUGE_OF_GPU, .title = "GPU power", .meaning = "Power draw of a GPU" },
	{ TYPE(GPU_TEMPERATURE), GAUGE_OF_GPU, .title = "GPU temperature",
	  .meaning = "Temperature of a GPU" },
	{ TYPE(GPU_SM_CLOCK), GAUGE_OF_GPU, .title = "SM clock",
	  .meaning = "Clock rate of a GPU's SMs" },
	{ TYPE(GPU_MEMORY_CLOCK), GAUGE_OF_GPU, .title = "GPU memory clock",
	  .meaning = "Clock rate of a GPU's memory" },
	{ TYPE(GPU_THROTTLED), OF_GPU, .title = "GPU throttled", .rate = "GPUs",
	  .group_by = LABEL_REASON, .labels = { GPU_LABELS, LABEL_REASON },
	  .meaning =
		  "Time with a GPU's clocks throttled, by reason; a fully loaded GPU is always at "
		  "its power cap" },
	{ TYPE(GPU_PROCESS_BUSY), GAUGE_OF_PROCESS, .title = "GPU busy, by process",
	  .see = { PROFILE_TYPE_GPU_LAUNCH, PROFILE_TYPE_GPU_WAIT },
	  .meaning = "Percent of SM time used by a process; not under MIG" },
	{ TYPE(GPU_PROCESS_MEMORY), GAUGE_OF_PROCESS, .title = "GPU memory used, by process",
	  .see = { PROFILE_TYPE_GPU_MEMORY },
	  .meaning = "GPU memory used by a process, its CUDA context included" },

	{ TYPE(OVERHEAD), IN(PROFILER), .word = "overhead", .title = "Profiler overhead",
	  .rate = "cores", .group_by = LABEL_PROGRAM, .labels = { LABEL_PROGRAM },
	  REDUCED_BY(KNOB_OVERHEAD_BUDGET), .meaning = "CPU time of the agent and its BPF programs",
	  .no_stacks = "The agent measures this per program, without stacks. What it shed to stay "
		       "within its overhead budget:",
	  .see = { PROFILE_TYPE_SHEDDING_CHANGES } },
	{ TYPE(SHEDDING_CHANGES), IN(PROFILER), .word = "shedding-changes",
	  .title = "Load-shedding changes", .group_by = LABEL_KNOB, .labels = { SHEDDING_LABELS },
	  .meaning = "Changes by the agent's governor to stay within the overhead budget",
	  .no_stacks = "A change has no stack. How long each step was active, and the overhead:",
	  .see = { PROFILE_TYPE_SHEDDING, PROFILE_TYPE_OVERHEAD } },
	{ TYPE(SHEDDING), IN(PROFILER), .word = "shedding", .title = "Active load shedding",
	  .rate = "agents", .group_by = LABEL_KNOB, .labels = { SHEDDING_LABELS },
	  .meaning = "Time with a shedding step active, and in how many agents",
	  .no_stacks = "A shedding step has no stack. When each was taken, and the overhead:",
	  .see = { PROFILE_TYPE_SHEDDING_CHANGES, PROFILE_TYPE_OVERHEAD } },
	{ TYPE(EVENTS), IN(PROFILER), .word = "counters", .title = "Profiler counters",
	  .group_by = LABEL_COUNTER, .labels = { LABEL_COUNTER },
	  .meaning = "What the agent and its BPF programs counted: samples, unwound frames, "
		     "losses; docs/counters.md explains each",
	  .no_stacks = "A counter has no stack. What the agent shed, and its overhead:",
	  .see = { PROFILE_TYPE_SHEDDING, PROFILE_TYPE_OVERHEAD } },
};

const struct profile_type_spec *profile_type_specs(uint32_t *ret_count)
{
	*ret_count = ARRAY_SIZE(specs);
	return specs;
}

const struct profile_type_spec *profile_type_spec(const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(specs); i++) {
		if (strcmp(specs[i].type, type) == 0)
			return &specs[i];
	}
	return NULL;
}

bool profile_type_spec_has_label(const struct profile_type_spec *spec, const char *name)
{
	for (const char *const *label = spec->labels; *label; label++) {
		if (strcmp(*label, name) == 0)
			return true;
	}
	return false;
}

const char *profile_section_title(enum profile_section section)
{
	return sections[section];
}
