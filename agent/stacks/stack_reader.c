// SPDX-License-Identifier: Apache-2.0
#include "agent/stacks/stack_reader.h"

#include <errno.h>

#include "agent/symbols/executable_symbols.h"
#include "agent/unwind/analyzed_functions.h"
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

// Hand-written assembly may have no unwind information: rules for its function are recovered from its
// instructions.
static void analyze_function(struct stack_reader *reader, struct process *process,
			     const struct stack_record *record)
{
	struct code_address code;
	struct symbol symbol;

	if (record->trace.end != STACK_END_NO_TABLE ||
	    process_find_code(reader->frames.processes, process, last_frame(record)->address,
			      &code))
		return;
	int rc = executable_find_symbol(reader->executables, code.executable, code.offset, &symbol);
	// Symbols are not read yet, and the stack is not sent again; or the file is stripped. The analysis finds the function then.
	if (rc == -EAGAIN || rc == -ENOENT)
		symbol = (struct symbol){ .start_offset = code.offset,
					  .size = UNWIND_UNKNOWN_BYTES };
	if ((rc == 0 || rc == -EAGAIN || rc == -ENOENT) && symbol.size)
		process_unwind_analyze(reader->unwinds, code.executable, symbol.start_offset,
				       symbol.size);
}

// JIT code may keep no frame pointer. At a leaf the stack does not show it: the chain goes on with the
// caller's caller.
static void analyze_jit_code(struct stack_reader *reader, struct process *process,
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

	if (!process || process->is_excluded)
		return process;
	frame_resolver_prefetch_leaf(&reader->frames, process, &record->leaf);
	if (reader->unwinds) {
		bool is_missing = record->trace.end == STACK_END_NO_MAPPING;

		process_unwind_touch(reader->unwinds, process,
				     is_missing ? last_frame(record)->address : 0);
		analyze_function(reader, process, record);
		analyze_jit_code(reader, process, record);
	}
	return process;
}

static bool any_location(const struct stack_reader *reader, const uint32_t *locations,
			 uint32_t count,
			 bool (*is_it)(const struct location_table *table, uint32_t location))
{
	for (uint32_t i = 0; i < count; i++)
		if (is_it(reader->frames.locations, locations[i]))
			return true;
	return false;
}

static void note_unsymbolized(struct stack_reader *reader, const struct stack_hash *hash,
			      const struct process_key *process, const uint32_t *locations,
			      uint32_t count)
{
	if (any_location(reader, locations, count, location_table_is_anonymous))
		unsymbolized_stacks_add_jit(&reader->unsymbolized, reader->frames.processes, hash,
					    process);
	else if (any_location(reader, locations, count, location_table_is_unread_python))
		unsymbolized_stacks_add_python(&reader->unsymbolized, hash, process);
}

int stack_reader_add(struct stack_reader *reader, const struct stack_record *record)
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
		// Its counts are dropped: no file of it is read for a stack, and the kernel does not send it again.
		if (process->is_excluded)
			return stack_table_add(reader->stacks, &trace->hash, NULL, 0,
					       STACK_END_NOT_SAMPLED, clock_monotonic_ns());
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
		note_unsymbolized(reader, &trace->hash, &trace->process, reader->locations, count);
	return stack_table_add(reader->stacks, &trace->hash, reader->locations, count, end,
			       clock_monotonic_ns());
}

int stack_reader_add_off_wake(struct stack_reader *reader, const struct wake_record *record)
{
	struct joined_stack *joined = &reader->joined;
	uint64_t now_ns = clock_monotonic_ns();
	int rc = off_wake_stack_join(&reader->frames, reader->stacks, record, now_ns, joined);

	if (rc)
		return rc;
	// The unnamed frame may be the waker's instead: mostly both are of one process.
	note_unsymbolized(reader, &record->joined, &record->blocked.process, joined->locations,
			  joined->count);
	return stack_table_add(reader->stacks, &record->joined, joined->locations, joined->count,
			       joined->end, now_ns);
}
