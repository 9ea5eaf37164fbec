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
		.title = "Nothing to do for the GPU",
		.advice = { "The threads that launch its work wait for work: look at who should send it." },
	},
	[GPU_CLASS_NONE] = {
		.name = "gpu_none",
		.title = "Nothing stands out about the GPU",
		.advice = { "Look at what is not known: a cause may hide there." },
	},
	[GPU_CLASS_AMBIGUOUS] = {
		.name = "gpu_ambiguous",
		.title = "More than one thing holds the GPU up",
		.advice = { "Look at each: they are too near to each other to name one." },
	},
	[GPU_CLASS_STARVED] = {
		.name = "gpu_starved",
		.title = "The GPU waits for input that is being prepared",
		.advice = { "More workers that prepare, or a larger prefetch queue.",
			    "The service's other threads, in CPU time, say what preparing costs.",
			    "Do once what every batch does again: decoding, tokenizing." },
	},
	[GPU_CLASS_CPU_BOUND] = {
		.name = "gpu_cpu_bound",
		.title = "The GPU waits for the code that launches its work",
		.advice = { "The functions shown run while the GPU has nothing to do.",
			    "Launch the next step before this one's result is looked at.",
			    "CUDA graphs or torch.compile take Python out of the loop." },
	},
	[GPU_CLASS_LAUNCH_BOUND] = {
		.name = "gpu_launch_bound",
		.title = "Many small kernels: launching takes longer than running them",
		.advice = { "The same stack launches again and again: capture it as a CUDA graph.",
			    "Larger batches, or fused kernels (torch.compile)." },
	},
	[GPU_CLASS_COPY_BOUND] = {
		.name = "gpu_copy_bound",
		.title = "Copies to the GPU hold it up",
		.advice = { "Pin the memory that is copied (pin_memory=True), and copy with non_blocking=True.",
			    "Copy on a stream of its own while the step before runs.",
			    "Send what is smaller: uint8 instead of float, and convert on the GPU." },
	},
	[GPU_CLASS_IMPLICIT_SYNC] = {
		.name = "gpu_implicit_sync",
		.title = "The code waits for the GPU where nobody asked it to",
		.advice = { "The Python line shown reads a result: .item(), .cpu(), .tolist(), a boolean mask.",
			    "Read results once every few steps, or keep them on the GPU.",
			    "torch.cuda.set_sync_debug_mode(\"warn\") names each such line." },
	},
	[GPU_CLASS_COMPUTE_BOUND] = {
		.name = "gpu_compute_bound",
		.title = "The GPU is the bottleneck: it computes",
		.advice = { "This is what a GPU is bought for. More throughput takes a lower precision, a "
			    "faster kernel or another GPU." },
	},
	[GPU_CLASS_MEMORY_BOUND] = {
		.name = "gpu_memory_bound",
		.title = "The GPU is the bottleneck: its memory's bandwidth",
		.advice = { "Decoding of language models is expected to land here.",
			    "Larger batches read the weights once for more tokens; smaller weights or "
			    "caches (FP8) are read faster." },
	},
	[GPU_CLASS_BUSY] = {
		.name = "gpu_busy",
		.title = "The GPU is the bottleneck",
		.advice = { "Neither its arithmetic nor its memory's bandwidth is known to be full: small "
			    "or unbalanced kernels, or figures that are missing.",
			    "A profiler of kernels says which: Nsight Compute on one step." },
	},
	[GPU_CLASS_ALLOCATOR] = {
		.name = "gpu_allocator",
		.title = "GPU memory is allocated and freed all the time",
		.advice = { "Keep buffers and use them again; a free waits for the whole device.",
			    "PyTorch: shapes that vary fragment its cache; PYTORCH_CUDA_ALLOC_CONF="
			    "expandable_segments:True, and no empty_cache() in loops." },
	},
	[GPU_CLASS_MEMORY_GROWTH] = {
		.name = "gpu_memory_growth",
		.title = "GPU memory only grows",
		.advice = { "The stacks that have more memory at the end than at the beginning are the "
			    "ones to look at.",
			    "Tensors that are kept: losses added up with their graphs, caches without a limit." },
	},
	[GPU_CLASS_LOCK] = {
		.name = "gpu_lock",
		.title = "Threads that launch wait for locks",
		.advice = { "The stacks say which lock: hold it for less, or launch from one thread." },
	},
	[GPU_CLASS_GIL] = {
		.name = "gpu_gil",
		.title = "Threads that launch wait for Python's global interpreter lock",
		.advice = { "The Python functions with the most CPU time in the other threads hold it: move "
			    "them to a process of their own.",
			    "`cairn dump PID` shows who holds it now." },
	},
	[GPU_CLASS_COLLECTIVE] = {
		.name = "gpu_collective",
		.title = "Ranks wait for each other",
		.advice = { "A late rank that is named above has the others of its node wait: the stacks "
			    "say what it does.",
			    "Skew between nodes is not measured: there the rank that waits least is the late "
			    "one; see its own verdict.",
			    "A GPU looks fully busy while it waits for another one." },
	},
	[GPU_CLASS_THROTTLED] = {
		.name = "gpu_throttled",
		.title = "The GPU's clocks are held down",
		.advice = { "Cooling, power supply or a fault: the label `reason` says which." },
	},
	[GPU_CLASS_CONTENTION] = {
		.name = "gpu_contention",
		.title = "Other processes use the same GPU",
		.advice = { "gpu_process:busy by service says who.",
			    "MIG or another GPU keeps them apart." },
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
