// SPDX-License-Identifier: Apache-2.0
// The profile model: what the agent drains, what the wire carries, what the collector stores and
// what the exporters write. Samples refer to series (whose, and what was measured) and to stacks;
// stacks refer to locations; locations to lines. All references are positions in the profile's
// own arrays.
//
// Identities outlive names. A location's id is a hash of what it is (module identity and offset,
// or qualified name, file and line when interpreted), a stack's id is a hash of its locations'
// ids; both are equal on every host and after every restart. Names may come later.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/hash_table.h"
#include "base/id128.h"
#include "base/labels.h"
#include "base/string_table.h"

enum {
	STACK_FRAMES_MAX = 1024, // user and kernel together; the agent sends at most 512
	LOCATION_LINES_MAX = 64, // inlined calls at one address
	PROFILE_LOCATIONS_MAX = 1 << 22,
	PROFILE_STACKS_MAX = 1 << 22,
	PROFILE_SERIES_MAX = 1 << 20,
	PROFILE_SAMPLES_MAX = 1 << 26,
};

/** On-CPU time; the default type everywhere. Pyroscope's five-part form. */
#define PROFILE_TYPE_CPU "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
/** Blocked, from losing the CPU until woken, by the stack that blocked; series have a label "wait". */
#define PROFILE_TYPE_OFF_CPU "off_cpu:blocked:nanoseconds:wall:nanoseconds"
/** The same, told when somebody ended the wait: the waker's stack lies on top of the blocked one. */
#define PROFILE_TYPE_OFF_WAKE "off_wake:blocked:nanoseconds:wall:nanoseconds"
/** Runnable without a CPU, from wake-up or preemption until it has one, by stack. */
#define PROFILE_TYPE_SCHED_DELAY "sched_delay:wait:nanoseconds:wall:nanoseconds"
/** Exact sums per thread, without stacks; a label "state" says running, waiting or blocked. */
#define PROFILE_TYPE_WALL "wall:time:nanoseconds:wall:nanoseconds"
/** CPU time that went into waiting for a GPU, in the driver's loop; it is in no other type. */
#define PROFILE_TYPE_GPU_SPIN "gpu_wait:spin:nanoseconds:cpu:nanoseconds"
/** Kernels launched on a GPU, by the stack that launched them; the leaf is the kernel. */
#define PROFILE_TYPE_GPU_LAUNCH "gpu_launch:launches:count:launch:count"
/** CUDA graphs launched, by the stack that captured them. */
#define PROFILE_TYPE_GPU_GRAPH "gpu_graph:launches:count:launch:count"
/** Kernels that graphs launched, by the stacks that launched them when the graph was captured. */
#define PROFILE_TYPE_GPU_GRAPH_KERNELS "gpu_graph:kernels:count:launch:count"
/** Time in the driver's calls that wait for a GPU, spinning or asleep. */
#define PROFILE_TYPE_GPU_WAIT "gpu_wait:wait:nanoseconds:wall:nanoseconds"
/** Time in the driver's calls that load code. */
#define PROFILE_TYPE_GPU_LOAD "gpu_module:load:nanoseconds:wall:nanoseconds"
/** Bytes copied to, from and on GPUs, and how many copies; labels "direction" and "memory". */
#define PROFILE_TYPE_GPU_COPY   "gpu_copy:bytes:bytes:copy:bytes"
#define PROFILE_TYPE_GPU_COPIES "gpu_copy:copies:count:copy:count"
/** Memory of GPUs that was allocated, and how often. */
#define PROFILE_TYPE_GPU_ALLOC       "gpu_memory:alloc:bytes:allocation:bytes"
#define PROFILE_TYPE_GPU_ALLOCATIONS "gpu_memory:allocations:count:allocation:count"
/** Memory of GPUs that is allocated, each second, by the stack that did. */
#define PROFILE_TYPE_GPU_MEMORY "gpu_memory:inuse:bytes:gauge:second"
/** Time that kernels took on GPUs, by the stack that launched them, and how many; only in windows of the helper. */
#define PROFILE_TYPE_GPU_KERNEL  "gpu_kernel:device_time:nanoseconds:gpu:nanoseconds"
#define PROFILE_TYPE_GPU_KERNELS "gpu_kernel:kernels:count:kernel:count"
/**
 * Time in which a process's GPU had certainly nothing to do, a lower bound: without stacks, and what of it is known
 * by the stack of the thread that let it wait.
 */
#define PROFILE_TYPE_GPU_IDLE_TIME "gpu_idle:time:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_GPU_IDLE      "gpu_idle:idle:nanoseconds:wall:nanoseconds"
/**
 * Calls of NCCL, by the stack that makes them; labels "communicator", "rank", "ranks" and "collective": time in
 * them, what they move, how many there were, and how long after the first rank of this node they came.
 */
