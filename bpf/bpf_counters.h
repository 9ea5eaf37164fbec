/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What the kernel programs did and dropped: one per-CPU counter each, declared here only.
// A sentence says what one increment means; a second one, what to do about a loss.
#pragma once

#define BPF_COUNTERS(X)                                                                            \
	X(SAMPLES, "On-CPU samples counted.")                                                      \
	X(TICKS_IDLE, "Timer ticks that hit an idle CPU.")                                         \
	X(TICKS_LATE, "Timer ticks not counted: the CPU was idle, and its late tick would charge " \
		      "idle time to the thread that just began. Nothing is lost.")                 \
	X(SAMPLES_FILTERED, "Samples of other processes than --pid selects.")                      \
	X(COUNTS_NEW, "Distinct count keys added to the counts map.")                              \
	X(COUNTS_FULL,                                                                             \
	  "Counts dropped: counts map full. Use a shorter --interval or a lower --frequency.")     \
	X(COUNTS_BUSY,                                                                             \
	  "Counts of any profile type dropped: map of counts locked, or swapped by the "           \
	  "agent twice in a row. Use a lower --frequency.")                                        \
	X(STACKS_SENT, "Stack traces passed from the BPF programs to the agent, each once.")       \
	X(SENT_STACKS_FULL,                                                                        \
	  "Stack traces passed to the agent again on each sample: map of known stacks full. "      \
	  "Nothing is lost; use a lower --frequency if the agent's CPU time rises.")               \
	X(RING_FULL, "Records dropped: ring buffer full. Give the agent more CPU or use a lower "  \
		     "--frequency.")                                                               \
	X(TARGETS_FULL, "Child processes not sampled: map of --pid's processes full. Profile a "   \
			"process further down the tree.")                                          \
	X(SNAPSHOTS, "Stack snapshots of new processes sent to the agent, which unwinds them "     \
		     "once their tables are loaded.")                                              \
	X(SNAPSHOTS_DROPPED, "Stack snapshots dropped: ring buffer full. Their samples count "     \
			     "with a truncated stack; give the agent more CPU.")                   \
	X(USER_FRAMES, "User frames unwound.")                                                     \
	X(KERNEL_FRAMES, "Kernel frames unwound.")                                                 \
	X(KERNEL_CACHE_HITS, "Kernel stacks of samples found in the cache: not unwound.")          \
	X(KERNEL_CACHE_CHECKED, "Kernel stacks found in the cache and unwound all the same, to "   \
				"check it.")                                                       \
	X(KERNEL_CACHE_WRONG, "Checked kernel stacks that the cache had wrong. Report it if more " \
			      "than one in 10,000 of kernel_cache_checked are.")                   \
	X(SWITCHES, "Context switches of profiled threads.")                                       \
	X(SWITCHES_UNTRACKED,                                                                      \
	  "Context switches of threads without state yet. The agent's next sweep adds "            \
	  "their time. Nothing to do.")                                                            \
	X(THREADS_DROPPED,                                                                         \
	  "Threads without off-CPU time: no memory for their state. Free memory on this machine.") \
	X(OFF_CPU_UNWOUND, "Off-CPU intervals whose stack was unwound.")                           \
	X(OFF_CPU_SAMPLED_OUT, "Off-CPU intervals sampled out: too many to unwind. Each kept one " \
			       "has weight N; totals stay right.")                                 \
	X(OFF_CPU_BY_CALL,                                                                         \
	  "Off-CPU intervals that were not unwound, as there were too many: each has its own "     \
	  "length, and the stack that its thread had last in the same system call with the same "  \
	  "arguments.")                                                                            \
	X(OFF_CPU_SWEPT, "Kernel stacks of long off-CPU intervals, read by the agent's regular "   \
			 "look at blocked threads.")                                               \
	X(OFF_CPU_BUSY,                                                                            \
	  "Off-CPU intervals dropped: the agent's sweep or a waker held the thread's "             \
	  "lock. Nothing to do below 5 % of switches; report it above.")                           \
	X(STACK_CACHE_HITS,                                                                        \
	  "Off-CPU intervals that took the thread's cached stack instead of unwinding.")           \
	X(STACK_CACHE_CHECKED, "Stack cache hits unwound all the same, to check them.")            \
	X(STACK_CACHE_WRONG, "Checked stack cache hits with another stack. Report it if more "     \
			     "than a few in a hundred are.")                                       \
	X(SLEEPERS_UNWOUND,                                                                        \
	  "Threads in a long sleep whose truncated stack has been replaced by a whole one.")       \
	X(SLEEPERS_TRUNCATED,                                                                      \
	  "Threads in a long sleep whose stack stayed truncated when unwound again.")              \
	X(FAULTS_SAMPLED, "Page faults sampled.")                                                  \
	X(FAULTS_DROPPED,                                                                          \
	  "Page faults lost: no memory for a thread's state, or its lock was held. Nothing to do " \
	  "below 5 % of sampled faults.")                                                          \
	X(FAULTS_UNREPRESENTED,                                                                    \
	  "Page faults at the end of bursts, sampled out, that no later sample stands for. "       \
	  "Nothing to do.")                                                                        \
	X(WAKES, "Wake-ups of threads of the --wakers services.")                                  \
	X(WAKES_UNWOUND, "Wake-ups whose waker stack was unwound.")                                \
	X(WAKES_SAMPLED_OUT, "Wake-ups sampled out: too many to unwind. Each kept one has weight " \
			     "N; totals stay right.")                                              \
	X(WAKES_BUSY,                                                                              \
	  "Wake-ups dropped: the agent's sweep or the thread's own switch held its lock. "         \
	  "Nothing to do below 5 % of wake-ups; report it above.")                                 \
	X(GPU_CALLS, "GPU driver calls probed, kernel launches excluded.")                         \
	X(GPU_LAUNCHES, "GPU kernel launches probed.")                                             \
	X(GPU_STACKS, "GPU driver calls whose stack was unwound.")                                 \
	X(GPU_CALLS_DROPPED, "GPU driver calls not recorded, without effect on the program: the "  \
			     "last of a burst. Nothing to do below 5 % of gpu_calls.")             \
	X(GPU_CALLS_BUSY,                                                                          \
	  "GPU driver calls not recorded, without effect on the program: two others were "         \
	  "being recorded on the same CPU. If one allocated or freed, GPU memory in use "          \
	  "of its process ends; else nothing to do below 5 % of gpu_calls.")                       \
	X(GPU_CALLS_NESTED, "GPU driver and NCCL calls not recorded: nested too deeply. A missed " \
			    "allocation or free ends GPU memory in use of its process.")           \
	X(GPU_MAPS_FULL, "GPU allocations, functions or graphs dropped: map full. Their bytes "    \
			 "and names are missing; profile fewer processes with --pid.")             \
	X(GPU_CAPTURES_MISSED,                                                                     \
	  "CUDA graphs without their GPU kernels: a part of the capture was not seen. "            \
	  "Start the agent before the process; above some 5,000 launches/s the first "             \
	  "graph stays incomplete.")                                                               \
	X(GPU_UNKNOWN_FREES,                                                                       \
	  "Frees of GPU memory whose allocation was not recorded: made before the probes "         \
	  "came, or dropped (gpu_maps_full, gpu_calls_busy). Start the agent before the "          \
	  "process.")                                                                              \
	X(NCCL_MISMATCHED, "NCCL calls without a skew: other ranks' call of the same number is "   \
			   "another one. Check that all ranks run the same program.")

enum bpf_counter {
#define X(name, sentence) COUNTER_##name,
	BPF_COUNTERS(X)
#undef X
		COUNTER_COUNT,
};

/* One CPU's. One value of a map: as entries of their own, the counters of a tick would lie in as many cache lines. */
struct counter_values {
	unsigned long long of[COUNTER_COUNT];
};
