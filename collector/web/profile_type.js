// SPDX-License-Identifier: Apache-2.0
// Profile types as people call them: the lanes of the page. What is particular to a type is said
// here and nowhere else; base/profile_type.c has the same short names for the command line.

export const CPU_TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds";
export const BLOCKED_TYPE = "off_cpu:blocked:nanoseconds:wall:nanoseconds";
export const WAITING_TYPE = "sched_delay:wait:nanoseconds:wall:nanoseconds";
export const WALL_TYPE = "wall:time:nanoseconds:wall:nanoseconds";
export const GROWTH_TYPE = "memory:page_fault:bytes:page_fault:bytes";
export const THROTTLED_TYPE = "cpu_throttled:time:nanoseconds:wall:nanoseconds";
export const RESIDENT_TYPE = "memory:rss:bytes:gauge:second";
const WAIT_TYPE = "gpu_wait:wait:nanoseconds:wall:nanoseconds";
const LAUNCH_TYPE = "gpu_launch:launches:count:launch:count";
const INUSE_TYPE = "gpu_memory:inuse:bytes:gauge:second";
const IDLE_TYPE = "gpu_idle:idle:nanoseconds:wall:nanoseconds";
export const COST_TYPE = "cairn:cost:nanoseconds:wall:nanoseconds";
export const CHANGE_TYPE = "cairn:governor:count:change:count";
export const IN_FORCE_TYPE = "cairn:in_force:nanoseconds:wall:nanoseconds";

const TIME = "Time of threads";
const MEMORY = "Memory";
export const GPU = "GPUs";
const GAUGES = "What GPUs do";
const SELF = "The profiler itself";

// What the agents' changes begin with (agent/overhead/governor.c): what is less while they are in force. Calls of a
// GPU's driver go with the stacks of waits, but not with those of one process.
const WAITS = ["wall clock and waits ", "stacks of waits "];
const CALLS = ["stacks of waits at "];

// Labels that only some types have, by the beginnings of those types.
const OWN_LABELS = {
	wait: ["off_cpu:", "off_wake:"], state: ["wall:"], program: ["cairn:cost:"], change: ["cairn:governor:", "cairn:in_force:"],
	direction: ["gpu_copy:"], memory: ["gpu_copy:"],
	collective: ["nccl:"], communicator: ["nccl:"], rank: ["nccl:"], ranks: ["nccl:"],
	gpu: ["gpu:", "gpu_process:"], gpu_uuid: ["gpu:", "gpu_process:"], gpu_model: ["gpu:", "gpu_process:"],
	gpu_instance: ["gpu:", "gpu_process:"], reason: ["gpu:throttled:"],
};
export const LABELS_OF_TYPES = Object.keys(OWN_LABELS);

/** A level that the driver's management library tells of each GPU, once a second. */
function gaugeOfGpu(name, unit, title, about) {
	return { type: `gpu:${name}:${unit}:gauge:second`, title, section: GAUGES, label: "gpu_uuid", about,
		 stackless: "It is told of a GPU as a whole, without stacks. Which code keeps it busy, and what it waits for, is in:",
		 see: [LAUNCH_TYPE, WAIT_TYPE, IDLE_TYPE] };
}

/** A level of a process's on a GPU. */
function gaugeOfProcess(name, unit, title, about, see) {
	return { type: `gpu_process:${name}:${unit}:gauge:second`, title, section: GAUGES, label: "service", about,
		 stackless: "It is told of a process as a whole, without stacks. Which code it is, is in:", see };
}

/**
 * In the order of the picker.
 *   section  heading in the picker     about   what it is, in a sentence
 *   rate     what time per time is called; "cores" where it is time on a CPU. Of a level: what is said after its unit
 *   label    what it is grouped by unless a person says otherwise; then part of the type
 *   reducedBy  how changes by the agents begin that make this less, those that take most first
 *   idle     has waits of class "idle", which are left out unless asked for
 *   stackless  why there are no stacks; then `see` are the lanes that have some
 */