#define PROFILE_TYPE_NCCL_ENQUEUE "nccl:enqueue:nanoseconds:wall:nanoseconds"
#define PROFILE_TYPE_NCCL_BYTES   "nccl:bytes:bytes:call:bytes"
#define PROFILE_TYPE_NCCL_CALLS   "nccl:calls:count:call:count"
#define PROFILE_TYPE_NCCL_LAG     "nccl:lag:nanoseconds:wall:nanoseconds"
/** Memory that was touched for the first time, by stack. */
#define PROFILE_TYPE_PAGE_FAULT "memory:page_fault:bytes:page_fault:bytes"

/** What kind of code a frame is. Numbers are on the wire and in the store: append only. */
enum frame_kind {
	FRAME_KIND_UNKNOWN = 0,
	FRAME_KIND_NATIVE = 1,
	FRAME_KIND_KERNEL = 2,
	FRAME_KIND_PYTHON = 3,
	FRAME_KIND_JIT = 4,
	FRAME_KIND_COUNT,
};

/** Why a stack ended. Numbers are on the wire and in the store: append only. */
enum stack_end {
	STACK_END_COMPLETE = 0, // the thread's first function was reached
	STACK_END_DEPTH = 1,    // more frames than the unwinder keeps
	STACK_END_FAULT = 2,    // user memory was not readable (swapped out, or not a stack)
	STACK_END_NO_FRAME_POINTER = 3, // the frame pointer chain stopped making sense
	STACK_END_NO_TABLE = 4,         // code without unwind information
	STACK_END_NO_REGISTERS = 5,     // the thread's user registers could not be had
	STACK_END_COMPAT = 6,           // a 32-bit task
	STACK_END_LOST = 7,             // the stack's body did not reach the agent (buffer full)
	STACK_END_NO_MAPPING = 8,       // code of which the unwinder does not know the file (yet)
	STACK_END_BAD_FRAME = 9,        // the unwind information led to no frame
	STACK_END_UNSUPPORTED = 10,     // a rule that the unwinder does not know
	STACK_END_PYTHON = 11, // the first function was reached, but Python frames are missing
	STACK_END_COUNT,
};

/** "native", "kernel", "python", "jit", "unknown". */
const char *frame_kind_name(enum frame_kind kind);
/** The reason in words, as shown in "[truncated: no frame pointer]"; "complete" for the first. */
const char *stack_end_name(enum stack_end end);

/** A source line, or just a function if file is 0. Numbers refer to the profile's strings. */
struct line {
	uint32_t name;   // function, demangled; qualified if interpreted
	uint32_t file;   // source file, 0: unknown
	uint32_t number; // 1-based, 0: unknown
};

/** One frame of code. */
struct location {
	struct id128 id;
	enum frame_kind kind;
	uint32_t module;   // string: path of the executable or library, "[kernel]", a module's name
	uint32_t build_id; // string: GNU build id or file hash in hex, 0: none
	uint64_t offset;   // within the module's file, in bytes
	uint32_t first_line; // into profile->lines, innermost (inlined) first
	uint32_t line_count; // 0: not symbolized
};

struct stack {
	struct id128 id;
	enum stack_end end;
	uint32_t first_location; // into profile->stack_locations, leaf first
	uint32_t location_count;
	bool defined; // false: only the id is known here (the collector has the locations)
};

struct series {
	struct labels labels;
	uint32_t type;   // string: five-part profile type
	struct id128 id; // of labels and type
};

struct sample {
	uint32_t series;
	uint32_t stack;
	uint64_t slot; // Unix time / profile->slot_ns; 0 in a merged profile
	int64_t value; // in the type's unit
	// An interval: so many slots after the first are covered too, and the value is spread evenly.
	uint32_t more_slots;
};

/** One thread at a time. Fields are for reading; writing goes through the functions below. */
struct profile {
	uint64_t slot_ns;
	uint64_t from_ns; // Unix time covered, [from, to)
	uint64_t to_ns;
	struct string_table strings;
	struct line *lines;
	uint32_t line_count, line_capacity;
	struct location *locations;
	uint32_t location_count, location_capacity;
	uint32_t *stack_locations;
	uint32_t stack_location_count, stack_location_capacity;
	struct stack *stacks;
	uint32_t stack_count, stack_capacity;
	struct series *series;
	uint32_t series_count, series_capacity;
	struct sample *samples;
	uint32_t sample_count, sample_capacity;
	struct hash_table location_index, stack_index, series_index;
};

