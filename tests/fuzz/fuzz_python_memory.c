// SPDX-License-Identifier: Apache-2.0
// A Python process's memory as a graph whose pointers the fuzzer chooses, rings included: interpreters, thread
// states, control blocks, tables of keys, DTVs, a code object with its strings. Each walk over it ends within
// READS_MAX reads.

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "agent/python/python_code.h"
#include "agent/python/python_layout.h"
#include "agent/python/python_thread_state.h"
#include "base/cleanup.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum {
	// The search for thread states tries 256 ways with 16 threads, four reads each, and reads tables to find
	// those ways; half of that again is for what it reads before.
	READS_MAX = 3 * 256 * 16 * 4 / 2,
	MEMORY_BYTES = 64 << 10,
	INTERPRETERS = 3,
	STATES = 4, // of each interpreter
	FIELDS_MAX = 256,
	STEP_BYTES = 4, // of the input, for each word that it changes
	CONTROL_BYTES = 0x800,
	GLIBC_FIRST_KEY = 0x310,
	GLIBC_TABLES = 0x510,
};

#define MEMORY_START 0x7f0000000000ULL // of the process

/* ---- the double of a process's memory -------------------------------------------------------- */

static uint8_t memory[MEMORY_BYTES];
static uint32_t reads;

// Instead of libc's. Partial, as the kernel's: it stops at the first address that is not mapped.
ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long to_count,
			 const struct iovec *from, unsigned long from_count, unsigned long flags)
{
	ssize_t total = 0;

	(void)pid;
	(void)flags;
	if (++reads > READS_MAX)
		abort(); // a walk without a bound on its steps
	for (unsigned long i = 0; i < from_count && i < to_count; i++) {
		uint64_t at = (uintptr_t)from[i].iov_base - MEMORY_START;

		if (at >= MEMORY_BYTES || from[i].iov_len > MEMORY_BYTES - at)
			break;
		memcpy(to[i].iov_base, memory + at, from[i].iov_len);
		total += (ssize_t)from[i].iov_len;
	}
	if (total)
		return total;
	errno = EFAULT;
	return -1;
}

static void put(uint64_t address, uint64_t word)
{
	if (address - MEMORY_START <= MEMORY_BYTES - sizeof(word))
		memcpy(memory + (address - MEMORY_START), &word, sizeof(word));
}

/* ---- a process as it should be ------------------------------------------------------------------ */

static uint64_t used;                          // bytes of the memory
static uint64_t nodes[FIELDS_MAX], node_count; // that pointers may lead to
static uint64_t fields[FIELDS_MAX], field_count;
static uint64_t links[FIELDS_MAX],
	link_count; // of them: of the lists of interpreters and thread states

static uint64_t add_node(uint64_t size)
{
	uint64_t node = MEMORY_START + used;

	used += (size + 15) & ~15ULL;
	if (used > MEMORY_BYTES || node_count == FIELDS_MAX)
		abort();
	nodes[node_count++] = node;
	return node;
}

static void set_field(uint64_t address, uint64_t word)
{
	if (field_count == FIELDS_MAX)
		abort();
	fields[field_count++] = address;
	put(address, word);
}

static void set_link(uint64_t address, uint64_t word)
{
	set_field(address, word);
	links[link_count++] = address;
}

// A thread has its state in glibc's first keys, in a table of later ones and in a TLS block.
static uint64_t add_thread(uint64_t state)
{
	uint64_t control = add_node(CONTROL_BYTES), table = add_node(0x400),
		 block = add_node(0x200), vector = add_node(0x400);

	set_field(control + GLIBC_FIRST_KEY, 1);
	set_field(control + GLIBC_FIRST_KEY + 8, state);
	set_field(control + GLIBC_TABLES + 8, table);
	set_field(table + 8, state);
	set_field(control + 8, vector);
	set_field(vector + 16, block);
	set_field(block + 64, state);
	return control;
}

static uint64_t add_state(const struct python_layout *layout, uint64_t interpreter, uint64_t next)
{
	uint64_t state = add_node(512);

	set_link(state + layout->offsets.state_next, next);
	set_field(state + layout->state_interpreter, interpreter);
	set_link(state + layout->offsets.state_thread, add_thread(state));
	return state;
}

static uint64_t add_interpreter(const struct python_layout *layout, uint64_t next)
{
	uint64_t interpreter = add_node(512), state = 0;

	for (int i = 0; i < STATES; i++)
		state = add_state(layout, interpreter, state);
	set_link(interpreter + layout->interpreter_next, next);
	set_link(interpreter + layout->offsets.interpreter_threads, state);
	return interpreter;
}

