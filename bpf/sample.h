/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// Counts and ring-buffer records, as BPF programs and agent exchange them.
#pragma once

#include "bpf/unwind/stack.h"
#include "bpf/unwind/table_layout.h"

#define THREAD_NAME_BYTES 16 // TASK_COMM_LEN

/* What was measured: selects the profile type. */
enum sample_kind {
	SAMPLE_KIND_ON_CPU = 1,      // value: ns of CPU time
	SAMPLE_KIND_OFF_CPU = 2,     // ns blocked, by the blocked stack
	SAMPLE_KIND_SCHED_DELAY = 3, // ns in a run queue, by the same stack
	// Exact totals by thread name, without stacks: ns ...
	SAMPLE_KIND_RUNNING = 4,   // on a CPU
	SAMPLE_KIND_RUN_QUEUE = 5, // in a run queue
	SAMPLE_KIND_BLOCKED = 6,
	SAMPLE_KIND_PAGE_FAULT = 7, // bytes of memory growth, by the faulting stack
	// Made by the agent: ns of CPU time in GPU busy-waits.
	SAMPLE_KIND_GPU_SPIN = 8,
	// ns blocked, by blocked and waker stack: `user` is wake_record.joined, and there is no other stack.
	SAMPLE_KIND_OFF_WAKE = 9,
	// GPU driver calls (gpu_call.h), by the calling stack.
	SAMPLE_KIND_GPU_LAUNCH = 16, // GPU kernels; kernel_leaf: 1 + log2 of the number of blocks
	SAMPLE_KIND_GPU_GRAPH = 17,  // graphs launched, by the stack that captured them
	SAMPLE_KIND_GPU_WAIT = 18,   // ns in calls that wait for the device
	SAMPLE_KIND_GPU_LOAD = 19,   // ns in calls that load code
	SAMPLE_KIND_GPU_ALLOC = 20,  // bytes allocated
	SAMPLE_KIND_GPU_MEMORY = 21, // made by the agent: bytes allocated, by second
	// Bytes copied, by direction and kind of host memory.
	SAMPLE_KIND_GPU_COPY_HTOD = 24,
	SAMPLE_KIND_GPU_COPY_HTOD_PINNED = 25,
	SAMPLE_KIND_GPU_COPY_HTOD_PAGEABLE = 26,
	SAMPLE_KIND_GPU_COPY_DTOH = 27,
	SAMPLE_KIND_GPU_COPY_DTOH_PINNED = 28,
	SAMPLE_KIND_GPU_COPY_DTOH_PAGEABLE = 29,
	SAMPLE_KIND_GPU_COPY_DTOD = 30,
	SAMPLE_KIND_GPU_COPY_UNKNOWN = 31,
	SAMPLE_KIND_GPU_SET = 32, // memset
	// Made by the agent: how many of each.
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
	// NCCL calls have no kernel stack. Its fields hold: kernel.high the communicator's id, the same in all
	// ranks (0: created before the probes came); kernel.low the rank and, above 32 bits, the number of
	// ranks; kernel_leaf an enum nccl_collective.
	SAMPLE_KIND_NCCL_ENQUEUE = 43, // ns in calls
	SAMPLE_KIND_NCCL_BYTES = 44,
	SAMPLE_KIND_NCCL_SKEW = 45,  // ns after the first rank's call
	SAMPLE_KIND_NCCL_CALLS = 46, // made by the agent: how many
	// ns in which the process's GPU had no work queued.
	SAMPLE_KIND_GPU_IDLE = 47,      // by the stack of the thread that should have queued some
	SAMPLE_KIND_GPU_IDLE_TIME = 48, // made by the agent: all of it, without stacks
	// Made by the agent: ns of GPU kernels on the device, and how many.
	SAMPLE_KIND_GPU_KERNEL = 51,
	SAMPLE_KIND_GPU_KERNELS = 52,
	// Made by the agent: GPU kernels launched by graphs, by the stacks that captured them.
	SAMPLE_KIND_GPU_GRAPH_KERNELS = 53,
	// As OFF_CPU and SCHED_DELAY, of captured intervals that stand in for others: value and samples are
	// weighted, and the agent scales them to the exact sums (agent/stacks/calibration.h).
	SAMPLE_KIND_OFF_CPU_SAMPLED = 54,
	SAMPLE_KIND_SCHED_DELAY_SAMPLED = 55,
	SAMPLE_KIND_LIMIT
};

