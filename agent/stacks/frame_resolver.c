// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/frame_resolver.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

static uint32_t resolve_jit(const struct frame_resolver *resolver, const struct code_address *code,
			    uint64_t address, bool leaf)
{
	if (code->jit_name)
		return location_table_add_jit(resolver->locations, code->jit_name);
	return location_table_add_anonymous(resolver->locations, address, leaf);
}

// Without code at the address the stack ends: the unwinder followed garbage, or the process exited early.
static int resolve_native_caller(const struct frame_resolver *resolver, struct process *process,
				 uint64_t address, uint32_t *ret_location, enum stack_end *ret_end)
{
	struct code_address code;

	if (process_find_code(resolver->processes, process, address, &code) == 0) {
		*ret_location =
			location_table_add_call(resolver->locations, code.executable, code.offset);
	} else if (code.is_data || code.is_unknown) {
		*ret_end = code.is_data ? STACK_END_NO_FRAME_POINTER : STACK_END_LOST;
		return -ENOENT;
	} else {
		*ret_location = resolve_jit(resolver, &code, address, false);
	}
	return 0;
}

// Without a checksum another code object may be at the address the next time: that is not cached.
static struct location_key key_of_python(const struct process *process,
					 const struct raw_frame *frame)
{
	if (!PYTHON_DETAIL_CHECKSUM(frame->detail))
		return (struct location_key){ 0 };
	return (struct location_key){
		.owner = { process->key.pid | (uint64_t)process->key.exec_id << 32,
			   process->key.start_ns },
		.address = frame->address,
		.detail = frame->detail,
	};
}

static uint32_t resolve_python(const struct frame_resolver *resolver, const struct process *process,
			       const struct raw_frame *frame)
{
	struct location_key key = key_of_python(process, frame);
	uint32_t location = location_table_find_frame(resolver->locations, &key);
	struct python_line place;

	if (location != HASH_TABLE_NONE)
		return location;
	if (!resolver->python_codes ||
	    !python_code_cache_find(resolver->python_codes, &process->key, frame, &place))
		return location_table_add_unread_python(resolver->locations);
	location =
		location_table_add_python(resolver->locations, place.name, place.file, place.line);
	location_table_note_frame(resolver->locations, &key, location);
	return location;
}

// With a detail the address is a handle: the driver created it before the probes were attached.
static uint32_t resolve_gpu(const struct frame_resolver *resolver, const struct raw_frame *frame)
{
	const struct gpu_namer *namer = resolver->gpu_namer;
	const char *name = NULL;
	char number[32];

	if (!frame->detail && namer && namer->name)
		name = namer->name(namer->context, frame->address);
	if (!name) {
		snprintf(number, sizeof(number), "kernel 0x%" PRIx64, (uint64_t)frame->address);
		name = number;
	}
	return location_table_add_gpu(resolver->locations, name);
}

int frame_resolve_caller(const struct frame_resolver *resolver, struct process *process,
			 const struct raw_frame *frame, uint32_t *ret_location,
			 enum stack_end *ret_end)
{
	uint32_t location;
	int rc = 0;

	if (frame->tag == FRAME_TAG_KERNEL) // - 1: the call is before its return address
		location =
			location_table_add_kernel(resolver->locations, frame->address - 1, false);
	else if (frame->tag == FRAME_TAG_PYTHON)
		location = resolve_python(resolver, process, frame);
	else
		rc = resolve_native_caller(resolver, process, frame->address, &location, ret_end);
	if (rc)
		return rc;
	if (location == HASH_TABLE_NONE)
		return -ENOMEM;
	*ret_location = location;
	return 0;
}

uint32_t frame_resolve_leaf(const struct frame_resolver *resolver, struct process *process,
			    const struct raw_frame *leaf)
{
	struct code_address code;

	if (leaf->tag == FRAME_TAG_KERNEL)
		return location_table_add_kernel(resolver->locations, leaf->address, true);
	if (leaf->tag == FRAME_TAG_PYTHON)
		return resolve_python(resolver, process, leaf);
	if (leaf->tag == FRAME_TAG_GPU)
		return resolve_gpu(resolver, leaf);
	if (process_find_code(resolver->processes, process, leaf->address, &code) == 0)
		return location_table_add_leaf(resolver->locations, code.executable, code.offset);
	// One location for an exited process: one per address would make endless new stacks.
	if (code.is_unknown)
		return location_table_add_exited(resolver->locations);
	return resolve_jit(resolver, &code, leaf->address, true);
}

void frame_resolver_prefetch_leaf(const struct frame_resolver *resolver, struct process *process,
				  const struct raw_frame *leaf)
{
	struct code_address code;

	if (leaf->tag == FRAME_TAG_PYTHON)
		resolve_python(resolver, process, leaf);
	else if (leaf->tag != FRAME_TAG_GPU)
		process_find_code(resolver->processes, process, leaf->address, &code);
}