/** An empty profile with slots of @slot_ns, or NULL when out of memory. */
struct profile *profile_new(uint64_t slot_ns);
void profile_free(struct profile *profile);
void profile_freep(struct profile **profile);

/**
 * The number of @string in the profile's table. Returns 0, -ENOMEM or -E2BIG.
 */
int profile_add_string(struct profile *profile, const char *string, uint32_t *ret_number);
const char *profile_string(const struct profile *profile, uint32_t number);

/**
 * Add a location, or find the one with the same id. @location's id, kind, module, build_id and
 * offset are taken; its lines are @lines (copied). A location found takes them if they say more:
 * names where there were none, source files where there were names only.
 * Returns 0; -ENOMEM; -E2BIG at PROFILE_LOCATIONS_MAX or LOCATION_LINES_MAX.
 */
int profile_add_location(struct profile *profile, const struct location *location,
			 const struct line *lines, uint32_t line_count, uint32_t *ret_location);
/** How much a location's lines say: 0 nothing, 1 names, 2 source files, too. */
uint32_t location_detail(const struct profile *profile, const struct location *location);
/** The position of the location with @id, or HASH_TABLE_NONE. */
uint32_t profile_find_location(const struct profile *profile, struct id128 id);

/**
 * Add a stack of @count positions of locations, leaf first, or find the equal one. Its id is
 * stack_id_of() of the locations' ids. Returns 0; -ENOMEM; -E2BIG at PROFILE_STACKS_MAX or
 * STACK_FRAMES_MAX; -EINVAL if there is no such location.
 */
int profile_add_stack(struct profile *profile, const uint32_t *locations, uint32_t count,
		      enum stack_end end, uint32_t *ret_stack);
/** Add a stack of which only the id is known, or find it. Errors as above. */
int profile_add_stack_id(struct profile *profile, struct id128 id, uint32_t *ret_stack);
/**
 * Give a stack added by profile_add_stack_id() its locations. Returns 0; -EBADMSG if the id is
 * not the one of these locations; otherwise as profile_add_stack().
 */
int profile_define_stack(struct profile *profile, uint32_t stack, const uint32_t *locations,
			 uint32_t count, enum stack_end end);

/**
 * Add a series, or find the equal one. @labels are copied.
 * Returns 0; -ENOMEM; -E2BIG at PROFILE_SERIES_MAX.
 */
int profile_add_series(struct profile *profile, const struct labels *labels, const char *type,
		       uint32_t *ret_series);
struct id128 series_id_of(const struct labels *labels, const char *type);

/**
 * Append a sample; equal (series, stack, slot) are not joined here. Returns 0; -ENOMEM; -E2BIG at
 * PROFILE_SAMPLES_MAX; -EINVAL if there is no such series or stack.
 */
int profile_add_sample(struct profile *profile, uint32_t series, uint32_t stack, uint64_t slot,
		       int64_t value);
/** The same for one that covers @more_slots slots after its first, too. */
int profile_add_interval(struct profile *profile, uint32_t series, uint32_t stack, uint64_t slot,
			 uint32_t more_slots, int64_t value);
/** Sort samples by (series, slot, stack, more_slots) and join equal ones by adding their values. */
void profile_sort_samples(struct profile *profile);

/**
 * Leave the samples out of whose series @keep says no. Series and stacks stay. Returns the sum of the
 * values left out.
 */
int64_t profile_keep_samples(struct profile *profile,
			     bool (*keep)(void *context, const struct profile *profile,
					  const struct series *series),
			     void *context);

/**
 * Identity of a location in a binary: @module_id is the build id or file hash (for the kernel:
 * its release and the symbol's name), @offset is in the file (for the kernel: in the symbol).
 */
struct id128 location_id_of_offset(enum frame_kind kind, const char *module_id, uint64_t offset);
/** Identity of an interpreted frame. */
struct id128 location_id_of_line(enum frame_kind kind, const char *name, const char *file,
				 uint32_t line);
/** Identity of a stack: its locations' ids, leaf first, and why it ended. */
struct id128 stack_id_of(const struct id128 *location_ids, uint32_t count, enum stack_end end);

/**
 * What a frame is called wherever names are shown: "name", for Python "name (file.py:line)",
 * for the kernel "name_[k]", and "module+0xoffset" when unresolved. @line is a position in the
 * location's lines (0: innermost); it is ignored when there are none. The result is cut to
 * @size and cleaned by frame_name_clean().
 */
void location_display_name(const struct profile *profile, const struct location *location,
			   uint32_t line, char *ret_name, size_t size);

/**
 * Make a name fit to be a frame of a collapsed stack, in place: ';' becomes ':', newlines and other
 * control characters become spaces, bytes that are not UTF-8 become '?'.
 */
void frame_name_clean(char *name);
