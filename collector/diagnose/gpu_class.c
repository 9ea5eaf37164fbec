// SPDX-License-Identifier: Apache-2.0
#include "collector/diagnose/gpu_class.h"

static const struct {
	const char *name, *title;
	const char *advice[4];
} classes[GPU_CLASS_COUNT] = {
	[GPU_CLASS_NO_GPU] = {
		.name = "no_gpu",
		.title = "No GPU is used",
	},
	[GPU_CLASS_NO_DEMAND] = {
		.name = "gpu_no_demand",
		.title = "The GPU has no demand",
		.advice = { "Diagnose the clients, or the queue before it: launching threads wait for requests." },
	},
	[GPU_CLASS_NONE] = {
		.name = "gpu_none",
		.title = "No GPU bottleneck found",
		.advice = { "Record the unknown figures below: the bottleneck may be among them." },
	},
	[GPU_CLASS_AMBIGUOUS] = {
		.name = "gpu_ambiguous",
		.title = "Several GPU bottlenecks of similar size",
		.advice = { "Check each: their shares are within 20 % of each other." },
	},
	[GPU_CLASS_STARVED] = {
		.name = "gpu_starved",
		.title = "GPU starved: input is prepared too slowly",
		.advice = { "Add data-loading workers, or enlarge the prefetch queue.",
			    "Make the preparation cheaper: the CPU time of the service's other threads shows what it is.",
			    "Do per-batch work once and cache it: decoding, tokenizing." },
	},
	[GPU_CLASS_CPU_BOUND] = {
		.name = "gpu_cpu_bound",
		.title = "CPU bound: the GPU is idle while code runs between launches",
		.advice = { "Make the functions shown cheaper: they run while the GPU is idle.",
			    "Launch the next step before reading this one's result.",
			    "Take Python out of the loop: CUDA graphs, torch.compile." },
	},
	[GPU_CLASS_LAUNCH_BOUND] = {
		.name = "gpu_launch_bound",
		.title = "Launch bound: too many small GPU kernels",
		.advice = { "Capture the stack that launches most as a CUDA graph.",
			    "Use larger batches, or fuse GPU kernels (torch.compile)." },
	},
	[GPU_CLASS_COPY_BOUND] = {
		.name = "gpu_copy_bound",
		.title = "Copy bound: the GPU waits for copies from the host",
		.advice = { "Pin the host memory (pin_memory=True), and copy with non_blocking=True.",
			    "Copy on a separate stream while the previous step runs.",
			    "Copy fewer bytes: uint8 instead of float, converted on the GPU." },
	},
	[GPU_CLASS_IMPLICIT_SYNC] = {
		.name = "gpu_implicit_sync",
		.title = "Implicit synchronization: code waits for the GPU by reading results",
		.advice = { "Remove what reads a result at the Python line shown: .item(), .cpu(), .tolist(), a boolean mask.",
			    "Read results once every few steps, or keep them on the GPU.",
			    "torch.cuda.set_sync_debug_mode(\"warn\") reports each such line." },
	},
	[GPU_CLASS_COMPUTE_BOUND] = {
		.name = "gpu_compute_bound",
		.title = "GPU bound: compute",
		.advice = { "The GPU is used well. For more throughput use a lower precision, faster GPU "
			    "kernels or another GPU." },
	},
	[GPU_CLASS_MEMORY_BOUND] = {
		.name = "gpu_memory_bound",
		.title = "GPU bound: memory bandwidth",
		.advice = { "Expected when a language model decodes.",
			    "Use larger batches, which read the weights once for more tokens, or smaller "
			    "weights and caches (FP8)." },
	},
	[GPU_CLASS_BUSY] = {
		.name = "gpu_busy",
		.title = "GPU bound: cause unknown",
		.advice = { "Neither compute nor memory bandwidth is saturated, as far as it was measured. "
			    "Likely: small or unbalanced GPU kernels.",
			    "Profile one step with Nsight Compute." },
	},
	[GPU_CLASS_ALLOCATOR] = {
		.name = "gpu_allocator",
		.title = "Allocator bound: frequent GPU allocations and frees",
		.advice = { "Reuse buffers: a free waits for the whole device.",
			    "PyTorch: varying shapes fragment its cache. Set PYTORCH_CUDA_ALLOC_CONF="
			    "expandable_segments:True, and call no empty_cache() in loops." },
	},
	[GPU_CLASS_MEMORY_GROWTH] = {
		.name = "gpu_memory_growth",
		.title = "GPU memory grows without bound",
		.advice = { "See the stacks shown: they hold more memory at the end of the range than at "
			    "its beginning.",
			    "Common causes: losses summed with their graphs, caches without a limit." },
	},
	[GPU_CLASS_LOCK] = {
		.name = "gpu_lock",
		.title = "Lock contention: launching threads wait for locks",
		.advice = { "Hold the lock that the stacks show for less time, or launch from one thread." },
	},
	[GPU_CLASS_GIL] = {
		.name = "gpu_gil",
		.title = "GIL contention: launching threads wait for Python's global interpreter lock",
		.advice = { "Find functions with much CPU time in other threads that do not release the "
			    "GIL, and move them to another process.",
			    "`cairn dump PID` shows the thread that holds it now." },
	},
	[GPU_CLASS_COLLECTIVE] = {
		.name = "gpu_collective",
		.title = "Collective skew: ranks wait for one rank",
		.advice = { "The stacks show what that rank does before the collective call.",
			    "Skew between nodes is not measured: the rank that waits least is late; see its "
			    "own verdict.",
			    "A GPU that waits for other ranks looks fully busy." },
	},
	[GPU_CLASS_THROTTLED] = {
		.name = "gpu_throttled",
		.title = "GPU throttled: reduced clocks",
		.advice = { "Check cooling and power supply: label `reason` of gpu:throttled has the cause." },
	},
	[GPU_CLASS_CONTENTION] = {
		.name = "gpu_contention",
		.title = "GPU contention: other processes use the same GPU",
		.advice = { "Select all services and open GPU busy, by process: the other services on this "
			    "GPU are the competitors.",
			    "Separate them by MIG, or by GPU." },
	},
};

const char *gpu_class_name(enum gpu_class class)
{
	return classes[class].name;
}

const char *gpu_class_title(enum gpu_class class)
{
	return classes[class].title;
}

const char *const *gpu_class_advice(enum gpu_class class)
{
	return classes[class].advice;
}
