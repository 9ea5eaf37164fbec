// SPDX-License-Identifier: Apache-2.0
#include "agent/python/python_code.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "agent/process/process_memory.h"
#include "agent/python/python_string.h"
#include "base/cleanup.h"

enum {
	PAGE_BYTES = 4096,    // the smallest; only the size of the first read depends on it
	CODE_BYTES_MAX = 512, // 3.13's code objects have 208 bytes before their instructions
	CHUNK_BYTES = 512,    // most names, paths and line tables fit with their head
	BYTES_HEAD_REST = 16, // of a bytes object, after the common head: ob_size, ob_shash
};

/* The objects that a code object points to. */
enum part {
	PART_NAME,
	PART_FILE,
	PART_LINES,
	PART_COUNT,
};

/* A part's object: its head, with some or all of the content behind it. */
struct object {
	uint64_t address;
	uint32_t chunk_size;
	uint8_t chunk[CHUNK_BYTES];
	uint64_t content_address;
	uint32_t content_size;
	uint8_t *content; // NULL: it is in the chunk
	struct python_string text;
};

struct code_reader {
	pid_t pid;
	const struct python_offsets *offsets;
	uint64_t address;
	uint8_t code[CODE_BYTES_MAX];
	struct object parts[PART_COUNT];
};

static uint64_t u64_at(const uint8_t *bytes, uint32_t at)
{
	uint64_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

static uint32_t u32_at(const uint8_t *bytes, uint32_t at)
{
	uint32_t value;

	memcpy(&value, bytes + at, sizeof(value));
	return value;
}

// ---- the code object ------------------------------------------------------------------------

static uint32_t larger(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

// Offsets may come from the hostile process (_Py_DebugOffsets).
static bool are_within_head(const struct python_offsets *offsets)
{
	const uint16_t ints[] = {
		offsets->code_argcount,    offsets->code_kwonlyargcount, offsets->code_flags,
		offsets->code_firstlineno, offsets->code_marks[0],       offsets->code_marks[1],
		offsets->code_type + 4,
	};

	for (size_t i = 0; i < ARRAY_SIZE(ints); i++) {
		if (ints[i] > PYTHON_CODE_BYTES - 4)
			return false;
	}
	return true;
}

static int read_code(struct code_reader *reader, uint64_t code_type)
{
	const struct python_offsets *offsets = reader->offsets;
	uint32_t size = offsets->code_start + PYTHON_CODE_BYTES;

	size = larger(size, offsets->code_name + 8U);
	size = larger(size, offsets->code_file + 8U);
	size = larger(size, offsets->code_lines + 8U);
	if (size > sizeof(reader->code) || !are_within_head(offsets))
		return -EBADMSG;

	int rc = process_memory_read(reader->pid, reader->address, reader->code, size);
	if (rc)
		return rc;
	uint64_t type = u64_at(reader->code, offsets->code_start + offsets->code_type);
	if (code_type && type != code_type)
		return -EBADMSG;
	reader->parts[PART_NAME].address = u64_at(reader->code, offsets->code_name);
	reader->parts[PART_FILE].address = u64_at(reader->code, offsets->code_file);
	reader->parts[PART_LINES].address = u64_at(reader->code, offsets->code_lines);
	return 0;
}

static uint32_t head_int(const struct code_reader *reader, uint32_t offset)
{
	return u32_at(reader->code, reader->offsets->code_start + offset);
}

static uint32_t checksum_of(const struct code_reader *reader)
{
	const struct python_offsets *offsets = reader->offsets;

	return python_checksum(
		head_int(reader, offsets->code_argcount),
		head_int(reader, offsets->code_kwonlyargcount),
		head_int(reader, offsets->code_flags), head_int(reader, offsets->code_firstlineno),
		head_int(reader, offsets->code_marks[0]), head_int(reader, offsets->code_marks[1]));
}

// ---- its parts ------------------------------------------------------------------------------

// The head, and the content on the same page, which is mapped if the head is.
static uint32_t chunk_size_at(uint64_t address, uint32_t head_bytes)
{
	uint32_t left = PAGE_BYTES - address % PAGE_BYTES;

	while (left < head_bytes)
		left += PAGE_BYTES;
	return left < CHUNK_BYTES ? left : CHUNK_BYTES;
}

static uint32_t head_bytes_of(const struct code_reader *reader, enum part part)
{
	if (part == PART_LINES)
		return python_object_head_bytes(reader->offsets) + BYTES_HEAD_REST;
	return python_string_head_bytes(reader->offsets);
}

static int read_chunks(struct code_reader *reader)
{
	struct process_memory_read reads[PART_COUNT] = { 0 };

	for (uint32_t i = 0; i < PART_COUNT; i++) {
		struct object *object = &reader->parts[i];

		object->chunk_size = chunk_size_at(object->address, head_bytes_of(reader, i));
		reads[i] = (struct process_memory_read){ .address = object->address,
							 .bytes = object->chunk,
							 .size = object->chunk_size };
	}
	int rc = process_memory_read_each(reader->pid, reads, PART_COUNT);
	for (uint32_t i = 0; i < PART_COUNT && !rc; i++)
		rc = reads[i].done ? 0 : -EFAULT;
	return rc;
}

// A pointer in an object, which may lie behind the chunk.
static int read_pointer(const struct code_reader *reader, const struct object *object,
			uint32_t offset, uint64_t *ret_pointer)
{
	if (offset + sizeof(*ret_pointer) > object->chunk_size)
		return process_memory_read(reader->pid, object->address + offset, ret_pointer,
					   sizeof(*ret_pointer));
	*ret_pointer = u64_at(object->chunk, offset);
	return 0;
}

static int find_text(struct code_reader *reader, enum part part, uint32_t size_max)
{
	struct object *object = &reader->parts[part];
	uint32_t offset;
	int rc = python_string_find(reader->offsets, object->chunk, size_max, &object->text,
				    &offset);

	if (rc)
		return rc;
	object->content_address = object->address + offset;
	object->content_size = object->text.count * object->text.character_bytes;
	if (object->text.is_indirect)
		rc = read_pointer(reader, object, offset, &object->content_address);
	return rc;
}

// With a senseless size the function has a name, but no lines.
static void find_table(const struct python_offsets *offsets, struct object *object)
{
	uint32_t head_bytes = python_object_head_bytes(offsets);
	uint64_t size = u64_at(object->chunk, head_bytes);

	object->content_address = object->address + head_bytes + BYTES_HEAD_REST;
	object->content_size = size <= PYTHON_LINE_TABLE_BYTES_MAX ? size : 0;
}

static bool is_in_chunk(const struct object *object)
{
	uint64_t offset = object->content_address - object->address;

	return offset <= object->chunk_size && object->content_size <= object->chunk_size - offset;
}

// Content outside the chunks, in one system call.
static int read_contents(struct code_reader *reader)
{
	struct process_memory_read reads[PART_COUNT] = { 0 };
	uint32_t count = 0;

	for (uint32_t i = 0; i < PART_COUNT; i++) {
		struct object *object = &reader->parts[i];

		if (!object->content_size || is_in_chunk(object))
			continue;
		object->content = malloc(object->content_size);
		if (!object->content)
			return -ENOMEM;
		reads[count++] = (struct process_memory_read){ .address = object->content_address,
							       .bytes = object->content,
							       .size = object->content_size };
	}
	int rc = count ? process_memory_read_each(reader->pid, reads, count) : 0;
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = reads[i].done ? 0 : -EFAULT;
	return rc;
}

static const uint8_t *content_of(const struct object *object)
{
	if (object->content)
		return object->content;
	if (!object->content_size)
		return object->chunk; // not read
	return object->chunk + (object->content_address - object->address);
}

// ---- together -------------------------------------------------------------------------------

static int read_parts(struct code_reader *reader)
{
	int rc = read_chunks(reader);

	if (!rc)
		rc = find_text(reader, PART_NAME, PYTHON_NAME_BYTES_MAX);
	if (!rc)
		rc = find_text(reader, PART_FILE, PYTHON_FILE_BYTES_MAX);
	if (rc)
		return rc;
	find_table(reader->offsets, &reader->parts[PART_LINES]);
	return read_contents(reader);
}

static char *text_of(const struct object *object, uint32_t size_max)
{
	return python_string_decode(&object->text, content_of(object), size_max);
}

static int build_code(const struct code_reader *reader, struct python_code *ret_code)
{
	const struct object *table = &reader->parts[PART_LINES];
	const struct python_offsets *offsets = reader->offsets;
	_cleanup_free_ char *name = text_of(&reader->parts[PART_NAME], PYTHON_NAME_BYTES_MAX);
	_cleanup_free_ char *file = text_of(&reader->parts[PART_FILE], PYTHON_FILE_BYTES_MAX);
	struct python_line_table lines;

	if (!name || !file)
		return -ENOMEM;
	int rc = python_line_table_read(python_line_format_of(offsets->minor),
					(int32_t)head_int(reader, offsets->code_firstlineno),
					content_of(table), table->content_size, &lines);
	if (rc)
		return rc;
	*ret_code = (struct python_code){ .name = take(name),
					  .file = take(file),
					  .lines = lines,
					  .checksum = checksum_of(reader) };
	return 0;
}

static uint32_t bytes_read(const struct code_reader *reader)
{
	uint32_t bytes = CODE_BYTES_MAX;

	for (uint32_t i = 0; i < PART_COUNT; i++)
		bytes += reader->parts[i].chunk_size + reader->parts[i].content_size;
	return bytes;
}

int python_code_read(pid_t pid, const struct python_offsets *offsets, uint64_t code_type,
		     uint64_t address, struct python_code *ret_code, uint32_t *ret_bytes)
{
	struct code_reader reader = { .pid = pid, .offsets = offsets, .address = address };
	int rc = read_code(&reader, code_type);

	if (!rc)
		rc = read_parts(&reader);
	if (!rc)
		rc = build_code(&reader, ret_code);
	if (ret_bytes)
		*ret_bytes = bytes_read(&reader);
	for (uint32_t i = 0; i < PART_COUNT; i++)
		free(reader.parts[i].content);
	return rc;
}

void python_code_deinit(struct python_code *code)
{
	free(code->name);
	free(code->file);
	python_line_table_deinit(&code->lines);
	*code = (struct python_code){ 0 };
}
