// SPDX-License-Identifier: Apache-2.0
#include "agent/overhead/own_cpu.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/contract/label_values.h"

static const char *const names[OWN_CPU_COUNT] = {
	[OWN_CPU_MAIN] = PROGRAM_AGENT,          [OWN_CPU_TABLES] = PROGRAM_AGENT_UNWIND_TABLES,
	[OWN_CPU_SENDER] = PROGRAM_AGENT_SENDER, [OWN_CPU_GRPC] = PROGRAM_AGENT_GRPC,
	[OWN_CPU_OTHER] = PROGRAM_AGENT_OTHER,
};

static const struct {
	const char *prefix;
	enum own_cpu_group group;
} threads[] = {
	{ "unwind-tables", OWN_CPU_TABLES },
	{ "sender", OWN_CPU_SENDER },
	// What gRPC's C core calls its threads.
	{ "grpc", OWN_CPU_GRPC },
	{ "default-execut", OWN_CPU_GRPC },
	{ "resolver-execut", OWN_CPU_GRPC },
	{ "event_engine", OWN_CPU_GRPC },
	{ "timer_manager", OWN_CPU_GRPC },
};

const char *own_cpu_name(enum own_cpu_group group)
{
	return names[group];
}

enum own_cpu_group own_cpu_group_of(const char *thread_name, int main)
{
	if (main)
		return OWN_CPU_MAIN;
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
		if (strncmp(thread_name, threads[i].prefix, strlen(threads[i].prefix)) == 0)
			return threads[i].group;
	}
	return OWN_CPU_OTHER;
}

static void add_thread(const char *tid, uint64_t ns[OWN_CPU_COUNT])
{
	char path[64], name[32] = "";
	unsigned long long run_ns = 0;

	snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", tid);
	_cleanup_fclose_ FILE *comm = fopen(path, "re");
	snprintf(path, sizeof(path), "/proc/self/task/%.16s/schedstat", tid);
	_cleanup_fclose_ FILE *schedstat = fopen(path, "re");
	// A thread that has ended meanwhile, or a kernel without schedstat: its time is the rest's.
	if (!comm || !schedstat || !fgets(name, sizeof(name), comm) ||
	    fscanf(schedstat, "%llu", &run_ns) != 1)
		return;
	ns[own_cpu_group_of(name, atoi(tid) == getpid())] += run_ns;
}

void own_cpu_read(uint64_t ret_ns[OWN_CPU_COUNT])
{
	DIR *folder = opendir("/proc/self/task");
	uint64_t sum_ns = 0;
	struct dirent *entry;

	memset(ret_ns, 0, OWN_CPU_COUNT * sizeof(*ret_ns));
	while (folder && (entry = readdir(folder))) {
		if (entry->d_name[0] != '.')
			add_thread(entry->d_name, ret_ns);
	}
	if (folder)
		closedir(folder);
	ret_ns[OWN_CPU_OTHER] = 0;
	for (int i = 0; i < OWN_CPU_COUNT; i++)
		sum_ns += ret_ns[i];
	uint64_t all_ns = clock_process_cpu_ns();
	ret_ns[OWN_CPU_OTHER] = all_ns > sum_ns ? all_ns - sum_ns : 0;
}