/*
 * Key of a count. Hashed and compared as bytes: no padding. Leaf addresses stand beside the hash of their
 * callers; 0: no such stack.
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
	__u32 more_slots; // slots after the first that the interval covers; the value is spread evenly
};

/* kernel_leaf of the totals of threads that never get off-CPU stacks: kernel threads. */
#define TOTALS_WITHOUT_STACKS 1

struct count {
	__u64 value;   // in the kind's unit
	__u64 samples; // samples behind the value
};

/* Programs inside each counts map, by CPU. */
struct counts_users {
	__u64 in[2];
};

_Static_assert(sizeof(struct count_key) == 104, "no padding: it is a map's key");

struct tick_period {
	__u64 period_ns; // nominal, if ticks count cycles
	__u64 since_ns;  // monotonic time since when the timer has this period
};

/* First word of each ring-buffer record. */
enum record_kind {
	RECORD_STACK = 1,
	RECORD_PROCESS = 2,
	RECORD_SNAPSHOT = 3,
	RECORD_WAKE = 4,
};

struct stack_record {
	__u32 kind; // RECORD_STACK
	__u32 pad;
	struct raw_frame leaf;                // of the first sample; tag 0: none
	char process_name[THREAD_NAME_BYTES]; // comm of the main thread, in case it exits
	struct stack_trace trace;
};

_Static_assert(sizeof(struct stack_record) == 80, "header of a ring record");

/*
 * A sample that the unwinder has no table for yet: registers and stack memory, for the agent to unwind
 * later. It is in no count.
 */
#define SNAPSHOT_PAGES      4 // whole pages from sp's up; most stacks are shallower
#define SNAPSHOT_PAGE_BYTES 4096

struct snapshot_record {
	__u32 kind;           // RECORD_SNAPSHOT
	__u32 page_count;     // that were readable
	struct count_key key; // without the user stack
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

/* Bytes of a snapshot that are in use. */
static inline __u32 snapshot_record_size(const struct snapshot_record *record)
{
	return sizeof(*record) - (SNAPSHOT_PAGES - record->page_count) * SNAPSHOT_PAGE_BYTES;
}

enum waker_kind {
	WAKER_THREAD = 1,
	WAKER_KERNEL_THREAD = 2,
	WAKER_INTERRUPT = 3, // the interrupted thread is not the waker
};

/* A stack as in a count_key. */
struct wake_stack {
	struct process_key process; // zero without a user part
	struct stack_hash user;
	struct stack_hash kernel;
	struct raw_frame user_leaf;
	__u64 kernel_leaf;
};

/*
 * A blocked stack and a waker's stack, sent when the pair is first seen. Their stack traces have been sent
 * before.
 */
struct wake_record {
	__u32 kind;               // RECORD_WAKE
	__u32 waker_kind;         // enum waker_kind
	struct stack_hash joined; // hash of all below: key of the counts
	struct wake_stack blocked;
	struct wake_stack waker;
	char waker_name[THREAD_NAME_BYTES]; // comm; zero for interrupts
};

_Static_assert(sizeof(struct wake_record) == 184, "no padding: it is hashed");

enum process_event {
	PROCESS_EXEC = 1, // a process has new mappings and a new name
	PROCESS_FORK = 2, // a new process; threads are not reported
	PROCESS_EXIT = 3, // the last thread has exited
};

struct process_record {
	__u32 kind;  // RECORD_PROCESS
	__u32 event; // enum process_event
	struct process_key process;
	__u32 parent_pid;             // FORK: the kernel's tgid of the parent
	__u32 killed_by_oom;          // EXIT: 1 if the out-of-memory killer ended it
	char name[THREAD_NAME_BYTES]; // comm of the main thread
};

_Static_assert(sizeof(struct process_record) == 48, "no padding: it is copied out of the kernel");