static uint64_t add_string(const struct python_offsets *offsets, const char *text)
{
	uint64_t string = add_node(128), head = offsets->free_threaded ? 32 : 16;
	uint64_t compact_ascii = 1 << 2 | 1 << 5 | 1 << 6;

	set_field(string + 8, string);
	set_field(string + head, strlen(text));
	set_field(string + head + 16, compact_ascii);
	memcpy(memory + (string - MEMORY_START) + head + (offsets->minor < 12 ? 32 : 24), text,
	       strlen(text));
	return string;
}

static uint64_t add_code(const struct python_offsets *offsets, uint64_t type)
{
	uint64_t code = add_node(512), lines = add_node(128);

	set_field(lines + (offsets->free_threaded ? 32 : 16), 32);
	memset(memory + (lines - MEMORY_START) + 64, 0x80, 32);
	set_field(code + offsets->code_start + offsets->code_type, type);
	set_field(code + offsets->code_name, add_string(offsets, "serve.<locals>.answer"));
	set_field(code + offsets->code_file, add_string(offsets, "/srv/app/server.py"));
	set_field(code + offsets->code_lines, lines);
	return code;
}

struct process {
	struct python_layout layout;
	uint64_t head; // pointer to the first interpreter
	uint64_t type; // PyCode_Type
	uint64_t code;
};

static struct process lay_out(uint8_t version)
{
	struct process process;
	uint64_t interpreter = 0;

	memset(memory, 0, sizeof(memory));
	used = node_count = field_count = link_count = 0;
	if (python_layout_of_version(PYTHON_MINOR_MIN + version % 7, &process.layout))
		abort();
	if (version & 0x80)
		process.layout.offsets.minor = 14;
	process.head = add_node(16);
	process.type = add_node(64);
	for (int i = 0; i < INTERPRETERS; i++)
		interpreter = add_interpreter(&process.layout, interpreter);
	set_link(process.head, interpreter);
	process.code = add_code(&process.layout.offsets, process.type);
	return process;
}

/* ---- what the fuzzer makes of it ---------------------------------------------------------------- */

// The node that @address lies in: a link to it makes a ring.
static uint64_t node_around(uint64_t address)
{
	uint64_t around = nodes[0];

	for (uint64_t i = 0; i < node_count && nodes[i] <= address; i++)
		around = nodes[i];
	return around;
}

// 0, a node, its own or another, somewhere in one, or a number.
static uint64_t word_of(uint8_t kind, uint8_t value, uint64_t address)
{
	switch (kind >> 2 & 3) {
	case 0:
		return 0;
	case 1:
		return node_around(address);
	case 2:
		return nodes[value % node_count] + (kind & 0xf0 ? 0 : 8);
	}
	return value & 1 ? (uint64_t)value << 56 : value;
}

// The first byte of a step says what kind of word it sets, and whether in a link of the lists, in any field of the
// graph, or anywhere.
static uint64_t address_of(uint8_t kind, uint64_t at)
{
	switch (kind & 3) {
	case 0:
		return MEMORY_START + at % (MEMORY_BYTES / 8) * 8;
	case 1:
		return fields[at % field_count];
	}
	return links[at % link_count];
}

static void change(const uint8_t *step)
{
	uint64_t address = address_of(step[0], step[1] | (uint64_t)step[2] << 8);

	put(address, word_of(step[0], step[3], address));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static const bool is_above[] = { false, true };
	struct python_process found = { 0 };
	struct python_code code;
	uint64_t pointer;

	if (!size)
		return 0;
	struct process process = lay_out(bytes[0]);
	for (size_t at = 1; at + STEP_BYTES <= size; at += STEP_BYTES)
		change(bytes + at);
	reads = 0;
	int rc = python_thread_state_locate(1, &process.layout, process.head, &found);
	if (rc && rc != -EAGAIN && rc != -ENOTSUP)
		abort();
	if (size < 1 + STEP_BYTES && rc) // the process as it should be
		abort();
	for (size_t i = 0; i < ARRAY_SIZE(is_above); i++) {
		reads = 0;
		python_thread_state_find_pointer(1, nodes[bytes[0] % node_count], is_above[i],
						 &pointer);
	}
	reads = 0;
	if (!python_code_read(1, &process.layout.offsets, process.type, process.code, &code, NULL))
		python_code_deinit(&code);
	return 0;
}
