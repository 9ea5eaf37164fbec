// SPDX-License-Identifier: Apache-2.0
// Python objects made up in this process's own memory, for tests that read them from outside.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "agent/python/python_layout.h"
#include "tests/test.h"

enum {
	PAGE = 4096,
	PAGES = 16, // readable; one that is not lies before and one after them
	CODE_AT = 0,
	NAME_AT = PAGE,
	FILE_AT = 2 * PAGE,
	LINES_AT = 4 * PAGE,
	ELSEWHERE_AT = 6 * PAGE,
	CODE_TYPE = 0x1230,
	MARK = 0x4560,
	OTHER_MARK = 0x7890,
	ASCII = 0x10 | 0x08 | 1, // compact, 1 byte
	LATIN = 0x08 | 1,
	WIDE = 0x08 | 2,
	WIDEST = 0x08 | 4,
	NOT_COMPACT = 1,
};

/* Memory that looks like one interpreter's. */
struct heap {
	uint8_t *bytes; // at least PAGES of them
	struct python_offsets offsets;
	uint32_t head; // bytes that all objects begin with
	uint32_t size;
};

static inline void put_u64(struct heap *heap, uint32_t at, uint64_t value)
{
	memcpy(heap->bytes + at, &value, sizeof(value));
}

static inline void put_u32(struct heap *heap, uint32_t at, uint32_t value)
{
	memcpy(heap->bytes + at, &value, sizeof(value));
}

static inline uint64_t address_of(const struct heap *heap, uint32_t at)
{
	return (uint64_t)heap->bytes + at;
}

/* Returns where the characters go. @state: kind, compact and ascii, as above. */
static inline uint32_t put_text(struct heap *heap, uint32_t at, uint32_t state,
				const void *characters, uint32_t count)
{
	bool has_wstr = heap->offsets.minor < 12;
	uint32_t offset = heap->head + (has_wstr ? 32 : 24);

	if (!(state & 0x10))
		offset += has_wstr ? 24 : 16;
	put_u64(heap, at + heap->head, count);
	// Interned: in two bits, or since 3.14 in a byte when there is no GIL.
	put_u32(heap, at + heap->head + 16,
		heap->offsets.free_threaded && heap->offsets.minor >= 14 ? 1 | state << 8
									 : 1 | state << 2);
	memcpy(heap->bytes + at + offset, characters, count * (state & 7));
	return at + offset;
}

static inline void put_lines(struct heap *heap, uint64_t size, const void *table,
			     uint32_t table_size)
{
	put_u64(heap, LINES_AT + heap->head, size);
	memcpy(heap->bytes + LINES_AT + heap->head + 16, table, table_size);
}

/* f, beginning at @first_line. */
static inline void put_code(struct heap *heap, uint32_t at, uint32_t first_line)
{
	const struct python_offsets *offsets = &heap->offsets;
	uint32_t counts = at + offsets->code_start;

	put_u64(heap, counts + offsets->code_type, CODE_TYPE);
	put_u32(heap, counts + offsets->code_argcount, 1);
	put_u32(heap, counts + offsets->code_kwonlyargcount, 2);
	put_u32(heap, counts + offsets->code_flags, 67);
	put_u32(heap, counts + offsets->code_firstlineno, first_line);
	put_u32(heap, counts + offsets->code_marks[0], MARK);
	put_u32(heap, counts + offsets->code_marks[1], OTHER_MARK);
	put_u64(heap, at + offsets->code_name, address_of(heap, NAME_AT));
	put_u64(heap, at + offsets->code_file, address_of(heap, FILE_AT));
	put_u64(heap, at + offsets->code_lines, address_of(heap, LINES_AT));
}

/* What the unwinder reads of put_code()'s code object. */
static inline uint32_t checksum_of(uint32_t first_line)
{
	return python_checksum(1, 2, 67, first_line, MARK, OTHER_MARK);
}

/* 3.13's offsets with a head that is 16 bytes longer: 3.13 and 3.14 without the GIL. */
static inline void set_offsets(struct heap *heap, uint32_t minor, bool free_threaded)
{
	struct python_layout layout;
	struct python_offsets *offsets = &heap->offsets;

	assert_int_equal(0, python_layout_of_version(minor < 12 ? minor : 12, &layout));
	*offsets = layout.offsets;
	offsets->minor = minor;
	offsets->free_threaded = free_threaded;
	heap->head = 16;
	if (free_threaded) {
		heap->head = 32;
		offsets->code_start = 24;
		offsets->code_name += 16;
		offsets->code_file += 16;
		offsets->code_lines += 16;
	}
}

static const uint8_t one_line[] = { 0x80 | 13 << 3 | 7, 2 }; // 3.11: 8 units, one line on

/* @size readable bytes (whole pages) with f in f.py, lines 10 and 11, at CODE_AT. */
static inline void open_heap_of(struct heap *heap, uint32_t minor, bool free_threaded,
				uint32_t size)
{
	uint8_t *all = mmap(NULL, size + 2UL * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(all != MAP_FAILED);
	heap->bytes = all + PAGE;
	heap->size = size;
	assert_int_equal(0, mprotect(heap->bytes, size, PROT_READ | PROT_WRITE));
	set_offsets(heap, minor, free_threaded);
	put_code(heap, CODE_AT, 10);
	put_text(heap, NAME_AT, ASCII, "f", 1);
	put_text(heap, FILE_AT, ASCII, "f.py", 4);
	put_lines(heap, sizeof(one_line), one_line, sizeof(one_line));
}

static inline void open_heap(struct heap *heap, uint32_t minor, bool free_threaded)
{
	open_heap_of(heap, minor, free_threaded, PAGES * PAGE);
}

static inline void close_heap(struct heap *heap)
{
	munmap(heap->bytes - PAGE, heap->size + 2UL * PAGE);
}
