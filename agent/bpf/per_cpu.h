// SPDX-License-Identifier: Apache-2.0
// An item for each online CPU, such as a perf event: opened and closed as CPUs come and go. One thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PER_CPU_MAX = 8192 }; // Linux' own limit on x86-64

struct per_cpu {
	void *items; // sorted by CPU; each begins with the CPU's uint32_t number
	uint32_t count;
	size_t item_size;
	/** Opens the zeroed @item of @cpu. Returns 0 or a negative errno. */
	int (*open)(void *context, uint32_t cpu, void *item);
	void (*close)(void *context, void *item);
	void *context;
};

/**
 * Closes items of CPUs that went offline and opens those of CPUs that came online. Call it every few
 * seconds. Returns 0 or a negative errno; what failed is tried again the next time.
 */
int per_cpu_update(struct per_cpu *set, bool *ret_changed);
void per_cpu_close(struct per_cpu *set);

/**
 * Reads a list of CPUs as /sys/devices/system/cpu/online has it ("0-3,8") into @ret_cpus. Returns their
 * number, -EBADMSG, or -E2BIG if there are more than @cpus_max.
 */
int cpu_list_parse(const char *text, uint32_t *ret_cpus, uint32_t cpus_max);