const LANES = [
	{ type: CPU_TYPE, short: "cpu", title: "CPU time", section: TIME, rate: "cores", reducedBy: ["sampling "],
	  about: "Time on a CPU, in the kernel too, by stack" },
	{ type: BLOCKED_TYPE, short: "off-cpu", title: "Blocked (off-CPU)", section: TIME, rate: "threads", label: "wait", idle: true,
	  reducedBy: WAITS,
	  about: "Time that threads waited for something, by the stack that waited; a lock, a disk, another process" },
	{ type: "off_wake:blocked:nanoseconds:wall:nanoseconds", short: "off-wake", title: "Woken by", section: TIME, rate: "threads", label: "wait",
	  idle: true, reducedBy: ["wakers ", ...WAITS],
	  about: "Blocked time by who ended it: below, the stack that waited; above, the waker's, from the function that woke up to its first" },
	{ type: WAITING_TYPE, short: "run-queue", title: "Waiting for a CPU", section: TIME, rate: "threads", reducedBy: WAITS,
	  about: "Time that threads could have run but had no CPU, by stack" },
	{ type: WALL_TYPE, short: "wall", title: "Wall clock", section: TIME, rate: "threads", label: "state", reducedBy: ["wall clock and waits "],
	  about: "Where all time of all threads went; exact, not sampled",
	  stackless: "These are exact sums per thread, and have no stacks. Each part has a lane of its own that has:",
	  see: [CPU_TYPE, WAITING_TYPE, BLOCKED_TYPE] },
	{ type: "gpu_wait:spin:nanoseconds:cpu:nanoseconds", short: "gpu-spin", title: "Spinning for a GPU", section: TIME, rate: "cores", reducedBy: ["sampling "],
	  about: "CPU time that went into waiting for a GPU, in the driver's loop; it is not in CPU time" },
	{ type: THROTTLED_TYPE, short: "throttled", title: "Throttled", section: TIME, rate: "CPUs held back",
	  about: "Time that a container's CPU quota kept it from running",
	  stackless: "The kernel counts this per container, without stacks. What used the quota up, and what waited for it, is in:",
	  see: [CPU_TYPE, WAITING_TYPE] },
	{ type: GROWTH_TYPE, short: "memory", title: "Memory growth", section: MEMORY, reducedBy: ["memory growth ", "page faults "],
	  about: "Memory touched for the first time, by the stack that touched it" },
	{ type: RESIDENT_TYPE, short: "rss", title: "Resident memory", section: MEMORY,
	  about: "Memory in use, looked at once a second",
	  stackless: "The kernel keeps this per process, without stacks. Which code makes it grow is in:", see: [GROWTH_TYPE] },
	{ type: "memory:major_faults:count:event:count", short: "major-faults", title: "Major faults", section: MEMORY,
	  about: "Page faults that had to read from a disk",
	  stackless: "The kernel counts these per process, without stacks. The time that threads waited for them is in:",
	  see: [BLOCKED_TYPE] },
	{ type: "memory:oom_kills:count:event:count", short: "oom-kills", title: "OOM kills", section: MEMORY,
	  about: "Processes that the kernel killed for want of memory",
	  stackless: "The kernel counts these per container, without stacks. What used the memory is in:",
	  see: [RESIDENT_TYPE, GROWTH_TYPE] },
	{ type: WAIT_TYPE, short: "gpu-wait", title: "Waiting for a GPU", section: GPU, rate: "threads", reducedBy: CALLS,
	  about: "Time in the driver's calls that wait for a GPU, spinning or asleep" },
	{ type: LAUNCH_TYPE, short: "gpu-launch", title: "Kernel launches", section: GPU, reducedBy: CALLS,
	  about: "Kernels launched, by the stack that launched them; the leaf is the kernel" },
	{ type: "gpu_kernel:device_time:nanoseconds:gpu:nanoseconds", short: "gpu-kernel", title: "Kernel time", section: GPU, rate: "kernels at a time",
	  about: "Time that kernels took on GPUs, by the stack that launched them; seen in windows of half a second, of processes with the CUPTI helper" },
	{ type: "gpu_kernel:kernels:count:kernel:count", title: "Kernels run", section: GPU,
	  about: "How many kernels GPUs ran, by the stack that launched them; seen in windows of half a second, of processes with the CUPTI helper" },
	{ type: "gpu_graph:launches:count:launch:count", short: "gpu-graph", title: "Graph launches", section: GPU, reducedBy: CALLS,
	  about: "CUDA graphs launched, by the stack that captured them" },
	{ type: "gpu_graph:kernels:count:launch:count", short: "gpu-nodes", title: "Kernels of graphs", section: GPU,
	  about: "Kernels that CUDA graphs launched, by the stacks that launched them while the graph was captured; the leaf is the kernel" },
	{ type: "gpu_copy:bytes:bytes:copy:bytes", short: "gpu-copy", title: "Copies", section: GPU, label: "direction", reducedBy: CALLS,
	  about: "Bytes copied to, from and on GPUs, by the stack that asked for it" },
	{ type: "gpu_copy:copies:count:copy:count", title: "Copies, by number", section: GPU, label: "direction", reducedBy: CALLS,
	  about: "How many copies there were to, from and on GPUs" },
	{ type: "gpu_memory:alloc:bytes:allocation:bytes", short: "gpu-alloc", title: "GPU memory allocated", section: GPU, reducedBy: CALLS,
	  about: "Memory of GPUs that was allocated, by the stack that did; what was freed since is in it" },
	{ type: "gpu_memory:allocations:count:allocation:count", title: "GPU allocations", section: GPU, reducedBy: CALLS,
	  about: "How often memory of GPUs was allocated" },
	{ type: INUSE_TYPE, short: "gpu-memory", title: "GPU memory in use", section: GPU, reducedBy: ["GPU memory in use ", ...CALLS],
	  about: "Memory of GPUs that is allocated and not freed, by the stack that allocated it; on average over the range" },
	{ type: IDLE_TYPE, short: "gpu-idle", title: "GPU waits for work", section: GPU, rate: "GPUs", reducedBy: [...WAITS, "sampling "],
	  about: "Time in which a process's GPU certainly had nothing to do, by what the thread did that should have given it something; a lower bound" },
	{ type: "gpu_idle:time:nanoseconds:wall:nanoseconds", title: "GPU idle, at least", section: GPU, rate: "GPUs",
	  about: "Time in which a process's GPU certainly had nothing to do: from the return of a wait for all its work until it is given some; a lower bound",
	  stackless: "This is all of it, without stacks. What was done meanwhile is in:", see: [IDLE_TYPE] },
	{ type: "nccl:enqueue:nanoseconds:wall:nanoseconds", short: "nccl-enqueue", title: "NCCL calls", section: GPU, rate: "threads", label: "collective", reducedBy: CALLS,
	  about: "Time in calls of NCCL, which give work to the GPU and mostly do not wait for it" },
	{ type: "nccl:lag:nanoseconds:wall:nanoseconds", short: "nccl-lag", title: "NCCL ranks late", section: GPU, rate: "ranks", label: "rank", reducedBy: CALLS,
	  about: "Time in which a rank had others of its node wait: since the first of them made the same call, by the stack of the late one" },
	{ type: "nccl:bytes:bytes:call:bytes", short: "nccl-bytes", title: "NCCL bytes", section: GPU, label: "collective", reducedBy: CALLS,
	  about: "Bytes that calls of NCCL were given, count times size" },
	{ type: "nccl:calls:count:call:count", title: "NCCL calls, by number", section: GPU, label: "collective", reducedBy: CALLS,
	  about: "How many calls of NCCL there were" },
	{ type: "gpu_module:load:nanoseconds:wall:nanoseconds", title: "Loading code onto GPUs", section: GPU, rate: "threads", reducedBy: CALLS,
	  about: "Time in the driver's calls that load code" },
	gaugeOfGpu("busy", "percent", "GPU busy", "Part of the time in which some kernel was resident on a GPU, however small"),
	gaugeOfGpu("sm_active", "percent", "Multiprocessors active", "Part of the multiprocessors' time in which they had work; Hopper and newer"),
	gaugeOfGpu("sm_occupancy", "percent", "Multiprocessors' occupancy", "How many of the warps that they have room for were resident; Hopper and newer"),
	gaugeOfGpu("tensor_active", "percent", "Tensor cores active", "Part of the time in which tensor cores worked; Hopper and newer"),
	gaugeOfGpu("fp64_active", "percent", "FP64 pipe active", "Part of the time in which the pipe for 64-bit floating point worked; Hopper and newer"),
	gaugeOfGpu("fp32_active", "percent", "FP32 pipe active", "Part of the time in which the pipe for 32-bit floating point worked; Hopper and newer"),
	gaugeOfGpu("fp16_active", "percent", "FP16 pipe active", "Part of the time in which the pipe for 16-bit floating point worked; Hopper and newer"),
	gaugeOfGpu("dram_active", "percent", "GPU memory's bandwidth in use", "Part of its bandwidth that a GPU's memory transferred with; Hopper and newer"),
	gaugeOfGpu("memory_busy", "percent", "GPU memory read or written", "Part of the time in which a GPU's memory was read or written"),
	gaugeOfGpu("memory_used", "bytes", "GPU memory used", "Memory of GPUs that is taken, by whomever"),
	{ ...gaugeOfGpu("pcie_received", "bytes", "PCIe, received", "Bytes a second that a GPU received over PCIe"), rate: "per second" },
	{ ...gaugeOfGpu("pcie_sent", "bytes", "PCIe, sent", "Bytes a second that a GPU sent over PCIe"), rate: "per second" },
	{ ...gaugeOfGpu("pcie_link", "bytes", "PCIe, what the link carries", "Bytes a second that a GPU's link carries one way; less while it has nothing to carry"), rate: "per second" },
	gaugeOfGpu("power", "milliwatts", "GPU power", "Power that a GPU draws"),
	gaugeOfGpu("temperature", "celsius", "GPU temperature", "How hot a GPU is"),
	gaugeOfGpu("sm_clock", "hertz", "Multiprocessors' clock", "How fast a GPU's multiprocessors are clocked"),
	gaugeOfGpu("memory_clock", "hertz", "GPU memory's clock", "How fast a GPU's memory is clocked"),
	{ ...gaugeOfGpu("throttled", "", "GPU throttled", "Time in which a GPU's clocks were held down, by the reason; at its power cap a full GPU always is"),
	  type: "gpu:throttled:nanoseconds:wall:nanoseconds", label: "reason", rate: "GPUs" },
	gaugeOfProcess("busy", "percent", "GPU busy, by process", "Part of a GPU's multiprocessors' time that a process had; not under MIG", [LAUNCH_TYPE, WAIT_TYPE]),
	gaugeOfProcess("memory_used", "bytes", "GPU memory used, by process", "Memory of a GPU that a process has, its context included", [INUSE_TYPE]),
	{ type: COST_TYPE, short: "cost", title: "Cost of profiling", section: SELF, rate: "cores", label: "program", reducedBy: ["cost "],
	  about: "What the agent and its kernel programs cost, measured by the agent",
	  stackless: "The agent measures this per program, without stacks. What it did to stay within its budget is in:",
	  see: [CHANGE_TYPE] },
	{ type: CHANGE_TYPE, short: "governor", title: "Changes by the governor", section: SELF, label: "change",
	  about: "What the agent changed to stay within its budget",
	  stackless: "A change is a sentence. How long each was in force, and what the agents cost, is in:",
	  see: [IN_FORCE_TYPE, COST_TYPE] },
	{ type: IN_FORCE_TYPE, title: "Changes in force", section: SELF, rate: "agents", label: "change",
	  about: "For how long what the agents changed was in force, and in how many of them",
	  stackless: "A change is a sentence. When each was made, and what the agents cost, is in:",
	  see: [CHANGE_TYPE, COST_TYPE] },
];

