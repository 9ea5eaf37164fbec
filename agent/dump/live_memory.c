// SPDX-License-Identifier: Apache-2.0
#include "agent/dump/live_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#define NO_PAGE UINT64_MAX

/* Page N is kept in place N % LIVE_PAGES, so that neighbours in the process are neighbours here. */
struct live_memory {
	pid_t pid;
	uint64_t reads;
	uint64_t pages[LIVE_PAGES]; // numbers, NO_PAGE: none
	uint8_t bytes[LIVE_PAGES][LIVE_PAGE_BYTES];
};

struct live_memory *live_memory_new(pid_t pid)
{
	struct live_memory *memory = malloc(sizeof(*memory));

	if (!memory)
		return NULL;
	memory->pid = pid;
	memory->reads = 0;
	live_memory_clear(memory);
	return memory;
}

void live_memory_free(struct live_memory *memory)
{
	free(memory);
}

void live_memory_clear(struct live_memory *memory)
{
	for (uint32_t i = 0; i < LIVE_PAGES; i++)
		memory->pages[i] = NO_PAGE;
}

/* Pages from @page on that do not wrap around in our array. */
static void read_pages(struct live_memory *memory, uint64_t page, uint32_t count)
{
	uint32_t place = page % LIVE_PAGES;
	struct iovec to = { memory->bytes[place], (size_t)count * LIVE_PAGE_BYTES };
	struct iovec from = { (void *)(uintptr_t)(page * LIVE_PAGE_BYTES), to.iov_len };
	ssize_t size = process_vm_readv(memory->pid, &to, 1, &from, 1, 0);
	uint32_t whole = size > 0 ? (uint32_t)((size_t)size / LIVE_PAGE_BYTES) : 0;

	memory->reads++;
	for (uint32_t i = 0; i < count; i++)
		memory->pages[place + i] = i < whole ? page + i : NO_PAGE;
}

static bool has_page(const struct live_memory *memory, uint64_t page)
{
	return memory->pages[page % LIVE_PAGES] == page;
}

void live_memory_prefetch(struct live_memory *memory, uint64_t address, uint32_t pages)
{
	uint64_t page = address / LIVE_PAGE_BYTES;

	if (pages > LIVE_PAGES)
		pages = LIVE_PAGES;
	while (pages) {
		uint32_t place = page % LIVE_PAGES;
		uint32_t count = pages < LIVE_PAGES - place ? pages : LIVE_PAGES - place;

		read_pages(memory, page, count);
		page += count;
		pages -= count;
	}
}

int live_memory_read(struct live_memory *memory, uint64_t address, void *bytes, uint32_t size)
{
	uint8_t *to = bytes;

	if (address + size < address)
		return -EFAULT;
	while (size) {
		uint64_t page = address / LIVE_PAGE_BYTES;
		uint32_t offset = address % LIVE_PAGE_BYTES;
		uint32_t count = LIVE_PAGE_BYTES - offset < size ? LIVE_PAGE_BYTES - offset : size;

		if (!has_page(memory, page))
			read_pages(memory, page, 1);
		if (!has_page(memory, page))
			return -EFAULT;
		memcpy(to, memory->bytes[page % LIVE_PAGES] + offset, count);
		to += count;
		address += count;
		size -= count;
	}
	return 0;
}

uint64_t live_memory_reads(const struct live_memory *memory)
{
	return memory->reads;
}
