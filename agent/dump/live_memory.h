// SPDX-License-Identifier: Apache-2.0
// The memory of another process, read by pages and remembered for a moment, such as a pause.
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum {
	LIVE_PAGE_BYTES = 4096,
	LIVE_PAGES = 512, // remembered: 2 MiB
};

struct live_memory;

struct live_memory *live_memory_new(pid_t pid);
void live_memory_free(struct live_memory *memory);

/** What is remembered may be different by now. */
void live_memory_forget(struct live_memory *memory);

/** Read the pages from that of @address on at once, as far as they are there. */
void live_memory_prefetch(struct live_memory *memory, uint64_t address, uint32_t pages);

/** All or nothing. Returns 0 or -EFAULT (or -ESRCH, -EPERM). */
int live_memory_read(struct live_memory *memory, uint64_t address, void *bytes, uint32_t size);

/** System calls made since the beginning. */
uint64_t live_memory_reads(const struct live_memory *memory);
