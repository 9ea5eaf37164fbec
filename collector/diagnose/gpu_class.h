// SPDX-License-Identifier: Apache-2.0
// What may keep a GPU from doing more, in words for people: titles, and what to try next.
#pragma once

/** Names are in the API: append only. */
enum gpu_class {
	GPU_CLASS_NO_GPU,
	GPU_CLASS_NO_DEMAND,
	GPU_CLASS_NONE,      // nothing stands out in what is known
	GPU_CLASS_AMBIGUOUS, // two are as large
	GPU_CLASS_STARVED,
	GPU_CLASS_CPU_BOUND,
	GPU_CLASS_LAUNCH_BOUND,
	GPU_CLASS_COPY_BOUND,
	GPU_CLASS_IMPLICIT_SYNC,
	GPU_CLASS_COMPUTE_BOUND,
	GPU_CLASS_MEMORY_BOUND,
	GPU_CLASS_BUSY, // the GPU is the bottleneck, and it is unknown which part of it
	GPU_CLASS_ALLOCATOR,
	GPU_CLASS_MEMORY_GROWTH,
	GPU_CLASS_LOCK,
	GPU_CLASS_GIL,
	GPU_CLASS_COLLECTIVE,
	GPU_CLASS_THROTTLED,
	GPU_CLASS_CONTENTION,
	GPU_CLASS_COUNT,
};

/** "gpu_starved": for machines. */
const char *gpu_class_name(enum gpu_class class);
const char *gpu_class_title(enum gpu_class class);
/** What to try next, sentences in a NULL-terminated array. */
const char *const *gpu_class_advice(enum gpu_class class);
