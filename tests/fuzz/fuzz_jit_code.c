// SPDX-License-Identifier: Apache-2.0
// Any bytes as a process's JIT code, which is sampled, scanned, written over and scanned again: what is found stays within its
// limits, and its rules lie in the mapping, in order. The first bytes choose where samples hit.

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "agent/publish/jit_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum {
	SAMPLES = 8,
	HEAD_BYTES = 2 * SAMPLES,
	SLOT_BYTES = 256 << 10, // as jit_code.c's
	SLOTS = 3,
	MEMORY_BYTES = SLOTS * SLOT_BYTES,
	READS_MAX = 20000, // of one call
};

#define MEMORY_START 0x7f0000000000ULL // of the process

static uint8_t memory[MEMORY_BYTES];
static uint32_t reads;

static void check(bool condition)
{
	if (!condition)
		abort();
}

// Instead of libc's.
ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
			 const struct iovec *from, unsigned long from_count, unsigned long flags)
{
	uint64_t at = (uintptr_t)from[0].iov_base - MEMORY_START;

	(void)pid;
	(void)flags;
	check(to_count == 1 && from_count == 1 && ++reads <= READS_MAX);
	if (at >= MEMORY_BYTES || from[0].iov_len > MEMORY_BYTES - at) {
		errno = EFAULT;
		return -1;
	}
	memcpy(to[0].iov_base, memory + at, from[0].iov_len);
	return (ssize_t)from[0].iov_len;
}

static void check_ranges(const struct jit_code *code, const struct mapping *mapping)
{
	struct mapping_pages pages = { 0 };

	check(jit_code_count(code) <= JIT_FUNCTIONS_MAX);
	check(!jit_code_add(code, mapping, &pages));
	check(pages.count && pages.count <= JIT_RANGES_MAX + 2 * JIT_FUNCTIONS_MAX + 2);
	for (uint32_t i = 0; i < pages.count; i++) {
		check(pages.ranges[i].start >= mapping->start &&
		      pages.ranges[i].start < mapping->limit);
		check(!i || pages.ranges[i].start > pages.ranges[i - 1].start);
	}
	mapping_pages_deinit(&pages);
}

/** The code at the head of each slot, and once more behind it. */
static void write_code(const uint8_t *code, size_t size)
{
	for (uint32_t slot = 0; slot < SLOTS; slot++)
		for (uint32_t copy = 0; copy < 2; copy++)
			memcpy(memory + slot * SLOT_BYTES + copy * (size + slot), code, size);
}

static void sample_and_scan(struct jit_code *code, const struct mapping_list *list,
			    const uint8_t *head)
{
	const struct mapping *mapping = &list->mappings[0];

	for (uint32_t i = 0; i < SAMPLES; i++) {
		uint64_t offset =
			(head[2 * i] | head[2 * i + 1] << 8) + (uint64_t)(i % SLOTS) * SLOT_BYTES;

		reads = 0;
		jit_code_analyze(code, 1, mapping, MEMORY_START + offset);
		check_ranges(code, mapping);
	}
	reads = 0;
	jit_code_scan(code, 1, list);
	check_ranges(code, mapping);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static struct mapping_list *list;
	struct jit_code *code = jit_code_new();
	char line[128];

	if (!list) {
		list = mapping_list_new();
		snprintf(line, sizeof(line), "%llx-%llx rwxp 00000000 00:00 0", MEMORY_START,
			 MEMORY_START + MEMORY_BYTES);
		check(list && !mapping_list_add_line(list, line, strlen(line)));
	}
	check(code);
	if (size > HEAD_BYTES && size < SLOT_BYTES / 4) {
		size_t half = (size - HEAD_BYTES + 1) / 2;

		memset(memory, 0, sizeof(memory));
		write_code(bytes + HEAD_BYTES, size - HEAD_BYTES);
		sample_and_scan(code, list, bytes);
		write_code(bytes + HEAD_BYTES, half);
		sample_and_scan(code, list, bytes);
	}
	jit_code_free(code);
	return 0;
}
