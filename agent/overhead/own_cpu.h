// SPDX-License-Identifier: Apache-2.0
// The agent's own CPU time, by what its threads do. Any thread.
#pragma once

#include <stdint.h>

/** Threads, by their names. */
enum own_cpu_group {
	OWN_CPU_MAIN,   // the main loop: reading, naming, export intervals
	OWN_CPU_TABLES, // the builder of unwind tables
	OWN_CPU_SENDER, // encoding and sending
	OWN_CPU_GRPC,   // gRPC's own threads
	OWN_CPU_OTHER,  // threads that open files or have ended
	OWN_CPU_COUNT,
};

/** PROGRAM_AGENT, PROGRAM_AGENT_UNWIND_TABLES ...: the value of the label "program". */
const char *own_cpu_name(enum own_cpu_group group);

/** The group of a thread of this name (as /proc has it: cut at 15 bytes); @main: it began the process. */
enum own_cpu_group own_cpu_group_of(const char *thread_name, int main);

/**
 * CPU time in nanoseconds since the process began; their sum is clock_process_cpu_ns(). A group of
 * which a thread has ended has less than before, and OWN_CPU_OTHER has more.
 */
void own_cpu_read(uint64_t ret_ns[OWN_CPU_COUNT]);
