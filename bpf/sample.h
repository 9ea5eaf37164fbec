/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Samples as they are counted in the kernel, and the events of the process table.
#pragma once

#include "bpf/unwind/stack.h"
#include "bpf/unwind/table_layout.h"

#define THREAD_NAME_BYTES 16 // TASK_COMM_LEN

/* What was measured: selects the profile type. */
enum sample_kind {
	SAMPLE_KIND_ON_CPU = 1,      // value: nanoseconds of CPU time
	SAMPLE_KIND_OFF_CPU = 2,     // nanoseconds blocked, by the stack that blocked
	SAMPLE_KIND_SCHED_DELAY = 3, // nanoseconds runnable without a CPU, by the same stack
	// Exact, without stacks: nanoseconds that threads of this name spent ...
	SAMPLE_KIND_RUNNING = 4,   // on a CPU
	SAMPLE_KIND_RUN_QUEUE = 5, // runnable without one
	SAMPLE_KIND_BLOCKED = 6,
	SAMPLE_KIND_PAGE_FAULT = 7, // bytes that came into memory, by stack
	// The agent's own: nanoseconds of CPU time that went into waiting for a GPU.
	SAMPLE_KIND_GPU_SPIN = 8,
	// Nanoseconds blocked as in OFF_CPU, when somebody has ended the wait; `user` is the hash of a
	// struct wake_record, and there is no other stack.
	SAMPLE_KIND_OFF_WAKE = 9,
	// Calls of a GPU's driver (gpu_call.h), by the stack that made them.
	SAMPLE_KIND_GPU_LAUNCH =
		16, // kernels launched; kernel_leaf: 1 + log2 of the number of blocks
	SAMPLE_KIND_GPU_GRAPH = 17,  // graphs launched, by the stack that captured them
	SAMPLE_KIND_GPU_WAIT = 18,   // nanoseconds in calls that wait for the device
	SAMPLE_KIND_GPU_LOAD = 19,   // nanoseconds in calls that load code
	SAMPLE_KIND_GPU_ALLOC = 20,  // bytes allocated
	SAMPLE_KIND_GPU_MEMORY = 21, // the agent's own: bytes that are allocated, by second
	// Bytes copied, by direction and by what is known of the host's memory.
	SAMPLE_KIND_GPU_COPY_HTOD = 24,
	SAMPLE_KIND_GPU_COPY_HTOD_PINNED = 25,
	SAMPLE_KIND_GPU_COPY_HTOD_PAGEABLE = 26,
	SAMPLE_KIND_GPU_COPY_DTOH = 27,
	SAMPLE_KIND_GPU_COPY_DTOH_PINNED = 28,
	SAMPLE_KIND_GPU_COPY_DTOH_PAGEABLE = 29,
	SAMPLE_KIND_GPU_COPY_DTOD = 30,
	SAMPLE_KIND_GPU_COPY_UNKNOWN = 31,
	SAMPLE_KIND_GPU_SET = 32, // not copied: set to a value
	// The agent's own: how many of these there were.
	SAMPLE_KIND_GPU_ALLOCATIONS = 33,
	SAMPLE_KIND_GPU_COPIES_HTOD = 34,
	SAMPLE_KIND_GPU_COPIES_HTOD_PINNED = 35,
	SAMPLE_KIND_GPU_COPIES_HTOD_PAGEABLE = 36,
	SAMPLE_KIND_GPU_COPIES_DTOH = 37,
	SAMPLE_KIND_GPU_COPIES_DTOH_PINNED = 38,
	SAMPLE_KIND_GPU_COPIES_DTOH_PAGEABLE = 39,
	SAMPLE_KIND_GPU_COPIES_DTOD = 40,
	SAMPLE_KIND_GPU_COPIES_UNKNOWN = 41,
	SAMPLE_KIND_GPU_SETS = 42,
	// Calls of NCCL. Where other counts have the kernel's part of the stack theirs say of whom: kernel.high
	// is the communicator's identity, which is the same in all ranks (0: it was made before anybody looked),
	// kernel.low the rank, and above its 32 bits how many there are, kernel_leaf an enum nccl_collective.
	SAMPLE_KIND_NCCL_ENQUEUE = 43, // nanoseconds in calls
	SAMPLE_KIND_NCCL_BYTES = 44,
	SAMPLE_KIND_NCCL_SKEW = 45,  // nanoseconds after the first rank's call
	SAMPLE_KIND_NCCL_CALLS = 46, // the agent's own: how many there were
	// Nanoseconds in which the process's GPU had certainly nothing to do.
	SAMPLE_KIND_GPU_IDLE = 47, // by the stack of the thread that should have given it something
	SAMPLE_KIND_GPU_IDLE_TIME = 48, // the agent's own: all of it, without stacks
	// The agent's own: nanoseconds that kernels took on the device, and how many there were.
	SAMPLE_KIND_GPU_KERNEL = 51,
	SAMPLE_KIND_GPU_KERNELS = 52,
	// The agent's own: kernels launched by graphs, by the stacks that launched them when the graph was captured.
	SAMPLE_KIND_GPU_GRAPH_KERNELS = 53,
	SAMPLE_KIND_LIMIT
};

