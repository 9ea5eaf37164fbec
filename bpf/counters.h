/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What the kernel programs did and lost, one per-CPU counter each. Declared once: the enum, the
// names on the metrics page and their sentences come from this list.
#pragma once

#define BPF_COUNTERS(X)                                                                          \
	X(SAMPLES, "samples", "Samples taken.")                                                  \
	X(SAMPLES_IDLE, "samples_idle", "Ticks that found the CPU idle.")                        \
	X(SAMPLES_FILTERED, "samples_filtered", "Samples of processes that were not asked for.") \
	X(COUNTS_FULL, "counts_full", "Samples dropped because the counts map was full.")        \
	X(COUNTS_BUSY, "counts_busy",                                                            \
	  "Samples dropped because the counts map was locked by the interrupted program.")       \
	X(STACKS_SENT, "stacks_sent", "Stack bodies sent to the agent.")                         \
	X(STACKS_FULL, "stacks_full",                                                            \
	  "Stack bodies not remembered as sent because the map of known stacks was full.")       \
	X(RING_FULL, "ring_full", "Records dropped because the ring buffer was full.")           \
	X(FOLLOWED_FULL, "followed_full",                                                        \
	  "Children not sampled because the map of followed processes was full.")                \
	X(SNAPSHOTS, "snapshots",                                                                \
	  "Samples handed to the agent to unwind, because the process was new to the unwinder.") \
	X(SNAPSHOTS_LOST, "snapshots_lost",                                                      \
	  "Samples of new processes counted with a cut stack because the ring buffer was full.") \
	X(TICKS_LATE, "ticks_late",                                                              \
	  "Ticks not charged to the thread they hit because they came late and it had just "     \
	  "begun: the CPU was idle without ticks.")                                              \
	X(USER_FRAMES, "user_frames", "User frames unwound.")                                    \
	X(KERNEL_FRAMES, "kernel_frames", "Kernel frames unwound.")                              \
	X(COUNTS_NEW, "counts_new", "Different counts that were put into the counts map.")       \
	X(SWITCHES, "switches", "Times that a thread lost its CPU.")                             \
	X(SWITCHES_UNKNOWN, "switches_unknown",                                                  \
	  "Times that a thread lost its CPU before it was known to the accounting of time; "     \
	  "what it did until then is told when it is.")                                          \
	X(THREADS_FULL, "threads_full",                                                          \
	  "Threads of which no time was told because there was no memory to keep it.")           \
	X(WAITS_UNWOUND, "waits_unwound", "Waits whose stack was unwound.")                      \
	X(WAITS_NOT_CHOSEN, "waits_not_chosen",                                                  \
	  "Waits that others stand for, because not all could be unwound.")                      \
	X(WAITS_SWEPT, "waits_swept",                                                            \
	  "Waits that had lasted some time when the kernel's part of their stack was taken.")    \
	X(WAITS_BUSY, "waits_busy", "Waits left out because the agent was just counting them.")  \
	X(MEMO_HITS, "memo_hits",                                                                \
	  "Waits in the same place as the thread's last one, by its memo.")                      \
	X(MEMO_CHECKED, "memo_checked", "Memo hits that were unwound all the same.")             \
	X(MEMO_WRONG, "memo_wrong", "Checked memo hits whose stack was another.")                \
	X(FAULTS_SAMPLED, "faults_sampled", "Page faults that were sampled.")                    \
	X(FAULTS_UNCHARGED, "faults_uncharged",                                                  \
	  "Page faults that no sample stands for: the last of a storm, or there was no memory.") \
	X(WAKES, "wakes", "Wake-ups of threads of services whose wakers are asked for.")         \
	X(WAKES_UNWOUND, "wakes_unwound", "Wake-ups whose waker's stack was taken.")             \
	X(WAKES_NOT_CHOSEN, "wakes_not_chosen",                                                  \
	  "Wake-ups that others stand for, because not all could be unwound.")                   \
	X(WAKES_BUSY, "wakes_busy",                                                              \
	  "Wake-ups left out because the thread's wait was just being counted.")                 \
	X(GPU_CALLS, "gpu_calls", "Calls of GPU drivers that were probed, launches left out.")   \
	X(GPU_LAUNCHES, "gpu_launches", "Kernel launches seen while they were probed.")          \
	X(GPU_STACKS, "gpu_stacks", "Calls of GPU drivers whose stack was taken.")               \
	X(GPU_UNCHARGED, "gpu_uncharged",                                                        \
	  "Calls of GPU drivers that no stack stands for: the last of a storm.")                 \
	X(GPU_BUSY, "gpu_busy",                                                                  \
	  "Calls of GPU drivers left out because two others were being counted on their CPU.")   \
	X(GPU_NESTED, "gpu_nested",                                                              \
	  "Calls of GPU drivers whose end was not followed: too many within each other.")        \
	X(GPU_FULL, "gpu_full",                                                                  \
	  "Allocations, functions and graphs of GPUs not kept because a map was full.")          \
	X(NCCL_MISMATCHED, "nccl_mismatched",                                                    \
	  "Calls of NCCL whose lag is not known: other ranks' n-th call is another one.")        \
	X(GPU_UNKNOWN_FREES, "gpu_unknown_frees",                                                \
	  "Memory of GPUs freed that was allocated before anybody looked.")                      \
	X(SLEEPERS_TAKEN, "sleepers_taken",                                                      \
	  "Threads that slept for long with a cut stack, or none, whose stack was then taken.")  \
	X(SLEEPERS_CUT, "sleepers_cut", "Such threads whose stack was still cut.")

enum bpf_counter {
#define X(name, text, help) COUNTER_##name,
	BPF_COUNTERS(X)
#undef X
		COUNTER_COUNT,
};
