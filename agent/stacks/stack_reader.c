// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/stack_reader.h"

#include <errno.h>

#include "base/clock.h"

// Kernel addresses mean the same in every process.
static bool is_kernel_stack(const struct stack_trace *trace)
{
	return !trace->process.pid && !trace->process.start_ns;
}

static const struct raw_frame *last_frame(const struct stack_record *record)
{
	const struct stack_trace *trace = &record->trace;

	return trace->frame_count ? &trace->frames[trace->frame_count - 1] : &record->leaf;
}

// Where the unwinder stopped.
static uint64_t last_address(const struct stack_record *record)
{
	return last_frame(record)->address;
}

// Where it knew of no code; 0: that is not why it stopped.
static uint64_t missing_address(const struct stack_record *record)
{
	return record->trace.end == STACK_END_NO_MAPPING ? last_address(record) : 0;
}

// Some code is written without unwind information: what its instructions say is found out then.
static void follow_code(struct stack_reader *reader, struct process *process,
			const struct stack_record *record)
{
	struct code_address code;
	struct symbol symbol;

	if (record->trace.end != STACK_END_NO_TABLE ||
	    process_find_code(reader->frames.processes, process, last_address(record), &code))
		return;
	int rc = executable_find_symbol(reader->executables, code.executable, code.offset, &symbol);
	// The stack is not sent again: what is there is found when the code is followed.
	if (rc == -EAGAIN)
		symbol = (struct symbol){ .start_offset = code.offset, .size = 1 };
	if ((rc == 0 || rc == -EAGAIN) && symbol.size)
		process_unwind_analyze(reader->unwinds, code.executable, symbol.start_offset,
				      symbol.size);
}

// Code made at run time may keep no frame pointer; a leaf may hide that, for its chain goes on with its
// caller's caller.
static void learn_code(struct stack_reader *reader, struct process *process,
		       const struct stack_record *record)
{
	const struct raw_frame *last = last_frame(record);

	if (record->trace.end == STACK_END_NO_FRAME_POINTER && last->tag == FRAME_TAG_JIT)
		process_unwind_analyze_jit(reader->unwinds, process, last->address, true);
	else if (record->leaf.tag == FRAME_TAG_JIT)
		process_unwind_analyze_jit(reader->unwinds, process, record->leaf.address, false);
}

static struct process *prepare_process(struct stack_reader *reader,
				       const struct stack_record *record)
{
	struct process *process = process_table_get(reader->frames.processes,
						    &record->trace.process, record->process_name);

	if (!process)
		return NULL;
	frame_resolver_read_leaf(&reader->frames, process, &record->leaf);
	if (reader->unwinds) {
		process_unwind_touch(reader->unwinds, process, missing_address(record));
		follow_code(reader, process, record);
		learn_code(reader, process, record);
	}
	return process;
}

static bool has_unnamed(const struct stack_reader *reader, const uint32_t *locations,
			uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (location_table_is_anonymous(reader->frames.locations, locations[i]))
			return true;
	return false;
}

static bool has_unread(const struct stack_reader *reader, const uint32_t *locations, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (location_table_is_unread_python(reader->frames.locations, locations[i]))
			return true;
	return false;
}

// It may have names later.
static void note_unnamed(struct stack_reader *reader, const struct stack_hash *hash,
			 const struct process_key *process, const uint32_t *locations,
			 uint32_t count)
{
	if (has_unnamed(reader, locations, count))
		unsymbolized_stacks_add(&reader->unsymbolized, reader->frames.processes, hash,
					process);
	else if (has_unread(reader, locations, count))
		unsymbolized_stacks_add_unread(&reader->unsymbolized, hash, process);
}

int stack_reader_take(struct stack_reader *reader, const struct stack_record *record)
{
	const struct stack_trace *trace = &record->trace;
	enum stack_end end = (enum stack_end)trace->end;
	struct process *process = NULL;
	uint32_t count = 0;
	int rc = 0;

	if (!is_kernel_stack(trace)) {
		process = prepare_process(reader, record);
		if (!process)
			return -ENOMEM;
	}
	while (count < trace->frame_count && !rc) {
		rc = frame_resolve_caller(&reader->frames, process, &trace->frames[count],
					  &reader->locations[count], &end);
		if (!rc)
			count++;
	}
	if (rc && rc != -ENOENT)
		return rc;
	if (process)
		note_unnamed(reader, &trace->hash, &trace->process, reader->locations, count);
	return stack_table_add(reader->stacks, &trace->hash, reader->locations, count, end,
			       clock_monotonic_ns());
}

int stack_reader_take_wake(struct stack_reader *reader, const struct wake_record *record)
{
	struct off_wake_stack_frames *joined = &reader->joined;
	uint64_t now_ns = clock_monotonic_ns();
	int rc = off_wake_stack_join(&reader->frames, reader->stacks, record, now_ns, joined);

	if (rc)
		return rc;
	// Its own names, or its waker's: who lists code that it makes is one process in most cases.
	note_unnamed(reader, &record->joined, &record->blocked.process, joined->locations,
		     joined->count);
	return stack_table_add(reader->stacks, &record->joined, joined->locations, joined->count,
			       joined->end, now_ns);
}