const BY_TYPE = new Map(LANES.map((lane) => [lane.type, lane]));
const SECTIONS = [TIME, MEMORY, GPU, GAUGES, SELF];
const OTHERS = "Others";

/** The lane of @type; a type that is not known here has its own name, and stacks unless it is a level. */
export function laneOf(type) {
	return BY_TYPE.get(type) ?? unknownLane(String(type));
}

function unknownLane(type) {
	const [name, sampleType, , periodType] = type.split(":");
	const lane = { type, title: `${name} ${sampleType}`.replaceAll("_", " "), section: OTHERS, rate: isGauge(type) ? undefined : periodType === "cpu" ? "cores" : "threads",
		       about: "" };

	return isGauge(type) ? { ...lane, about: "A level, looked at once a second", stackless: "It has no stacks.", see: [] } : lane;
}

/** "CPU time" for process_cpu:cpu:…, otherwise its name and sample type as they are. */
export function typeTitle(type) {
	return laneOf(type).title;
}

/** What a link says for @type: its short name if it has one. */
export function wordOfType(type) {
	return BY_TYPE.get(type)?.short ?? type;
}

/** The type that @word of a link means: a short name's, else @word itself. */
export function typeOfWord(word) {
	return LANES.find((lane) => lane.short === word)?.type ?? word;
}

/** Is a value of @type a level (of memory in use), not an amount that adds up over time? */
export function isGauge(type) {
	return String(type).split(":")[3] === "gauge";
}

/** Do values of several series of @type make a sum? Temperatures, clocks and percentages do not: theirs is a mean. */
export function addsUp(type) {
	return !isGauge(type) || !["percent", "celsius", "hertz"].includes(String(type).split(":")[2]);
}

/** Is @label one that only some types have, and @type none of them? A selector on it would find nothing. */
export function isForeign(label, type) {
	return LABELS_OF_TYPES.includes(label) && !OWN_LABELS[label].some((beginning) => type.startsWith(beginning));
}

/** @types as [{ section, lanes }] in the picker's order. */
export function lanesOf(types) {
	const place = new Map(LANES.map((lane, at) => [lane.type, at]));
	const lanes = types.map(laneOf).sort((a, b) => (place.get(a.type) ?? LANES.length) - (place.get(b.type) ?? LANES.length) ||
		(a.title < b.title ? -1 : 1));

	return [...SECTIONS, OTHERS].map((section) => ({ section, lanes: lanes.filter((lane) => lane.section === section) }))
		.filter(({ lanes: some }) => some.length > 0);
}
