// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/frame_resolver.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

/* Code in no file: by its name where its process tells it. */
static uint32_t locate_generated(const struct frame_resolver *locator,
				 const struct code_address *code, uint64_t address, bool leaf)
{
	if (code->jit_name)
		return location_table_add_jit(locator->locations, code->jit_name);
	return location_table_add_anonymous(locator->locations, address, leaf);
}

// Where no code is known the stack ends: the unwinder was led astray, or the process was gone too soon.
static int locate_native_caller(const struct frame_resolver *locator, struct process *process,
				uint64_t address, uint32_t *ret_location, enum stack_end *ret_end)
{
	struct code_address code;

	if (process_find_code(locator->processes, process, address, &code) == 0) {
		*ret_location =
			location_table_add_call(locator->locations, code.executable, code.offset);
	} else if (code.is_data || code.is_unknown) {
		*ret_end = code.is_data ? STACK_END_NO_FRAME_POINTER : STACK_END_LOST;
		return -ENOENT;
	} else {
		*ret_location = locate_generated(locator, &code, address, false);
	}
	return 0;
}

static uint32_t locate_python(const struct frame_resolver *locator, const struct process *process,
			      const struct raw_frame *frame)
{
	struct python_place place;

	if (!locator->python_codes ||
	    !python_code_cache_find(locator->python_codes, &process->key, frame, &place))
		return location_table_add_unread_python(locator->locations);
	return location_table_add_python(locator->locations, place.name, place.file, place.line);
}

// The detail says that the address is no name's hash, but a handle that nobody saw being made.
static uint32_t locate_gpu(const struct frame_resolver *locator, const struct raw_frame *frame)
{
	const struct gpu_namer *namer = locator->gpu_namer;
	const char *name = NULL;
	char number[32];

	if (!frame->detail && namer && namer->name)
		name = namer->name(namer->context, frame->address);
	if (!name) {
		snprintf(number, sizeof(number), "kernel 0x%" PRIx64, (uint64_t)frame->address);
		name = number;
	}
	return location_table_add_gpu(locator->locations, name);
}

int frame_resolve_caller(const struct frame_resolver *locator, struct process *process,
			 const struct raw_frame *frame, uint32_t *ret_location,
			 enum stack_end *ret_end)
{
	uint32_t location;
	int rc = 0;

	if (frame->tag == FRAME_TAG_KERNEL) // a return address belongs to the call before it
		location = location_table_add_kernel(locator->locations, frame->address - 1, false);
	else if (frame->tag == FRAME_TAG_PYTHON)
		location = locate_python(locator, process, frame);
	else
		rc = locate_native_caller(locator, process, frame->address, &location, ret_end);
	if (rc)
		return rc;
	if (location == HASH_TABLE_NONE)
		return -ENOMEM;
	*ret_location = location;
	return 0;
}

uint32_t frame_resolve_leaf(const struct frame_resolver *locator, struct process *process,
			    const struct raw_frame *leaf)
{
	struct code_address code;

	if (leaf->tag == FRAME_TAG_KERNEL)
		return location_table_add_kernel(locator->locations, leaf->address, true);
	if (leaf->tag == FRAME_TAG_PYTHON)
		return locate_python(locator, process, leaf);
	if (leaf->tag == FRAME_TAG_GPU)
		return locate_gpu(locator, leaf);
	if (process_find_code(locator->processes, process, leaf->address, &code) == 0)
		return location_table_add_leaf(locator->locations, code.executable, code.offset);
	// Addresses of a process that nobody knows any more would be new stacks without end.
	if (code.is_unknown)
		return location_table_add_exited(locator->locations);
	return locate_generated(locator, &code, leaf->address, true);
}

void frame_resolver_read_leaf(const struct frame_resolver *locator, struct process *process,
			      const struct raw_frame *leaf)
{
	struct code_address code;

	if (leaf->tag == FRAME_TAG_PYTHON)
		locate_python(locator, process, leaf);
	else if (leaf->tag != FRAME_TAG_GPU)
		process_find_code(locator->processes, process, leaf->address, &code);
}
