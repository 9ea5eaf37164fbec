// SPDX-License-Identifier: Apache-2.0
// A cache of another process's memory, by pages; valid during a pause.
#pragma once

#include <stdint.h>
#include <sys/types.h>

enum {
	LIVE_PAGE_BYTES = 4096,
	LIVE_PAGES = 512, // cached: 2 MiB
};

struct live_memory;

struct live_memory *live_memory_new(pid_t pid);
void live_memory_free(struct live_memory *memory);

/** The process ran: the cache is stale. */
void live_memory_clear(struct live_memory *memory);

/** Read pages from that of @address on in one call, up to the first unmapped one. */
void live_memory_prefetch(struct live_memory *memory, uint64_t address, uint32_t pages);

/** All or nothing. Returns 0 or -EFAULT (or -ESRCH, -EPERM). */
int live_memory_read(struct live_memory *memory, uint64_t address, void *bytes, uint32_t size);

/** System calls made since the beginning. */
uint64_t live_memory_reads(const struct live_memory *memory);
