/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
// What the BPF programs did and dropped: one per-CPU counter each, declared here only.
// A sentence says what one increment means; a second one, what to do about a loss.
#pragma once

/**
 * X(NAME, loss, sentence). @loss is one of
 * NO_LOSS:        what was done;
 * WARNING:        the agent logs it; no sample, stack or name is missing;
 * LOSS:           something is missing in profiles; the agent logs it;
 * LOSS_OF(OTHER): a loss once it is above a twentieth of the counter OTHER: any busy machine has some;
 * LOSS_WITH_LINE: a loss of which whoever counts it logs more than the sentence.
 * Who wants one of them defines these names: agent/stats.c, generate/contract.c.
 */

#define BPF_COUNTERS(X)                                                                            \
	X(SAMPLES, NO_LOSS, "On-CPU samples counted.")                                             \
	X(TICKS_IDLE, NO_LOSS, "Timer ticks that hit an idle CPU.")                                \
	X(TICKS_LATE, NO_LOSS,                                                                     \
	  "Late timer ticks of an idle CPU, not counted: they would charge idle time to the next " \
	  "thread. Nothing is lost.")                                                              \
	X(SAMPLES_FILTERED, NO_LOSS, "Samples of other processes than --pid selects.")             \
	X(COUNTS_NEW, NO_LOSS,                                                                     \
	  "Entries added to the counts map. Each combination of process, thread name, stack and "  \
	  "time slot adds one, anew in each export interval.")                                     \
	X(COUNTS_FULL, LOSS,                                                                       \
	  "Counts dropped: counts map full. Use a shorter --interval or a lower --frequency.")     \
	X(COUNTS_BUSY, LOSS,                                                                       \
	  "Counts dropped, of any profile type: counts map busy. Use a lower --frequency.")        \
	X(STACKS_SENT, NO_LOSS,                                                                    \
	  "Stack traces passed from the BPF programs to the agent, each once.")                    \
	X(SENT_STACKS_FULL, WARNING,                                                               \
	  "Stack traces passed to the agent again on each sample: map of known stacks full. "      \
	  "Nothing is lost; use a lower --frequency if the agent's CPU time rises.")               \
	X(RING_FULL, LOSS,                                                                         \
	  "Records dropped: ring buffer full. Give the agent more CPU or use a lower "             \
	  "--frequency.")                                                                          \
	X(TARGETS_FULL, LOSS,                                                                      \
	  "Child processes not sampled: map of --pid's processes full. Profile a "                 \
	  "process further down the tree.")                                                        \
	X(SNAPSHOTS, NO_LOSS,                                                                      \
	  "Stack snapshots of new processes sent to the agent, which unwinds them "                \
	  "once their tables are loaded.")                                                         \
	X(SNAPSHOTS_DROPPED, LOSS,                                                                 \
	  "Stack snapshots dropped: ring buffer full. Their samples count "                        \
	  "with a truncated stack; give the agent more CPU.")                                      \
	X(USER_FRAMES, NO_LOSS, "User frames unwound.")                                            \
	X(KERNEL_FRAMES, NO_LOSS, "Kernel frames unwound.")                                        \
	X(KERNEL_CACHE_HITS, NO_LOSS, "Kernel stacks of samples found in the cache: not unwound.") \
	X(KERNEL_CACHE_CHECKED, NO_LOSS,                                                           \
	  "Kernel stacks found in the cache and unwound all the same, to "                         \
	  "check it.")                                                                             \
	X(KERNEL_CACHE_STALE, NO_LOSS,                                                             \
	  "Checked hits with a stale kernel stack. Report it to cairn's developers above 1 in "    \
	  "10,000 of kernel_cache_checked.")                                                       \
	X(SWITCHES, NO_LOSS, "Context switches of profiled threads.")                              \
	X(SWITCHES_UNTRACKED, NO_LOSS,                                                             \
	  "Context switches of threads without state yet. The agent's next sweep adds "            \
	  "their time. Nothing to do.")                                                            \
	X(THREADS_DROPPED, LOSS,                                                                   \
	  "Threads without off-CPU time: no memory for their state. Free memory on this machine.") \
	X(OFF_CPU_UNWOUND, NO_LOSS, "Off-CPU intervals whose stack was unwound.")                  \
	X(OFF_CPU_SAMPLED_OUT, NO_LOSS,                                                            \
	  "Off-CPU intervals sampled out: too many to unwind. Each kept one "                      \
	  "has weight N; totals stay right.")                                                      \
	X(OFF_CPU_BY_CALL, NO_LOSS,                                                                \
	  "Off-CPU intervals not unwound: too many. Each keeps its length and gets the thread's "  \
	  "last stack of the same system call and arguments. Nothing to do.")                      \
	X(OFF_CPU_SWEPT, NO_LOSS,                                                                  \
	  "Kernel stacks of long off-CPU intervals, read by the agent's regular scan of blocked "  \
	  "threads.")                                                                              \
	X(OFF_CPU_BUSY, LOSS_OF(SWITCHES),                                                         \
	  "Off-CPU intervals dropped: the agent's sweep or a waker held the thread's lock. "       \
	  "Nothing to do below 5 % of switches; above, report it to cairn's developers.")          \
	X(STACK_CACHE_HITS, NO_LOSS,                                                               \
	  "Off-CPU intervals that got the thread's cached stack instead of unwinding.")            \
	X(STACK_CACHE_CHECKED, NO_LOSS, "Stack cache hits unwound all the same, to check them.")   \
	X(STACK_CACHE_STALE, NO_LOSS,                                                              \
	  "Checked stack cache hits with a stale stack. Report it to cairn's developers above 5 "  \
	  "% of stack_cache_checked.")                                                             \
	X(SLEEPERS_UNWOUND, NO_LOSS,                                                               \
	  "Threads in a long sleep whose truncated stack has been replaced by a whole one.")       \
	X(SLEEPERS_TRUNCATED, NO_LOSS,                                                             \
	  "Threads in a long sleep whose stack stayed truncated when unwound again.")              \
	X(FAULTS_SAMPLED, NO_LOSS, "Page faults sampled.")                                         \
	X(FAULTS_DROPPED, LOSS_OF(FAULTS_SAMPLED),                                                 \
	  "Page faults dropped: no memory for a thread's state, or its lock was held. Nothing to " \
	  "do below 5 % of faults_sampled.")                                                       \
	X(FAULTS_UNREPRESENTED, NO_LOSS,                                                           \
	  "Page faults sampled out at the end of a burst: in no sample's weight. Nothing to do.")  \
	X(WAKES, NO_LOSS, "Wake-ups of threads that belong to the --wakers services.")             \
	X(WAKES_UNWOUND, NO_LOSS, "Wake-ups whose waker stack was unwound.")                       \
	X(WAKES_SAMPLED_OUT, NO_LOSS,                                                              \
	  "Wake-ups sampled out: too many to unwind. Each kept one has weight "                    \
	  "N; totals stay right.")                                                                 \
	X(WAKES_BUSY, LOSS_OF(WAKES),                                                              \
	  "Wake-ups dropped: the agent's sweep or the thread's own switch held its lock. Nothing " \
	  "to do below 5 % of wakes; above, report it to cairn's developers.")                     \
	X(GPU_CALLS, NO_LOSS, "GPU driver calls probed, GPU kernel launches excluded.")            \
	X(GPU_LAUNCHES, NO_LOSS, "GPU kernel launches probed.")                                    \
	X(GPU_STACKS, NO_LOSS, "GPU driver calls whose stack was unwound.")                        \
	X(GPU_CALLS_DROPPED, LOSS_OF(GPU_CALLS),                                                   \
	  "GPU driver calls dropped at the end of a burst: in no sample's weight. Sums are that "  \
	  "much too low; nothing to do below 5 % of gpu_calls.")                                   \
	X(GPU_CALLS_BUSY, LOSS_OF(GPU_CALLS),                                                      \
	  "GPU driver calls not recorded: two others were active on the CPU. Missed allocations "  \
	  "and frees end GPU memory in use of their process; else nothing to do below 5 % of "     \
	  "gpu_calls.")                                                                            \
	X(GPU_CALLS_NESTED, LOSS,                                                                  \
	  "GPU driver and NCCL calls not recorded: nested too deeply. Missed allocations and "     \
	  "frees end GPU memory in use of their process. Report it to cairn's developers.")        \
	X(GPU_MAPS_FULL, LOSS,                                                                     \
	  "GPU allocations, functions or graphs dropped: map full. Their bytes "                   \
	  "and names are missing; profile fewer processes with --pid.")                            \
	X(GPU_CAPTURES_MISSED, LOSS,                                                               \
	  "CUDA graphs without GPU kernels: part of the capture was not probed. Start the agent "  \
	  "before the process. Above 5,000 launches/s the first graph stays incomplete.")          \
	X(GPU_UNKNOWN_FREES, NO_LOSS,                                                              \
	  "Frees of GPU memory whose allocation was not recorded: made before the probes "         \
	  "came, or dropped (gpu_maps_full, gpu_calls_busy). Start the agent before the "          \
	  "process.")                                                                              \
	X(NCCL_MISMATCHED, NO_LOSS,                                                                \
	  "NCCL calls without skew: ranks made different calls at the same sequence number, or "   \
	  "one came over 60 s later. Check that all ranks run the same program.")

enum bpf_counter {
#define X(name, loss, sentence) COUNTER_##name,
	BPF_COUNTERS(X)
#undef X
		COUNTER_COUNT,
};

/* One CPU's. One value of a map: as entries of their own, the counters of a tick would lie in as many cache lines. */
struct counter_values {
	unsigned long long of[COUNTER_COUNT];
};
