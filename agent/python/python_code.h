// SPDX-License-Identifier: Apache-2.0
// A Python code object, read from the memory of its process: function name, file and line table. The memory is
// hostile.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/python/python_line_table.h"
#include "bpf/unwind/python.h"

enum {
	PYTHON_NAME_BYTES_MAX = 1 << 10,       // of a function name in UTF-8; longer ones are cut
	PYTHON_FILE_BYTES_MAX = (4 << 10) - 1, // of a path: PATH_MAX without its NUL
};

struct python_code {
	char *name; // qualified since 3.11; UTF-8
	char *file; // as given to the compiler: absolute or relative, or "<string>"; UTF-8
	struct python_line_table lines;
	uint32_t checksum; // python_checksum() of its head
};

/**
 * Read the code object at @address of @pid, an interpreter with @offsets and PyCode_Type at @code_type (0: unknown,
 * not checked). It takes two system calls, and a third for long strings. *ret_bytes, if not NULL, is how many bytes
 * were read, also on failure.
 *
 * Returns 0; -EFAULT if it or something it points to is not mapped; -EBADMSG if it is no code object, or its parts
 * are not as expected; -ESRCH, -EPERM, -errno when the process cannot be read; -ENOMEM.
 */
int python_code_read(pid_t pid, const struct python_offsets *offsets, uint64_t code_type,
		     uint64_t address, struct python_code *ret_code, uint32_t *ret_bytes);
void python_code_deinit(struct python_code *code);
