// SPDX-License-Identifier: Apache-2.0
// A Python code object, read out of the process that runs it: what its function is called, where it
// was written, and on which line each instruction is. The memory is hostile.
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/python/python_line_table.h"
#include "bpf/unwind/python.h"

enum {
	PYTHON_NAME_BYTES_MAX = 1 << 10,       // in UTF-8; what is longer is cut
	PYTHON_FILE_BYTES_MAX = (4 << 10) - 1, // PATH_MAX without its NUL
};

struct python_code {
	char *name; // qualified since 3.11; UTF-8, as all text here
	char *file; // as the compiler was told: absolute or not, or "<string>"
	struct python_line_table lines;
	uint32_t checksum; // python_checksum() of its head
};

/**
 * Read the code object at @address of @pid, an interpreter with @offsets whose PyCode_Type is at
 * @code_type (0: not known, and not checked). Takes two system calls, a third for long strings.
 *
 * Returns 0; -EFAULT if it or something it points to is not mapped; -EBADMSG if it is no code object
 * or its parts are not what they should be; -ESRCH, -EPERM, -errno when the process cannot be read;
 * -ENOMEM. On failure *ret_code is untouched, but *ret_bytes, if not NULL, always says how many bytes
 * were read or tried to.
 */
int python_code_read(pid_t pid, const struct python_offsets *offsets, uint64_t code_type,
		     uint64_t address, struct python_code *ret_code, uint32_t *ret_bytes);
void python_code_deinit(struct python_code *code);
