/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What the kernel programs did and lost, one per-CPU counter each. Declared once: the enum and the
// sentences in the agent's log come from this list.
#pragma once

#define BPF_COUNTERS(X)                                                                           \
	X(SAMPLES, "Samples taken.")                                                              \
	X(SAMPLES_IDLE, "Ticks that found the CPU idle.")                                         \
	X(SAMPLES_FILTERED, "Samples of processes that were not asked for.")                      \
	X(COUNTS_FULL, "Samples dropped because the counts map was full.")                        \
	X(COUNTS_BUSY,                                                                            \
	  "Samples dropped because the counts map was locked by the interrupted program.")        \
	X(STACKS_SENT, "Stack bodies sent to the agent.")                                         \
	X(STACKS_FULL,                                                                            \
	  "Stack bodies not remembered as sent because the map of known stacks was full.")        \
	X(RING_FULL, "Records dropped because the ring buffer was full.")                         \
	X(FOLLOWED_FULL, "Children not sampled because the map of followed processes was full.")  \
	X(SNAPSHOTS,                                                                              \
	  "Samples handed to the agent to unwind, because the process was new to the unwinder.")  \
	X(SNAPSHOTS_LOST,                                                                         \
	  "Samples of new processes counted with a cut stack because the ring buffer was full.")  \
	X(TICKS_LATE,                                                                             \
	  "Ticks not charged to the thread they hit because they came late and it had just "      \
	  "begun: the CPU was idle without ticks.")                                               \
	X(USER_FRAMES, "User frames unwound.")                                                    \
	X(KERNEL_FRAMES, "Kernel frames unwound.")                                                \
	X(COUNTS_NEW, "Different counts that were put into the counts map.")                      \
	X(SWITCHES, "Times that a thread lost its CPU.")                                          \
	X(SWITCHES_UNKNOWN,                                                                       \
	  "Times that a thread lost its CPU before it was known to the accounting of time; "      \
	  "what it did until then is told when it is.")                                           \
	X(THREADS_FULL,                                                                           \
	  "Threads of which no time was told because there was no memory to keep it.")            \
	X(WAITS_UNWOUND, "Waits whose stack was unwound.")                                        \
	X(WAITS_NOT_CHOSEN, "Waits that others stand for, because not all could be unwound.")     \
	X(WAITS_SWEPT,                                                                            \
	  "Waits that had lasted some time when the kernel's part of their stack was taken.")     \
	X(WAITS_BUSY, "Waits left out because the agent was just counting them.")                 \
	X(MEMO_HITS, "Waits in the same place as the thread's last one, by its memo.")            \
	X(MEMO_CHECKED, "Memo hits that were unwound all the same.")                              \
	X(MEMO_WRONG, "Checked memo hits whose stack was another.")                               \
	X(FAULTS_SAMPLED, "Page faults that were sampled.")                                       \
	X(FAULTS_UNCHARGED,                                                                       \
	  "Page faults that no sample stands for: the last of a storm, or there was no memory.")  \
	X(WAKES, "Wake-ups of threads of services whose wakers are asked for.")                   \
	X(WAKES_UNWOUND, "Wake-ups whose waker's stack was taken.")                               \
	X(WAKES_NOT_CHOSEN, "Wake-ups that others stand for, because not all could be unwound.")  \
	X(WAKES_BUSY, "Wake-ups left out because the thread's wait was just being counted.")      \
	X(GPU_CALLS, "Calls of GPU drivers that were probed, launches left out.")                 \
	X(GPU_LAUNCHES, "Kernel launches seen while they were probed.")                           \
	X(GPU_STACKS, "Calls of GPU drivers whose stack was taken.")                              \
	X(GPU_UNCHARGED, "Calls of GPU drivers that no stack stands for: the last of a storm.")   \
	X(GPU_BUSY,                                                                               \
	  "Calls of GPU drivers left out because two others were being counted on their CPU.")    \
	X(GPU_NESTED,                                                                             \
	  "Calls of GPU drivers whose end was not followed: too many within each other.")         \
	X(GPU_FULL, "Allocations, functions and graphs of GPUs not kept because a map was full.") \
	X(NCCL_MISMATCHED,                                                                        \
	  "Calls of NCCL whose lag is not known: other ranks' n-th call is another one.")         \
	X(GPU_CAPTURES_MISSED,                                                                    \
	  "Captures of CUDA graphs of which not all launches were seen: probes came later.")      \
	X(GPU_UNKNOWN_FREES, "Memory of GPUs freed that was allocated before anybody looked.")    \
	X(SLEEPERS_TAKEN,                                                                         \
	  "Threads that slept for long with a cut stack, or none, whose stack was then taken.")   \
	X(SLEEPERS_CUT, "Such threads whose stack was still cut.")

enum bpf_counter {
#define X(name, sentence) COUNTER_##name,
	BPF_COUNTERS(X)
#undef X
		COUNTER_COUNT,
};
