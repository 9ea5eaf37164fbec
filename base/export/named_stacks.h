// SPDX-License-Identifier: Apache-2.0
// The stacks of a profile as functions, root first: what speedscope, Chrome trace, callgrind and pstats
// files are written from. A function is a name and a file; its lines are not functions of their own.
#pragma once

#include <stdint.h>

#include "base/profile/profile.h"

enum { NAMED_FUNCTIONS_MAX = 1 << 22 };

struct named_function {
	uint32_t name; // string: as people see it, without a line; "module+0xoffset" if unknown
	uint32_t file; // string: the source file if known, else the module; 0: neither
	bool is_module;
	enum frame_kind kind; // where it was seen first
};

struct named_frame {
	uint32_t function;
	uint32_t line; // 0: unknown
};

struct named_stacks {
	const struct profile *profile;
	struct string_table strings;
	struct named_function *functions;
	uint32_t function_count, function_capacity;
	struct hash_table index;
	uint32_t *line_functions;     // per line of the profile: its function + 1, 0: not yet
	uint32_t *location_functions; // per location without lines
	struct named_frame *frames;   // of the stack read last
	uint32_t frame_count, frame_capacity;
};

/** Returns 0 or -ENOMEM. @profile must outlive @stacks and does not change meanwhile. */
int named_stacks_init(struct named_stacks *stacks, const struct profile *profile);
void named_stacks_deinit(struct named_stacks *stacks);

/**
 * Read the frames of @stack (a position in the profile's) into stacks->frames, root first. Inlined calls are
 * frames of their own; a truncated stack begins with "[truncated: reason]", one without frames is "[no stack]".
 * Returns 0, -ENOMEM, -E2BIG.
 */
int named_stacks_read(struct named_stacks *stacks, uint32_t stack);

/** The function @name in no file, added if new: a process that stands before a stack. Errors as above. */
int named_stacks_add(struct named_stacks *stacks, const char *name, uint32_t *ret_function);

const char *named_function_name(const struct named_stacks *stacks, uint32_t function);
const char *named_function_file(const struct named_stacks *stacks, uint32_t function);