/*
 * What counts are kept by. Hashed and compared as bytes: no padding. The leaf's address is kept
 * beside the hash of its callers; 0 where there is no such stack.
 */
struct count_key {
	struct process_key process;
	char thread_name[THREAD_NAME_BYTES];
	struct stack_hash user;
	struct stack_hash kernel;
	struct raw_frame user_leaf;
	__u64 kernel_leaf;
	__u64 slot;       // Unix time / slot length
	__u32 kind;       // enum sample_kind
	__u32 more_slots; // that an interval covers after its first; the value is spread evenly
};

struct count {
	__u64 value;   // in the kind's unit
	__u64 samples; // how many samples make it up
};

/* Programs that are in each of the two maps of counts just now, on one CPU. */
struct counts_users {
	__u64 in[2];
};

_Static_assert(sizeof(struct count_key) == 104, "no padding: it is a map's key");

/* How a CPU ticks. */
struct tick_period {
	__u64 period_ns; // nominal, if the unit is cycles
	__u64 since_ns;  // monotonic time at which its timer was started with it
};

/* Records in the ring buffer begin with this word. */
enum record_kind {
	RECORD_STACK = 1,
	RECORD_PROCESS = 2,
	RECORD_SNAPSHOT = 3,
	RECORD_WAKE = 4,
};

struct stack_record {
	__u32 kind; // RECORD_STACK
	__u32 pad;
	struct raw_frame leaf;                // that it was first seen with; tag 0: none
	char process_name[THREAD_NAME_BYTES]; // comm of the main thread, should it be gone by then
	struct stack_trace trace;
};

_Static_assert(sizeof(struct stack_record) == 80, "header of a ring record");

/*
 * A sample of a thread whose code the unwinder did not know yet: its registers and the memory of its
 * stack, for the agent to unwind when it does. It is in no count.
 */
#define SNAPSHOT_PAGES      4 // whole pages from the one that sp lies in; most stacks are shallower
#define SNAPSHOT_PAGE_BYTES 4096

struct snapshot_record {
	__u32 kind;           // RECORD_SNAPSHOT
	__u32 page_count;     // that were readable
	struct count_key key; // without the user's stack
	struct count count;
	char process_name[THREAD_NAME_BYTES];
	__u64 pc;
	__u64 exact_pc; // as in struct unwind
	__u64 thread_pointer;
	__u64 registers[UNWIND_REGISTERS];
	__u8 stack[SNAPSHOT_PAGES * SNAPSHOT_PAGE_BYTES]; // page_count pages of it
};

_Static_assert(sizeof(struct snapshot_record) == 424 + SNAPSHOT_PAGES * SNAPSHOT_PAGE_BYTES,
	       "no padding: it is a ring record");

/* Bytes of a snapshot that count. */
static inline __u32 snapshot_record_size(const struct snapshot_record *record)
{
	return sizeof(*record) - (SNAPSHOT_PAGES - record->page_count) * SNAPSHOT_PAGE_BYTES;
}

/* Who ended a wait. */
enum waker_kind {
	WAKER_THREAD = 1,
	WAKER_KERNEL_THREAD = 2,
	WAKER_INTERRUPT = 3, // whoever it interrupted has nothing to do with it
};

/* A stack as it is in a count's key. */
struct wake_stack {
	struct process_key process; // zero if it has no user part
	struct stack_hash user;
	struct stack_hash kernel;
	struct raw_frame user_leaf;
	__u64 kernel_leaf;
};

/*
 * Two stacks that met: of a thread that was blocked, and of who woke it. Sent when the two first do;
 * the bodies of their parts have been sent before.
 */
struct wake_record {
	__u32 kind;               // RECORD_WAKE
	__u32 waker_kind;         // enum waker_kind
	struct stack_hash joined; // of all that follows: what is counted by
	struct wake_stack blocked;
	struct wake_stack waker;
	char waker_name[THREAD_NAME_BYTES]; // comm of the thread; zero for interrupts
};

_Static_assert(sizeof(struct wake_record) == 184, "no padding: it is hashed");

enum process_event {
	PROCESS_EXEC = 1, // a process was replaced: its mappings and name are new
	PROCESS_FORK = 2, // a new process, a copy of its parent (threads are not reported)
	PROCESS_EXIT = 3, // the last thread of a process has gone
};

struct process_record {
	__u32 kind;  // RECORD_PROCESS
	__u32 event; // enum process_event
	struct process_key process;
	__u32 parent_pid; // FORK: the kernel's tgid of the parent
	__u32 pad;
	char name[THREAD_NAME_BYTES]; // comm of the main thread
};

_Static_assert(sizeof(struct process_record) == 48, "no padding: it is copied out of the kernel");
