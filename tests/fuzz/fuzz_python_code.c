// SPDX-License-Identifier: Apache-2.0
// Any bytes as the memory around a code object, of every version: its texts are valid and
// bounded.

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/python/python_code.h"
#include "agent/python/python_layout.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

enum {
	MEMORY_BYTES = 64 << 10, // readable, between unreadable pages
	PAGE_BYTES = 4096,
	STEP = 16, // small pointers in the input lead to multiples of this in the memory
	VERSIONS = 9,
};

static uint8_t *make_memory(void)
{
	uint8_t *all = mmap(NULL, MEMORY_BYTES + 2 * PAGE_BYTES, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (all == MAP_FAILED ||
	    mprotect(all + PAGE_BYTES, MEMORY_BYTES, PROT_READ | PROT_WRITE) < 0)
		abort();
	return all + PAGE_BYTES;
}

/* Gives the fuzzer pointers to the memory, whose address it cannot guess. */
static void aim(uint8_t *memory, uint16_t offset)
{
	uint64_t word;

	memcpy(&word, memory + offset, sizeof(word));
	if (word < MEMORY_BYTES / STEP)
		word = (uint64_t)memory + word * STEP;
	memcpy(memory + offset, &word, sizeof(word));
}

static void set_offsets(struct python_offsets *offsets, uint8_t version)
{
	struct python_layout layout;
	uint32_t minor = PYTHON_MINOR_MIN + version % VERSIONS;

	if (python_layout_of_version(minor < 12 ? minor : 12, &layout) < 0)
		abort();
	*offsets = layout.offsets;
	offsets->minor = minor;
	offsets->free_threaded = version / VERSIONS % 2;
	if (offsets->free_threaded)
		offsets->code_start += 16;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	static uint8_t *memory;
	struct python_offsets offsets;
	struct python_code code;

	if (!memory)
		memory = make_memory();
	if (size < 1 || size > MEMORY_BYTES)
		return 0;
	set_offsets(&offsets, bytes[0]);
	memset(memory, 0, MEMORY_BYTES);
	memcpy(memory, bytes + 1, size - 1);
	aim(memory, offsets.code_name);
	aim(memory, offsets.code_file);
	aim(memory, offsets.code_lines);
	if (python_code_read(getpid(), &offsets, 0, (uint64_t)memory, &code, NULL) == 0) {
		if (strlen(code.name) > PYTHON_NAME_BYTES_MAX ||
		    strlen(code.file) > PYTHON_FILE_BYTES_MAX ||
		    !utf8_is_valid(code.name, strlen(code.name)) ||
		    !utf8_is_valid(code.file, strlen(code.file)) || !code.lines.row_count)
			abort();
		python_code_deinit(&code);
	}
	return 0;
}
